/* SPDX-License-Identifier: MIT */
/*
 * report_flame.c - what call sites have in use: the data of a flame graph, with the script that draws it, and a table.
 */
#include "stook/look/report.h"

#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/look/look_sites.h"

#include <stdlib.h>
#include <string.h>

enum {
    FLAME_DEPTH = 64,
    FLAME_NAME = 200,
    FLAME_ROWS = 20, /* of the table */
    FLAME_COLUMNS = 100,
};

/* ../../flame/flame.min.js */
extern const char report_script[], report_script_end[];

struct flame_node {
    char name[FLAME_NAME];
    uint64_t bytes, objects;
    struct flame_node *child, *next; /* children by name */
};

struct flame_tag {
    struct heap_tag counts;
    struct heap_site site;
};

struct flame {
    struct heap *heap;
    struct look_sites sites;
    struct look_names *names; /* theirs */
    struct flame_tag *tag;
    size_t tags, sampled;
    const char *nonce;
    FILE *to;
};

static void flame_take(const struct heap_tag *counts, void *arg)
{
    struct flame *flame = arg;
    struct flame_tag *tag;

    if (counts->bytes == 0)
        return;
    flame->tag = target_row(flame->tag, flame->tags, sizeof(*flame->tag));
    tag = &flame->tag[flame->tags++];
    tag->counts = *counts;
    flame->sampled += (counts->tag & HEAP_SAMPLED) != 0;
    if (!heap_site(flame->heap, counts->tag, &tag->site))
        tag->site = (struct heap_site){.function = "?"};
    for (unsigned i = 0; i < tag->site.depth; i++)
        look_names_want(flame->names, tag->site.frames[i]);
}

/* The child of that name, with so much more. */
static struct flame_node *flame_child(struct flame_node *node, const char *name,
                                      const struct heap_tag *more)
{
    struct flame_node **at = &node->child, *child;

    while (*at && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    child = *at;
    if (!child || strcmp(child->name, name) != 0) {
        child = target_need(calloc(1, sizeof(*child)));
        strncpy(child->name, name, sizeof(child->name) - 1);
        child->next = *at;
        *at = child;
    }
    child->bytes += more->bytes;
    child->objects += more->objects;
    return child;
}

static void flame_add(struct flame *flame, struct flame_node *root, const struct flame_tag *tag)
{
    struct flame_node *node = root;
    char text[LOOK_NAME];
    unsigned depth = tag->site.depth < FLAME_DEPTH ? tag->site.depth : FLAME_DEPTH;

    root->bytes += tag->counts.bytes;
    root->objects += tag->counts.objects;
    for (unsigned i = depth; i-- > 0;) {
        const char *name = look_name_function(flame->names, tag->site.frames[i]);
        if (i == 0 || !*name)
            name = look_name(flame->names, tag->site.frames[i], text, FLAME_NAME);
        node = flame_child(node, name, &tag->counts);
    }
    if (tag->site.function[0]) {
        (void)snprintf(text, FLAME_NAME, "%.80s%s%.80s", tag->site.function,
                       tag->site.file[0] ? " at " : "", tag->site.file);
        if (tag->site.file[0])
            (void)snprintf(text + strlen(text), FLAME_NAME - strlen(text), ":%lu", tag->site.line);
        (void)flame_child(node, text, &tag->counts);
    }
}

/* ---- as JSON inside of a page, for the script ------------------------------------------------- */

/* No text of a process ends the element that it stands in. */
static void flame_text(FILE *to, const char *text)
{
    fputc('"', to);
    while (*text) {
        if (*text == '"' || *text == '\\' || *text == '<' || (unsigned char)*text < 0x20)
            fprintf(to, "\\u%04x", (unsigned char)*text++);
        else
            text += output_character(to, text);
    }
    fputc('"', to);
}

static void flame_write(FILE *to, const struct flame_node *node)
{
    fputs("{\"name\":", to);
    flame_text(to, node->name);
    fprintf(to, ",\"value\":%lu,\"objects\":%lu", node->bytes, node->objects);
    if (node->child)
        fputs(",\"children\":[", to);
    for (const struct flame_node *child = node->child; child; child = child->next) {
        flame_write(to, child);
        fputs(child->next ? "," : "]", to);
    }
    fputs("}", to);
}

static void flame_graph(const struct flame *flame, const struct flame_node *root)
{
    fputs(
        "<p id=\"flame-find\" hidden><label>search <input id=\"flame-term\" type=\"search\"></label> "
        "<button id=\"flame-all\" type=\"button\">show all</button> <output id=\"flame-said\" "
        "class=\"soft\">a click on a frame zooms into it</output></p>\n<div id=\"flame\"></div>\n"
        "<script id=\"flame-data\" type=\"application/json\">",
        flame->to);
    flame_write(flame->to, root);
    fprintf(flame->to, "</script>\n<script nonce=\"%s\">\n", flame->nonce);
    (void)fwrite(report_script, 1, (size_t)(report_script_end - report_script), flame->to);
    fputs("</script>\n", flame->to);
}

/* ---- as a table ------------------------------------------------------------------------------- */

static int flame_by_name(const void *left, const void *right)
{
    return strcmp(((const struct flame_node *)left)->name,
                  ((const struct flame_node *)right)->name);
}

static int flame_by_bytes(const void *left, const void *right)
{
    uint64_t a = ((const struct flame_node *)left)->bytes,
             b = ((const struct flame_node *)right)->bytes;

    return a > b ? -1 : a < b;
}

/* Places of one name are one row, whatever their callers are. */
static size_t flame_rows(const struct flame *flame, struct flame_node *row)
{
    char text[LOOK_NAME];
    size_t rows = 0;

    for (size_t i = 0; i < flame->tags; i++) {
        row[i] = (struct flame_node){.bytes = flame->tag[i].counts.bytes,
                                     .objects = flame->tag[i].counts.objects};
        strncpy(row[i].name, look_site_name(flame->names, &flame->tag[i].site, text),
                FLAME_NAME - 1);
    }
    qsort(row, flame->tags, sizeof(*row), flame_by_name);
    for (size_t i = 0; i < flame->tags; i++) {
        if (rows > 0 && strcmp(row[rows - 1].name, row[i].name) == 0) {
            row[rows - 1].bytes += row[i].bytes;
            row[rows - 1].objects += row[i].objects;
        } else {
            row[rows++] = row[i];
        }
    }
    qsort(row, rows, sizeof(*row), flame_by_bytes);
    return rows;
}

static void flame_table(const struct flame *flame)
{
    struct flame_node *row = target_need(calloc(flame->tags, sizeof(*row)));
    size_t rows = flame_rows(flame, row);

    fputs(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"call sites\"><table><thead><tr>"
        "<th scope=\"col\">call site, wrappers of malloc left out</th><th scope=\"col\">in use</th>"
        "<th scope=\"col\">objects</th></tr></thead>\n",
        flame->to);
    for (size_t i = 0; i < rows && i < FLAME_ROWS; i++) {
        fputs("<tr><th scope=\"row\">", flame->to);
        report_text(flame->to, look_fold(*row[i].name ? row[i].name : "?", FLAME_COLUMNS));
        fprintf(flame->to, "</th><td>%s</td><td>%lu</td></tr>\n",
                output_bytes((int64_t)row[i].bytes, false), row[i].objects);
    }
    fputs("</table></div>\n", flame->to);
    free(row);
}

/* ---- stacks of the debug letter U, where nothing counts call sites ---------------------------- */

static bool flame_live(uint64_t address, uint64_t bytes, const struct heap_slab *slab,
                       uint32_t index, void *arg)
{
    struct flame *flame = arg;
    struct heap_what what;

    heap_describe(flame->heap, slab, index, address, &what);
    if (what.who[0].known)
        look_sites_count(&flame->sites, &what, 0)->bytes += bytes;
    return true;
}

static void flame_take_tracks(struct flame *flame)
{
    for (size_t i = 0; i < flame->heap->caches; i++)
        if (heap_has_tracks(flame->heap, &flame->heap->cache[i]))
            (void)heap_each_live(flame->heap, &flame->heap->cache[i], flame_live, flame);
    for (size_t i = 0; i < flame->sites.sites; i++) {
        const struct look_site *site = flame->sites.site[i];
        flame->tag = target_row(flame->tag, flame->tags, sizeof(*flame->tag));
        flame->tag[flame->tags++] = (struct flame_tag){
            .counts = {.objects = site->objects, .bytes = site->bytes}, .site = site->place.site};
    }
}

static void flame_free(struct flame_node *node)
{
    while (node->child) {
        struct flame_node *child = node->child;
        node->child = child->next;
        flame_free(child);
        free(child);
    }
}

void report_flame(struct heap *heap, const char *nonce, FILE *to)
{
    struct flame flame = {.heap = heap, .nonce = nonce, .to = to};
    struct flame_node root = {.name = "all call sites"};

    fputs("<h2>Call sites</h2>\n", to);
    look_sites_begin(&flame.sites, heap);
    flame.names = flame.sites.names;
    (void)heap_each_tag(heap, flame_take, &flame);
    if (flame.tags == 0)
        flame_take_tracks(&flame);
    look_names_find(flame.names);
    for (size_t i = 0; i < flame.tags; i++)
        flame_add(&flame, &root, &flame.tag[i]);
    if (root.bytes == 0) {
        fputs(
            "<p class=\"soft\">The process has no samples of its call sites: it has allocated too little, "
            "or takes none (STOOK_SAMPLE is not set); with STOOK_TAGS=1 it counts all, with STOOK_DEBUG=U it "
            "has stacks.</p>\n",
            to);
    } else {
        fprintf(
            to,
            "<p class=\"soft\">%s in use by %zu call sites%s; callers are above what they call.</p>\n",
            output_bytes((int64_t)root.bytes, false), flame.tags,
            flame.sampled == 0            ? ""
            : flame.sampled == flame.tags ? ", estimated from samples"
                                          : ", some of them estimated from samples");
        flame_graph(&flame, &root);
        flame_table(&flame);
    }
    flame_free(&root);
    free(flame.tag);
    look_sites_free(&flame.sites);
}
