/* SPDX-License-Identifier: MIT */
/*
 * list.c - stook list: the processes of this host that run on Stook.
 */
#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include "look/apart.h"

#include "text/writer.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct list {
    bool json;
    unsigned found, refused;
};

static void list_row(const struct list *list, struct writer *w, const struct heap *heap)
{
    uint64_t resident = look_resident(heap->target->pid);

    if (list->json) {
        writer_print(w, "{");
        writer_key(w, "pid", (uint64_t)heap->target->pid, ", ");
        output_word(w, "program", heap->target->name, ", ");
        output_word(w, "stook", heap->version, ", ");
        output_word(w, "mode", heap->mode, ", ");
        output_word(w, "mode_why", heap->why, ", ");
        output_counts(w, "}", {"process_resident_bytes", resident},
                      {"resident_bytes", heap->total.bytes.resident},
                      {"in_use_bytes", heap->total.bytes.in_use},
                      {"cached_bytes", heap->total.bytes.cached},
                      {"wasted_bytes", heap->total.bytes.wasted}, {"warm_bytes", heap->arena.warm},
                      {"active_objects", heap->total.active}, {"caches", heap->caches});
        return;
    }
    writer_print(w, "%8d ", heap->target->pid);
    writer_cell(w, heap->target->name, 15);
    writer_size(w, resident);
    writer_size(w, heap->total.bytes.resident);
    writer_size(w, heap->total.bytes.in_use);
    writer_size(w, heap->total.bytes.cached);
    writer_size(w, heap->total.bytes.wasted);
    writer_size(w, heap->arena.warm);
    writer_print(w, " %8lu %7u  %-8s %s: %s\n", heap->total.active, (unsigned)heap->caches,
                 heap->version, heap->mode, heap->why);
}

/* ---- in the child ----------------------------------------------------------------------------- */

/* Whether it is refused, and the row. */
static void list_look(int pid, FILE *to, void *arg)
{
    struct target_error error = {.refused = false};
    struct heap *heap = heap_open(target_open_pid(pid, &error), &error);
    bool found = heap && heap_read(heap, &error);
    struct writer w;

    putc(error.refused, to);
    output_writer_to(&w, to);
    if (found)
        list_row(arg, &w, heap);
    (void)writer_finish(&w);
    if (error.damaged)
        (void)complain(STATUS_OK, "%s", error.text);
    heap_close(heap);
}

/* ---- the command ------------------------------------------------------------------------------ */

static void list_take(int pid, char *said, size_t size, void *arg)
{
    struct list *list = arg;

    (void)pid;
    list->refused += size > 0 && *said;
    if (size <= 1)
        return;
    if (list->json)
        fputs(list->found ? ",\n " : "\n ", stdout);
    fwrite(said + 1, 1, size - 1, stdout);
    list->found++;
}

static int list_run(int argc, char **argv)
{
    static struct list list;
    static const struct option_row rows[] = {{"json", OPTION_FLAG, &list.json, .letter = 'j'}};
    const struct apart apart = {list_look, list_take, &list};
    unsigned late;

    if (option_take("list", rows, argc, argv) != STATUS_OK)
        return STATUS_USAGE;
    if (optind < argc)
        return complain(STATUS_USAGE, "list takes no arguments");
    if (list.json)
        fputs("[", stdout);
    else
        printf("%8s %-15s %8s %8s %8s %8s %8s %8s %8s %7s  %-8s %s\n", "PID", "NAME", "RSS",
               "RESIDENT", "IN USE", "CACHED", "WASTED", "WARM", "OBJECTS", "CACHES", "VERSION",
               "MODE");
    late = apart_each(&apart, NULL, 0);
    if (list.json)
        fputs("\n]\n", stdout);
    else if (list.found > 0)
        fputs("\nnext: stook top PID, or stook caches PID\n", stdout);
    else
        fputs("\nnext: stook run -- PROGRAM starts one\n", stdout);
    if (late > 0)
        (void)complain(STATUS_OK,
                       "%u process%s left out: the reader had to wait too long, or ended", late,
                       late == 1 ? " is" : "es are");
    if (list.refused > 0)
        (void)complain(
            STATUS_OK,
            "the kernel did not let stook look into %u other process%s (stook caches PID says why)",
            list.refused, list.refused == 1 ? "" : "es");
    return STATUS_OK;
}

static const char list_help[] =
    "usage: stook list [--json]\n"
    "\n"
    "Shows the processes of this host that run on Stook, those in containers among them: RSS is what is resident of the\n"
    "whole process; RESIDENT are Stook's pages with objects, which are IN USE, CACHED or WASTED; WARM are its free pages.\n"
    "Processes that the kernel does not let this user look into are counted on standard error.\n"
    "\n"
    "  --json   as a JSON array; docs/look-inside.md has its keys\n"
    "\n"
    "docs/report.md says what each word means.\n" HELP_END("list");

const struct command command_list = {"list", "the processes of this host that run on Stook",
                                     list_help, list_run};
