/* SPDX-License-Identifier: MIT */
/*
 * topology_print.c - prints a topology as the text that the library reads.
 */
#include "topology_print.h"

#include <stdarg.h>
#include <stdio.h>

static uint64_t print_nodes; /* with CPUs or memory: an online node may have neither */

struct print {
    char *buf;
    size_t size, length; /* length of all, whether it fits or not */
};

static void print_add(struct print *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print_add(struct print *p, const char *format, ...)
{
    bool room = p->length < p->size;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(room ? p->buf + p->length : NULL, room ? p->size - p->length : 0, format, args);
    va_end(args);
    p->length += n > 0 ? (size_t)n : 0;
}

/* "0-3,8" of the numbers below `limit` that `has` says yes to. */
static void print_list(struct print *p, const struct topology *t, unsigned limit, unsigned node,
                       bool (*has)(const struct topology *t, unsigned number, unsigned node))
{
    const char *comma = "";

    for (unsigned n = 0; n < limit; n++) {
        unsigned to = n;
        if (!has(t, n, node))
            continue;
        while (to + 1 < limit && has(t, to + 1, node))
            to++;
        print_add(p, to > n ? "%s%u-%u" : "%s%u", comma, n, to);
        comma = ",";
        n = to;
    }
}

static bool print_in_node(const struct topology *t, unsigned cpu, unsigned node)
{
    return topology_has_cpu(t, cpu) && t->node_of_cpu[cpu] == node;
}

/* A node that the kernel states the memory of counts as one of 1 GiB, like one of a text. */
static uint64_t print_memory(const struct topology *t, unsigned node)
{
    if (!(t->memory_nodes >> node & 1))
        return 0;
    return t->memory[node] ? t->memory[node] : (uint64_t)1 << 30;
}

static bool print_same_memory(const struct topology *t, unsigned a, unsigned b)
{
    return print_memory(t, a) == print_memory(t, b);
}

static unsigned print_cpus(struct print *p, const struct topology *t)
{
    unsigned nodes = 0;

    for (unsigned node = 0; node < t->nodes; node++)
        for (unsigned cpu = 0; cpu < t->cpus; cpu++)
            if (print_in_node(t, cpu, node)) {
                print_add(p, "%scpus:%u=", nodes++ ? " " : "", node);
                print_list(p, t, t->cpus, node, print_in_node);
                break;
            }
    return nodes;
}

static void print_sizes(struct print *p, const struct topology *t)
{
    for (unsigned node = 0; node < t->nodes; node++) {
        uint64_t bytes = print_memory(t, node);
        unsigned unit = 0, same = 0;
        while (!print_same_memory(t, same, node))
            same++;
        if (bytes == 0 || same < node) /* said with the first of that size */
            continue;
        for (; unit < 4 && bytes % 1024 == 0; unit++)
            bytes /= 1024;
        print_add(p, " memory:");
        print_list(p, t, t->nodes, node, print_same_memory);
        print_add(p, "=%llu%.1s", (unsigned long long)bytes, &"\0KMGT"[unit]);
    }
}

/* The kernel may state distances that no text has: none, or others to and fro. */
static unsigned print_distance(const struct topology *t, unsigned a, unsigned b)
{
    unsigned d = a < b ? t->distance[a][b] : t->distance[b][a];

    return a == b               ? TOPOLOGY_LOCAL
           : d < TOPOLOGY_LOCAL ? TOPOLOGY_LOCAL
           : d >= TOPOLOGY_FAR  ? TOPOLOGY_FAR - 1
                                : d;
}

/* The nodes behind `a` that are as far from it as `b` is. */
static bool print_as_far(const struct topology *t, unsigned n, unsigned pair)
{
    unsigned a = pair / TOPOLOGY_NODES_MAX, b = pair % TOPOLOGY_NODES_MAX;

    return n > a && (print_nodes >> n & 1) && print_distance(t, a, n) == print_distance(t, a, b);
}

static void print_distances(struct print *p, const struct topology *t)
{
    for (unsigned a = 0; a < t->nodes; a++)
        for (unsigned b = a + 1; b < t->nodes; b++) {
            unsigned pair = a * TOPOLOGY_NODES_MAX + b, first = a + 1;
            if (!(print_nodes >> a & 1) || !(print_nodes >> b & 1))
                continue;
            while (!print_as_far(t, first, pair))
                first++;
            if (first < b) /* said with the first of that distance */
                continue;
            print_add(p, " distance:%u/", a);
            print_list(p, t, t->nodes, pair, print_as_far);
            print_add(p, "=%u", print_distance(t, a, b));
        }
}

size_t topology_print(const struct topology *t, char *buf, size_t size)
{
    struct print p = {buf, size, 0};

    print_nodes = t->memory_nodes;
    if (size > 0)
        *buf = '\0';
    for (unsigned cpu = 0; cpu < t->cpus; cpu++)
        if (topology_has_cpu(t, cpu))
            print_nodes |= (uint64_t)1 << t->node_of_cpu[cpu];
    print_cpus(&p, t);
    print_sizes(&p, t);
    print_distances(&p, t);
    return p.length;
}
