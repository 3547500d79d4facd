/* SPDX-License-Identifier: MIT */
/*
 * whatis.c - stook whatis: the object that an address of a process lies in, its state and its call site.
 */
#include "stook/command.h"
#include "stook/look/look_names.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct whatis {
    struct heap *heap;
    struct look_names *names;
    uint64_t address;
    const char *digits,
        *base;   /* where the address was digits only: them, and how they were read here */
    bool hidden; /* only the other reading of the digits is Stook's */
    struct heap_what what;
    struct look_place place;
};

static double whatis_age(const struct heap *heap, uint64_t time)
{
    return heap->target->live ? (double)(int64_t)(heap->target->time - time) / 1e9
                              : (double)time / 1e9;
}

/* "12.345678": the writer has no conversion for it. */
static void whatis_seconds(struct writer *w, double seconds)
{
    uint64_t us = seconds > 0 ? (uint64_t)(seconds * 1e6) : 0;

    writer_print(w, "%lu.%06lu s", us / 1000000, us % 1000000);
}

static void whatis_state(struct writer *w, const struct heap_what *what)
{
    if (what->state == HEAP_IN_CPU)
        writer_print(w, "free, in a sheaf of CPU %u", what->place);
    else if (what->state == HEAP_IN_BARN)
        writer_print(w, "free, in the barn of node %u", what->place);
    else
        writer_print(w, "%s", heap_state_name(what->state));
}

static void whatis_who(struct writer *w, const struct whatis *one, const struct heap_who *who,
                       const char *word)
{
    char text[LOOK_NAME];

    if (!who->known)
        return;
    writer_print(w, "  %s by thread %u", word, who->thread);
    if (who->cpu != HEAP_NO_CPU)
        writer_print(w, " on CPU %u", who->cpu);
    if (who->time != 0) {
        writer_print(w, ", ");
        whatis_seconds(w, whatis_age(one->heap, who->time));
        writer_print(w, one->heap->target->live ? " ago" : " after the machine's start");
    }
    writer_print(w, "\n");
    for (unsigned i = 0; i < who->depth; i++)
        writer_print(w, "    %.220s\n", look_name(one->names, who->frames[i], text, 220));
}

static void whatis_text(struct writer *w, const struct whatis *one)
{
    const struct heap_what *what = &one->what;
    uint64_t into = one->address - what->start;
    char group[HEAP_NAME];

    writer_print(w, "0x%lx ", one->address);
    if (one->digits)
        writer_print(w, "(%.32s, read as %s) ", one->digits, one->base);
    writer_print(w, "is ");
    if (what->kind == HEAP_ELSEWHERE || what->kind == HEAP_NOTHING) {
        writer_print(w, what->kind == HEAP_NOTHING
                            ? "a free page of Stook's, or the library's own\n"
                            : "not of Stook\n");
        return;
    }
    if (what->kind == HEAP_BETWEEN) {
        writer_print(w, "between the objects of cache %s", what->cache->name);
    } else {
        if (into)
            writer_print(w, "%lu bytes into ", into);
        if (what->kind == HEAP_OBJECT)
            writer_print(w, "object %u of cache %s", what->index, what->cache->name);
        else if (what->kind == HEAP_LARGE)
            writer_print(w, "a large object");
        else
            writer_print(w, "a sampled object of cache %s, between guard pages",
                         what->cache ? what->cache->name : "?");
        writer_print(w, ": ");
        whatis_state(w, what);
        writer_print(w, "\n  %lu bytes from 0x%lx on", what->bytes, what->start);
        if (what->requested)
            writer_print(w, "; %u were asked for", what->requested);
    }
    if (what->slab)
        writer_print(w, "%s slab 0x%lx (%s, %u of %u objects out, node %u, %u KiB)",
                     what->kind == HEAP_BETWEEN ? ":" : "\n  in",
                     heap_slab_base(one->heap, what->slab), heap_slab_state_name(what->slab),
                     what->slab->inuse, what->slab->objects, what->slab->node,
                     4u << what->slab->order);
    writer_print(w, "\n");
    if (what->group)
        writer_print(w, "  charged to group %s\n", look_group(one->heap, what->group, group));
    if (!what->who[0].known)
        look_show_place(w, one->names, &one->place, "allocated");
    whatis_who(w, one, &what->who[0], "allocated");
    whatis_who(w, one, &what->who[1], "freed");
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void whatis_json_who(struct writer *w, const struct whatis *one, const struct heap_who *who,
                            const char *word)
{
    char text[LOOK_NAME];

    if (!who->known)
        return;
    writer_print(w, ",\n   \"%s\": {", word);
    if (who->time != 0)
        writer_key(w, "time_ns", who->time, ", ");
    if (who->cpu != HEAP_NO_CPU)
        writer_key(w, "cpu", who->cpu, ", ");
    writer_key(w, "thread", who->thread, ", \"stack\": [");
    for (unsigned i = 0; i < who->depth; i++) {
        writer_print(w, i ? ", " : "");
        writer_json(w, look_name(one->names, who->frames[i], text, 220));
    }
    writer_print(w, "]}");
}

static void whatis_json(struct writer *w, const struct whatis *one)
{
    static const char *const kinds[] = {"elsewhere", "object",  "between",
                                        "large",     "guarded", "nothing"};
    const struct heap_what *what = &one->what;
    char group[HEAP_NAME];

    writer_print(w, "{");
    writer_key(w, "address", one->address, ", ");
    if (one->digits)
        writer_print(w, "\"read_as\": \"%s\", ", one->base);
    writer_print(w, "\"kind\": \"%s\"", kinds[what->kind]);
    if (what->cache) {
        writer_print(w, ", \"cache\": ");
        writer_json(w, what->cache->name);
    }
    if (what->slab) {
        writer_print(w, ", \"slab\": {");
        writer_key(w, "address", heap_slab_base(one->heap, what->slab), ", ");
        writer_print(w, "\"state\": \"%s\", ", heap_slab_state_name(what->slab));
        output_counts(w, "}", {"objects", what->slab->objects}, {"objects_out", what->slab->inuse},
                      {"node", what->slab->node});
    }
    if (what->kind == HEAP_OBJECT || what->kind == HEAP_LARGE || what->kind == HEAP_GUARDED) {
        writer_print(w, ",\n   ");
        output_counts(w, ", ", {"object", what->start}, {"bytes", what->bytes},
                      {"index", what->index});
        writer_print(w, "\"state\": \"%s\"", heap_state_word(what->state));
        if (what->state == HEAP_IN_CPU || what->state == HEAP_IN_BARN) {
            writer_print(w, ", ");
            writer_key(w, what->state == HEAP_IN_CPU ? "cpu" : "node", what->place, "");
        }
        if (what->requested) {
            writer_print(w, ", ");
            writer_key(w, "requested_bytes", what->requested, "");
        }
        if (what->group) {
            writer_print(w, ", \"group\": ");
            writer_json(w, look_group(one->heap, what->group, group));
        }
        if (one->place.known) {
            writer_print(w, ",\n   ");
            look_json_place(w, one->names, &one->place);
        }
        whatis_json_who(w, one, &what->who[0], "allocated");
        whatis_json_who(w, one, &what->who[1], "freed");
    }
    writer_print(w, "}");
}

/* ---- the command ------------------------------------------------------------------------------ */

/* Of two readings of the same digits, those that are Stook's are shown, and both where none is. */
static void whatis_choose(struct whatis *of, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        bool first = of[i - 1].what.kind != HEAP_ELSEWHERE,
             second = of[i].what.kind != HEAP_ELSEWHERE;
        if (of[i].digits && of[i].digits == of[i - 1].digits && first != second)
            of[first ? i : i - 1].hidden = true;
    }
}

static void whatis_show(struct heap *heap, struct whatis *of, size_t n, bool json)
{
    struct look_names *names = look_names_new(heap);
    struct writer w;
    unsigned shown = 0;

    for (size_t i = 0; i < n; i++) {
        of[i].heap = heap;
        of[i].names = names;
        heap_whatis(heap, of[i].address, &of[i].what);
        look_place(names, heap, &of[i].what, &of[i].place);
        for (unsigned j = 0; j < 2; j++)
            for (unsigned f = 0; f < of[i].what.who[j].depth; f++)
                look_names_want(names, of[i].what.who[j].frames[f]);
    }
    look_names_find(names);
    whatis_choose(of, n);
    output_writer(&w);
    if (json) {
        look_json_process(&w, heap);
        writer_print(&w, ",\n \"addresses\": [");
    }
    for (size_t i = 0; i < n; i++) {
        if (of[i].hidden)
            continue;
        if (json) {
            writer_print(&w, "%s\n  ", shown++ ? "," : "");
            whatis_json(&w, &of[i]);
        } else {
            whatis_text(&w, &of[i]);
        }
    }
    if (json)
        writer_print(&w, "]}\n");
    else
        look_next(&w, heap, "walk", " CACHE");
    (void)writer_finish(&w);
    look_names_free(names);
}

static unsigned whatis_read(const char *text, struct whatis of[2])
{
    uint64_t address[2];
    unsigned n = look_address(text, address);
    bool digits = n > 0 && strspn(text, "0123456789") == strlen(text);

    for (unsigned i = 0; i < n; i++) {
        of[i].address = address[i];
        of[i].digits = digits ? text : NULL;
        of[i].base = address[i] == strtoull(text, NULL, 16) ? "hexadecimal" : "decimal";
    }
    return n;
}

static int whatis_run(int argc, char **argv)
{
    struct whatis *of;
    struct heap *heap;
    bool json = false;
    const struct option_row rows[] = {{"json", OPTION_FLAG, &json, .letter = 'j'}, LOOK_CORE_ROWS};
    const char *pid;
    int status;
    size_t n = 0;

    if ((status = option_take("whatis", rows, argc, argv)) != STATUS_OK)
        return status;
    pid = look_whom(argc, argv);
    if (!pid || optind == argc)
        return complain(STATUS_USAGE, "a process and addresses are needed");
    of = target_need(calloc(2 * (size_t)argc, sizeof(*of)));
    for (int i = optind; i < argc; i++) {
        unsigned readings = whatis_read(argv[i], &of[n]);
        if (readings == 0) {
            free(of);
            return complain(STATUS_USAGE, "%s is no address", argv[i]);
        }
        n += readings;
    }
    status = look_open(pid, &heap);
    if (status == STATUS_OK) {
        whatis_show(heap, of, n, json);
        heap_close(heap);
    }
    free(of);
    return status;
}

static const char whatis_help[] =
    "usage: stook whatis [--json] {PID | --core FILE [--exe FILE]} ADDRESS...\n"
    "\n"
    "Says what addresses of a running process are, or of one that ended with a core file: the cache, the slab and the\n"
    "object.  Of an object it says whether the program holds it, or which sheaf or barn, and which thread allocated it.\n"
    "An address is hexadecimal where it begins with 0x or has letters.  One of digits only may also be decimal, as Python's\n"
    "id() prints it: both readings are tried, and the answer says which one is of Stook.\n"
    "Call sites are known where the process counts them (STOOK_TAGS=1); whole stacks, times,\n"
    "frees and sizes asked for where the cache has the debug letter U (STOOK_DEBUG=U).\n"
    "\n"
    "  --json       as one JSON object; docs/look-inside.md has its keys\n" HELP_CORE HELP_END(
        "whatis 4711 0x24d83244c5e0");

const struct command command_whatis = {"whatis", "what an address of a process is, and whose",
                                       whatis_help, whatis_run};
