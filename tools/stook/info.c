/* SPDX-License-Identifier: MIT */
/*
 * info.c - stook info: the machine as the library sees it, and the mode that it runs in.
 *
 * The tool is linked with the library, so the CPUs, nodes, mode and address space below are not
 * guessed: they are what a program under `stook run` would get from the same environment.
 */
#include "stook/command.h"
#include "stook/info_settings.h"
#include "stook/locate.h"
#include "stook/option.h"

#include "watch/settings_show.h"
#include "os/os.h"
#include "topology_print.h"
#include "page/arena.h"
#include "text/writer.h"

#include <stook/stook.h>

#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

struct info {
    char library[2 * PATH_MAX];
    bool library_found;
    struct utsname kernel;
    const char *libc, *mode, *why;
    char cpus_online[256];
    bool rseq_registered, membarrier;
    char huge_enabled[128], huge_defrag[128];
    uint64_t huge_size, memory, memory_limit, address_limit; /* 0: unknown, or no limit */
    int overcommit;                                          /* -1: unknown */
    struct arena_stat arena;
};

static const char *const info_overcommit[] = {"heuristic", "always", "strict"};

/* One line of a file, without its end; "" where there is none. */
static void info_line(const char *path, char *text, size_t size)
{
    if (os_read_file(path, text, size) <= 0)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static uint64_t info_number(const char *path)
{
    char text[64];

    info_line(path, text, sizeof(text));
    return strtoull(text, NULL, 10); /* "max" is 0: no limit */
}

/* The word in brackets: how the kernel says which of its choices is set. */
static void info_choice(const char *path, char *text, size_t size)
{
    char line[128], *from, *to;

    info_line(path, line, sizeof(line));
    from = strchr(line, '[');
    to = from ? strchr(from, ']') : NULL;
    snprintf(text, size, "%.*s", to ? (int)(to - from - 1) : 0, to ? from + 1 : "");
}

static uint64_t info_node_memory(unsigned node)
{
    char path[64], text[4096], *at;

    if (topology.simulated)
        return topology.memory[node];
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
    if (os_read_file(path, text, sizeof(text)) <= 0 || !(at = strstr(text, "MemTotal:")))
        return 0;
    return strtoull(at + strlen("MemTotal:"), NULL, 10) * 1024;
}

static unsigned info_node_cpus(unsigned node)
{
    unsigned cpus = 0;

    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        cpus += topology_has_cpu(&topology, cpu) && topology_node(cpu) == node;
    return cpus;
}

/* As STOOK_TOPOLOGY takes it: another machine can simulate this one. */
static const char *info_topology(const struct info *info)
{
    static char text[128 << 10];
    static struct topology t;

    t = topology;
    for (unsigned node = 0; node < t.nodes; node++)
        if (t.memory_nodes >> node & 1)
            t.memory[node] = info_node_memory(node);
    if (t.memories == 1 && t.memory[t.near[0][0]] == 0) /* a kernel without NUMA */
        t.memory[t.near[0][0]] = info->memory;
    topology_print(&t, text, sizeof(text));
    return text;
}

extern const unsigned __rseq_size __attribute__((weak));

static void info_read(struct info *info)
{
    const char *const huge = "/sys/kernel/mm/transparent_hugepage/";
    char path[128], text[32];
    struct rlimit limit;
    long commands;

    memset(info, 0, sizeof(*info));
    info->mode = stook_mode(&info->why);
    arena_stat(&info->arena);
    info->library_found = locate_library(info->library, sizeof(info->library));
    uname(&info->kernel);
#ifdef __GLIBC__
    static char libc[64];
    snprintf(libc, sizeof(libc), "glibc %s", gnu_get_libc_version());
    info->libc = libc;
#else
    info->libc = "another C library than glibc";
#endif
    info_line("/sys/devices/system/cpu/online", info->cpus_online, sizeof(info->cpus_online));
    info->rseq_registered = &__rseq_size && __rseq_size > 0;
    commands = syscall(SYS_membarrier, 0, 0, 0);
    info->membarrier = commands > 0 && (commands >> 7 & 1); /* PRIVATE_EXPEDITED_RSEQ */
    snprintf(path, sizeof(path), "%senabled", huge);
    info_choice(path, info->huge_enabled, sizeof(info->huge_enabled));
    snprintf(path, sizeof(path), "%sdefrag", huge);
    info_choice(path, info->huge_defrag, sizeof(info->huge_defrag));
    snprintf(path, sizeof(path), "%shpage_pmd_size", huge);
    info->huge_size = info_number(path);
    info->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    info->memory_limit = info_number("/sys/fs/cgroup/memory.max");
    info_line("/proc/sys/vm/overcommit_memory", text, sizeof(text));
    info->overcommit = *text ? atoi(text) : -1;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        info->address_limit = limit.rlim_cur;
}

static void info_size(struct writer *w, uint64_t bytes)
{
    if (bytes >= (uint64_t)1 << 40 && bytes % ((uint64_t)1 << 40) == 0)
        writer_print(w, "%lu TiB", (bytes >> 40));
    else if (bytes >= (uint64_t)10 << 30)
        writer_print(w, "%lu GiB", (bytes >> 30));
    else if (bytes >= 10 << 20)
        writer_print(w, "%lu MiB", (bytes >> 20));
    else
        writer_print(w, "%lu KiB", (bytes >> 10));
}

/* The cgroup's CPU quota, in percent of one CPU; 0: none. */
static unsigned info_quota(void)
{
    unsigned long quota, period;
    char text[64];

    info_line("/sys/fs/cgroup/cpu.max", text, sizeof(text)); /* or "max PERIOD" */
    if (topology.simulated || sscanf(text, "%lu %lu", &quota, &period) != 2 || period == 0)
        return 0;
    return (unsigned)(quota * 100 / period);
}

static void info_cpus(struct writer *w)
{
    unsigned quota = info_quota();

    writer_print(w, "%u possible, %u allowed here, ", topology.cpus, topology.allowed_cpus);
    if (quota)
        writer_print(w, "a quota of %u.%02u CPUs", quota / 100, quota % 100);
    else
        writer_print(w, "no quota");
}

static void info_nodes(struct writer *w)
{
    for (unsigned node = 0; node < topology.nodes; node++) {
        if (!(topology.online_nodes >> node & 1))
            continue;
        writer_print(w, "node %-11u %u CPUs, ", node, info_node_cpus(node));
        if (topology.memory_nodes >> node & 1)
            info_size(w, info_node_memory(node));
        else
            writer_print(w, "no memory of its own: node %u is its home",
                         topology.home_of_node[node]);
        writer_print(w, "\n");
    }
}

static void info_memory(struct writer *w, const struct info *info)
{
    bool asked = strcmp(info->huge_enabled, "never") != 0 && *info->huge_enabled;

    writer_print(w, "huge pages       %s",
                 *info->huge_enabled ? info->huge_enabled : "the kernel has none");
    if (info->huge_size) {
        writer_print(w, ", of ");
        info_size(w, info->huge_size);
    }
    writer_print(w, "%s\nmemory           ",
                 asked ? "; the library asks for them past a program's first blocks" : "");
    info_size(w, info->memory);
    if (info->memory_limit) {
        writer_print(w, ", the cgroup's limit is ");
        info_size(w, info->memory_limit);
    }
    if (info->overcommit >= 0 && info->overcommit <= 2)
        writer_print(w, "; overcommit is %s", info_overcommit[info->overcommit]);
    writer_print(w, "\naddress space    ");
    info_size(w, info->arena.reserved);
    writer_print(w, " reserved for slabs; ");
    if (info->address_limit) {
        writer_print(w, "RLIMIT_AS is ");
        info_size(w, info->address_limit);
    } else {
        writer_print(w, "no RLIMIT_AS");
    }
    writer_print(w, "\nwarm reserve     ");
    info_size(w, info->arena.reserve);
    writer_print(w, " of free memory at most (--reserve, STOOK_RESERVE)\n");
}

static void info_text(struct writer *w, const struct info *info)
{
    writer_print(w, "stook            %d.%d.%d\n", STOOK_VERSION_MAJOR, STOOK_VERSION_MINOR,
                 STOOK_VERSION_PATCH);
    writer_print(w, "to preload       ");
    if (!info->library_found)
        writer_print(w, LOCATE_LIBRARY " is missing; looked in ");
    writer_cell(w, info->library, 0);
    writer_print(w, "\nsystem           %.64s %.64s %.64s, %s\n", info->kernel.sysname,
                 info->kernel.release, info->kernel.machine, info->libc);
    writer_print(w, "per-CPU mode     %s: %s\n", info->mode, info->why);
    writer_print(w, "rseq             %s; membarrier for rseq: %s\n",
                 info->rseq_registered ? "registered by the C library"
                                       : "not registered by the C library",
                 info->membarrier ? "yes" : "no");
    writer_print(w, "CPUs             ");
    info_cpus(w);
    writer_print(w, "; %s: %.200s\n", topology.simulated ? "of the machine online" : "online",
                 *info->cpus_online ? info->cpus_online : "unknown");
    writer_print(w, "topology         %s", topology.simulated ? "simulated: " : "");
    for (const char *text = info_topology(info); *text; text += strnlen(text, 200))
        writer_print(w, "%.200s", text);
    writer_print(w, "\n");
    info_nodes(w);
    info_memory(w, info);
    writer_print(w,
                 "limits           %u caches, objects of up to %u KiB, aligned to up to %u, "
                 "%u objects a slab, %u a sheaf\n",
                 STOOK_CACHES_MAX, STOOK_OBJECT_SIZE_MAX >> 10, STOOK_ALIGN_MAX,
                 STOOK_SLAB_OBJECTS_MAX, STOOK_SHEAF_CAPACITY_MAX);
    writer_print(w, "\nnext: stook info --settings, or stook run -- PROGRAM\n");
}

/* Zero says "unknown" or "none" inside; outside that is null. */
void info_maybe(struct writer *w, const char *key, uint64_t value, const char *end)
{
    if (value)
        writer_key(w, key, value, end);
    else
        writer_print(w, "\"%s\": null%s", key, end);
}

static void info_json_nodes(struct writer *w)
{
    bool first = true;

    writer_print(w, " \"nodes\": [");
    for (unsigned node = 0; node < topology.nodes; node++) {
        if (!(topology.online_nodes >> node & 1))
            continue;
        writer_print(w, first ? "{" : ", {");
        output_counts(w, "}", {"node", node}, {"cpus", info_node_cpus(node)},
                      {"memory_bytes", info_node_memory(node)},
                      {"home", topology.home_of_node[node]});
        first = false;
    }
    writer_print(w, "],\n");
}

static void info_json(struct writer *w, const struct info *info)
{
    writer_print(w, "{\"stook\": \"%d.%d.%d\", ", STOOK_VERSION_MAJOR, STOOK_VERSION_MINOR,
                 STOOK_VERSION_PATCH);
    output_word(w, "library", info->library_found ? info->library : NULL, ",\n ");
    output_word(w, "kernel", info->kernel.release, ", ");
    output_word(w, "machine", info->kernel.machine, ", ");
    output_word(w, "libc", info->libc, ",\n ");
    output_word(w, "mode", info->mode, ", ");
    output_word(w, "mode_why", info->why, ",\n ");
    output_flag(w, "rseq_registered", info->rseq_registered, ", ");
    output_flag(w, "membarrier_rseq", info->membarrier, ",\n \"cpus\": {");
    output_counts(w, ", ", {"possible", topology.cpus}, {"allowed", topology.allowed_cpus});
    output_word(w, "online", info->cpus_online, ", ");
    info_maybe(w, "quota_percent", info_quota(), "},\n");
    info_json_nodes(w);
    writer_print(w, " \"topology\": {\"simulated\": %s, ", topology.simulated ? "true" : "false");
    output_word(w, "text", info_topology(info), "},\n");
    writer_print(w, " \"huge_pages\": {");
    output_word(w, "enabled", info->huge_enabled, ", ");
    output_word(w, "defrag", info->huge_defrag, ", ");
    info_maybe(w, "size_bytes", info->huge_size, "},\n \"memory\": {");
    writer_key(w, "total_bytes", info->memory, ", ");
    info_maybe(w, "cgroup_limit_bytes", info->memory_limit, ", ");
    info_maybe(w, "rlimit_as_bytes", info->address_limit, ", ");
    if (info->overcommit >= 0 && info->overcommit <= 2)
        output_word(w, "overcommit", info_overcommit[info->overcommit], ", ");
    output_counts(w, "},\n \"limits\": {", {"reserved_bytes", info->arena.reserved},
                  {"warm_reserve_bytes", info->arena.reserve});
    output_counts(w, "}}\n", {"caches", STOOK_CACHES_MAX}, {"object_size", STOOK_OBJECT_SIZE_MAX},
                  {"align", STOOK_ALIGN_MAX}, {"objects_per_slab", STOOK_SLAB_OBJECTS_MAX},
                  {"sheaf_capacity", STOOK_SHEAF_CAPACITY_MAX});
}

static int info_command(int argc, char **argv)
{
    struct writer writer;
    struct info info;
    bool json = false, settings = false;
    const struct option_row rows[] = {{"json", OPTION_FLAG, .to = &json},
                                      {"settings", OPTION_FLAG, .to = &settings}};

    if (option_take("info", rows, argc, argv) != STATUS_OK)
        return STATUS_USAGE;
    if (optind < argc)
        return complain(STATUS_USAGE, "info takes no arguments");
    settings_warn();
    topology_learn();
    info_read(&info);
    output_writer(&writer);
    if (settings)
        (json ? info_settings_json : info_settings_text)(&writer);
    else if (json)
        info_json(&writer, &info);
    else
        info_text(&writer, &info);
    (void)writer_finish(&writer);
    return STATUS_OK;
}

const struct command command_info = {
    .name = "info",
    .summary = "what the library finds on this machine: CPUs, nodes, mode, huge pages, limits",
    .run = info_command,
    .help =
        "usage: stook info [--settings] [--json]\n"
        "\n"
        "Shows what the library finds in this environment, as a program under stook run would:\n"
        "CPUs and their quota, nodes and their memory, the per-CPU mode with its reason, huge\n"
        "pages, address space and memory limits, and the limits of the library itself.\n"
        "The line topology has the form that STOOK_TOPOLOGY takes.\n"
        "\n"
        "  --settings  instead, every setting of the environment: its value and the source of\n"
        "              that, its effect, the accepted values and the default\n"
        "  --json      the same as one JSON object\n"
        "\n"
        "exit status: 0; 1 the output cannot be written; 2 usage\n"
        "\n"
        "example:\n"
        "  stook info --settings\n",
};
