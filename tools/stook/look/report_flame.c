/* SPDX-License-Identifier: MIT */
/*
 * report_flame.c - a flame graph of what call sites have in use: callers above, allocating code below.
 */
#include "stook/look/report.h"

#include "stook/command.h"
#include "stook/look/look_show.h"

#include <stdlib.h>
#include <string.h>

enum {
    FLAME_WIDTH = 1060,
    FLAME_ROW = 18,
    FLAME_DEPTH = 64,
    FLAME_NAME = 200,
};

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
    struct look_names *names;
    struct flame_tag *tag;
    size_t tags, sampled;
    unsigned depth;
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
        depth++;
    }
    if (depth > flame->depth)
        flame->depth = depth;
}

/* Warm colours by name, so that a function looks the same everywhere. */
static unsigned flame_hue(const char *name)
{
    unsigned hash = 0;

    for (; *name && *name != '+' && *name != ' '; name++)
        hash = hash * 31 + (unsigned char)*name;
    return 12 + hash % 14; /* these have enough contrast with the page and with black */
}

static void flame_draw(struct flame *flame, const struct flame_node *node, double x, double width,
                       unsigned level, uint64_t all)
{
    double y = (double)level * FLAME_ROW, at = x;
    size_t room = width > 14 ? (size_t)((width - 8) / 6.4) : 0;
    if (width < 0.3)
        return;
    fputs("<g><title>", flame->to);
    report_text(flame->to, node->name);
    fprintf(flame->to,
            ": %s in %lu objects, %.1f%%</title><rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" "
            "height=\"%d\" rx=\"2\" fill=\"hsl(%u,70%%,50%%)\" stroke=\"var(--page)\"/>",
            output_bytes((int64_t)node->bytes, false), node->objects,
            all ? 100.0 * (double)node->bytes / (double)all : 0, x, y, width, FLAME_ROW - 1,
            flame_hue(node->name));
    if (room > 3) {
        fprintf(flame->to, "<text x=\"%.2f\" y=\"%.0f\">", x + 4, y + FLAME_ROW - 6);
        report_text(flame->to, look_fold(node->name, room));
        fputs("</text>", flame->to);
    }
    fputs("</g>\n", flame->to);
    for (const struct flame_node *child = node->child; child; child = child->next) {
        double part = node->bytes ? width * (double)child->bytes / (double)node->bytes : 0;
        flame_draw(flame, child, at, part, level + 1, all);
        at += part;
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

void report_flame(struct heap *heap, FILE *to)
{
    struct flame flame = {.heap = heap, .names = look_names_new(heap), .to = to};
    struct flame_node root = {.name = "all call sites"};

    fputs("<h2>Call sites</h2>\n", to);
    (void)heap_each_tag(heap, flame_take, &flame);
    look_names_find(flame.names);
    for (size_t i = 0; i < flame.tags; i++)
        flame_add(&flame, &root, &flame.tag[i]);
    if (root.bytes == 0) {
        fputs(
            "<p class=\"soft\">The process has no samples of its call sites: it has allocated too little, "
            "or takes none (STOOK_SAMPLE is not set); with STOOK_TAGS=1 it counts all.</p>\n",
            to);
    } else {
        fprintf(
            to,
            "<p class=\"soft\">%s in use by %zu call sites%s; callers are above what they "
            "call.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"flame graph\">"
            "<svg width=\"%d\" height=\"%u\" role=\"img\" "
            "aria-label=\"call sites by bytes in use\">\n",
            output_bytes((int64_t)root.bytes, false), flame.tags,
            flame.sampled == 0            ? ""
            : flame.sampled == flame.tags ? ", estimated from samples"
                                          : ", some of them estimated from samples",
            FLAME_WIDTH, (flame.depth + 1) * FLAME_ROW);
        flame_draw(&flame, &root, 0, FLAME_WIDTH, 0, root.bytes);
        fputs("</svg></div>\n", to);
    }
    flame_free(&root);
    free(flame.tag);
    look_names_free(flame.names);
}
