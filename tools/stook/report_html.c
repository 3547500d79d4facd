/* SPDX-License-Identifier: MIT */
/*
 * report_html.c - the page of stook report: one file of HTML and SVG, without scripts.
 */
#include "stook/report.h"

#include "stook/look_show.h"

#include <stdlib.h>
#include <string.h>

enum {
    HTML_ROWS = 20,    /* of the table that is open */
    HTML_BLOCKS = 600, /* drawn one by one */
    HTML_CHART = 1000, /* width */
    HTML_CHART_HEIGHT = 220,
    HTML_LINES = 5, /* caches whose growth is drawn */
};

static const struct {
    const char *name, *fill;
} html_pages[HEAP_PAGES] = {
    [HEAP_PAGE_COLD] = {"free, with the kernel", "#f1f4f6"},
    [HEAP_PAGE_WARM] = {"free, warm", "#f3c46b"},
    [HEAP_PAGE_EMPTY] = {"empty slab", "#d9c9ee"},
    [HEAP_PAGE_PARTIAL] = {"partial slab", "#7fb2dd"},
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
    ".block svg{display:block;border:1px solid #c9d2d9}.block.frag svg{border-color:#d9534f;"
    "box-shadow:0 0 0 1px #d9534f}.frag b{color:#d9534f;font-weight:normal}\n"
    "svg text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;font-size:11px;fill:#22303c}\n";

void report_text(FILE *to, const char *text)
{
    static const char *const name[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"};

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (name[c])
            fputs(name[c], to);
        else
            fputc(c < ' ' || c == 0x7f ? '?' : c, to);
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

static void html_head(const struct report *report, FILE *to)
{
    const struct heap *heap = report->heap;
    const struct heap_bytes *bytes = &heap->total.bytes;
    char text[32];

    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
    report_text(to, heap->target->name);
    fprintf(to, " (%d): memory on Stook</title>\n<style>\n%s</style></head><body>\n<h1>",
            heap->target->pid, html_style);
    report_text(to, heap->target->name);
    fprintf(to, "</h1>\n<p class=\"soft\">%sprocess %d, Stook %s, mode %s",
            heap->target->live ? "" : "core file of ", heap->target->pid, heap->version,
            heap->mode);
    if (report->snapshot[report->snapshots - 1].process)
        fprintf(to, "; resident in all %s",
                report_bytes(report->snapshot[report->snapshots - 1].process, text));
    fprintf(to, "; %zu snapshot%s", report->snapshots, report->snapshots == 1 ? "" : "s");
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

static const struct report_cache *html_find(const struct report_snapshot *snapshot,
                                            const struct report_cache *cache)
{
    for (size_t i = 0; i < snapshot->caches; i++)
        if (snapshot->cache[i].index == cache->index &&
            strcmp(snapshot->cache[i].name, cache->name) == 0)
            return &snapshot->cache[i];
    return NULL;
}

static int64_t html_growth(const struct report *report, const struct report_cache *cache)
{
    const struct report_cache *old = html_find(&report->snapshot[0], cache);

    return (int64_t)(cache->bytes.resident - (old ? old->bytes.resident : 0));
}

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
    uint64_t x = ((const struct report_cache *)a)->bytes.resident,
             y = ((const struct report_cache *)b)->bytes.resident;

    return x > y ? -1 : x < y;
}

static void html_signed(FILE *to, int64_t bytes)
{
    char text[32];

    if (bytes == 0)
        fputs("&ndash;", to);
    else
        fprintf(to, "%s%s", bytes < 0 ? "&minus;" : "+",
                report_bytes((uint64_t)(bytes < 0 ? -bytes : bytes), text));
}

static void html_caches(const struct report *report, const struct report_cache *cache, size_t n,
                        FILE *to)
{
    uint64_t most = n ? cache[0].bytes.resident : 0;
    size_t shown = 0;
    char text[32];

    fputs("<h2>Caches by bytes</h2>\n<p class=\"soft\">"
          "<span class=\"key\" style=\"background:#2f6ea8\"></span>in use"
          "<span class=\"key\" style=\"background:#b9d0e8\"></span>cached"
          "<span class=\"key\" style=\"background:#eab9b2\"></span>wasted</p>\n"
          "<table><tr><th>cache</th><th></th><th>size</th><th>objects</th><th>slabs</th>"
          "<th>resident</th><th>in use</th><th>cached</th><th>wasted</th>",
          to);
    fputs(report->snapshots > 1 ? "<th>growth</th></tr>\n" : "</tr>\n", to);
    for (; shown < n && cache[shown].bytes.resident > 0; shown++) {
        const struct report_cache *one = &cache[shown];
        const struct heap_cache *of = heap_cache_at(report->heap, one->index);
        if (shown == HTML_ROWS)
            fputs("</table>\n<details><summary>smaller caches</summary>\n<table>\n", to);
        fputs("<tr><td>", to);
        report_text(to, one->name);
        fputs("</td><td>", to);
        html_bar(to, &one->bytes, most);
        if (of)
            fprintf(to, "</td><td>%lu</td><td>%lu</td><td>%lu</td>", of->object_size,
                    of->count.active, of->count.slabs);
        else
            fprintf(to, "</td><td></td><td>%lu</td><td></td>", report->heap->large_objects);
        fprintf(to, "<td>%s</td>", report_bytes(one->bytes.resident, text));
        fprintf(to, "<td>%s</td>", report_bytes(one->bytes.in_use, text));
        fprintf(to, "<td>%s</td>", report_bytes(one->bytes.cached, text));
        fprintf(to, "<td>%s</td>", report_bytes(one->bytes.wasted, text));
        if (report->snapshots > 1) {
            fputs("<td>", to);
            html_signed(to, html_growth(report, one));
            fputs("</td>", to);
        }
        fputs("</tr>\n", to);
    }
    fprintf(to, "</table>\n%s<p class=\"soft\">%zu caches without slabs are left out.</p>\n",
            shown > HTML_ROWS ? "</details>\n" : "", n - shown);
}

/* ---- growth ----------------------------------------------------------------------------------- */

static void html_line(const struct report *report, FILE *to, const struct report_cache *cache,
                      const char *name, const char *color, uint64_t most, unsigned row)
{
    uint64_t first = report->snapshot[0].time,
             span = report->snapshot[report->snapshots - 1].time - first, value = 0;
    char text[32];

    fprintf(to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color);
    for (size_t i = 0; i < report->snapshots; i++) {
        const struct report_snapshot *one = &report->snapshot[i];
        const struct report_cache *of = cache ? html_find(one, cache) : NULL;
        value = cache                         ? of ? of->bytes.resident : 0
                : strcmp(name, "in use") == 0 ? one->total.in_use
                                              : one->total.resident;
        fprintf(to, "%.1f,%.1f ",
                60 + (HTML_CHART - 290.0) * (double)(one->time - first) / (double)(span ? span : 1),
                HTML_CHART_HEIGHT - 20 -
                    (HTML_CHART_HEIGHT - 40.0) * (double)value / (double)(most ? most : 1));
    }
    fprintf(to,
            "\"/>\n<rect x=\"%d\" y=\"%u\" width=\"11\" height=\"11\" fill=\"%s\"/>"
            "<text x=\"%d\" y=\"%u\">",
            HTML_CHART - 215, 18 + 20 * row, color, HTML_CHART - 198, 28 + 20 * row);
    report_text(to, name);
    fprintf(to, " %s</text>\n", report_bytes(value, text));
}

static void html_chart(const struct report *report, const struct report_cache *cache, size_t n,
                       FILE *to)
{
    static const char *const color[HTML_LINES] = {"#b5546f", "#4f9d69", "#9b59b6", "#e0a516",
                                                  "#7d8894"};
    const struct report_cache *most_grown[HTML_LINES] = {NULL};
    uint64_t most = 0;
    char text[32];

    fputs("<h2>Growth</h2>\n", to);
    if (report->snapshots < 2) {
        fputs("<p class=\"soft\">There is one snapshot; --snapshots takes more.</p>\n", to);
        return;
    }
    for (size_t i = 0; i < report->snapshots; i++)
        if (report->snapshot[i].total.resident > most)
            most = report->snapshot[i].total.resident;
    for (size_t i = 0; i < n; i++) {
        const struct report_cache *one = &cache[i];
        for (unsigned j = 0; j < HTML_LINES && html_growth(report, one) > 0; j++)
            if (!most_grown[j] || html_growth(report, one) > html_growth(report, most_grown[j])) {
                const struct report_cache *down = most_grown[j];
                most_grown[j] = one;
                one = down;
                if (!one)
                    break;
            }
    }
    fprintf(to,
            "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
            "<path d=\"M60 20V%dH%d\" fill=\"none\" stroke=\"#c9d2d9\"/>"
            "<text x=\"54\" y=\"26\" text-anchor=\"end\">%s</text>"
            "<text x=\"54\" y=\"%d\" text-anchor=\"end\">0</text>"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f s</text>\n",
            HTML_CHART, HTML_CHART_HEIGHT, HTML_CHART, HTML_CHART_HEIGHT, HTML_CHART_HEIGHT - 20,
            HTML_CHART - 230, report_bytes(most, text), HTML_CHART_HEIGHT - 18, HTML_CHART - 230,
            HTML_CHART_HEIGHT - 5,
            (double)(report->snapshot[report->snapshots - 1].time - report->snapshot[0].time) /
                1e9);
    html_line(report, to, NULL, "resident", "#22303c", most, 0);
    html_line(report, to, NULL, "in use", "#2f6ea8", most, 1);
    for (unsigned i = 0; i < HTML_LINES && most_grown[i]; i++)
        html_line(report, to, most_grown[i], most_grown[i]->name, color[i], most, 2 + i);
    fputs("</svg>\n", to);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

struct html_map {
    FILE *to; /* NULL: they are counted */
    const struct report *report;
    size_t blocks, broken;
    uint64_t pages[HEAP_PAGES];
};

static bool html_is_free(uint8_t page)
{
    return page == HEAP_PAGE_COLD || page == HEAP_PAGE_WARM;
}

/* Many free pages, and no long run of them: at least a quarter of the block, and no run of half of that. */
static bool html_is_fragmented(const uint8_t page[HEAP_BLOCK_PAGES], unsigned *used)
{
    unsigned run = 0, longest = 0, clear = 0;

    for (unsigned i = 0; i < HEAP_BLOCK_PAGES; i++) {
        run = html_is_free(page[i]) ? run + 1 : 0;
        clear += html_is_free(page[i]);
        longest = run > longest ? run : longest;
    }
    *used = HEAP_BLOCK_PAGES - clear;
    return clear >= HEAP_BLOCK_PAGES / 4 && clear < HEAP_BLOCK_PAGES && longest < clear / 2;
}

/* 64 pages a row, 3 by 5 pixels each; pages of one kind that follow each other are one stroke. */
static void html_block(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg)
{
    struct html_map *map = arg;
    unsigned used;
    bool broken = html_is_fragmented(page, &used);

    map->blocks++;
    map->broken += broken;
    for (unsigned i = 0; i < HEAP_BLOCK_PAGES; i++)
        map->pages[page[i]]++;
    if (!map->to || map->blocks > HTML_BLOCKS)
        return;
    fprintf(map->to,
            "<div class=\"block%s\"><svg width=\"192\" height=\"40\" viewBox=\"0 0 64 8\" "
            "preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\">",
            broken ? " frag" : "");
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
    fprintf(map->to, "</svg>%lx, %u%% taken%s</div>\n", address, used * 100 / HEAP_BLOCK_PAGES,
            broken ? " <b>fragmented</b>" : "");
}

static void html_blocks(const struct report *report, FILE *to)
{
    struct html_map map = {.report = report};
    char text[32];

    heap_each_block(report->heap, html_block, &map);
    fprintf(
        to,
        "<h2>Blocks</h2>\n<p class=\"soft\">%zu blocks of 2 MiB, each of 512 pages; %zu of "
        "them are fragmented: at least a quarter of their pages are free, without a run of half "
        "of those.</p>\n<p>",
        map.blocks, map.broken);
    for (unsigned kind = 0; kind < HEAP_PAGES; kind++)
        if (map.pages[kind] > 0)
            fprintf(to,
                    "<span class=\"key\" style=\"background:%s\"></span>"
                    "<span title=\"%lu pages\">%s %s</span>",
                    html_pages[kind].fill, map.pages[kind], html_pages[kind].name,
                    report_bytes(map.pages[kind] << 12, text));
    fputs("</p>\n<div class=\"blocks\">\n", to);
    map = (struct html_map){.to = to, .report = report};
    heap_each_block(report->heap, html_block, &map);
    fputs("</div>\n", to);
    if (map.blocks > HTML_BLOCKS)
        fprintf(to, "<p class=\"soft\">%zu blocks more are not drawn.</p>\n",
                map.blocks - HTML_BLOCKS);
}

void report_html(const struct report *report, FILE *to)
{
    const struct report_snapshot *last = &report->snapshot[report->snapshots - 1];
    struct report_cache *cache = calloc(last->caches, sizeof(*cache));

    if (!cache)
        return;
    memcpy(cache, last->cache, last->caches * sizeof(*cache));
    qsort(cache, last->caches, sizeof(*cache), html_by_bytes);
    html_head(report, to);
    html_caches(report, cache, last->caches, to);
    html_chart(report, cache, last->caches, to);
    html_blocks(report, to);
    report_flame(report, to);
    fputs("</body></html>\n", to);
    free(cache);
}
