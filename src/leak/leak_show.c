/* SPDX-License-Identifier: MIT */
/*
 * show_leaks.c - what was found, as lines or as JSON.
 */
#include "leak/leak.h"

#include "base/raw.h"
#include "debug/depot.h"
#include "debug/symbols.h"
#include "os/os.h"

#include <stook/tag.h>

#include <string.h>

enum {
    SHOW_GROUPS = 200, /* of the text */
    SHOW_DEPTH = 48,
};

static const struct {
    const char *name, *means;
} show_kind[HEAP_KINDS] = {
    [HEAP_LOST] = {"lost", "nothing points to them"},
    [HEAP_LOST_BEHIND] = {"lost behind", "only lost objects point to them"},
    [HEAP_PERHAPS] = {"possible", "only pointers into their middle were found"},
    [HEAP_IN_REACH] = {"reachable", ""},
};

/* Where the objects of a group were allocated: a site of the program's text, or frames. */
struct show_place {
    const char *file, *function; /* NULL: no site */
    uint64_t line;
    struct symbol frame[SHOW_DEPTH];
    unsigned depth;
};

static void show_find(struct show_place *place, const struct leak_group *group)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    uint64_t frames[DEPOT_DEPTH];
    unsigned depth = group->stack ? depot_get(group->stack, frames) : 0;

    memset(place, 0, sizeof(*place));
    for (unsigned i = 0; i < depth; i++)
        if (frames[i] & DEPOT_SITE) {
            const struct stook_site *site =
                (const struct stook_site *)(uintptr_t)(frames[i] & ~DEPOT_SITE);
            place->file = site->file;
            place->function = site->function;
            place->line = site->line;
        } else {
            place->frame[place->depth++].address = frames[i];
        }
    if (depth == 0 && group->tag && stook_tag_stat(group->tag, &stat) == 0) {
        place->file = stat.file;
        place->function = stat.function;
        place->line = stat.line;
        if (!stat.file)
            place->frame[place->depth++].address = stat.address;
    }
    symbols_find(place->frame, place->depth);
}

static void show_name(char *name, size_t size)
{
    if (os_read_file("/proc/self/comm", name, size) < 0)
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

static unsigned long long show_number(uint64_t n)
{
    return (unsigned long long)n;
}

/* ---- text ------------------------------------------------------------------------------------- */

static void show_group_text(struct writer *w, const struct leak_group *group)
{
    static struct show_place place; /* one report at a time */

    writer_print(w, "\n%s: %llu object%s, %llu bytes of %s%s, such as 0x%llx\n",
                 show_kind[group->kind].name, show_number(group->objects),
                 group->objects == 1 ? "" : "s", show_number(group->bytes),
                 group->of ? "cache " : "large objects", group->name, show_number(group->sample));
    show_find(&place, group);
    if (place.file)
        writer_print(w, "  allocated at %.100s:%llu in %.80s\n", place.file,
                     show_number(place.line), place.function);
    for (unsigned i = 0; i < place.depth; i++) {
        const struct symbol *frame = &place.frame[i];
        writer_print(w, i == 0 && !place.file ? "  allocated in " : "    ");
        if (frame->name[0])
            writer_print(w, "%s+0x%llx ", frame->name, show_number(frame->within));
        if (frame->module[0])
            writer_print(w, "[%s+0x%llx]\n", frame->module, show_number(frame->offset));
        else
            writer_print(w, "0x%llx\n", show_number(frame->address));
    }
}

void leak_show_text(struct writer *w, const struct leak_found *found, bool all)
{
    char name[32];
    uint32_t shown = 0;

    show_name(name, sizeof(name));
    writer_print(w, "stook: leaks of %s, process %d\n", name, (int)raw_getpid());
    writer_print(w, "%-12s %10s %14s\n", "", "objects", "bytes");
    for (unsigned kind = 0; kind < HEAP_KINDS; kind++)
        writer_print(w, "%-12s %10llu %14llu%s%s\n", show_kind[kind].name,
                     show_number(found->sum[kind].objects), show_number(found->sum[kind].bytes),
                     show_kind[kind].means[0] ? "  " : "", show_kind[kind].means);
    if (!found->alone)
        writer_print(w, "other threads ran meanwhile: what only their registers point to counts as "
                        "lost\n");
    if (found->unread > 0)
        writer_print(w,
                     "%llu MiB of larger mappings were not read: what only they point to counts "
                     "as lost\n",
                     show_number(found->unread >> 20));
    for (uint32_t i = 0; i < found->groups; i++) {
        if (found->group[i].kind == HEAP_IN_REACH && !all)
            continue;
        if (shown++ < SHOW_GROUPS)
            show_group_text(w, &found->group[i]);
    }
    if (shown > SHOW_GROUPS)
        writer_print(w, "\nand %u groups more, which the JSON form has\n", shown - SHOW_GROUPS);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static const char *const show_key[HEAP_KINDS] = {"lost", "lost_behind", "possible", "reachable"};

static void show_group_json(struct writer *w, const struct leak_group *group)
{
    static struct show_place place;

    writer_print(w, "\n  {\"kind\": \"%s\", \"cache\": ", show_key[group->kind]);
    if (group->of)
        writer_json(w, group->name);
    else
        writer_print(w, "null");
    writer_print(w, ", ");
    writer_key(w, "objects", group->objects, ", ");
    writer_key(w, "bytes", group->bytes, ", ");
    writer_key(w, "sample", group->sample, ", ");
    show_find(&place, group);
    if (place.file) {
        writer_print(w, "\"file\": ");
        writer_json(w, place.file);
        writer_print(w, ", \"function\": ");
        writer_json(w, place.function);
        writer_print(w, ", ");
        writer_key(w, "line", place.line, ", ");
    }
    writer_print(w, "\"stack\": [");
    for (unsigned i = 0; i < place.depth; i++) {
        const struct symbol *frame = &place.frame[i];
        writer_print(w, i > 0 ? ", {" : "{");
        writer_key(w, "address", frame->address, ", \"module\": ");
        writer_json(w, frame->module);
        writer_print(w, ", \"symbol\": ");
        writer_json(w, frame->name);
        writer_print(w, ", ");
        writer_key(w, "offset", frame->offset, "}");
    }
    writer_print(w, "]}");
}

void leak_show_json(struct writer *w, const struct leak_found *found, bool all)
{
    char name[32];
    bool first = true;

    show_name(name, sizeof(name));
    writer_print(w, "{\"stook_leaks\": 1, \"pid\": %d, \"program\": ", (int)raw_getpid());
    writer_json(w, name);
    writer_print(w, ", \"threads_stopped\": %s, ", found->alone ? "true" : "false");
    writer_key(w, "unread_bytes", found->unread, ",\n ");
    for (unsigned kind = 0; kind < HEAP_KINDS; kind++) {
        writer_print(w, "\"%s\": {", show_key[kind]);
        writer_key(w, "objects", found->sum[kind].objects, ", ");
        writer_key(w, "bytes", found->sum[kind].bytes, "}, ");
    }
    writer_print(w, "\"groups\": [");
    for (uint32_t i = 0; i < found->groups; i++) {
        if (found->group[i].kind == HEAP_IN_REACH && !all)
            continue;
        writer_print(w, first ? "" : ",");
        show_group_json(w, &found->group[i]);
        first = false;
    }
    writer_print(w, "]}\n");
}
