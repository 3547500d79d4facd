/* SPDX-License-Identifier: MIT */
/*
 * walk.c - stook walk: the objects of a cache, one a line.
 */
#include "stook/command.h"
#include "stook/look/look_names.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WALK_SITES = 1 << 16, WALK_TEXT = 200 };

struct walk {
    struct heap *heap;
    const struct heap_cache *cache;
    bool json, free, all; /* free: instead of those that users have */
    struct writer w;
    struct look_names *names;
    struct {
        uint32_t tag;
        char text[WALK_TEXT];
    } * site; /* by a hash of the tag: those met so far */
    uint64_t shown;
};

/* In few words: the site's text, or the function that a call is in. */
static const char *walk_site(struct walk *walk, uint32_t tag)
{
    size_t at = tag * UINT32_C(2654435761) % WALK_SITES;
    struct heap_site site;
    char text[LOOK_NAME];

    if (tag == 0)
        return "";
    if (walk->site[at].tag == tag)
        return walk->site[at].text;
    walk->site[at].tag = tag;
    walk->site[at].text[0] = '\0';
    if (!heap_site(walk->heap, tag, &site))
        return "";
    if (!site.file[0]) {
        look_names_want(walk->names, site.frames[0]);
        look_names_find(walk->names);
    }
    (void)snprintf(walk->site[at].text, WALK_TEXT, "%.199s",
                   look_site_name(walk->names, &site, text));
    return walk->site[at].text;
}

static bool walk_takes(const struct walk *walk, uint8_t state)
{
    return walk->all || (state == HEAP_LIVE) != walk->free;
}

static void walk_show(struct walk *walk, const struct heap_slab *slab, uint32_t index,
                      uint64_t address, uint8_t state)
{
    struct heap_what what;
    struct writer *w = &walk->w;
    char group[HEAP_NAME];

    heap_describe(walk->heap, slab, index, address, &what);
    if (walk->json) {
        writer_print(w, walk->shown ? ",\n  {" : "\n  {");
        output_counts(w, ", ", {"object", address}, {"bytes", what.bytes});
        writer_print(w, "\"state\": \"%s\"", heap_state_word(state));
        if (what.requested) {
            writer_print(w, ", ");
            writer_key(w, "requested_bytes", what.requested, "");
        }
        if (what.group) {
            writer_print(w, ", ");
            output_word(w, "group", look_group(walk->heap, what.group, group), "");
        }
        if (what.tag) {
            writer_print(w, ", ");
            output_word(w, "site", walk_site(walk, what.tag), "");
        }
        writer_print(w, "}");
    } else {
        writer_print(w, "0x%012lx %10lu  %-7s ", address,
                     (what.requested ? what.requested : what.bytes), heap_state_word(state));
        if (what.group)
            writer_cell(w, look_group(walk->heap, what.group, group), 16);
        else
            writer_print(w, "%-16s", "-");
        writer_print(w, " %.199s\n", walk_site(walk, what.tag));
    }
    walk->shown++;
}

static bool walk_large(uint64_t address, uint64_t bytes, const struct heap_slab *slab,
                       uint32_t index, void *arg)
{
    (void)bytes;
    walk_show(arg, slab, index, address, HEAP_LIVE);
    return true;
}

static void walk_cache(struct walk *walk)
{
    static uint8_t state[HEAP_OBJECTS];
    struct heap *heap = walk->heap;

    if (!walk->cache) {
        if (walk->all || !walk->free)
            (void)heap_each_live(heap, NULL, walk_large, walk);
        return;
    }
    for (const struct heap_slab *slab = heap_slab_of(heap, walk->cache, NULL); slab;
         slab = heap_slab_of(heap, walk->cache, slab + 1)) {
        if (!heap_states(heap, slab, state))
            memset(state, HEAP_UNKNOWN, sizeof(state));
        for (unsigned i = 0; i < slab->objects; i++)
            if (walk_takes(walk, state[i]))
                walk_show(walk, slab, i, heap_object(heap, walk->cache, slab, i), state[i]);
    }
}

static void walk_all(struct walk *walk)
{
    output_writer(&walk->w);
    walk->names = look_names_new(walk->heap);
    walk->site = target_need(calloc(WALK_SITES, sizeof(*walk->site)));
    if (walk->json) {
        look_json_process(&walk->w, walk->heap);
        writer_print(&walk->w, ",\n \"cache\": ");
        writer_json(&walk->w, walk->cache ? walk->cache->name : "(large)");
        writer_print(&walk->w, ", \"objects\": [");
    } else {
        writer_print(&walk->w, "%-14s %10s  %-7s %-16s %s\n", "object", "bytes", "state", "group",
                     "allocated in");
    }
    walk_cache(walk);
    if (walk->json)
        writer_print(&walk->w, "]}\n");
    else
        look_next(&walk->w, walk->heap, "whatis", " ADDRESS");
    free(walk->site);
    look_names_free(walk->names);
    (void)writer_finish(&walk->w);
}

static int walk_run(int argc, char **argv)
{
    struct walk walk = {0};
    const struct option_row rows[] = {
        {"json", OPTION_FLAG, &walk.json, .letter = 'j'},
        {"free", OPTION_FLAG, &walk.free, .letter = 'f'},
        {"all", OPTION_FLAG, &walk.all, .letter = 'a'},
        LOOK_CORE_ROWS,
    };
    const char *pid, *name;
    int status;

    if ((status = option_take("walk", rows, argc, argv)) != STATUS_OK)
        return status;
    pid = look_whom(argc, argv);
    if (!pid || argc - optind != 1)
        return complain(STATUS_USAGE, "a process and a cache are needed");
    name = argv[optind];
    if (strcmp(name, "(large)") == 0)
        name = NULL;
    status = look_open_cache(pid, name, &walk.heap, &walk.cache);
    if (status != STATUS_OK)
        return status;
    walk_all(&walk);
    heap_close(walk.heap);
    return STATUS_OK;
}

static const char walk_help[] =
    "usage: stook walk [--free | --all] [--json] {PID | --core FILE [--exe FILE]} CACHE\n"
    "\n"
    "Lists the objects of a cache that the program holds, by address: bytes (those asked for, where that is known), state,\n"
    "and the group that is charged.  It names the call that allocated an object if the process counts call sites\n"
    "(STOOK_TAGS=1).  The cache \"(large)\" is that of objects of whole pages.\n"
    "\n"
    "  --free       those that are free: in their slab, in a CPU's sheaf (cpu), in a barn, or held for readers\n"
    "  --all        both\n"
    "  --json       as one JSON object; docs/look-inside.md has its keys\n" HELP_CORE HELP_END(
        "walk redis-server malloc-1024");

const struct command command_walk = {"walk", "the objects of a cache of a process", walk_help,
                                     walk_run};
