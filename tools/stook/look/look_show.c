/* SPDX-License-Identifier: MIT */
/*
 * look_show.c - what the commands that look into a process share: process numbers, core files,
 * addresses, and the first lines of their output.
 */
#include "stook/look/look_show.h"

#include "look/target_core.h"
#include "stook/command.h"
#include "stook/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_SNAPSHOTS = 12 };

bool look_pid(const char *text, int *pid)
{
    uint64_t number;
    bool good = option_number(text, 0, 1, 1 << 22, &number);

    *pid = (int)number;
    return good;
}

static const char *look_core, *look_exe;

/* The value of an option that is `--name VALUE` or `--name=VALUE` at argv[*at]; *at is moved behind it. */
static const char *look_option(int argc, char **argv, int *at, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(argv[*at], name, n) != 0)
        return NULL;
    if (argv[*at][n] == '=')
        return argv[*at] + n + 1;
    return argv[*at][n] == '\0' && *at + 1 < argc ? argv[++*at] : NULL;
}

int look_take_core(int *argc, char **argv)
{
    int n = 1;
    const char *value;

    for (int i = 1; i < *argc; i++)
        if ((value = look_option(*argc, argv, &i, "--core")) != NULL)
            look_core = value;
        else if ((value = look_option(*argc, argv, &i, "--exe")) != NULL)
            look_exe = value;
        else
            argv[n++] = argv[i];
    if (look_exe && !look_core)
        return complain(STATUS_USAGE, "--exe goes with --core");
    if (look_core) { /* there is room: an option and its value, or one with both */
        memmove(argv + 2, argv + 1, (size_t)(n - 1) * sizeof(*argv));
        argv[1] = (char *)(uintptr_t)look_core;
        n++;
    }
    *argc = n;
    argv[n] = NULL;
    return STATUS_OK;
}

static struct target *look_target(int pid, struct target_error *error)
{
    return look_core ? target_open_core(look_core, look_exe, error) : target_open_pid(pid, error);
}

int look_open(const char *text, struct heap **heap)
{
    struct target_error error;
    int pid = 0;

    if (!look_core && !look_pid(text, &pid))
        return complain(STATUS_USAGE, "%s is no process number", text);
    *heap = heap_open(look_target(pid, &error), &error);
    if (!*heap)
        return complain(STATUS_FAILED, "%s", error.text);
    if (heap_read(*heap, &error)) {
        target_allow((*heap)->target, LOOK_SNAPSHOTS); /* for what the command makes of it */
        return STATUS_OK;
    }
    heap_close(*heap);
    *heap = NULL;
    return complain(STATUS_FAILED, "%s", error.text);
}

int look_open_cache(const char *pid, const char *name, struct heap **heap,
                    const struct heap_cache **cache)
{
    int status = look_open(pid, heap);

    *cache = NULL;
    if (status != STATUS_OK || !name || (*cache = heap_cache_named(*heap, name)))
        return status;
    heap_close(*heap);
    return complain(STATUS_FAILED, "process %s has no cache %s; stook caches %s lists them", pid,
                    name, pid);
}

void look_sleep(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    while (nanosleep(&time, &time) != 0)
        ;
}

void look_flags(const struct heap *heap, const struct heap_cache *cache, char text[LOOK_FLAGS])
{
    static const struct {
        enum view_id flag;
        const char *word;
    } words[] = {
        {VIEW_CACHE_INTERNAL, "internal"},        {VIEW_CACHE_MALLOC, "malloc"},
        {VIEW_STOOK_CACHE_NOSHEAF, "nosheaf"},    {VIEW_STOOK_CACHE_RANDOM, "random"},
        {VIEW_STOOK_CACHE_TYPESAFE, "typesafe"},  {VIEW_STOOK_CACHE_ACCOUNT, "account"},
        {VIEW_STOOK_CACHE_ZERO_ON_FREE, "zero"},  {VIEW_STOOK_CACHE_QUARANTINE, "quarantine"},
        {VIEW_STOOK_CACHE_GUARD_PAGES, "guards"}, {VIEW_STOOK_CACHE_OWN_PAGES, "own-pages"},
        {VIEW_STOOK_CACHE_DEBUG_CHECKS, "F"},     {VIEW_STOOK_CACHE_DEBUG_RED_ZONE, "Z"},
        {VIEW_STOOK_CACHE_DEBUG_POISON, "P"},     {VIEW_STOOK_CACHE_DEBUG_USER, "U"},
        {VIEW_STOOK_CACHE_DEBUG_TRACE, "T"},      {VIEW_STOOK_CACHE_DEBUG_FAIL, "A"},
    };
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint32_t flag = (uint32_t)view_value(&heap->view, words[i].flag);
        if (flag && (cache->flags & flag) == flag && n < LOOK_FLAGS)
            n += (size_t)snprintf(text + n, LOOK_FLAGS - n, "%s%s", n ? "," : "", words[i].word);
    }
    if (cache->ctor && n < LOOK_FLAGS)
        snprintf(text + n, LOOK_FLAGS - n, "%sctor", n ? "," : "");
}

void look_show_process(struct writer *w, const struct heap *heap)
{
    uint64_t resident = heap->target->live ? look_resident(heap->target->pid) : 0;

    writer_print(w, "stook %s: %sprocess %d (", heap->version,
                 heap->target->live ? "" : "core file of ", heap->target->pid);
    writer_cell(w, heap->target->name, 0);
    writer_print(w, ")");
    if (resident) {
        writer_print(w, ", resident");
        writer_size(w, resident);
    }
    writer_print(w, "\n");
}

void look_json_process(struct writer *w, const struct heap *heap)
{
    writer_print(w, "{\"stook\": \"%s\", \"format\": %d, \"pid\": %d,\n ", heap->version,
                 LOOK_JSON_FORMAT, heap->target->pid);
    output_word(w, "program", heap->target->name, ", ");
    output_word(w, "mode", heap->mode, ", ");
    output_word(w, "mode_why", heap->why, ",\n ");
    output_counts(
        w, "", {"membarriers", heap->membarriers}, {"cpus_possible", heap->cpus},
        {"cpus_allowed", heap->cpus_allowed}, {"cpus_used", heap->cpus_used},
        {"nodes", heap->nodes_online}, {"slot_bytes", heap->slot_bytes},
        {"process_resident_bytes", heap->target->live ? look_resident(heap->target->pid) : 0},
        {"tries", heap->tries}, {"torn_caches", heap->torn});
}

uint64_t look_resident(int pid)
{
    char path[32];
    uint64_t size, resident = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool look_read(const char *text, int base, uint64_t *address)
{
    char *end;

    errno = 0;
    *address = strtoull(text, &end, base);
    return !*end && errno == 0;
}

unsigned look_address(const char *text, uint64_t address[2])
{
    unsigned n;

    if (!isxdigit((unsigned char)*text))
        return 0;
    n = look_read(text, 16, &address[0]);
    if (strspn(text, "0123456789") == strlen(text) && look_read(text, 10, &address[n]))
        n += n == 0 || address[0] != address[1];
    return n;
}

const char *look_group(const struct heap *heap, uint32_t number, char text[HEAP_NAME])
{
    for (size_t i = 0; i < heap->groups; i++)
        if (heap->group[i].number == number && heap->group[i].name[0])
            return heap->group[i].name;
    snprintf(text, HEAP_NAME, "%u", number);
    return text;
}
