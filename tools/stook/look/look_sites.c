/* SPDX-License-Identifier: MIT */
/*
 * look_sites.c - a table of the places where objects were allocated, by cache, for stook leaks and stook why.
 */
#include "stook/look/look_sites.h"

#include "stook/command.h"

#include <stdlib.h>

enum { SITES_BITS = 16 };

void look_sites_begin(struct look_sites *sites, struct heap *heap)
{
    *sites = (struct look_sites){.heap = heap, .names = look_names_new(heap)};
    sites->table = target_need(calloc((size_t)1 << SITES_BITS, sizeof(struct look_site *)));
}

void look_sites_free(struct look_sites *sites)
{
    look_names_free(sites->names);
    for (size_t i = 0; i < sites->sites; i++)
        free(sites->site[i]);
    free(sites->site);
    free(sites->table);
}

static uint64_t sites_key(const struct heap_what *what, unsigned kind)
{
    uint64_t key = (uintptr_t)what->cache ^ (uint64_t)(kind + 1) << 60 ^ (uint64_t)what->tag << 32;

    for (unsigned i = 0; what->who[0].known && i < what->who[0].depth; i++) {
        key = (key ^ what->who[0].frames[i]) * 0x9e3779b97f4a7c15u;
        key ^= key >> 31;
    }
    return key * 0x9e3779b97f4a7c15u;
}

struct look_site *look_sites_count(struct look_sites *sites, struct heap_what *what, unsigned kind)
{
    struct look_site *site;
    uint64_t key, at, time;

    if (what->who[0].depth > 0)
        what->tag = 0;
    if (sites->sites > (1 << SITES_BITS) * 3 / 4) {
        what->tag = 0;
        what->who[0] = (struct heap_who){0};
    }
    key = sites_key(what, kind);
    for (at = key >> (64 - SITES_BITS);
         (site = sites->table[at % (1 << SITES_BITS)]) != NULL && site->key != key; at++)
        ;
    if (!site) {
        site = target_need(malloc(sizeof(*site)));
        sites->site = target_row(sites->site, sites->sites, sizeof(struct look_site *));
        *site = (struct look_site){
            .key = key, .kind = (uint8_t)kind, .cache = what->cache, .sample = what->start};
        look_place(sites->names, sites->heap, what, &site->place);
        sites->table[at % (1 << SITES_BITS)] = sites->site[sites->sites++] = site;
    }
    time = what->who[0].known ? what->who[0].time : 0;
    if (site->objects == 0 || time < site->first)
        site->first = time;
    if (time > site->last)
        site->last = time;
    site->objects++;
    return site;
}

void look_seconds(struct writer *w, uint64_t ns)
{
    writer_print(w, "%lu.%lu s", ns / 1000000000, ns / 100000000 % 10);
}

void look_show_age(struct writer *w, const struct heap *heap, const struct look_site *site)
{
    bool live = heap->target->live;
    uint64_t now = heap->target->time, first = live ? now - site->last : site->first,
             last = live ? now - site->first : site->last;

    if (site->first == 0)
        return;
    writer_print(w, "  allocated ");
    look_seconds(w, live && now < site->last ? 0 : first);
    if (first != last) {
        writer_print(w, " to ");
        look_seconds(w, live && now < site->first ? 0 : last);
    }
    writer_print(w, live ? " ago\n" : " after the machine's start\n");
}

void look_json_site(struct writer *w, const struct look_sites *sites, const struct look_site *site,
                    const char *kind)
{
    writer_print(w, "{\"kind\": \"%s\", ", kind);
    output_word(w, "cache", site->cache ? site->cache->name : NULL, ", ");
    output_counts(w, ", ", {"objects", site->objects}, {"bytes", site->bytes},
                  {"sample", site->sample});
    if (site->first)
        output_counts(w, ", ", {"first_ns", site->first}, {"last_ns", site->last});
    look_json_place(w, sites->names, &site->place);
    writer_print(w, "}");
}
