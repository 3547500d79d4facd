/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../modes.h"

static void options_usage(FILE *to)
{
    fprintf(to, "usage: stook-bench CASE [options]\n\ncases:\n");
    for (size_t i = 0; i < plan_case_count; i++)
        fprintf(to, "  %-9s%s%-16s %s\n", plan_cases[i].family,
                strcmp(plan_cases[i].name, plan_cases[i].family) ? " --case " : "        ",
                strcmp(plan_cases[i].name, plan_cases[i].family) ? plan_cases[i].name : "",
                plan_cases[i].what);
    fprintf(
        to,
        "  all\n"
        "  programs           whole programs; options of its own: stook-bench programs --help\n"
        "  long               programs that live long: resident memory over live bytes; also with\n"
        "                     options of its own\n\n"
        "  --json             one JSON object a line instead of tables\n"
        "  --repeats N        runs of each allocator, interleaved; medians are shown\n"
        "  --quick            one run of each, no records with the default reserve; slub_bulk:\n"
        "                     fewer rounds, and mallocs free in order only\n"
        "  --case LIST        of a family of cases only these\n"
        "  --against LIBDIR   run each row of Stook with another build of the library too, in turns, and\n"
        "                     show both medians and the ratio of neighbouring runs; LIBDIR holds its\n"
        "                     libstook.so, and ../libexec/stook-bench beside it its workers\n"
        "  --allocators LIST  only these, for example stook,glibc\n"
        "  --linked static|shared\n"
        "  --mode LIST        slab_bulk, handoff-burst: single, bulk; slub_bulk: emit,\n"
        "                     link-first, link-inside, bulk, single; handoff-pool: single,\n"
        "                     pool; handoff-rcu: memb, qsbr; tags, groups: off,\n"
        "                     group, tag, both; columns: off, group, both\n"
        "  --order LIST       slub_bulk: sequential, random\n"
        "  --free-order LIST  slub_bulk: ordered, shuffled\n"
        "  --size LIST        bytes of an object\n"
        "  --n LIST           objects a batch (idle: a thread; kmalloc, columns: in all)\n"
        "  --align LIST       columns: of these alignments of a table only\n"
        "  --threads N        threads of idle and remote-*\n"
        "  --mib N            live MiB of slub_bulk and the memory cases; handoff-rcu: of a round\n"
        "  --rounds N         inner rounds; breaths; rounds of replacement\n"
        "  --ms N             milliseconds of an inner round\n"
        "  --settle SECONDS   returned: wait before reading what is resident (0)\n"
        "  --in-order         returned: free in the order of allocation\n");
}

/* A number greater than zero; ends the program at anything else. */
static size_t options_number(const char *option, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || !value || value > 1ul << 40) {
        fprintf(stderr, "stook-bench: --%s %s: not a number above zero\n", option, text);
        exit(2);
    }
    return value;
}

static void options_numbers(const char *option, char *text, size_t *values)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (count == PLAN_VALUES_MAX - 1) {
            fprintf(stderr, "stook-bench: --%s takes %d values at most\n", option,
                    PLAN_VALUES_MAX - 1);
            exit(2);
        }
        values[count++] = options_number(option, one);
    }
}

/* A comma list of nothing but these words. */
static const char *options_words(const char *option, const char *text, const char *const *names,
                                 int count)
{
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        if (modes_find(names, count, one) < 0) {
            fprintf(stderr, "stook-bench: --%s %s: there is no %s\n", option, text, one);
            exit(2);
        }
    return text;
}

int options_listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    if (!list)
        return 1;
    if (!length)
        return 0;
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

enum {
    JSON = 1,
    QUICK,
    REPEATS,
    CASE,
    AGAINST,
    ALLOCATORS,
    LINKED,
    MODE,
    ORDER,
    FREE_ORDER,
    SIZE,
    N,
    ALIGN,
    THREADS,
    MIB,
    ROUNDS,
    MS,
    SETTLE,
    IN_ORDER,
    HELP
};

static const struct option longs[] = {
    {"json", no_argument, NULL, JSON},
    {"quick", no_argument, NULL, QUICK},
    {"repeats", required_argument, NULL, REPEATS},
    {"case", required_argument, NULL, CASE},
    {"against", required_argument, NULL, AGAINST},
    {"allocators", required_argument, NULL, ALLOCATORS},
    {"linked", required_argument, NULL, LINKED},
    {"mode", required_argument, NULL, MODE},
    {"order", required_argument, NULL, ORDER},
    {"free-order", required_argument, NULL, FREE_ORDER},
    {"size", required_argument, NULL, SIZE},
    {"n", required_argument, NULL, N},
    {"align", required_argument, NULL, ALIGN},
    {"threads", required_argument, NULL, THREADS},
    {"mib", required_argument, NULL, MIB},
    {"rounds", required_argument, NULL, ROUNDS},
    {"ms", required_argument, NULL, MS},
    {"settle", required_argument, NULL, SETTLE},
    {"in-order", no_argument, NULL, IN_ORDER},
    {"help", no_argument, NULL, HELP},
    {0},
};

static void options_take(struct options *options, int option)
{
    switch (option) {
    case JSON:
        options->json = 1;
        break;
    case QUICK:
        options->quick = 1;
        break;
    case REPEATS:
        options->repeats = (unsigned)options_number("repeats", optarg);
        break;
    case CASE:
        options->subcases = optarg;
        break;
    case AGAINST:
        options->against = optarg;
        break;
    case ALLOCATORS:
        options->allocators = optarg;
        break;
    case LINKED:
        options->linked = optarg;
        break;
    case MODE:
        options->modes = options_words("mode", optarg, mode_names, MODE_COUNT);
        break;
    case ORDER:
        options->orders = options_words("order", optarg, order_names, ORDER_COUNT);
        break;
    case FREE_ORDER:
        options->free_orders =
            options_words("free-order", optarg, free_order_names, FREE_ORDER_COUNT);
        break;
    case SIZE:
        options_numbers("size", optarg, options->object_size);
        break;
    case N:
        options_numbers("n", optarg, options->n);
        break;
    case ALIGN:
        options_numbers("align", optarg, options->align);
        break;
    case THREADS:
        options->threads = options_number("threads", optarg);
        break;
    case MIB:
        options->mib = options_number("mib", optarg);
        break;
    case ROUNDS:
        options->rounds = (unsigned)options_number("rounds", optarg);
        break;
    case MS:
        options->ms = (unsigned)options_number("ms", optarg);
        break;
    case SETTLE:
        options->settle = strtod(optarg, NULL);
        break;
    case IN_ORDER:
        options->in_order = 1;
        break;
    case HELP:
    case 'h':
        options_usage(stdout);
        exit(0);
    default:
        options_usage(stderr);
        exit(2);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    int option;

    while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        options_take(options, option);
    if (optind != argc - 1) {
        options_usage(stderr);
        exit(2);
    }
    options->family = argv[optind];
}
