/* SPDX-License-Identifier: MIT */
/*
 * plan.c - stook plan: where an object's metadata lies and what that costs; or a machine's caches.
 */
#include "plan/plan.h"
#include "look/target.h"
#include "plan/traces.h"
#include "stook/command.h"
#include "stook/option.h"

#include "page/pagemap.h"

#include <stook/stook.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLAN_UNITS = 1024, /* of numbers: what k stands for */
};

/* What is planned; options say which of these they go with. */
enum plan_mode { PLAN_LAYOUT = 1, PLAN_SLABINFO = 2, PLAN_TRACES = 4 };

/* What the command line says. */
static struct plan_command {
    struct plan_options options;
    const char *caches, *classes, **file;
    bool columns, slabinfo, traces;
    unsigned files;
} plan_command = {.options = {.page_shift = PAGE_SHIFT, .order = PLAN_ORDER_AUTO}};

/* One NAME or NAME:BYTES; NULL, or what is wrong with it. */
static const char *plan_column(struct plan_options *o, const char *text)
{
    static const uint16_t usual[LAYOUT_COLUMNS] = {
#define PLAN_USUAL(id, name, letter, bytes) [LAYOUT_##id] = (bytes),
        PLAN_COLUMNS(PLAN_USUAL)
#undef PLAN_USUAL
    };
    size_t length = strcspn(text, ":");
    uint64_t bytes;
    unsigned i = 0;

    while (i < LAYOUT_COLUMNS && (strlen(plan_column_names[i]) != length ||
                                  memcmp(plan_column_names[i], text, length) != 0))
        i++;
    if (i == LAYOUT_COLUMNS) {
        (void)complain(STATUS_USAGE, "there is no column '%.*s'; there are:" PLAN_NAMES,
                       (int)length, text);
        return "";
    }
    if (o->element[i])
        return "a column is named twice";
    bytes = usual[i];
    if (text[length] && !option_number(text + length + 1, 0, 2, LAYOUT_ELEMENT_MAX, &bytes))
        return "a number of bytes from 2 on is expected behind the colon";
    if (i == LAYOUT_LINK && bytes != LAYOUT_LINK_SIZE)
        return "links must have 2 bytes";
    if (bytes % 2)
        return "the bytes of a column must be even";
    o->element[i] = (uint16_t)bytes;
    return NULL;
}

static const char *plan_read_columns(const char *text, void *to)
{
    char list[128], *rest = list, *name;
    const char *wrong = NULL;

    plan_command.columns = true;
    if (strlen(text) >= sizeof(list))
        return "the list is too long";
    strcpy(list, text);
    while (!wrong && (name = strsep(&rest, ",")))
        wrong = plan_column(to, name);
    return wrong;
}

static const char *plan_read_page_size(const char *text, void *to)
{
    uint64_t bytes;

    if (!option_number(text, PLAN_UNITS, PAGE_SIZE, 64 << 10, &bytes) || (bytes & (bytes - 1)))
        return "a power of two from 4096 to 65536 is expected";
    *(unsigned *)to = (unsigned)__builtin_ctzl(bytes);
    return NULL;
}

static const char *plan_read_align(const char *text, void *to)
{
    uint64_t bytes;

    if (!option_number(text, PLAN_UNITS, 1, STOOK_ALIGN_MAX, &bytes) || (bytes & (bytes - 1)))
        return "a power of two from 1 to 4096 is expected";
    *(size_t *)to = bytes;
    return NULL;
}

static const char *plan_read_slabinfo(const char *text, void *to)
{
    *(const char **)to = text;
    plan_command.slabinfo = true;
    return NULL;
}

static const struct option_row plan_rows[] = {
    {"size", OPTION_NUMBER, &plan_command.options.size, 1, STOOK_OBJECT_SIZE_MAX,
     .modes = PLAN_LAYOUT},
    {"align", OPTION_CALL, &plan_command.options.align, .read = plan_read_align,
     .modes = PLAN_LAYOUT},
    {"columns", OPTION_CALL, &plan_command.options, .read = plan_read_columns,
     .modes = PLAN_LAYOUT},
    {"ctor", OPTION_FLAG, &plan_command.options.ctor, .modes = PLAN_LAYOUT},
    {"typesafe", OPTION_FLAG, &plan_command.options.typesafe, .modes = PLAN_LAYOUT},
    {"poison", OPTION_FLAG, &plan_command.options.poison, .modes = PLAN_LAYOUT},
    {"page-size", OPTION_CALL, &plan_command.options.page_shift, .read = plan_read_page_size,
     .modes = PLAN_LAYOUT | PLAN_SLABINFO},
    {"order", OPTION_UNSIGNED, &plan_command.options.order, 0, LAYOUT_ORDER_BLOCK,
     .modes = PLAN_LAYOUT},
    {"library", OPTION_FLAG, &plan_command.options.as_library, .modes = PLAN_LAYOUT},
    {"outside", OPTION_FLAG, &plan_command.options.outside, .modes = PLAN_LAYOUT},
    {"explain", OPTION_FLAG, &plan_command.options.explain, .modes = PLAN_LAYOUT},
    {"json", OPTION_FLAG, &plan_command.options.json,
     .modes = PLAN_LAYOUT | PLAN_SLABINFO | PLAN_TRACES},
    {"slabinfo", OPTION_CALL, &plan_command.caches, .read = plan_read_slabinfo, .otherwise = "",
     .modes = PLAN_SLABINFO},
    {"traces", OPTION_FLAG, &plan_command.traces, .modes = PLAN_TRACES},
    {"classes", OPTION_TEXT, &plan_command.classes, .modes = PLAN_TRACES},
};
enum { PLAN_ROWS = sizeof(plan_rows) / sizeof(plan_rows[0]) };

/* The mode, and whether all that was said goes with it; false after complain(). */
static bool plan_check_modes(const struct plan_command *c, const bool said[PLAN_ROWS])
{
    enum plan_mode mode = c->traces ? PLAN_TRACES : c->slabinfo ? PLAN_SLABINFO : PLAN_LAYOUT;
    const char *name = c->traces ? "--traces" : "--slabinfo";

    for (unsigned i = 0; i < PLAN_ROWS; i++)
        if (said[i] && !(plan_rows[i].modes & mode))
            return plan_rows[i].modes == PLAN_TRACES
                       ? refuse("--%s needs --traces", plan_rows[i].name)
                       : refuse("--%s cannot be combined with %s", plan_rows[i].name, name);
    return true;
}

static bool plan_parse(struct plan_command *c, int argc, char **argv)
{
    struct plan_options *o = &c->options;
    bool said[PLAN_ROWS] = {false};
    const struct option_table table = {"plan",    STATUS_USAGE,        plan_rows,
                                       PLAN_ROWS, .units = PLAN_UNITS, .said = said};

    if (option_read(&table, argc, argv) != STATUS_OK)
        return false;
    if (optind < argc && c->slabinfo && !*c->caches && !c->traces) /* --slabinfo FILE */
        c->caches = argv[optind++];
    if (!plan_check_modes(c, said))
        return false;
    c->file = (const char **)&argv[optind];
    c->files = (unsigned)(argc - optind);
    if (c->traces)
        return c->files > 0 || refuse("--traces: a file is needed; stook run --trace records one");
    if (c->files > 0)
        return refuse("there is no option %s; see stook help plan", argv[optind]);
    if (c->slabinfo)
        return true;
    if (o->size == 0)
        return refuse("--size BYTES is needed, or --slabinfo");
    if (o->align == 0)
        o->align = o->size >= 16 ? 16 : 8; /* as stook_cache_create() has it */
    if (!c->columns)
        o->element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
    return true;
}

static int plan_show(const struct plan_command *c)
{
    const struct plan_options *o = &c->options;
    struct plan plan;

    if (!plan_make(&plan, o)) {
        if (o->order != PLAN_ORDER_AUTO)
            return complain(STATUS_USAGE,
                            "2^%d pages of %u bytes hold no object of %zu bytes aligned to "
                            "%zu with these columns, or are more than a slab's 1 MiB (2 MiB "
                            "for objects beyond 256 KiB)",
                            o->order, 1u << o->page_shift, o->size, o->align);
        return complain(STATUS_USAGE, "no slab holds objects of %zu bytes aligned to %zu", o->size,
                        o->align);
    }
    if (o->json)
        plan_print_json(&plan);
    else
        plan_print(&plan);
    return STATUS_OK;
}

static int plan_traces(const struct plan_command *c)
{
    struct traces_trace *trace = target_need(calloc(c->files, sizeof(*trace)));
    struct traces_table table;
    int status = STATUS_FAILED;
    unsigned n = 0;

    traces_builtin(&table);
    if (c->classes && !traces_table_read(&table, c->classes))
        return STATUS_USAGE;
    while (n < c->files && traces_read(&trace[n], c->file[n]))
        n++;
    if (n == c->files && traces_start()) {
        status = traces_resolve_all(&table) ? STATUS_OK : STATUS_USAGE;
        if (status == STATUS_OK)
            traces_show(trace, n, &table, c->options.json);
    }
    for (unsigned i = 0; i < c->files; i++)
        traces_free(&trace[i]);
    free(trace);
    return status;
}

static int plan_run(int argc, char **argv)
{
    struct plan_command *c = &plan_command;

    if (!plan_parse(c, argc, argv))
        return STATUS_USAGE;
    if (c->traces)
        return plan_traces(c);
    if (c->slabinfo)
        return plan_slabinfo(&c->options, *c->caches ? c->caches : NULL);
    return plan_show(c);
}

const struct command command_plan = {
    .name = "plan",
    .summary =
        "where the metadata of objects lies, how much a machine's caches waste, and what malloc's "
        "classes cost",
    .help =
        "usage: stook plan --size BYTES [--align BYTES] [OPTIONS]\n"
        "       stook plan --slabinfo [FILE] [--json]\n"
        "       stook plan --traces FILE... [--classes LIST] [--json]\n"
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
        "\n"
        "  --slabinfo       the caches of this machine's kernel, or of FILE: a file like\n"
        "                   /proc/slabinfo, a directory like /sys/kernel/slab, or a table with\n"
        "                   name, object_size, align, slab_size, order, objs_per_slab and\n"
        "                   objects in its first line\n"
        "\n"
        "  --traces         what malloc's size classes cost in traces (stook run --trace): bytes at the\n"
        "                   peak by cause, slabs made, objects that went through slabs\n"
        "  --classes LIST   another table: SIZE[:ORDER[:CAPACITY]] between commas, or a file of these\n" HELP_END(
            "plan --size 992 --align 64 --columns link,group,tag --explain"),
    .run = plan_run,
};
