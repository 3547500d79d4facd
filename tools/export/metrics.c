/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - the counts of the processes as OpenMetrics (version 1.0.0) or in Prometheus's text format (0.0.4).  The
 * latter has no units, no infos and no end, and gives a counter's family the name of its samples.
 *
 * All samples of a family follow its TYPE, so each family goes over all rows.  Labels are the process's number, the
 * kernel's name of its program, and the names that the program gave to its caches and groups: never its arguments,
 * its environment, paths or memory.
 */
#include "export/fleet.h"
#include "stook/command.h"

#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void metrics_label(FILE *to, const char *key, const char *text, const char *before)
{
    fprintf(to, "%s%s=\"", before, key);
    for (const char *c = text; *c; c++) {
        if (*c == '\\' || *c == '"')
            putc('\\', to);
        if (*c == '\n')
            fputs("\\n", to);
        else
            putc(*c, to);
    }
    putc('"', to);
}

static bool metrics_open; /* what is written now is OpenMetrics */

static void metrics_family(FILE *to, const char *name, const char *type, const char *unit,
                           const char *help)
{
    bool counter = strcmp(type, "counter") == 0, info = strcmp(type, "info") == 0;
    const char *suffix = metrics_open ? "" : counter ? "_total" : info ? "_info" : "";

    fprintf(to, "# TYPE %s%s %s\n", name, suffix, info && !metrics_open ? "gauge" : type);
    if (unit && metrics_open)
        fprintf(to, "# UNIT %s %s\n", name, unit);
    fprintf(to, "# HELP %s%s %s\n", name, suffix, help);
}

/* The name of a sample, and the labels that all rows of a process have; the brace is open. */
static void metrics_sample(FILE *to, const char *name, const char *suffix,
                           const struct fleet_process *process)
{
    char pid[16] = "other";

    if (process->pid)
        snprintf(pid, sizeof(pid), "%d", process->pid);
    fprintf(to, "%s%s", name, suffix);
    metrics_label(to, "pid", pid, "{");
    metrics_label(to, "program", process->name, ",");
}

static void metrics_value(FILE *to, uint64_t value)
{
    fprintf(to, "} %lu\n", value);
}

static const struct fleet_process *metrics_process(const struct fleet *fleet, size_t i)
{
    return i < fleet->shown                   ? &fleet->process[i]
           : i == fleet->shown && fleet->rest ? &fleet->other
                                              : NULL;
}

static const struct fleet_row *metrics_row(const struct fleet_rows *rows, size_t i)
{
    return i < rows->shown ? &rows->row[i] : i == rows->shown && rows->rest ? &rows->other : NULL;
}

static uint64_t metrics_at(const void *structure, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)structure + offset, sizeof(value));
    return value;
}

/* ---- processes ---------------------------------------------------------------------------------- */

static const struct metrics_gauge {
    const char *name, *unit, *help;
    size_t offset;
} metrics_process_gauges[] = {
    {"stook_process_resident_bytes", "bytes",
     "Resident memory of the whole process, as the kernel counts it.",
     offsetof(struct fleet_process, resident)},
    {"stook_heap_resident_bytes", "bytes",
     "Pages of slabs and large objects: in use, cached and wasted.",
     offsetof(struct fleet_process, bytes.resident)},
    {"stook_heap_in_use_bytes", "bytes", "Bytes of objects that the program has in use.",
     offsetof(struct fleet_process, bytes.in_use)},
    {"stook_heap_cached_bytes", "bytes", "Bytes of free objects, in sheaves and slabs.",
     offsetof(struct fleet_process, bytes.cached)},
    {"stook_heap_wasted_bytes", "bytes", "Bytes of slabs that no object can have.",
     offsetof(struct fleet_process, bytes.wasted)},
    {"stook_heap_warm_bytes", "bytes", "Free pages that are kept resident, beside those of slabs.",
     offsetof(struct fleet_process, warm)},
    {"stook_heap_objects", NULL, "Objects in use.", offsetof(struct fleet_process, objects)},
    {"stook_heap_torn_caches", NULL,
     "Caches whose numbers of this reading cannot have been so at one time.",
     offsetof(struct fleet_process, torn)},
};

/* When this machine started, in seconds of the epoch; 0: unknown. */
static uint64_t metrics_boot(void)
{
    char line[256];
    uint64_t seconds = 0;
    FILE *file = fopen("/proc/stat", "re");

    while (file && fgets(line, sizeof(line), file) && sscanf(line, "btime %lu", &seconds) != 1)
        ;
    if (file)
        fclose(file);
    return seconds;
}

static void metrics_processes(const struct fleet *fleet, FILE *to)
{
    const struct fleet_process *process;
    uint64_t boot = metrics_boot(), ticks = (uint64_t)sysconf(_SC_CLK_TCK);

    metrics_family(to, "stook_process", "info", NULL,
                   "The processes of this host that run on Stook.");
    for (size_t i = 0; i < fleet->shown; i++) {
        process = &fleet->process[i];
        metrics_sample(to, "stook_process", "_info", process);
        metrics_label(to, "version", process->version, ",");
        metrics_label(to, "mode", process->mode, ",");
        metrics_value(to, 1);
    }
    metrics_family(to, "stook_process_start_time_seconds", "gauge", "seconds",
                   "When the process started, in seconds of the epoch.");
    for (size_t i = 0; i < fleet->shown && boot != 0; i++) {
        uint64_t start = fleet->process[i].start;
        metrics_sample(to, "stook_process_start_time_seconds", "", &fleet->process[i]);
        fprintf(to, "} %lu.%02lu\n", (boot + start / ticks), (start % ticks * 100 / ticks));
    }
    for (size_t g = 0; g < sizeof(metrics_process_gauges) / sizeof(metrics_process_gauges[0]);
         g++) {
        const struct metrics_gauge *gauge = &metrics_process_gauges[g];
        metrics_family(to, gauge->name, "gauge", gauge->unit, gauge->help);
        for (size_t i = 0; (process = metrics_process(fleet, i)); i++) {
            metrics_sample(to, gauge->name, "", process);
            metrics_value(to, metrics_at(process, gauge->offset));
        }
    }
}

/* ---- caches ------------------------------------------------------------------------------------- */

/* A value of each row, or one with a label more.  limit: UINT64_MAX has no row. */
static const struct metrics_column {
    const char *name, *unit, *help, *key, *value;
    size_t offset;
} metrics_cache_columns[] =
    {
        {"stook_cache_resident_bytes", "bytes", "Pages of the cache's slabs.", NULL, NULL,
         offsetof(struct fleet_row, bytes.resident)},
        {"stook_cache_in_use_bytes", "bytes", "Bytes of the cache's objects in use.", NULL, NULL,
         offsetof(struct fleet_row, bytes.in_use)},
        {"stook_cache_cached_bytes", "bytes", "Bytes of the cache's free objects.", NULL, NULL,
         offsetof(struct fleet_row, bytes.cached)},
        {"stook_cache_wasted_bytes", "bytes", "Bytes of the cache's slabs that no object can have.",
         NULL, NULL, offsetof(struct fleet_row, bytes.wasted)},
        {"stook_cache_objects", NULL, "Objects: in use, free in sheaves, free in slabs.", "state",
         "in_use", offsetof(struct fleet_row, active)},
        {"stook_cache_objects", NULL, NULL, "state", "sheaves",
         offsetof(struct fleet_row, in_sheaves)},
        {"stook_cache_objects", NULL, NULL, "state", "slabs", offsetof(struct fleet_row, in_slabs)},
        {"stook_cache_slabs", NULL, "Slabs: without free objects, with some, with nothing else.",
         "state", "full", offsetof(struct fleet_row, full)},
        {"stook_cache_slabs", NULL, NULL, "state", "partial", offsetof(struct fleet_row, partial)},
        {"stook_cache_slabs", NULL, NULL, "state", "empty", offsetof(struct fleet_row, empty)},
},
  metrics_group_columns[] = {
      {"stook_group_in_use_bytes", "bytes", "Bytes that the group and those below it have in use.",
       NULL, NULL, offsetof(struct fleet_row, bytes.in_use)},
      {"stook_group_stocked_bytes", "bytes",
       "Bytes that CPUs took for the group in advance, beside those in use: at most 128 KiB a CPU.",
       NULL, NULL, offsetof(struct fleet_row, bytes.cached)},
      {"stook_group_peak_bytes", "bytes", "The most that it was charged with.", NULL, NULL,
       offsetof(struct fleet_row, bytes.peak)},
      {"stook_group_limit_bytes", "bytes", "Its limit, of groups that have one.", NULL, NULL,
       offsetof(struct fleet_row, limit)},
      {"stook_group_soft_limit_bytes", "bytes", "Its soft limit, of groups that have one.", NULL,
       NULL, offsetof(struct fleet_row, soft)},
};

static void metrics_row_labels(FILE *to, const struct fleet_row *row, bool groups)
{
    char number[24] = "other";

    if (!groups) {
        metrics_label(to, "cache", row->name, ",");
        return;
    }
    if (row->number)
        snprintf(number, sizeof(number), "%lu", row->number);
    metrics_label(to, "group", row->name, ",");
    metrics_label(to, "number", number, ",");
    snprintf(number, sizeof(number), "%lu", row->parent);
    metrics_label(to, "parent", row->parent ? number : "", ",");
}

static bool metrics_has(const struct fleet_row *row, const struct metrics_column *column,
                        bool groups)
{
    bool bounds = column->offset == offsetof(struct fleet_row, limit) ||
                  column->offset == offsetof(struct fleet_row, soft);
    bool peak = column->offset == offsetof(struct fleet_row, bytes.peak);

    return bounds ? metrics_at(row, column->offset) != UINT64_MAX
                  : !(groups && peak && row->number == 0); /* peaks of others were at other times */
}

static void metrics_column(const struct fleet *fleet, const struct metrics_column *column,
                           bool groups, FILE *to)
{
    const struct fleet_process *process;
    const struct fleet_row *row;

    if (column->help)
        metrics_family(to, column->name, "gauge", column->unit, column->help);
    for (size_t i = 0; (process = metrics_process(fleet, i)); i++)
        for (size_t k = 0; (row = metrics_row(groups ? &process->group : &process->cache, k));
             k++) {
            if (!metrics_has(row, column, groups))
                continue;
            metrics_sample(to, column->name, "", process);
            metrics_row_labels(to, row, groups);
            if (column->key)
                metrics_label(to, column->key, column->value, ",");
            metrics_value(to, metrics_at(row, column->offset));
        }
}

static void metrics_events(const struct fleet *fleet, bool groups, FILE *to)
{
    const char *name = groups ? "stook_group_events" : "stook_cache_events";
    const struct fleet_process *process;
    const struct fleet_row *row;

    metrics_family(to, name, "counter", NULL,
                   groups
                       ? "Charges that were refused, and reclaims that a limit began."
                       : "Slabs made and given back, takings of list locks, exchanges of sheaves.");
    for (size_t i = 0; (process = metrics_process(fleet, i)); i++)
        for (size_t k = 0; (row = metrics_row(groups ? &process->group : &process->cache, k)); k++)
            for (unsigned e = 0; e < (groups ? FLEET_GROUP_EVENTS : FLEET_CACHE_EVENTS); e++) {
                if (!groups && row->number == 0 && strcmp(row->name, "large objects") == 0)
                    continue; /* they have no slabs */
                metrics_sample(to, name, "_total", process);
                metrics_row_labels(to, row, groups);
                metrics_label(to, "event", groups ? fleet_group_events[e] : fleet_cache_events[e],
                              ",");
                metrics_value(to, row->event[e]);
            }
}

void metrics_write(const struct fleet *fleet, bool open, FILE *to)
{
    metrics_open = open;
    metrics_processes(fleet, to);
    for (size_t i = 0; i < sizeof(metrics_cache_columns) / sizeof(metrics_cache_columns[0]); i++)
        metrics_column(fleet, &metrics_cache_columns[i], false, to);
    metrics_events(fleet, false, to);
    for (size_t i = 0; i < sizeof(metrics_group_columns) / sizeof(metrics_group_columns[0]); i++)
        metrics_column(fleet, &metrics_group_columns[i], true, to);
    metrics_events(fleet, true, to);
    metrics_family(to, "stook_export_processes", "gauge", NULL,
                   "Processes that were read, with those that are summed up in other.");
    fprintf(to, "stook_export_processes %zu\n", fleet->processes);
    metrics_family(
        to, "stook_export_unreadable_processes", "gauge", NULL,
        "Processes that the kernel did not let the exporter look into, on Stook or not.");
    fprintf(to, "stook_export_unreadable_processes %u\n", fleet->unreadable);
    metrics_family(
        to, "stook_export_late_processes", "gauge", NULL,
        "Processes that kept their reader waiting too long, or ended it, and are left out for a while.");
    fprintf(to, "stook_export_late_processes %u\n", fleet->late);
    metrics_family(to, "stook_export_reading_seconds", "gauge", "seconds",
                   "How long this reading took.");
    fprintf(to, "stook_export_reading_seconds %.6f\n", fleet->seconds);
    if (open)
        fputs("# EOF\n", to);
}

void targets_write(const struct fleet *fleet, const char *host, FILE *to)
{
    putc('[', to);
    for (size_t i = 0; i < fleet->shown; i++) {
        const struct fleet_process *process = &fleet->process[i];
        fprintf(
            to,
            "%s\n {\"targets\": [\"%s\"], \"labels\": {\"__param_pid\": \"%d\", \"pid\": \"%d\", ",
            i ? "," : "", host, process->pid, process->pid);
        fputs("\"program\": ", to);
        output_string(to, process->name);
        fputs(", \"service_name\": ", to);
        output_string(to, process->name);
        fputs("}}", to);
    }
    fputs("\n]\n", to);
}
