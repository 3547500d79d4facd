/* SPDX-License-Identifier: MIT */
#include "stook/look_show.h"

#include "stook/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool look_pid(const char *text, int *pid)
{
    char *end;
    long number = strtol(text, &end, 10);

    *pid = (int)number;
    return *text && !*end && number > 0 && number <= 1 << 22;
}

int look_open(const char *text, struct heap **heap)
{
    struct target_error error;
    int pid;

    if (!look_pid(text, &pid))
        return complain(STATUS_USAGE, "%s is no process number", text);
    *heap = heap_open(target_open_pid(pid, &error), &error);
    if (!*heap)
        return complain(STATUS_FAILED, "%s", error.text);
    if (heap_read(*heap, &error))
        return STATUS_OK;
    heap_close(*heap);
    *heap = NULL;
    return complain(STATUS_FAILED, "%s", error.text);
}

void look_flags(const struct heap *heap, const struct heap_cache *cache, char text[LOOK_FLAGS])
{
    static const struct {
        enum view_id flag;
        const char *word;
    } words[] = {
        {VIEW_CACHE_INTERNAL, "internal"},           {VIEW_CACHE_MALLOC, "malloc"},
        {VIEW_STOOK_CACHE_MERGE, "merge"},           {VIEW_STOOK_CACHE_NOSHEAF, "nosheaf"},
        {VIEW_STOOK_CACHE_RANDOM, "random"},         {VIEW_STOOK_CACHE_TYPESAFE, "typesafe"},
        {VIEW_STOOK_CACHE_ACCOUNT, "account"},       {VIEW_STOOK_CACHE_ZERO_ON_FREE, "zero"},
        {VIEW_STOOK_CACHE_QUARANTINE, "quarantine"}, {VIEW_STOOK_CACHE_GUARD_PAGES, "guards"},
        {VIEW_STOOK_CACHE_OWN_PAGES, "own-pages"},   {VIEW_STOOK_CACHE_DEBUG_CHECKS, "F"},
        {VIEW_STOOK_CACHE_DEBUG_RED_ZONE, "Z"},      {VIEW_STOOK_CACHE_DEBUG_POISON, "P"},
        {VIEW_STOOK_CACHE_DEBUG_USER, "U"},          {VIEW_STOOK_CACHE_DEBUG_TRACE, "T"},
        {VIEW_STOOK_CACHE_DEBUG_FAIL, "A"},
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
    uint64_t resident = look_resident(heap->target->pid);

    writer_print(w, "stook %s: process %d (", heap->version, heap->target->pid);
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
    writer_print(w,
                 "{\"stook\": \"%s\", \"format\": %d, \"pid\": %d,\n \"program\": ", heap->version,
                 LOOK_JSON_FORMAT, heap->target->pid);
    writer_json(w, heap->target->name);
    writer_print(w, ", \"mode\": \"%s\", \"mode_why\": ", heap->mode);
    writer_json(w, heap->why);
    writer_print(w, ",\n ");
    writer_key(w, "membarriers", heap->membarriers, ", ");
    writer_key(w, "cpus_possible", heap->cpus, ", ");
    writer_key(w, "cpus_allowed", heap->cpus_allowed, ", ");
    writer_key(w, "cpus_used", heap->cpus_used, ", ");
    writer_key(w, "nodes", heap->nodes_online, ", ");
    writer_key(w, "slot_bytes", heap->slot_bytes, ", ");
    writer_key(w, "process_resident_bytes", look_resident(heap->target->pid), ", ");
    writer_key(w, "tries", heap->tries, ", ");
    writer_key(w, "torn_caches", heap->torn, "");
}

uint64_t look_resident(int pid)
{
    char path[32];
    unsigned long long size, resident = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
