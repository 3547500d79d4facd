/* SPDX-License-Identifier: MIT */
/*
 * topology_text.c - reads a machine from a text or a file into a `struct topology`; messages have line and column.
 * Takes no lock, calls no malloc, and changes nothing of this process.
 */
#include "sim/topology_text.h"

#include "text/file.h"
#include "base/report.h"
#include "os/os.h"

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
    const char *start, *at;
    const char *shape_at; /* the last statement of the shape */
    struct topology *t;
    char *error;
    unsigned shape[3];        /* node, core, smt; 0: not said */
    uint64_t memory_said;     /* nodes whose memory was stated */
    bool memory_stated;       /* for any */
    uint64_t set[TEXT_WORDS]; /* the list read last */
};

/* ---- errors ---------------------------------------------------------------------------------- */

static bool text_fail(struct text *p, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

static bool text_fail(struct text *p, const char *where, const char *format, ...)
{
    unsigned line = 1, column = 1;
    va_list args;
    int n;

    for (const char *c = p->start; c < where; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    n = snprintf(p->error, TOPOLOGY_TEXT_ERROR, "line %u, column %u: ", line, column);
    va_start(args, format);
    vsnprintf(p->error + n, (size_t)(TOPOLOGY_TEXT_ERROR - n), format, args);
    va_end(args);
    return false;
}

/* "… is expected here, not WHAT IS THERE". */
static bool text_unexpected(struct text *p, const char *expected)
{
    char found[16];

    if (*p->at == '\0')
        snprintf(found, sizeof(found), "the end");
    else if (*p->at > ' ' && *p->at < 0x7f)
        snprintf(found, sizeof(found), "'%c'", *p->at);
    else if (strchr(" \t\r\n", *p->at))
        snprintf(found, sizeof(found), "a space");
    else
        snprintf(found, sizeof(found), "byte 0x%02x", (unsigned char)*p->at);
    return text_fail(p, p->at, "%s is expected here, not %s", expected, found);
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool text_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void text_skip_space(struct text *p)
{
    while (text_is_space(*p->at) || *p->at == '#')
        if (*p->at == '#')
            p->at += strcspn(p->at, "\n");
        else
            p->at++;
}

static bool text_number(struct text *p, const char *what, uint64_t min, uint64_t max, uint64_t *n)
{
    const char *from = p->at;

    if (!text_is_digit(*p->at))
        return text_unexpected(p, what);
    for (*n = 0; text_is_digit(*p->at); p->at++)
        if (*n <= max)
            *n = *n * 10 + (uint64_t)(*p->at - '0');
    if (*n < min || *n > max)
        return text_fail(p, from, "%s from %llu to %llu is expected here", what,
                         (unsigned long long)min, (unsigned long long)max);
    return true;
}

/* "0-3,8" into p->set, all below `limit`. */
static bool text_list(struct text *p, const char *what, unsigned limit)
{
    uint64_t from, to;

    memset(p->set, 0, sizeof(p->set));
    do {
        const char *at = p->at;
        if (!text_number(p, what, 0, limit - 1, &from))
            return false;
        to = from;
        if (*p->at == '-') {
            p->at++;
            if (!text_number(p, what, 0, limit - 1, &to))
                return false;
        }
        if (to < from)
            return text_fail(p, at, "%llu-%llu runs backwards", (unsigned long long)from,
                             (unsigned long long)to);
        for (; from <= to; from++)
            p->set[from / 64] |= (uint64_t)1 << from % 64;
    } while (*p->at == ',' && p->at++);
    return true;
}

static bool text_equals(struct text *p)
{
    return *p->at == '=' ? p->at++, true : text_unexpected(p, "'='");
}

/* "0-3", or "*" for all nodes; all must be there. */
static bool text_nodes(struct text *p, uint64_t *nodes)
{
    const char *at = p->at;

    if (*p->at == '*') {
        p->at++;
        *nodes = p->t->online_nodes;
        return true;
    }
    if (!text_list(p, "a node", TOPOLOGY_NODES_MAX))
        return false;
    *nodes = p->set[0];
    if (*nodes & ~p->t->online_nodes)
        return text_fail(p, at, "node %d is not there",
                         __builtin_ctzll(*nodes & ~p->t->online_nodes));
    return true;
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool text_shape(struct text *p, const char *start, enum text_key key)
{
    uint64_t n;

    if (p->shape[key])
        return text_fail(p, start, "%s: is said twice", text_keys[key].name);
    if (!text_number(p, "a number", 1, key == KEY_NODE ? TOPOLOGY_NODES_MAX : TOPOLOGY_CPUS_MAX,
                     &n))
        return false;
    p->shape[key] = (unsigned)n;
    p->shape_at = start;
    return true;
}

/*
 * As Linux numbers CPUs on most machines: the first threads of all cores, node by node, then the
 * second threads.
 */
static bool text_apply_shape(struct text *p)
{
    unsigned nodes = p->shape[KEY_NODE], cores = p->shape[KEY_CORE], smt = p->shape[KEY_SMT];
    uint64_t cpus;

    if (nodes == 0)
        return (cores == 0 && smt == 0) ||
               text_fail(p, p->shape_at, "core: and smt: are of each node: node: is missing");
    cores = cores ? cores : 1;
    smt = smt ? smt : 1;
    cpus = (uint64_t)nodes * cores * smt;
    if (cpus > TOPOLOGY_CPUS_MAX)
        return text_fail(p, p->shape_at, "these are %llu CPUs; there can be %d",
                         (unsigned long long)cpus, TOPOLOGY_CPUS_MAX);
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        p->t->possible_cpus[cpu / 64] |= (uint64_t)1 << cpu % 64;
        p->t->node_of_cpu[cpu] = (uint8_t)(cpu / cores % nodes);
    }
    p->t->online_nodes = ~(uint64_t)0 >> (64 - nodes);
    return true;
}

static bool text_cpus(struct text *p)
{
    const char *at;
    uint64_t node;

    if (!text_number(p, "a node", 0, TOPOLOGY_NODES_MAX - 1, &node) || !text_equals(p))
        return false;
    at = p->at;
    if (!text_list(p, "a CPU", TOPOLOGY_CPUS_MAX))
        return false;
    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX; cpu++) {
        if (!(p->set[cpu / 64] >> cpu % 64 & 1))
            continue;
        if (topology_has_cpu(p->t, cpu))
            return text_fail(p, at, "CPU %u is in node %u already", cpu, p->t->node_of_cpu[cpu]);
        p->t->node_of_cpu[cpu] = (uint8_t)node;
    }
    for (unsigned i = 0; i < TEXT_WORDS; i++)
        p->t->possible_cpus[i] |= p->set[i];
    p->t->online_nodes |= (uint64_t)1 << node;
    return true;
}

static bool text_size(struct text *p, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *from = p->at, *unit;
    unsigned shift = 0;

    if (!text_number(p, "a size", 0, text_memory_max, bytes))
        return false;
    if (*p->at && (unit = strchr(units, *p->at)) != NULL) {
        shift = 10 * (unsigned)(unit - units + 1);
        p->at++;
    }
    if (*bytes > text_memory_max >> shift)
        return text_fail(p, from, "no node has that much memory");
    *bytes <<= shift;
    return true;
}

static bool text_memory(struct text *p)
{
    const char *at = p->at;
    uint64_t nodes, bytes;

    if (!text_list(p, "a node", TOPOLOGY_NODES_MAX))
        return false;
    nodes = p->set[0];
    if (nodes & p->memory_said)
        return text_fail(p, at, "the memory of node %d is said twice",
                         __builtin_ctzll(nodes & p->memory_said));
    if (!text_equals(p) || !text_size(p, &bytes))
        return false;
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++)
        if (nodes >> node & 1)
            p->t->memory[node] = bytes;
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

/* "0-3=12" or "0-3/4-7=32". */
static bool text_distance(struct text *p)
{
    const char *at = p->at;
    uint64_t from, to, distance;

    if (!text_nodes(p, &from))
        return false;
    to = from;
    if (*p->at == '/') {
        p->at++;
        if (!text_nodes(p, &to))
            return false;
    }
    /* One node beside no other; "*" of a machine of one node is fine. */
    if (from == to && !(from & (from - 1)) && *at != '*')
        return text_fail(p, at, "a distance is between two nodes; to itself it is %d",
                         TOPOLOGY_LOCAL);
    if (!text_equals(p) ||
        !text_number(p, "a distance", TOPOLOGY_LOCAL, TOPOLOGY_FAR - 1, &distance))
        return false;
    text_set_distance(p->t, from, to, (uint8_t)distance);
    return true;
}

static bool text_statement(struct text *p, enum text_pass pass)
{
    const char *start = p->at;
    size_t length = strspn(start, "abcdefghijklmnopqrstuvwxyz");
    enum text_key key = 0;
    bool ok;

    while (key < KEYS && (strlen(text_keys[key].name) != length ||
                          memcmp(text_keys[key].name, start, length) != 0))
        key++;
    if (length == 0)
        return text_unexpected(p, "node:, core:, smt:, cpus:, memory: or distance:");
    if (key == KEYS)
        return text_fail(p, start, "\"%.*s\" is none of node, core, smt, cpus, memory, distance",
                         length < 32 ? (int)length : 32, start);
    p->at += length;
    if (*p->at != ':')
        return text_unexpected(p, "':'");
    p->at++;
    if (text_keys[key].pass != pass) {
        p->at += strcspn(p->at, " \t\r\n#");
        return true;
    }
    switch (key) {
    case KEY_CPUS:
        ok = text_cpus(p);
        break;
    case KEY_MEMORY:
        ok = text_memory(p);
        break;
    case KEY_DISTANCE:
        ok = text_distance(p);
        break;
    default:
        ok = text_shape(p, start, key);
    }
    if (ok && *p->at != '\0' && *p->at != '#' && !text_is_space(*p->at))
        ok = text_unexpected(p, "a space");
    return ok;
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
        return text_fail(p, p->at, "there is no CPU");
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        uint64_t bit = (uint64_t)1 << node;
        if (!(t->online_nodes & bit))
            continue;
        if (!p->memory_stated)
            t->memory[node] = text_memory_default;
        t->memory_nodes |= t->memory[node] ? bit : 0;
        if (!((with_cpus | t->memory_nodes) & bit))
            return text_fail(p, p->at, "node %u has neither CPUs nor memory", node);
        t->nodes = node + 1;
        t->distance[node][node] = TOPOLOGY_LOCAL;
    }
    if (!t->memory_nodes)
        return text_fail(p, p->at, "no node has memory");
    text_set_distance(t, t->online_nodes, t->online_nodes, TEXT_DISTANCE_DEFAULT);
    return true;
}

bool topology_text_parse(struct topology *t, const char *text, char *error)
{
    struct text p = {.start = text, .t = t, .error = error};

    for (enum text_pass pass = 0; pass < TEXT_PASSES; pass++) {
        p.at = text;
        for (text_skip_space(&p); *p.at; text_skip_space(&p))
            if (!text_statement(&p, pass))
                return false;
        if ((pass == TEXT_SHAPE && !text_apply_shape(&p)) ||
            (pass == TEXT_NODES && !text_apply_nodes(&p)))
            return false;
    }
    t->simulated = true;
    topology_derive(t);
    return true;
}

/* A statement begins with its key; a name of a file of that form needs a "./" before it. */
static bool text_is_text(const char *text)
{
    while (text_is_space(*text))
        text++;
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
