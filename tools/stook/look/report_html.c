/* SPDX-License-Identifier: MIT */
/*
 * report_html.c - the page of stook report: one file of HTML and SVG, without scripts.
 */
#include "stook/look/report.h"

#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/look/why.h"

#include <stdlib.h>
#include <string.h>

enum {
    HTML_ROWS = 20,    /* of the table that is open */
    HTML_BLOCKS = 600, /* drawn one by one */
};

static const struct {
    const char *name, *fill;
} html_pages[HEAP_PAGES] = {
    [HEAP_PAGE_COLD] = {"free, with the kernel", "#f1f4f6"},
    [HEAP_PAGE_WARM] = {"free, warm", "#f3c46b"},
    [HEAP_PAGE_EMPTY] = {"empty slab", "#d9c9ee"},
    [HEAP_PAGE_SPARSE] = {"sparse slab", "#e2733d"},
    [HEAP_PAGE_HALF] = {"half empty slab", "#9cc5e6"},
    [HEAP_PAGE_PARTIAL] = {"partial slab", "#5f97c8"},
    [HEAP_PAGE_FULL] = {"full slab", "#2f6ea8"},
    [HEAP_PAGE_LARGE] = {"large object", "#4f9d69"},
    [HEAP_PAGE_OTHER] = {"free, kept by a CPU", "#c99a3f"},
};

static const char html_style[] =
    "body{font:14px/1.45 'DejaVu Sans',Verdana,Arial,sans-serif;color:#22303c;margin:2em auto;"
    "max-width:1100px;padding:0 1em;background:#fff}\n"
    "h1{font-size:22px;margin:0}h2{font-size:16px;margin:2em 0 .5em}p{margin:.3em 0}\n"
    ".soft{color:#5a6772}.tiles{display:flex;gap:12px;margin:1em 0}\n"
    ".tile{flex:1;border:1px solid #dfe5ea;border-radius:6px;padding:.6em .8em}\n"
    ".tile b{display:block;font-size:20px}\n"
    "table{border-collapse:collapse;width:100%;font-size:13px}\n"
    "th,td{padding:3px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid #eef1f4}\n"
    "th:first-child,td:first-child{text-align:left}th{color:#5a6772;font-weight:normal}\n"
    ".key{display:inline-block;width:11px;height:11px;margin:0 5px 0 14px;border-radius:2px;"
    "vertical-align:-1px;border:1px solid #c9d2d9}\n"
    ".blocks{display:flex;flex-wrap:wrap;gap:8px 8px}.block{width:194px;font-size:11px;"
    "color:#5a6772}\n"
    "pre{overflow:auto}.block svg{display:block;border:1px solid #c9d2d9}\n"
    "svg text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;font-size:11px;fill:#22303c}\n";

void report_text(FILE *to, const char *text)
{
    static const char *const name[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"};

    while (*text) {
        const char *escaped = name[(unsigned char)*text];
        if (escaped)
            fputs(escaped, to);
        text += escaped ? 1 : output_character(to, text);
    }
}

const char *report_bytes(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    for (; value >= 1000 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 32, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

/* ---- the head --------------------------------------------------------------------------------- */

static void html_tile(FILE *to, const char *name, uint64_t bytes, const char *means)
{
    char text[32];

    fprintf(to, "<div class=\"tile\"><b>%s</b>%s<br><span class=\"soft\">%s</span></div>\n",
            report_bytes(bytes, text), name, means);
}

static void html_head(const struct heap *heap, FILE *to)
{
    const struct heap_bytes *bytes = &heap->total.bytes;
    uint64_t resident = heap->target->live ? look_resident(heap->target->pid) : 0;
    char text[32];

    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
    report_text(to, heap->target->name);
    fprintf(to, " (%d): memory on Stook</title>\n<style>\n%s</style></head><body>\n<h1>",
            heap->target->pid, html_style);
    report_text(to, heap->target->name);
    fprintf(to, "</h1>\n<p class=\"soft\">%sprocess %d, Stook %s, mode %s: ",
            heap->target->live ? "" : "core file of ", heap->target->pid, heap->version,
            heap->mode);
    report_text(to, heap->why);
    if (resident)
        fprintf(to, "; resident in all %s", report_bytes(resident, text));
    if (heap->torn)
        fprintf(to, "; %u caches changed faster than they could be read", heap->torn);
    fputs("</p>\n<div class=\"tiles\">\n", to);
    html_tile(to, "in slabs and large objects", bytes->resident, "in use + cached + wasted");
    html_tile(to, "in use", bytes->in_use, "objects that the program has");
    html_tile(to, "cached", bytes->cached, "free objects, ready to be used");
    html_tile(to, "wasted", bytes->wasted, "padding and the ends of slabs");
    html_tile(to, "warm", heap->arena.warm, "free pages that are kept");
    fputs("</div>\n", to);
}

/* ---- caches ----------------------------------------------------------------------------------- */

/* A row of the table: a cache, or all large objects (NULL). */
struct html_row {
    const struct heap_cache *cache;
    struct heap_bytes bytes;
};

static void html_bar(FILE *to, const struct heap_bytes *bytes, uint64_t most)
{
    const uint64_t part[3] = {bytes->in_use, bytes->cached, bytes->wasted};
    static const char *const fill[3] = {"#2f6ea8", "#b9d0e8", "#eab9b2"};
    double x = 0;

    fputs("<svg width=\"260\" height=\"12\">", to);
    for (unsigned i = 0; i < 3; i++) {
        double width = most ? 260.0 * (double)part[i] / (double)most : 0;
        fprintf(to, "<rect x=\"%.2f\" width=\"%.2f\" height=\"12\" fill=\"%s\"/>", x, width,
                fill[i]);
        x += width;
    }
    fputs("</svg>", to);
}

static int html_by_bytes(const void *a, const void *b)
{
    uint64_t x = ((const struct html_row *)a)->bytes.resident,
             y = ((const struct html_row *)b)->bytes.resident;

    return x > y ? -1 : x < y;
}

static void html_row(const struct heap *heap, const struct html_row *row, uint64_t most, FILE *to)
{
    const uint64_t bytes[] = {row->bytes.resident, row->bytes.in_use, row->bytes.cached,
                              row->bytes.wasted};
    const struct heap_cache *cache = row->cache;
    char text[32];

    fputs("<tr><td>", to);
    report_text(to, cache ? cache->name : "(large)");
    fputs("</td><td>", to);
    html_bar(to, &row->bytes, most);
    if (cache)
        fprintf(to, "</td><td>%lu</td><td>%lu</td><td>%lu</td>", cache->object_size,
                cache->count.active, cache->count.slabs);
    else
        fprintf(to, "</td><td></td><td>%lu</td><td></td>", heap->large_objects);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        fprintf(to, "<td>%s</td>", report_bytes(bytes[i], text));
    fputs("</tr>\n", to);
}

static void html_caches(const struct heap *heap, FILE *to)
{
    size_t n = heap->caches + 1, shown = 0;
    struct html_row *row = target_need(calloc(n, sizeof(*row)));

    for (size_t i = 0; i < heap->caches; i++)
        row[i] = (struct html_row){&heap->cache[i], heap->cache[i].count.bytes};
    row[heap->caches].bytes.resident = row[heap->caches].bytes.in_use = heap->large_bytes;
    qsort(row, n, sizeof(*row), html_by_bytes);
    fputs("<h2>Caches by bytes</h2>\n<p class=\"soft\">"
          "<span class=\"key\" style=\"background:#2f6ea8\"></span>in use"
          "<span class=\"key\" style=\"background:#b9d0e8\"></span>cached"
          "<span class=\"key\" style=\"background:#eab9b2\"></span>wasted</p>\n"
          "<table><tr><th>cache</th><th></th><th>size</th><th>objects</th><th>slabs</th>"
          "<th>resident</th><th>in use</th><th>cached</th><th>wasted</th></tr>\n",
          to);
    for (; shown < n && row[shown].bytes.resident > 0; shown++) {
        if (shown == HTML_ROWS)
            fputs("</table>\n<details><summary>smaller caches</summary>\n<table>\n", to);
        html_row(heap, &row[shown], row[0].bytes.resident, to);
    }
    fprintf(to, "</table>\n%s<p class=\"soft\">%zu caches without slabs are left out.</p>\n",
            shown > HTML_ROWS ? "</details>\n" : "", n - shown);
    free(row);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

struct html_map {
    FILE *to; /* NULL: they are counted */
    size_t blocks;
    uint64_t pages[HEAP_PAGES];
};

/* 64 pages a row, 3 by 5 pixels each; pages of one kind that follow each other are one stroke. */
static void html_block(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg)
{
    struct html_map *map = arg;
    unsigned used = 0;

    map->blocks++;
    for (unsigned i = 0; i < HEAP_BLOCK_PAGES; i++) {
        map->pages[page[i]]++;
        used += page[i] != HEAP_PAGE_COLD && page[i] != HEAP_PAGE_WARM;
    }
    if (!map->to || map->blocks > HTML_BLOCKS)
        return;
    fputs("<div class=\"block\"><svg width=\"192\" height=\"40\" viewBox=\"0 0 64 8\" "
          "preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\">",
          map->to);
    for (unsigned kind = 0; kind < HEAP_PAGES; kind++) {
        bool any = false;
        for (unsigned i = 0; i < HEAP_BLOCK_PAGES;) {
            unsigned end = i;
            while (end < HEAP_BLOCK_PAGES && page[end] == kind && (end == i || end % 64))
                end++;
            if (end == i) {
                i++;
                continue;
            }
            fprintf(map->to, "%sM%u %uh%uv1h-%uz", any ? "" : "<path d=\"", i % 64, i / 64, end - i,
                    end - i);
            any = true;
            i = end;
        }
        if (any)
            fprintf(map->to, "\" fill=\"%s\"/>", html_pages[kind].fill);
    }
    fprintf(map->to, "</svg>%lx, %u%% taken</div>\n", address, used * 100 / HEAP_BLOCK_PAGES);
}

static void html_blocks(struct heap *heap, FILE *to)
{
    struct html_map map = {.to = NULL};
    char text[32];

    heap_each_block(heap, html_block, &map);
    fprintf(
        to,
        "<h2>Blocks</h2>\n<p class=\"soft\">%zu blocks of 2 MiB, each of 512 pages, by what "
        "they are and how full their slabs are: at most a quarter (sparse), half, or more.  %s are "
        "free objects in slabs.</p>\n<p>",
        map.blocks, report_bytes(heap->total.bytes.cached, text));
    for (unsigned kind = 0; kind < HEAP_PAGES; kind++)
        if (map.pages[kind] > 0)
            fprintf(to,
                    "<span class=\"key\" style=\"background:%s\"></span>"
                    "<span title=\"%lu pages\">%s %s</span>",
                    html_pages[kind].fill, map.pages[kind], html_pages[kind].name,
                    report_bytes(map.pages[kind] << 12, text));
    fputs("</p>\n<div class=\"blocks\">\n", to);
    map = (struct html_map){.to = to};
    heap_each_block(heap, html_block, &map);
    fputs("</div>\n", to);
    if (map.blocks > HTML_BLOCKS)
        fprintf(to, "<p class=\"soft\">%zu blocks more are not drawn.</p>\n",
                map.blocks - HTML_BLOCKS);
}

void report_html(struct heap *heap, FILE *to)
{
    html_head(heap, to);
    why_html(heap, to);
    html_caches(heap, to);
    html_blocks(heap, to);
    report_flame(heap, to);
    fputs("</body></html>\n", to);
}
