/* SPDX-License-Identifier: MIT */
/*
 * look_show.c - what the commands that look into a process share: numbers and names of processes, core files,
 * addresses, and the first and last lines of their output.
 */
#include "stook/look/look_show.h"

#include "look/target_core.h"
#include "stook/command.h"
#include "stook/option.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_SNAPSHOTS = 12,
    LOOK_NAMED = 16,
    LOOK_COMM = 15 /* bytes of a name that the kernel keeps */
};

bool look_pid(const char *text, int *pid)
{
    uint64_t number;
    bool good = option_number(text, 0, 1, 1 << 22, &number);

    *pid = (int)number;
    return good;
}

struct look_named {
    const char *name;
    int pid[LOOK_NAMED]; /* the first ones */
    unsigned n;
};

/* The first bytes of a file of a process, as text: zeros within become blanks. */
static void look_file(int pid, const char *name, char *text, size_t size)
{
    char path[48];
    size_t n = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    if ((file = fopen(path, "re")) != NULL) {
        n = fread(text, 1, size - 1, file);
        fclose(file);
    }
    while (n > 0 && (text[n - 1] == '\0' || text[n - 1] == '\n'))
        n--;
    text[n] = '\0';
    for (char *zero; (zero = memchr(text, '\0', n)) != NULL;)
        *zero = ' ';
}

void look_command_line(int pid, char *text, size_t size)
{
    look_file(pid, "cmdline", text, size);
}

static bool look_named_take(int pid, void *arg)
{
    struct look_named *named = arg;
    char name[LOOK_COMM + 2];

    look_file(pid, "comm", name, sizeof(name));
    if (pid != (int)getpid() && *name && strncmp(name, named->name, LOOK_COMM) == 0) {
        if (named->n < LOOK_NAMED)
            named->pid[named->n] = pid;
        named->n++;
    }
    return true;
}

int look_process(const char *text, int *pid)
{
    struct look_named named = {.name = text};
    char line[80];

    if (look_pid(text, pid))
        return STATUS_OK;
    target_for_each_process(look_named_take, &named);
    *pid = named.pid[0];
    if (named.n == 1)
        return STATUS_OK;
    if (named.n == 0)
        return complain(STATUS_USAGE, "%s is no process number, and no process has that name",
                        text);
    (void)complain(STATUS_USAGE, "%u processes are called %s; one number is needed:", named.n,
                   text);
    for (unsigned i = 0; i < named.n && i < LOOK_NAMED; i++) {
        look_command_line(named.pid[i], line, sizeof(line));
        fprintf(stderr, "%8d  ", named.pid[i]);
        for (const char *at = line; *at;)
            at += output_character(stderr, at);
        fputc('\n', stderr);
    }
    return STATUS_USAGE;
}

const char *look_core, *look_exe;

const char *look_whom(int argc, char **argv)
{
    return look_core ? look_core : optind < argc ? argv[optind++] : NULL;
}

static struct target *look_target(int pid, struct target_error *error)
{
    return look_core ? target_open_core(look_core, look_exe, error) : target_open_pid(pid, error);
}

int look_open(const char *text, struct heap **heap)
{
    struct target_error error;
    int pid = 0, status = look_core ? STATUS_OK : look_process(text, &pid);

    if (look_exe && !look_core)
        return complain(STATUS_USAGE, "--exe goes with --core");
    if (status != STATUS_OK)
        return status;
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

/* Bytes of the first characters of a text. */
static size_t look_bytes(const char *text, size_t characters)
{
    size_t n = 0;

    for (unsigned bytes; text[n] && characters > 0; characters--, n += bytes ? bytes : 1)
        bytes = writer_shown(text + n);
    return n;
}

const char *look_fold(const char *name, size_t width)
{
    static char text[1024];
    size_t length = 0, first = (width - 2) / 2;

    for (size_t at = 0; name[at]; at += look_bytes(name + at, 1))
        length++;
    if (length <= width || width < 4)
        return name;
    (void)snprintf(text, sizeof(text), "%.*s..%s", (int)look_bytes(name, first), name,
                   name + look_bytes(name, length - (width - 2 - first)));
    return text;
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
        writer_print(w, ", RSS");
        writer_size(w, resident);
    }
    writer_print(w, "\n");
}

void look_next(struct writer *w, const struct heap *heap, const char *command, const char *more)
{
    char whom[16] = "--core FILE";

    if (heap->target->live)
        (void)snprintf(whom, sizeof(whom), "%d", heap->target->pid);
    writer_print(w, "\nnext: stook %s %s%s\n", command, whom, more);
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
