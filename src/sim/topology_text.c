/* SPDX-License-Identifier: MIT */
/*
 * topology_text.c - reads a machine from a text or a file into a `struct topology`; messages have line and column.
 * Takes no lock, calls no malloc, and changes nothing of this process.
 */
#include "sim/topology_text.h"

#include "text/file.h"
#include "base/report.h"
#include "os/os.h"

#include "base/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    TEXT_DISTANCE_DEFAULT = 20, /* between nodes that the text says nothing of, as in Linux */
    TEXT_WORDS = TOPOLOGY_CPUS_MAX / 64,
};
static const uint64_t text_memory_default = (uint64_t)1 << 30, text_memory_max = (uint64_t)1 << 60;

/*
 * Statements may stand in any order: the text is read three times, first for what counts nodes,
 * then for CPUs and memory, then for what is between nodes.
 */
enum text_pass { TEXT_SHAPE, TEXT_NODES, TEXT_DISTANCES, TEXT_PASSES };
enum text_key { KEY_NODE, KEY_CORE, KEY_SMT, KEY_CPUS, KEY_MEMORY, KEY_DISTANCE, KEYS };

static const struct {
    const char *name;
    enum text_pass pass;
} text_keys[KEYS] = {
    [KEY_NODE] = {"node", TEXT_SHAPE},     [KEY_CORE] = {"core", TEXT_SHAPE},
    [KEY_SMT] = {"smt", TEXT_SHAPE},       [KEY_CPUS] = {"cpus", TEXT_NODES},
    [KEY_MEMORY] = {"memory", TEXT_NODES}, [KEY_DISTANCE] = {"distance", TEXT_DISTANCES},
};

struct text {
    const char *start; /* the text */
    size_t at;         /* where in it the statement is that is being read */
    size_t shape_at;   /* the last statement of the shape */
    struct topology *t;
    char *error;
    unsigned shape[3];         /* node, core, smt; 0: not said */
    uint64_t memory_said;      /* nodes whose memory was stated */
    bool memory_stated;        /* for any */
    uint64_t list[TEXT_WORDS]; /* the list read last */
};

static __attribute__((format(printf, 2, 3), cold)) bool text_fail(struct text *p,
                                                                  const char *format, ...)
{
    unsigned line = 1, column = 1;
    va_list args;
    int n;

    for (const char *c = p->start; c < p->start + p->at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    n = snprintf(p->error, TOPOLOGY_TEXT_ERROR, "line %u, column %u: ", line, column);
    va_start(args, format);
    vsnprintf(p->error + n, (size_t)(TOPOLOGY_TEXT_ERROR - n), format, args);
    va_end(args);
    return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool text_number(struct text *p, const char *text, const char *what, unsigned least,
                        unsigned most, unsigned *number)
{
    size_t n;

    if (!parse_number(text, &n) || n < least || n > most)
        return text_fail(p, "\"%.32s\" is not a %s from %u to %u", text, what, least, most);
    *number = (unsigned)n;
    return true;
}

/* "0-3,8" into p->list, all below `limit`. */
static bool text_list(struct text *p, const char *text, const char *what, unsigned limit)
{
    memset(p->list, 0, sizeof(p->list));
    return (parse_list(text, limit, p->list) >= 0 && text[strlen(text) - 1] != ',') ||
           text_fail(p, "\"%.32s\" is not a list of %s from 0 to %u", text, what, limit - 1);
}

/* "0-3", or "*" for all nodes; all must be there. */
static bool text_nodes(struct text *p, const char *text, uint64_t *nodes)
{
    uint64_t missing;

    *nodes = p->t->online_nodes;
    if (strcmp(text, "*") == 0)
        return true;
    if (!text_list(p, text, "nodes", TOPOLOGY_NODES_MAX))
        return false;
    *nodes = p->list[0];
    missing = *nodes & ~p->t->online_nodes;
    return !missing || text_fail(p, "node %d is not there", __builtin_ctzll(missing));
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool text_shape(struct text *p, enum text_key key, const char *number)
{
    if (p->shape[key])
        return text_fail(p, "%s: is said twice", text_keys[key].name);
    p->shape_at = p->at;
    return text_number(p, number, "number", 1,
                       key == KEY_NODE ? TOPOLOGY_NODES_MAX : TOPOLOGY_CPUS_MAX, &p->shape[key]);
}

/*
 * As Linux numbers CPUs on most machines: the first threads of all cores, node by node, then the
 * second threads.
 */
static bool text_apply_shape(struct text *p)
{
    unsigned nodes = p->shape[KEY_NODE], cores = p->shape[KEY_CORE], smt = p->shape[KEY_SMT];
    uint64_t cpus;

    p->at = p->shape_at;
    if (nodes == 0)
        return (cores == 0 && smt == 0) ||
               text_fail(p, "core: and smt: are of each node: node: is missing");
    cores = cores ? cores : 1;
    smt = smt ? smt : 1;
    cpus = (uint64_t)nodes * cores * smt;
    if (cpus > TOPOLOGY_CPUS_MAX)
        return text_fail(p, "these are %llu CPUs; there can be %d", (unsigned long long)cpus,
                         TOPOLOGY_CPUS_MAX);
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        p->t->possible_cpus[cpu / 64] |= (uint64_t)1 << cpu % 64;
        p->t->node_of_cpu[cpu] = (uint8_t)(cpu / cores % nodes);
    }
    p->t->online_nodes = ~(uint64_t)0 >> (64 - nodes);
    return true;
}

static bool text_cpus(struct text *p, const char *number, const char *list)
{
    unsigned node = 0;

    if (!text_number(p, number, "node", 0, TOPOLOGY_NODES_MAX - 1, &node) ||
        !text_list(p, list, "CPUs", TOPOLOGY_CPUS_MAX))
        return false;
    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX; cpu++) {
        if (!(p->list[cpu / 64] >> cpu % 64 & 1))
            continue;
        if (topology_has_cpu(p->t, cpu))
            return text_fail(p, "CPU %u is in node %u already", cpu, p->t->node_of_cpu[cpu]);
        p->t->node_of_cpu[cpu] = (uint8_t)node;
    }
    for (unsigned i = 0; i < TEXT_WORDS; i++)
        p->t->possible_cpus[i] |= p->list[i];
    p->t->online_nodes |= (uint64_t)1 << node;
    return true;
}

static bool text_memory(struct text *p, const char *list, char *size)
{
    char *tera = strchr(size, 'T'); /* parse_size() has no unit above G */
    unsigned shift = tera && tera[1] == '\0' ? 40 : 0;
    uint64_t nodes;
    size_t bytes;

    if (!text_list(p, list, "nodes", TOPOLOGY_NODES_MAX))
        return false;
    nodes = p->list[0];
    if (nodes & p->memory_said)
        return text_fail(p, "the memory of node %d is said twice",
                         __builtin_ctzll(nodes & p->memory_said));
    if (shift > 0)
        *tera = '\0';
    if (!(shift > 0 ? parse_number(size, &bytes) : parse_size(size, &bytes)) ||
        bytes > text_memory_max >> shift)
        return text_fail(p, "\"%.32s%s\" is not a size of memory such as 16G", size,
                         shift > 0 ? "T" : "");
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++)
        if (nodes >> node & 1)
            p->t->memory[node] = (uint64_t)bytes << shift;
    p->memory_said |= nodes;
    p->memory_stated = true;
    p->t->online_nodes |= nodes;
    return true;
}

static void text_set_distance(struct topology *t, uint64_t from, uint64_t to, uint8_t distance)
{
    for (unsigned a = 0; a < TOPOLOGY_NODES_MAX; a++)
        for (unsigned b = 0; b < TOPOLOGY_NODES_MAX; b++)
            if (a != b && (from >> a & 1) && (to >> b & 1))
                t->distance[a][b] = t->distance[b][a] = distance;
}

/* "0-3" or "0-3/4-7", and the distance. */
static bool text_distance(struct text *p, char *pair, const char *number)
{
    char *second = strchr(pair, '/');
    uint64_t from, to;
    unsigned distance = 0;

    if (second)
        *second++ = '\0';
    if (!text_nodes(p, pair, &from) || !text_nodes(p, second ? second : pair, &to))
        return false;
    /* One node and no other; "*" of a machine of one node is fine. */
    if (from == to && !(from & (from - 1)) && *pair != '*')
        return text_fail(p, "a distance is between two nodes; to itself it is %d", TOPOLOGY_LOCAL);
    if (!text_number(p, number, "distance", TOPOLOGY_LOCAL, TOPOLOGY_FAR - 1, &distance))
        return false;
    text_set_distance(p->t, from, to, (uint8_t)distance);
    return true;
}

/* A word of the copy, which is split if this is its pass. */
static bool text_statement(struct text *p, char *word, enum text_pass pass)
{
    size_t length = strcspn(word, ":");
    char *left = word + length + 1, *right;
    enum text_key key = 0;

    while (key < KEYS && (strlen(text_keys[key].name) != length ||
                          memcmp(text_keys[key].name, word, length) != 0))
        key++;
    if (key == KEYS || word[length] != ':')
        return text_fail(
            p, "\"%.32s\" is none of node:, core:, smt:, cpus:, memory:, distance:", word);
    if (text_keys[key].pass != pass)
        return true;
    if (pass == TEXT_SHAPE)
        return text_shape(p, key, left);
    right = strchr(left, '=');
    if (!right)
        return text_fail(p, "\"%.32s\" has no '='", word);
    *right++ = '\0';
    return key == KEY_CPUS     ? text_cpus(p, left, right)
           : key == KEY_MEMORY ? text_memory(p, left, right)
                               : text_distance(p, left, right);
}

/* All statements that are read in this pass.  `copy` has `size` bytes, and NUL between the words. */
static bool text_pass(struct text *p, char *copy, size_t size, enum text_pass pass)
{
    size_t length;

    for (p->at = 0; p->at < size; p->at += length + 1) {
        char *word = copy + p->at;
        length = strlen(word);
        if (length > 0 && !text_statement(p, word, pass))
            return false;
        if (strlen(word) < length) /* it was split: no further pass reads it */
            memset(word, 0, length);
    }
    p->at = size;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* After CPUs and memory: what follows from them.  p->at is at the end of the text. */
static bool text_apply_nodes(struct text *p)
{
    struct topology *t = p->t;
    uint64_t with_cpus = 0;

    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX; cpu++)
        if (topology_has_cpu(t, cpu)) {
            t->cpus = cpu + 1;
            t->allowed_cpus++;
            with_cpus |= (uint64_t)1 << t->node_of_cpu[cpu];
        }
    if (t->cpus == 0)
        return text_fail(p, "there is no CPU");
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        uint64_t bit = (uint64_t)1 << node;
        if (!(t->online_nodes & bit))
            continue;
        if (!p->memory_stated)
            t->memory[node] = text_memory_default;
        t->memory_nodes |= t->memory[node] ? bit : 0;
        if (!((with_cpus | t->memory_nodes) & bit))
            return text_fail(p, "node %u has neither CPUs nor memory", node);
        t->nodes = node + 1;
        t->distance[node][node] = TOPOLOGY_LOCAL;
    }
    if (!t->memory_nodes)
        return text_fail(p, "no node has memory");
    text_set_distance(t, t->online_nodes, t->online_nodes, TEXT_DISTANCE_DEFAULT);
    return true;
}

/* Comments and white space become NUL. */
static void text_split(char *copy)
{
    static const char space[] = " \t\r\n#";

    while (*(copy += strcspn(copy, space))) {
        size_t length = *copy == '#' ? strcspn(copy, "\n") : 1;
        memset(copy, 0, length);
        copy += length;
    }
}

bool topology_text_parse(struct topology *t, const char *text, char *error)
{
    struct text p = {.start = text, .t = t, .error = error};
    size_t size = strlen(text) + 1;
    char *copy = os_map(size);
    bool ok = copy != NULL;

    if (!ok)
        return text_fail(&p, "no memory to read it");
    memcpy(copy, text, size);
    text_split(copy);
    for (enum text_pass pass = 0; ok && pass < TEXT_PASSES; pass++) {
        ok = text_pass(&p, copy, size - 1, pass);
        if (ok && pass == TEXT_SHAPE)
            ok = text_apply_shape(&p);
        else if (ok && pass == TEXT_NODES)
            ok = text_apply_nodes(&p);
    }
    os_unmap(copy, size);
    t->simulated = ok;
    if (ok)
        topology_derive(t);
    return ok;
}

/* A statement begins with its key; a name of a file of that form needs a "./" before it. */
static bool text_is_text(const char *text)
{
    text += strspn(text, " \t\r\n");
    return *text == '\0' || *text == '#' || text[strspn(text, "abcdefghijklmnopqrstuvwxyz")] == ':';
}

bool topology_text_load(const char *text, struct topology *t)
{
    struct work {
        struct topology topology;
        char file[TOPOLOGY_TEXT_MAX];
        char error[TOPOLOGY_TEXT_ERROR];
    } *work = os_map(sizeof(*work));
    const char *name = text_is_text(text) ? NULL : text;
    bool ok = false;
    int n = 0, saved = errno;

    if (!work) {
        report_warn("topology: no memory to read it");
        return false;
    }
    if (name)
        n = os_read_close(file_open_read(name), work->file, sizeof(work->file));
    if (n < 0)
        report_warn("topology: \"%.200s\" is neither a text (node:2 core:4 ...) nor a file that "
                    "can be read",
                    name);
    else if (n == sizeof(work->file) - 1 || strlen(work->file) != (size_t)n)
        report_warn("topology: %.200s is not a text of less than %d bytes", name,
                    TOPOLOGY_TEXT_MAX - 1);
    else if (!(ok = topology_text_parse(&work->topology, name ? work->file : text, work->error)))
        report_warn("topology: %.200s%s%s", name ? name : "", name ? ": " : "", work->error);
    if (ok)
        *t = work->topology;
    os_unmap(work, sizeof(*work));
    errno = saved;
    return ok;
}
