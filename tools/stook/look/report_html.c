/* SPDX-License-Identifier: MIT */
/*
 * report_html.c - the page of stook report: one file of HTML and SVG.  All but the flame graph is there without scripts.
 */
#include "stook/look/report.h"

#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/look/why.h"

#include "look/apart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    HTML_ROWS = 20,    /* of the table that is open */
    HTML_BLOCKS = 600, /* drawn one by one */
    HTML_NAME = 48,    /* columns of a name */
};

static const struct {
    const char *name, *fill;
} html_pages[HEAP_PAGES] = {
    [HEAP_PAGE_COLD] = {"free, with the kernel", "var(--page)"},
    [HEAP_PAGE_WARM] = {"free, warm", "#b9791f"},
    [HEAP_PAGE_EMPTY] = {"empty slab", "#8f74bd"},
    [HEAP_PAGE_SPARSE] = {"sparse slab", "#d9633a"},
    [HEAP_PAGE_HALF] = {"half empty slab", "#3f8fa8"},
    [HEAP_PAGE_PARTIAL] = {"partial slab", "#4f93c9"},
    [HEAP_PAGE_FULL] = {"full slab", "#2f6ea8"},
    [HEAP_PAGE_LARGE] = {"large object", "#3f8a5c"},
    [HEAP_PAGE_OTHER] = {"free, kept by a CPU", "#d0604f"},
};

/* Text has a contrast of 4.5 at least, bars one of 3, on light and on dark. */
static const char html_style[] =
    ":root{color-scheme:light dark;--text:#22303c;--soft:#52606b;--line:#c9d2d9;--page:#fff}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e3e9ee;--soft:#a9b5c0;--line:#45525e;"
    "--page:#14191e}}\n"
    "body{font:14px/1.45 'DejaVu Sans',Verdana,Arial,sans-serif;color:var(--text);margin:2em auto;"
    "max-width:1100px;padding:0 1em;background:var(--page)}\n"
    "h1{font-size:22px;margin:0}h2{font-size:16px;margin:2em 0 .5em}p{margin:.3em 0}\n"
    ".soft,dt{color:var(--soft)}.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:1em 0}\n"
    ".tile{flex:1 1 130px;border:1px solid var(--line);border-radius:6px;padding:.6em .8em}\n"
    ".tile b{display:block;font-size:20px}.scroll{overflow-x:auto}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1em;margin:.5em 0}"
    "dd{margin:0;overflow-wrap:anywhere}\n"
    "table{border-collapse:collapse;width:100%;font-size:13px}\n"
    "th,td{padding:3px 8px;text-align:right;white-space:nowrap;font-weight:normal;"
    "border-bottom:1px solid var(--line)}\n"
    "tr>:first-child{text-align:left}thead th{color:var(--soft)}\n"
    ".legend span{white-space:nowrap}"
    ".key{display:inline-block;width:11px;height:11px;margin:0 5px 0 14px;border-radius:2px;"
    "vertical-align:-1px;border:1px solid var(--line)}\n"
    ".blocks{display:flex;flex-wrap:wrap;gap:8px 8px}.block{width:194px;font-size:11px;"
    "color:var(--soft)}\n"
    "pre{overflow:auto}.block svg{display:block;border:1px solid var(--line)}\n"
    "#flame rect{stroke:var(--page)}#flame div{font-size:11px;padding:0 4px;overflow:hidden;"
    "white-space:nowrap;text-overflow:ellipsis;color:#000}\n"
    "svg text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;font-size:11px;fill:#000}\n";

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

/* ---- the head --------------------------------------------------------------------------------- */

static void html_tile(FILE *to, const char *name, uint64_t bytes, const char *means)
{
    fprintf(to,
            "<div class=\"tile\"><b title=\"%lu bytes\">%s</b>%s<br><span class=\"soft\">%s</span>"
            "</div>\n",
            bytes, output_bytes((int64_t)bytes, false), name, means);
}

static void html_fact(FILE *to, const char *name, const char *text)
{
    if (!*text)
        return;
    fprintf(to, "<dt>%s</dt><dd>", name);
    report_text(to, text);
    fputs("</dd>\n", to);
}

/* What, where and when: the page may be all that is left of it. */
static void html_facts(const struct heap *heap, FILE *to)
{
    const struct target *target = heap->target;
    uint64_t resident = target->live ? look_resident(target->pid) : 0;
    uint64_t start = target->live ? apart_started(target->pid) : 0;
    char text[1024] = "";
    time_t now = time(NULL);
    struct timespec up;
    struct tm local;

    fputs("<dl>\n", to);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", localtime_r(&now, &local));
    html_fact(to, target->live ? "read" : "page made", text);
    if (gethostname(text, sizeof(text) - 1) == 0)
        html_fact(to, "host", text);
    snprintf(text, sizeof(text), "%s%d", target->live ? "" : "core file of ", target->pid);
    html_fact(to, "process", text);
    if (target->live) {
        look_command_line(target->pid, text, sizeof(text));
        html_fact(to, "command line", text);
    }
    if (start && clock_gettime(CLOCK_BOOTTIME, &up) == 0) {
        uint64_t runs = (uint64_t)up.tv_sec - start / (uint64_t)sysconf(_SC_CLK_TCK);
        snprintf(text, sizeof(text), "%lu d %02lu:%02lu:%02lu", runs / 86400, runs / 3600 % 24,
                 runs / 60 % 60, runs % 60);
        html_fact(to, "running for", text);
    }
    snprintf(text, sizeof(text), "%s, mode %s: %s", heap->version, heap->mode, heap->why);
    html_fact(to, "Stook", text);
    if (resident)
        html_fact(to, "RSS of the whole process", output_bytes((int64_t)resident, false));
    if (heap->torn) {
        snprintf(text, sizeof(text), "%u caches changed faster than they could be read",
                 heap->torn);
        html_fact(to, "not exact", text);
    }
    html_fact(to, "units", "1 KiB is 1024 bytes, 1 MiB is 1024 KiB");
    fputs("</dl>\n", to);
}

/* The page fetches nothing, and runs no script but its own. */
static void html_head(const struct heap *heap, const char *nonce, FILE *to)
{
    const struct heap_bytes *bytes = &heap->total.bytes;

    fprintf(
        to,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-%s'\"><title>",
        nonce);
    report_text(to, heap->target->name);
    fprintf(to, " (%d): memory on Stook</title>\n<style>\n%s</style></head><body><main>\n<h1>",
            heap->target->pid, html_style);
    report_text(to, heap->target->name);
    fputs("</h1>\n", to);
    html_facts(heap, to);
    fputs("<div class=\"tiles\">\n", to);
    html_tile(to, "resident", bytes->resident, "pages with objects: in use + cached + wasted");
    html_tile(to, "in use", bytes->in_use, "objects that the program has");
    html_tile(to, "cached", bytes->cached, "free objects, ready to be used");
    html_tile(to, "wasted", bytes->wasted, "padding and the ends of slabs");
    html_tile(to, "warm", heap->arena.warm, "free pages that are kept");
    html_tile(to, "peak", bytes->peak, "resident, the most at one time");
    fputs("</div>\n", to);
}

/* ---- caches ----------------------------------------------------------------------------------- */

static const struct {
    const char *name, *fill;
} html_parts[3] = {{"in use", "#2f6ea8"}, {"cached", "#2f9068"}, {"wasted", "#d0604f"}};

static void html_bar(FILE *to, const struct heap_bytes *bytes, uint64_t most)
{
    const uint64_t part[3] = {bytes->in_use, bytes->cached, bytes->wasted};
    double x = 0;

    fputs("<svg width=\"260\" height=\"12\" aria-hidden=\"true\">", to);
    for (unsigned i = 0; i < 3; i++) {
        double width = most ? 260.0 * (double)part[i] / (double)most : 0;
        fprintf(to, "<rect x=\"%.2f\" width=\"%.2f\" height=\"12\" fill=\"%s\"/>", x, width,
                html_parts[i].fill);
        x += width;
    }
    fputs("</svg>", to);
}

static void html_row(const struct heap_row *row, uint64_t most, FILE *to)
{
    const struct heap_bytes *sum = &row->count.bytes;
    const uint64_t bytes[] = {sum->resident, sum->in_use, sum->cached, sum->wasted, sum->peak};
    const struct heap_cache *cache = row->cache;

    fputs("<tr><th scope=\"row\" title=\"", to);
    report_text(to, row->name);
    fputs("\">", to);
    report_text(to, look_fold(row->name, HTML_NAME));
    fputs("</th><td>", to);
    html_bar(to, sum, most);
    fputs("</td>", to);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        fprintf(to, "<td>%s</td>",
                bytes[i] || i < 4 ? output_bytes((int64_t)(bytes[i]), false) : "");
    fprintf(to, "<td>%lu</td>", row->count.active);
    if (cache)
        fprintf(to, "<td>%lu</td><td>%lu</td></tr>\n", cache->object_size, row->count.slabs);
    else
        fputs("<td></td><td></td></tr>\n", to);
}

static void html_caches_head(FILE *to)
{
    fputs(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"caches\"><table><thead><tr>"
        "<th scope=\"col\">cache</th><td></td>",
        to);
    for (const char *const *name =
             (const char *const[]){"resident", "in use", "cached", "wasted", "peak", "objects",
                                   "size, bytes", "slabs", NULL};
         *name; name++)
        fprintf(to, "<th scope=\"col\">%s</th>", *name);
    fputs("</tr></thead>\n", to);
}

static void html_caches(const struct heap *heap, FILE *to)
{
    size_t rows;
    struct heap_row *row = heap_rows(heap, false, HEAP_BY_RESIDENT, &rows);

    fputs("<h2>Caches by bytes</h2>\n<p class=\"soft legend\">", to);
    for (unsigned i = 0; i < sizeof(html_parts) / sizeof(html_parts[0]); i++)
        fprintf(to, "<span><span class=\"key\" style=\"background:%s\"></span>%s</span> ",
                html_parts[i].fill, html_parts[i].name);
    fputs("</p>\n", to);
    html_caches_head(to);
    for (size_t i = 0; i < rows; i++) {
        if (i == HTML_ROWS) {
            fputs("</table></div>\n<details><summary>smaller caches</summary>\n", to);
            html_caches_head(to);
        }
        html_row(&row[i], row[0].count.bytes.resident, to);
    }
    fprintf(to,
            "</table></div>\n%s<p class=\"soft\">" HEAP_ROW_LARGE
            ": objects of whole pages; " HEAP_ROW_LIBRARY ": the library's own caches.</p>\n",
            rows > HTML_ROWS ? "</details>\n" : "");
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
          "preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\" aria-hidden=\"true\">",
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

    heap_each_block(heap, html_block, &map);
    fprintf(
        to,
        "<h2>Blocks</h2>\n<p class=\"soft\">%zu blocks of 2 MiB, each of 512 pages, by what "
        "they are and how full their slabs are: at most a quarter (sparse), half, or more.  %s are "
        "free objects in slabs.</p>\n<p class=\"legend\">",
        map.blocks, output_bytes((int64_t)heap->total.bytes.cached, false));
    for (unsigned kind = 0; kind < HEAP_PAGES; kind++)
        if (map.pages[kind] > 0)
            fprintf(to,
                    "<span><span class=\"key\" style=\"background:%s\"></span>"
                    "<span title=\"%lu pages\">%s %s</span></span> ",
                    html_pages[kind].fill, map.pages[kind], html_pages[kind].name,
                    output_bytes((int64_t)(map.pages[kind] << 12), false));
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
    char nonce[33];
    uint64_t random[2] = {0};

    (void)getrandom(random, sizeof(random), 0);
    snprintf(nonce, sizeof(nonce), "%016lx%016lx", random[0], random[1]);
    html_head(heap, nonce, to);
    why_html(heap, to);
    html_caches(heap, to);
    html_blocks(heap, to);
    report_flame(heap, nonce, to);
    fputs("</main></body></html>\n", to);
}
