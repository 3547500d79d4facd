/* SPDX-License-Identifier: MIT */
/*
 * why_show.c - shows the findings of stook why: as text, as JSON, and as a section of the page of stook report.
 */
#include "stook/look/why.h"

#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/look/report.h"

#include <stdlib.h>
#include <string.h>

enum { SHOW_CACHES = 12, SHOW_SITES = 10, SHOW_BAR = 40 };

const struct why_part why_parts[HOLES_PARTS] = {
    [HOLES_IN_USE] = {"in_use", "objects in use"},
    [HOLES_LARGE] = {"large", "large objects in use"},
    [HOLES_SPARSE] = {"free_in_sparse_slabs", "free objects of sparse slabs"},
    [HOLES_SCATTERED] = {"free_in_other_slabs", "free objects of fuller slabs"},
    [HOLES_READY] = {"free_in_sheaves", "free objects in sheaves of CPUs and barns, or held back"},
    [HOLES_PADDING] = {"padding", "padding between objects"},
    [HOLES_IDLE] = {"slabs_without_objects", "slabs without an object in use"},
    [HOLES_WARM] = {"warm", "free pages that are kept warm"},
    [HOLES_UNTOUCHED] = {"untouched", "free pages within huge pages"},
    [HOLES_OWN] = {"library", "the library's own objects"},
    [HOLES_TABLES] = {"tables", "the library's tables"},
    [HOLES_FILES] = {"files", "not Stook's: code and data of files"},
    [HOLES_BREAK] = {"break", "not Stook's: below the program break"},
    [HOLES_STACKS] = {"stacks", "not Stook's: stacks"},
    [HOLES_SHARED] = {"shared", "not Stook's: shared memory"},
    [HOLES_OTHER] = {"other", "not Stook's: other mappings"},
};

static const struct {
    const char *key, *name;
} show_acts[WHY_ACTS] = {
    [WHY_ACT_TRIM] = {"trim", "malloc_trim(0), and stook_cache_shrink() of each typed cache"},
    [WHY_ACT_LIMIT] = {"limit", "STOOK_RESERVE=0 at its start: no free page is kept warm"},
    [WHY_ACT_OBJECTS] = {"objects", "the objects of sparse slabs freed (--objects lists them)"},
    [WHY_ACT_CACHE] =
        {"cache", "a cache of their own for the objects of the first line, or new copies of them"},
};

static const char *const show_evidence[] = {"exact", "samples", "unknown"};
static const char *const show_kinds[WHY_KINDS] = {"sparse", "trim", "scattered", "outside",
                                                  "in_use"};

const char *why_hint(const struct holes *holes, enum holes_part part, char text[128])
{
    text[0] = '\0';
    if (part == HOLES_OTHER && holes->runs)
        (void)snprintf(text, 128, ", most likely %s; %s has it use malloc, and so Stook",
                       holes->runs, holes->hint);
    return text;
}

/* ---- text ------------------------------------------------------------------------------------- */

static void show_line(struct writer *w, uint64_t bytes, const char *name)
{
    writer_size(w, bytes);
    writer_print(w, "  %s", name);
}

static void show_parts(const struct why *why, struct writer *w)
{
    const struct holes *holes = &why->holes;
    char hint[128];

    writer_print(w, "\nresident\n");
    for (unsigned i = 0; i < HOLES_PARTS; i++) {
        if (holes->part[i] == 0)
            continue;
        show_line(w, holes->part[i], why_parts[i].name);
        if (i > HOLES_TABLES)
            writer_print(w, " (%lu)", holes->mappings[i]);
        else if (i == HOLES_WARM)
            writer_print(w, " (the limit is now %lu KiB)", why->heap->arena.limit >> 10);
        writer_print(w, "%s\n", why_hint(holes, i, hint));
    }
    show_line(w, holes->resident,
              holes->known
                  ? "in all\n"
                  : "in all that is Stook's; a core file does not say what else was resident\n");
    show_line(w, holes->huge, "of that in huge pages\n");
    if (holes->split > 0)
        show_line(w, holes->split,
                  "of that in blocks whose huge pages were split, since pages of them went back\n");
}

static void show_fills(const struct why *why, struct writer *w)
{
    uint64_t most = 1;

    for (unsigned i = 0; i < HOLES_FILLS; i++)
        most = why->holes.fill[i].bytes > most ? why->holes.fill[i].bytes : most;
    writer_print(w, "\n%-14s %9s %10s %8s\n", "slabs in use", "slabs", "objects", "bytes");
    for (unsigned i = 0; i < HOLES_FILLS; i++) {
        const struct holes_sum *fill = &why->holes.fill[i];
        writer_print(w, "%3u %% %s %9lu %10lu", 10 * i,
                     i + 1 < HOLES_FILLS ? "and more" : "        ", fill->slabs, fill->objects);
        writer_size(w, fill->bytes);
        writer_print(w, "  %.*s\n", (int)(fill->bytes * SHOW_BAR / most),
                     "########################################");
    }
}

static int show_by_sparse(const void *left, const void *right)
{
    const struct holes_cache *a = left, *b = right;

    return a->sparse.bytes > b->sparse.bytes ? -1 : a->sparse.bytes < b->sparse.bytes;
}

static void show_caches(const struct why *why, struct writer *w)
{
    size_t n = why->heap->caches;
    struct holes_cache *is = target_need(calloc(n + 1, sizeof(*is)));

    memcpy(is, why->holes.cache, n * sizeof(*is));
    qsort(is, n, sizeof(*is), show_by_sparse);
    writer_print(w, "\n%-24s %7s %9s %8s %8s %10s %8s %8s\n", "cache", "size", "slabs", "bytes",
                 "sparse", "objects", "keep", "split");
    for (size_t i = 0; i < n && i < SHOW_CACHES && (i == 0 || is[i].sparse.bytes > 0); i++) {
        writer_cell(w, is[i].cache->name, 24);
        writer_print(w, " %7lu %9lu", is[i].cache->object_size, is[i].all.slabs);
        writer_size(w, is[i].all.bytes);
        writer_print(w, " %8lu %10lu", is[i].sparse.slabs, is[i].sparse.objects);
        writer_size(w, is[i].sparse.bytes);
        writer_size(w, is[i].split);
        writer_print(w, "\n");
    }
    writer_print(
        w,
        "sparse: slabs of which at most a quarter is in use; objects: those in use there; keep: the "
        "bytes of these slabs;\nsplit: bytes of all slabs in blocks without huge pages\n");
    free(is);
}

static void show_sites(const struct why *why, struct writer *w)
{
    const struct look_sites *sites = &why->sites;
    char name[HEAP_NAME];

    if (sites->sites == 0)
        return;
    writer_print(w, "\nsparse slabs are kept by\n");
    for (size_t i = 0; i < sites->sites && i < SHOW_SITES; i++) {
        const struct look_site *site = sites->site[i];
        writer_size(w, site->bytes);
        writer_print(w, "  %lu objects of ", site->objects);
        writer_cell(w, site->cache ? site->cache->name : "?", 0);
        writer_print(w, site->kind == WHY_SAMPLED ? ", estimated from samples\n" : "\n");
        look_show_age(w, why->heap, site);
        look_show_place(w, sites->names, &site->place, "allocated");
    }
    for (size_t i = 0; i < why->heap->groups; i++)
        if (why->group[i] > 0) {
            writer_size(w, why->group[i]);
            writer_print(w, "  objects that are charged to ");
            writer_cell(w, look_group(why->heap, why->heap->group[i].number, name), 0);
            writer_print(w, "\n");
        }
    if (sites->site[0]->kind == WHY_UNKNOWN)
        writer_print(
            w,
            "No call site is known: start the process with STOOK_TAGS=1 for all of them, with "
            "STOOK_SAMPLE=512K for estimates\nat little cost, or with STOOK_DEBUG=U for stacks and ages\n");
}

void why_text(const struct why *why, struct writer *w)
{
    for (const char *at = why->verdict; *at; at += strnlen(at, 200))
        writer_print(w, "%.200s", at);
    writer_print(w, "\n");
    look_show_process(w, why->heap);
    if (why->heap->torn)
        writer_print(w, "%u caches changed faster than they could be read\n", why->heap->torn);
    show_parts(why, w);
    show_fills(why, w);
    show_caches(why, w);
    show_sites(why, w);
    writer_print(w, "\nwhat would come back\n");
    for (unsigned i = 0; i < WHY_ACTS; i++) {
        show_line(w, why->act[i], show_acts[i].name);
        writer_print(w, "\n");
    }
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void show_json_sum(struct writer *w, const struct holes_sum *sum, const char *end)
{
    writer_print(w, "{");
    output_counts(w, "}", {"slabs", sum->slabs}, {"objects", sum->objects}, {"bytes", sum->bytes});
    writer_print(w, "%s", end);
}

void why_json(const struct why *why, struct writer *w)
{
    const struct holes *holes = &why->holes;
    const struct heap *heap = why->heap;
    const char *comma = "";

    look_json_process(w, heap);
    writer_print(w, ",\n ");
    output_word(w, "verdict", why->verdict, ",\n ");
    output_word(w, "kind", show_kinds[why->kind], ", ");
    output_word(w, "cache", why->cache ? why->cache->cache->name : NULL, ", ");
    output_counts(w, ",\n \"resident\": {", {"bytes", why->bytes}, {"kept_bytes", why->kept},
                  {"huge_bytes", holes->huge}, {"split_bytes", holes->split});
    for (unsigned i = 0; i < HOLES_PARTS; i++)
        writer_key(w, why_parts[i].key, holes->part[i], ", ");
    writer_key(w, "sum", holes->resident, "},\n ");
    output_word(w, "hint", holes->hint, ",\n \"come_back\": {");
    for (unsigned i = 0; i < WHY_ACTS; i++)
        writer_key(w, show_acts[i].key, why->act[i], i + 1 < WHY_ACTS ? ", " : "},\n \"fills\": [");
    for (unsigned i = 0; i < HOLES_FILLS; i++)
        show_json_sum(w, &holes->fill[i], i + 1 < HOLES_FILLS ? ", " : "],\n \"sparse\": ");
    show_json_sum(w, &holes->sum->sparse, ",\n \"caches\": [");
    for (size_t i = 0; i < heap->caches; i++) {
        const struct holes_cache *is = &holes->cache[i];
        if (is->all.slabs == 0)
            continue;
        writer_print(w, "%s\n  {", comma);
        comma = ",";
        output_word(w, "name", heap->cache[i].name, ", ");
        writer_print(w, "\"all\": ");
        show_json_sum(w, &is->all, ", \"sparse\": ");
        show_json_sum(w, &is->sparse, ", ");
        output_counts(w, "}", {"scattered_bytes", is->scattered}, {"split_bytes", is->split});
    }
    writer_print(w, "],\n \"sites\": [");
    for (size_t i = 0; i < why->sites.sites; i++) {
        const struct look_site *site = why->sites.site[i];
        writer_print(w, i ? ",\n  " : "\n  ");
        look_json_site(w, &why->sites, site, show_evidence[site->kind]);
    }
    writer_print(w, "],\n \"groups\": {");
    comma = "";
    for (size_t i = 0; i < heap->groups; i++) {
        char name[HEAP_NAME];
        if (why->group[i] == 0)
            continue;
        writer_print(w, "%s", comma);
        comma = ", ";
        writer_json(w, look_group(heap, heap->group[i].number, name));
        writer_print(w, ": %lu", why->group[i]);
    }
    writer_print(w, "}}\n");
}

/* ---- a section of the page -------------------------------------------------------------------- */

void why_html(struct heap *heap, FILE *to)
{
    char *text = NULL, *rest;
    size_t size;
    FILE *memory = target_need(open_memstream(&text, &size));
    struct writer w;
    struct why why;

    why_find(&why, heap);
    output_writer_to(&w, memory);
    why_text(&why, &w);
    (void)writer_finish(&w);
    fclose(memory);
    rest = text;
    fputs("<h2>Why it is so large</h2>\n<p><b>", to);
    report_text(to, strsep(&rest, "\n"));
    fputs("</b></p>\n<details><summary>what is resident, and what would come back</summary>\n<pre>",
          to);
    for (const char *line; (line = strsep(&rest, "\n")) != NULL; fputc('\n', to))
        report_text(to, line);
    fputs("</pre></details>\n", to);
    free(text);
    why_free(&why);
}
