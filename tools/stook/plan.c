/* SPDX-License-Identifier: MIT */
/*
 * plan.c - stook plan: where an object's metadata lies and what that costs; or a machine's caches.
 */
#include "plan/plan.h"
#include "plan/traces.h"
#include "stook/command.h"

#include "page/pagemap.h"

#include <stook/stook.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_SIZE = 1,
    OPTION_ALIGN,
    OPTION_COLUMNS,
    OPTION_CTOR,
    OPTION_TYPESAFE,
    OPTION_POISON,
    OPTION_PAGE_SIZE,
    OPTION_ORDER,
    OPTION_LIBRARY,
    OPTION_OUTSIDE,
    OPTION_EXPLAIN,
    OPTION_JSON,
    OPTION_SVG,
    OPTION_SLABINFO,
    OPTION_TABLE,
    OPTION_TRACES, /* from here on: with traces */
    OPTION_CLASSES,
    OPTION_SEARCH,
    OPTION_JUDGE,
    OPTION_WEIGHTS,
    OPTIONS,
};

static const struct option plan_long_options[] = {
    {"size", required_argument, NULL, OPTION_SIZE},
    {"align", required_argument, NULL, OPTION_ALIGN},
    {"columns", required_argument, NULL, OPTION_COLUMNS},
    {"ctor", no_argument, NULL, OPTION_CTOR},
    {"typesafe", no_argument, NULL, OPTION_TYPESAFE},
    {"poison", no_argument, NULL, OPTION_POISON},
    {"page-size", required_argument, NULL, OPTION_PAGE_SIZE},
    {"order", required_argument, NULL, OPTION_ORDER},
    {"library", no_argument, NULL, OPTION_LIBRARY},
    {"outside", no_argument, NULL, OPTION_OUTSIDE},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"slabinfo", optional_argument, NULL, OPTION_SLABINFO},
    {"table", no_argument, NULL, OPTION_TABLE},
    {"traces", no_argument, NULL, OPTION_TRACES},
    {"classes", required_argument, NULL, OPTION_CLASSES},
    {"search", no_argument, NULL, OPTION_SEARCH},
    {"judge", required_argument, NULL, OPTION_JUDGE},
    {"weights", required_argument, NULL, OPTION_WEIGHTS},
    {NULL, 0, NULL, 0},
};

enum {
    PLAN_JUDGED = 64, /* traces at most */
    PLAN_OBJECT = 1,  /* weights: docs/capacity.md */
    PLAN_SLAB = 64,
};

/* What the command line says beside the layout. */
struct plan_command {
    struct plan_options options;
    const char *svg, *caches;
    bool columns, slabinfo, table, traces, search;
    const char *classes, *judge[PLAN_JUDGED], **file;
    unsigned judged, files;
    double object, slab;   /* weights */
    const char *of_layout; /* an option that only a single layout has */
};

/* A whole number from least to most, with k behind it perhaps; false after complain(). */
static bool plan_number(const char *option, const char *text, size_t least, size_t most,
                        size_t *number)
{
    size_t times = 1;
    char *end;

    errno = 0;
    *number = strtoul(text, &end, 10);
    if (*end == 'k' && end != text) {
        times = 1024;
        end++;
    }
    if (end == text || *end || errno || *text == '-' || *number > SIZE_MAX / times ||
        *number * times < least || *number * times > most) {
        complain(STATUS_USAGE, "plan: --%s %s: a number from %zu to %zu is expected", option, text,
                 least, most);
        return false;
    }
    *number *= times;
    return true;
}

static bool plan_power_of_two(const char *option, const char *text, size_t least, size_t most,
                              size_t *number)
{
    if (!plan_number(option, text, least, most, number))
        return false;
    if (*number & (*number - 1)) {
        complain(STATUS_USAGE, "plan: --%s %s: a power of two is expected", option, text);
        return false;
    }
    return true;
}

/* One NAME or NAME:BYTES. */
static bool plan_column(struct plan_options *o, const char *text)
{
    static const uint16_t usual[LAYOUT_COLUMNS] = {
#define PLAN_USUAL(id, name, letter, fill, bytes) [LAYOUT_##id] = (bytes),
        PLAN_COLUMNS(PLAN_USUAL)
#undef PLAN_USUAL
    };
    size_t length = strcspn(text, ":"), bytes;
    unsigned i = 0;

    while (i < LAYOUT_COLUMNS && (strlen(plan_column_names[i]) != length ||
                                  memcmp(plan_column_names[i], text, length) != 0))
        i++;
    if (i == LAYOUT_COLUMNS) {
        complain(STATUS_USAGE, "plan: there is no column '%.*s'; there are:" PLAN_NAMES,
                 (int)length, text);
        return false;
    }
    if (o->element[i]) {
        complain(STATUS_USAGE, "plan: column %s is named twice", plan_column_names[i]);
        return false;
    }
    bytes = usual[i];
    if (text[length] && !plan_number("columns", text + length + 1, 2, LAYOUT_ELEMENT_MAX, &bytes))
        return false;
    if (bytes % 2 || (i == LAYOUT_LINK && bytes != LAYOUT_LINK_SIZE)) {
        complain(STATUS_USAGE,
                 i == LAYOUT_LINK ? "plan: links must have %u bytes"
                                  : "plan: the bytes of a column must be even",
                 LAYOUT_LINK_SIZE);
        return false;
    }
    o->element[i] = (uint16_t)bytes;
    return true;
}

static bool plan_read_columns(struct plan_options *o, const char *text)
{
    char list[128], *rest = list, *name;

    if (strlen(text) >= sizeof(list)) {
        complain(STATUS_USAGE, "plan: --columns: the list is too long");
        return false;
    }
    strcpy(list, text);
    while ((name = strsep(&rest, ",")))
        if (!plan_column(o, name))
            return false;
    return true;
}

static bool plan_read_page_size(struct plan_options *o, const char *text)
{
    size_t bytes;

    if (!plan_power_of_two("page-size", text, PAGE_SIZE, 64 << 10, &bytes))
        return false;
    o->page_shift = (unsigned)__builtin_ctzl(bytes);
    return true;
}

/* OBJECT,SLAB */
static bool plan_weights(struct plan_command *c, const char *text)
{
    char *end = NULL, *last = NULL;

    c->object = strtod(text, &end);
    if (end != text && *end == ',')
        c->slab = strtod(end + 1, &last);
    if (!last || last == end + 1 || *last || !(c->object >= 0 && c->object <= 1e9) ||
        !(c->slab >= 0 && c->slab <= 1e9)) {
        complain(STATUS_USAGE, "plan: --weights %s: OBJECT,SLAB in bytes are expected", text);
        return false;
    }
    return true;
}

static bool plan_option(struct plan_command *c, int option, const char *text)
{
    struct plan_options *o = &c->options;
    size_t number;

    switch (option) {
    case OPTION_SIZE:
        return plan_number("size", text, 1, STOOK_OBJECT_SIZE_MAX, &o->size);
    case OPTION_ALIGN:
        return plan_power_of_two("align", text, 1, STOOK_ALIGN_MAX, &o->align);
    case OPTION_COLUMNS:
        c->columns = true;
        return plan_read_columns(o, text);
    case OPTION_CTOR:
        return o->ctor = true;
    case OPTION_TYPESAFE:
        return o->typesafe = true;
    case OPTION_POISON:
        return o->poison = true;
    case OPTION_PAGE_SIZE:
        return plan_read_page_size(o, text);
    case OPTION_ORDER:
        if (!plan_number("order", text, 0, LAYOUT_ORDER_MAX, &number))
            return false;
        o->order = (int)number;
        return true;
    case OPTION_LIBRARY:
        return o->library = true;
    case OPTION_OUTSIDE:
        return o->outside = true;
    case OPTION_EXPLAIN:
        return o->explain = true;
    case OPTION_JSON:
        return o->json = true;
    case OPTION_SVG:
        c->svg = text;
        return true;
    case OPTION_SLABINFO:
        c->slabinfo = true;
        c->caches = text;
        return true;
    case OPTION_TABLE:
        return c->table = true;
    case OPTION_TRACES:
        return c->traces = true;
    case OPTION_CLASSES:
        c->classes = text;
        return true;
    case OPTION_SEARCH:
        return c->search = true;
    case OPTION_JUDGE:
        if (c->judged == PLAN_JUDGED) {
            complain(STATUS_USAGE, "plan: more than %d traces to judge by", PLAN_JUDGED);
            return false;
        }
        c->judge[c->judged++] = text;
        return true;
    case OPTION_WEIGHTS:
        return plan_weights(c, text);
    default:
        return false; /* getopt has said why */
    }
}

/* What goes with a list of caches, or a table: the rest is of one layout. */
static bool plan_of_many(int option, bool table)
{
    return option == OPTION_JSON || option == OPTION_SLABINFO || option == OPTION_TABLE ||
           option == OPTION_PAGE_SIZE ||
           (table && (option == OPTION_LIBRARY || option == OPTION_CTOR ||
                      option == OPTION_TYPESAFE || option == OPTION_POISON));
}

/* Traces, and nothing of a layout's. */
static bool plan_check_traces(const struct plan_command *c, const bool said[OPTIONS])
{
    for (int i = 1; i < OPTIONS; i++)
        if (said[i] && i != OPTION_JSON && c->traces != (i >= OPTION_TRACES)) {
            complain(STATUS_USAGE,
                     c->traces ? "plan: --%s cannot be combined with --traces"
                               : "plan: --%s needs --traces",
                     plan_long_options[i - 1].name);
            return false;
        }
    if (c->traces && c->files == 0) {
        complain(STATUS_USAGE, "plan: --traces: a file is needed; stook run --trace records one");
        return false;
    }
    return true;
}

static bool plan_check(struct plan_command *c, const bool said[OPTIONS])
{
    const char *mode = c->table ? "--table" : c->slabinfo ? "--slabinfo" : NULL;
    struct plan_options *o = &c->options;

    if (c->table && c->slabinfo) {
        complain(STATUS_USAGE, "plan: --table excludes --slabinfo");
        return false;
    }
    for (int i = 1; mode && i < OPTIONS; i++)
        if (said[i] && !plan_of_many(i, c->table)) {
            complain(STATUS_USAGE, "plan: --%s cannot be combined with %s",
                     plan_long_options[i - 1].name, mode);
            return false;
        }
    if (mode)
        return true;
    if (o->size == 0) {
        complain(STATUS_USAGE, "plan: --size BYTES is needed, or --slabinfo or --table");
        return false;
    }
    if (o->align == 0)
        o->align = o->size >= 16 ? 16 : 8; /* as stook_cache_create() has it */
    if (!c->columns)
        o->element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
    if (c->svg && o->json && strcmp(c->svg, "-") == 0) {
        complain(STATUS_USAGE, "plan: --json and --svg - cannot both be standard output");
        return false;
    }
    return true;
}

static bool plan_parse(struct plan_command *c, int argc, char **argv)
{
    bool said[OPTIONS] = {0};
    int option;

    *c = (struct plan_command){.options = {.page_shift = PAGE_SHIFT, .order = PLAN_ORDER_AUTO},
                               .object = PLAN_OBJECT,
                               .slab = PLAN_SLAB};
    optind = 1;
    while ((option = getopt_long(argc, argv, "", plan_long_options, NULL)) != -1) {
        if (!plan_option(c, option, optarg))
            return false;
        said[option] = true;
    }
    if (optind < argc && c->slabinfo && !c->caches) /* --slabinfo FILE */
        c->caches = argv[optind++];
    if (c->traces) {
        c->file = (const char **)&argv[optind];
        c->files = (unsigned)(argc - optind);
        return plan_check_traces(c, said);
    }
    if (!plan_check_traces(c, said))
        return false;
    if (optind < argc) {
        complain(STATUS_USAGE, "plan: there is no option %s; see stook help plan", argv[optind]);
        return false;
    }
    return plan_check(c, said);
}

static int plan_show(const struct plan_command *c)
{
    const struct plan_options *o = &c->options;
    struct plan plan;

    if (!plan_make(&plan, o)) {
        if (o->order != PLAN_ORDER_AUTO)
            return complain(STATUS_USAGE,
                            "plan: 2^%d pages of %u bytes hold no object of %zu bytes aligned to "
                            "%zu with these columns, or are more than 1 MiB",
                            o->order, 1u << o->page_shift, o->size, o->align);
        return complain(STATUS_USAGE, "plan: no slab holds objects of %zu bytes aligned to %zu",
                        o->size, o->align);
    }
    if (c->svg && !plan_write_svg(&plan, c->svg))
        return complain(STATUS_FAILED, "plan: %s: %s", c->svg, strerror(errno));
    if (o->json)
        plan_print_json(&plan);
    else if (!c->svg || strcmp(c->svg, "-") != 0)
        plan_print(&plan);
    return STATUS_OK;
}

static int plan_traces(const struct plan_command *c)
{
    struct traces_plan plan = {.traces = c->files + c->judged,
                               .judged = c->judged,
                               .object = c->object,
                               .slab = c->slab,
                               .search = c->search,
                               .json = c->options.json};
    struct traces_table table;
    int status = STATUS_FAILED;
    unsigned n = 0;

    traces_builtin(&table);
    if (c->classes && !traces_table_read(&table, c->classes))
        return STATUS_USAGE;
    plan.trace = calloc(plan.traces, sizeof(plan.trace[0]));
    if (!plan.trace)
        return complain(STATUS_FAILED, "plan: no memory for the traces");
    while (n < plan.traces &&
           traces_read(&plan.trace[n], n < c->files ? c->file[n] : c->judge[n - c->files]))
        n++;
    if (n == plan.traces && traces_start())
        status = traces_resolve_all(&table) ? traces_run(&plan, &table) : STATUS_USAGE;
    for (unsigned i = 0; i < plan.traces; i++)
        traces_free(&plan.trace[i]);
    free(plan.trace);
    return status;
}

static int plan_run(int argc, char **argv)
{
    struct plan_command command;

    if (!plan_parse(&command, argc, argv))
        return STATUS_USAGE;
    if (command.traces)
        return plan_traces(&command);
    if (command.slabinfo)
        return plan_slabinfo(&command.options, command.caches);
    if (command.table) {
        plan_table(&command.options);
        return STATUS_OK;
    }
    return plan_show(&command);
}

const struct command command_plan = {
    .name = "plan",
    .summary =
        "where the metadata of objects lies, how much a machine's caches waste, and what malloc's "
        "classes cost",
    .help =
        "usage: stook plan --size BYTES [--align BYTES] [OPTIONS]\n"
        "       stook plan --table [--json]\n"
        "       stook plan --slabinfo [FILE] [--json]\n"
        "       stook plan --traces FILE... [--classes LIST] [--search [--judge FILE]...] [--json]\n"
        "\n"
        "Draws the layout of an object and of a slab, with the waste by cause.\n"
        "\n"
        "  --columns LIST   NAME or NAME:BYTES each, with commas; default link.  The names:\n"
        "                   " PLAN_NAMES "\n"
        "  --ctor --typesafe --poison   the library may not write to free objects\n"
        "  --page-size N    4096 to 65536; default 4096\n"
        "  --order N        2^N pages a slab; by default the planner chooses\n"
        "  --library        place links as this library's caches do, and no more outside than\n"
        "                   its blocks hold (default: links where they cost the fewest bytes)\n"
        "  --outside        place columns in arrays outside the slab, for comparison\n"
        "  --explain        print why each place was chosen\n"
        "  --json           print JSON\n"
        "  --svg FILE       write a picture; - is standard output\n"
        "\n"
        "  --table          bytes an object that group, tag and both cost, by size and alignment\n"
        "  --slabinfo       the caches of this machine's kernel, or of FILE: a file like\n"
        "                   /proc/slabinfo, a directory like /sys/kernel/slab, or a table with\n"
        "                   name, object_size, align, slab_size, order, objs_per_slab and\n"
        "                   objects in its first line\n"
        "\n"
        "  --traces         what malloc's size classes cost in traces (stook run --trace): bytes at the\n"
        "                   peak by cause, slabs made, objects that went through slabs\n"
        "  --classes LIST   another table: SIZE[:ORDER[:CAPACITY]] between commas, or a file of these\n"
        "  --search         changes the table, a class at a time, as long as that lowers the cost\n"
        "  --judge FILE     a trace that is not searched on, and whose cost is shown\n"
        "  --weights O,S    the cost: bytes at the peak, plus O for each object through slabs, plus S for\n"
        "                   each slab made or unmade; default 1,64\n"
        "\n"
        "  stook plan --size 992 --align 64 --columns link,group,tag --explain\n",
    .run = plan_run,
};
