/* SPDX-License-Identifier: MIT */
/*
 * leaks.c - stook leaks: objects of a process, or of its core file, that nothing points to.
 */
#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/look/look_sites.h"
#include "stook/option.h"
#include "stook/run_leaks.h"

#include "look/leaks.h"
#include "look/stop.h"
#include "look/target_core.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LEAKS_SHOWN = 200,
    LEAKS_SEARCHES = 40,   /* of a process that runs, at most */
    LEAKS_AGREE = 2,       /* so many in a row have to take nothing away … */
    LEAKS_AGREE_MOVED = 8, /* … if one was ever mistaken, since several may be mistaken alike */
    LEAKS_JITTER = 20,     /* ms: what the process does may be periodic */
};

struct leaks_options {
    bool json, all, stop, fail;
    double wait;
    const char *pid;
};

struct leaks_report {
    const struct leaks_options *options;
    struct heap *heap;
    struct leaks leaks;
    bool alone;
    bool ended;                /* the process was at its end */
    unsigned searches, agreed; /* agreed: the last ones, in a row, took nothing away */
    bool moved;                /* a search called lost what another one did not */
    uint64_t seconds;          /* from the first search to the last */
    struct look_sites sites;
};

static const struct {
    const char *name, *key, *means;
} leaks_kinds[REACH_KINDS] = {
    [REACH_LOST] = {"lost", "lost", "nothing points to them"},
    [REACH_LOST_BEHIND] = {"lost behind", "lost_behind", "only lost objects point to them"},
    [REACH_PERHAPS] = {"possible", "possible", "only pointers into their middle were found"},
    [REACH_IN_REACH] = {"reachable", "reachable", ""},
};

static bool leaks_agreed(const struct leaks_report *report)
{
    return report->agreed >= (report->moved ? LEAKS_AGREE_MOVED : LEAKS_AGREE);
}

/* ---- groups ----------------------------------------------------------------------------------- */

static void leaks_count(struct leaks_report *report, const struct leaks_object *object)
{
    struct heap_what what;

    heap_describe(report->heap, object->slab, object->index, object->address, &what);
    look_sites_count(&report->sites, &what, object->kind)->bytes +=
        what.requested ? what.requested : object->size;
}

static int leaks_order(const void *left, const void *right)
{
    const struct look_site *a = *(struct look_site *const *)left,
                           *b = *(struct look_site *const *)right;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* ---- text ------------------------------------------------------------------------------------- */

static void leaks_group_text(struct writer *w, const struct leaks_report *report,
                             const struct look_site *group)
{
    writer_print(w, "\n%s: %lu object%s, %lu bytes of %s%s, such as 0x%lx\n",
                 leaks_kinds[group->kind].name, group->objects, group->objects == 1 ? "" : "s",
                 group->bytes, group->cache ? "cache " : "large objects",
                 group->cache ? group->cache->name : "", group->sample);
    look_show_age(w, report->heap, group);
    look_show_place(w, report->sites.names, &group->place, "allocated");
}

static void leaks_how(struct writer *w, const struct leaks_report *report)
{
    if (report->heap->target->live && !report->alone) {
        writer_print(w, "%u searches in ", report->searches);
        look_seconds(w, report->seconds);
        writer_print(w, ", while the process ran: what is lost is older than that, or only a "
                        "register points to it (see --stop)\n");
        if (!leaks_agreed(report))
            writer_print(w, "the searches did not come to agree: some of what is called lost may "
                            "be in use (see --stop)\n");
    } else if (report->heap->target->live) {
        writer_print(w, report->ended ? "searched at its end\n"
                                      : "the process stood still meanwhile\n");
    }
    if (report->leaks.unread > 0)
        writer_print(w,
                     "%lu MiB of larger mappings were not read: what only they point to counts "
                     "as lost\n",
                     report->leaks.unread >> 20);
}

static void leaks_text(struct writer *w, const struct leaks_report *report)
{
    bool any = false;

    look_show_process(w, report->heap);
    leaks_how(w, report);
    writer_print(w, "%-12s %10s %14s\n", "", "objects", "bytes");
    for (unsigned kind = 0; kind < REACH_KINDS; kind++)
        writer_print(w, "%-12s %10lu %14lu%s%s\n", leaks_kinds[kind].name,
                     report->leaks.sum[kind].objects, report->leaks.sum[kind].bytes,
                     leaks_kinds[kind].means[0] ? "  " : "", leaks_kinds[kind].means);
    for (size_t i = 0; i < report->sites.sites && i < LEAKS_SHOWN; i++) {
        leaks_group_text(w, report, report->sites.site[i]);
        any |= report->sites.site[i]->place.known;
    }
    if (report->sites.sites > LEAKS_SHOWN)
        writer_print(w, "\nand %lu groups more, which the JSON form has\n",
                     report->sites.sites - LEAKS_SHOWN);
    if (report->sites.sites > 0 && !any)
        writer_print(w, "\nThe process counts no call sites: start it with STOOK_TAGS=1, or with "
                        "STOOK_DEBUG=U for stacks and times\n");
    if (report->sites.sites > 0 && !report->ended)
        look_next(w, report->heap, "whatis", " ADDRESS");
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void leaks_json(struct writer *w, const struct leaks_report *report)
{
    const struct target *target = report->heap->target;

    writer_print(w, "{\"stook_leaks\": 1, \"pid\": %d, \"program\": ", target->pid);
    writer_json(w, target->name);
    writer_print(w, ", \"live\": %s", target->live ? "true" : "false");
    writer_print(w, ", \"threads_stopped\": %s, ", report->alone ? "true" : "false");
    writer_key(w, "searches", report->searches, ", ");
    writer_print(w, "\"agreed\": %s, ", report->alone || leaks_agreed(report) ? "true" : "false");
    writer_key(w, "apart_ns", report->seconds, ", ");
    writer_key(w, "unread_bytes", report->leaks.unread, ",\n ");
    for (unsigned kind = 0; kind < REACH_KINDS; kind++) {
        writer_print(w, "\"%s\": {", leaks_kinds[kind].key);
        writer_key(w, "objects", report->leaks.sum[kind].objects, ", ");
        writer_key(w, "bytes", report->leaks.sum[kind].bytes, "}, ");
    }
    writer_print(w, "\"groups\": [");
    for (size_t i = 0; i < report->sites.sites; i++) {
        const struct look_site *group = report->sites.site[i];
        writer_print(w, i ? ",\n  " : "\n  ");
        look_json_site(w, &report->sites, group, leaks_kinds[group->kind].key);
    }
    writer_print(w, "]}\n");
}

/* ---- the search ------------------------------------------------------------------------------- */

static void leaks_of_core(void *context, void (*fn)(const uint64_t *words, size_t n, void *arg),
                          void *arg)
{
    target_core_registers(context, fn, arg);
}

static void leaks_of_stop(void *context, void (*fn)(const uint64_t *words, size_t n, void *arg),
                          void *arg)
{
    stop_registers(context, fn, arg);
}

static uint64_t leaks_lost(const struct leaks *leaks)
{
    return leaks->sum[REACH_LOST].objects + leaks->sum[REACH_LOST_BEHIND].objects;
}

static void leaks_nap(double seconds)
{
    struct timespec nap;

    clock_gettime(CLOCK_MONOTONIC, &nap);
    seconds += (double)(nap.tv_nsec % (LEAKS_JITTER * 1000000)) / 1e9;
    nap = (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&nap, NULL);
}

static bool leaks_again(struct leaks_report *report, uint64_t begin, struct target_error *error)
{
    struct leaks before = report->leaks;
    bool done;

    report->leaks = (struct leaks){0};
    done =
        heap_read(report->heap, error) && leaks_search(report->heap, NULL, NULL, UINT64_MAX,
                                                       report->options->all, &report->leaks, error);
    if (done) {
        uint64_t had = leaks_lost(&before), found = leaks_lost(&report->leaks), both;
        leaks_common(&before, &report->leaks);
        both = leaks_lost(&report->leaks);
        report->moved |= both != had || both != found;
        report->agreed = both < had ? 0 : report->agreed + 1;
        report->seconds = report->heap->target->time - begin;
    }
    leaks_close(&before);
    return done;
}

/* While the process runs each search misses some pointers.  Objects that all of them found lost are left, and are
 * reported when further searches take none away. */
static bool leaks_until_agreed(struct leaks_report *report, struct target_error *error)
{
    double wait = report->options->wait;
    uint64_t begin;
    bool done;

    done = leaks_search(report->heap, NULL, NULL, UINT64_MAX, report->options->all, &report->leaks,
                        error);
    begin = report->heap->target->time;
    for (report->searches = 1; done && !leaks_agreed(report) && report->searches < LEAKS_SEARCHES;
         report->searches++) {
        leaks_nap(wait);
        done = leaks_again(report, begin, error);
        wait = report->options->wait / 4;
    }
    return done;
}

static bool leaks_find(struct leaks_report *report, struct target_error *error)
{
    struct target *target = report->heap->target;
    struct stop *stop = NULL;
    bool done;

    if (!target->live) {
        report->alone = true;
        return leaks_search(report->heap, leaks_of_core, target, UINT64_MAX, report->options->all,
                            &report->leaks, error);
    }
    if (!report->options->stop)
        return leaks_until_agreed(report, error);
    stop = stop_begin(target->pid, error);
    done = stop && heap_read(report->heap, error) &&
           leaks_search(report->heap, leaks_of_stop, stop, stop_stack(stop, target->pid),
                        report->options->all, &report->leaks, error);
    stop_end(stop);
    report->alone = true;
    return done;
}

static int leaks_parse(int argc, char **argv, struct leaks_options *options)
{
    const struct option_row rows[] = {
        {"json", OPTION_FLAG, &options->json, .letter = 'j'},
        {"all", OPTION_FLAG, &options->all, .letter = 'a'},
        {"stop", OPTION_FLAG, &options->stop, .letter = 's'},
        {"wait", OPTION_SECONDS, &options->wait, 0, 86400000, .letter = 'w'},
        {"fail", OPTION_FLAG, .to = &options->fail},
        {"wrappers", OPTION_TEXT, .to = &look_wrappers},
        LOOK_CORE_ROWS,
    };
    int status;

    *options = (struct leaks_options){.wait = 1};
    if ((status = option_take("leaks", rows, argc, argv)) != STATUS_OK)
        return status;
    options->pid = look_whom(argc, argv);
    return options->pid && optind == argc ? STATUS_OK
                                          : complain(STATUS_USAGE, "a process is needed");
}

static void leaks_show(struct leaks_report *report, struct writer *w)
{
    look_sites_begin(&report->sites, report->heap);
    for (size_t i = 0; i < report->leaks.objects; i++)
        leaks_count(report, &report->leaks.object[i]);
    look_names_find(report->sites.names);
    if (report->sites.sites > 0)
        qsort(report->sites.site, report->sites.sites, sizeof(struct look_site *), leaks_order);
    if (report->options->json)
        leaks_json(w, report);
    else
        leaks_text(w, report);
    (void)writer_finish(w);
    look_sites_free(&report->sites);
}

static int leaks_run(int argc, char **argv)
{
    static struct leaks_report report;
    struct leaks_options options;
    struct target_error error;
    struct writer w;
    int status = leaks_parse(argc, argv, &options);

    if (status == STATUS_OK)
        status = look_open(options.pid, &report.heap);
    if (status != STATUS_OK)
        return status;
    report.options = &options;
    if (leaks_find(&report, &error)) {
        output_writer(&w);
        leaks_show(&report, &w);
        status = options.fail && leaks_lost(&report.leaks) > 0 ? STATUS_LEAKS : STATUS_OK;
    } else {
        status = complain(STATUS_FAILED, "%s", error.text);
    }
    leaks_close(&report.leaks);
    heap_close(report.heap);
    return status;
}

enum leaks_end leaks_at_end(const struct run_leaks *options, int pid, const struct stop *stop,
                            bool first)
{
    static struct leaks_report report;
    struct leaks_options as = {.json = options->json, .all = options->all};
    enum leaks_end end = LEAKS_END_NONE;
    struct target_error error;
    struct writer w;
    int to;

    report = (struct leaks_report){.options = &as, .alone = true, .ended = true};
    report.heap = heap_open(target_open_pid(pid, &error), &error);
    if (!report.heap || !heap_read(report.heap, &error) ||
        !leaks_search(report.heap, leaks_of_stop, (void *)(uintptr_t)stop, stop_stack(stop, pid),
                      as.all, &report.leaks, &error)) {
        end = error.idle ? LEAKS_END_NONE : LEAKS_END_UNKNOWN;
        if (first || error.refused) /* others may not run on Stook */
            complain(0, "%s%s", error.idle ? "" : "leaks were not searched for: ", error.text);
    } else {
        end = leaks_lost(&report.leaks) > 0 ? LEAKS_END_LOST : LEAKS_END_NONE;
        if ((first || end == LEAKS_END_LOST) && (to = options->output(pid)) >= 0) {
            writer_init(&w, to);
            leaks_show(&report, &w);
            (void)close(to);
        }
    }
    leaks_close(&report.leaks);
    heap_close(report.heap);
    return end;
}

static const char leaks_help[] =
    "usage: stook leaks [--stop] [--wait SECONDS] [--all] [--fail] [--json] [--wrappers LIST] {PID | --core FILE [--exe FILE]}\n"
    "\n"
    "Lists the objects that are in use and that nothing points to, by cache and call site.  All memory of the process\n"
    "is searched for pointers, and the registers, where they can be seen.  The process is not stopped: it is searched\n"
    "until some searches in a row take nothing away, 40 times at most.  An object is lost that all of them found lost, if\n"
    "it did not change in between.\n"
    "\n"
    "  --stop       stop the process for one search, by ptrace\n"
    "  --wait SECONDS  this long between the first two searches, a quarter of it between others; default 1\n"
    "  --all        what can be reached, too\n"
    "  --fail       exit status 23 if something is lost, for tests\n"
    "  --wrappers LIST  functions that only call malloc for others: their callers are named (stook help profile)\n"
    "  --json       as one JSON object; docs/look-inside.md has its keys\n" HELP_CORE "\n"
    "`stook run --leaks` searches a program when it ends.\n"
    "Call sites are known where the process counts them (STOOK_TAGS=1), whole stacks and times with STOOK_DEBUG=U.\n"
    "\n"
    "exit status: 0, whether something is lost or not; 23 with --fail, if something is lost;\n"
    "             1 the process cannot be searched, or the output cannot be written; 2 usage\n"
    "\n"
    "example:\n"
    "  stook leaks --stop --fail redis-server\n";

const struct command command_leaks = {"leaks", "objects of a process that nothing points to",
                                      leaks_help, leaks_run};
