/* SPDX-License-Identifier: MIT */
/*
 * stook-bench CASE: every allocator in a process of its own, interleaved over the repeats, so that a
 * disturbance of the machine meets all of them and none alone.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "plan.h"
#include "roster.h"
#include "run.h"

#define ROSTER_MAX 64
#define REPEATS_MAX 101

static struct options {
    int json;
    unsigned repeats; /* 0 here and below: the case's default */
    size_t object_size[PLAN_VALUES_MAX];
    size_t n[PLAN_VALUES_MAX];
    size_t threads;
    size_t mib;
    unsigned rounds;
    unsigned ms;
    double settle;
    int in_order;
    const char *allocators; /* comma lists; NULL: all */
    const char *linked;
    const char *subcases;
} options;

static void main_usage(FILE *to)
{
    fprintf(to, "usage: stook-bench CASE [options]\n\ncases:\n");
    for (size_t i = 0; i < plan_case_count; i++)
        fprintf(to, "  %-8s%s%-16s %s\n", plan_cases[i].family,
                strcmp(plan_cases[i].name, plan_cases[i].family) ? " --case " : "        ",
                strcmp(plan_cases[i].name, plan_cases[i].family) ? plan_cases[i].name : "",
                plan_cases[i].what);
    fprintf(to, "  all\n\n"
                "  --json             one JSON object a line instead of tables\n"
                "  --repeats N        runs of each allocator, interleaved; medians are shown\n"
                "  --case LIST        of a family of cases only these\n"
                "  --allocators LIST  only these, for example stook,glibc\n"
                "  --linked static|shared\n"
                "  --size LIST        bytes of an object\n"
                "  --n LIST           objects a batch (idle: a thread)\n"
                "  --threads N        threads of idle and remote-*\n"
                "  --mib N            live MiB of the memory cases\n"
                "  --rounds N         inner rounds; breaths; rounds of replacement\n"
                "  --ms N             milliseconds of an inner round\n"
                "  --settle SECONDS   returned: wait before reading what is resident (0)\n"
                "  --in-order         returned: free in the order of allocation\n");
}

/* A number greater than zero; ends the program at anything else. */
static size_t main_number(const char *option, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || !value || value > 1ul << 40) {
        fprintf(stderr, "stook-bench: --%s %s: not a number above zero\n", option, text);
        exit(2);
    }
    return value;
}

static void main_numbers(const char *option, char *text, size_t *values)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        if (count == PLAN_VALUES_MAX - 1) {
            fprintf(stderr, "stook-bench: --%s takes %d values at most\n", option,
                    PLAN_VALUES_MAX - 1);
            exit(2);
        }
        values[count++] = main_number(option, one);
    }
}

/* Whether a comma list names the word; a list that is NULL names all. */
static int main_listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    if (!list)
        return 1;
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

static double main_median(double *values, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && values[j - 1] > values[j]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    if (!count)
        return NAN;
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* What one allocator's runs reported, by metric. */
struct samples {
    double value[METRIC_COUNT][REPEATS_MAX];
    unsigned count[METRIC_COUNT];
};

static enum run_status main_run_once(const struct plan_case *plan, const char *worker,
                                     size_t object_size, size_t n, struct samples *samples)
{
    char text[8][48];
    struct run_figures figures;
    char name[32];

    snprintf(name, sizeof(name), "%s", plan->name);
    snprintf(text[0], sizeof(text[0]), "object_size=%zu", object_size);
    snprintf(text[1], sizeof(text[1]), "n=%zu", n);
    snprintf(text[2], sizeof(text[2]), "threads=%zu",
             options.threads ? options.threads : plan->threads);
    snprintf(text[3], sizeof(text[3]), "mib=%zu", options.mib ? options.mib : plan->mib);
    snprintf(text[4], sizeof(text[4]), "rounds=%u", options.rounds ? options.rounds : plan->rounds);
    snprintf(text[5], sizeof(text[5]), "ms=%u", options.ms ? options.ms : plan->ms);
    snprintf(text[6], sizeof(text[6]), "settle=%g", options.settle);
    snprintf(text[7], sizeof(text[7]), "in_order=%d", options.in_order);
    char path[4200];
    snprintf(path, sizeof(path), "%s", worker);
    char *argv[] = {path,    name,    text[0], text[1], text[2], text[3],
                    text[4], text[5], text[6], text[7], NULL};
    enum run_status status = run_worker(argv, &figures);
    if (status == RUN_OK)
        for (int metric = 0; metric < METRIC_COUNT; metric++)
            if (!isnan(figures.value[metric]))
                samples->value[metric][samples->count[metric]++] = figures.value[metric];
    return status;
}

static void main_summarise(struct output_record *record, struct samples *samples)
{
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        record->median.value[metric] = main_median(samples->value[metric], samples->count[metric]);
    /* Sorted now. */
    unsigned pairs = samples->count[METRIC_pair_ns];
    record->pair_min = pairs ? samples->value[METRIC_pair_ns][0] : NAN;
    record->pair_max = pairs ? samples->value[METRIC_pair_ns][pairs - 1] : NAN;
}

/* Returns how many runs failed, which is not the same as being missing. */
static int main_run_case(const struct plan_case *plan, size_t object_size, size_t n)
{
    static struct output_record records[ROSTER_MAX];
    static struct samples samples[ROSTER_MAX];
    unsigned repeats = options.repeats ? options.repeats : plan->repeats;
    size_t count = 0;
    int failures = 0;

    memset(samples, 0, sizeof(samples));
    for (size_t i = 0; i < roster_count && count < ROSTER_MAX; i++) {
        const struct roster_entry *entry = &roster[i];
        if (!(entry->groups & (unsigned)plan->group) ||
            !main_listed(options.allocators, entry->allocator) ||
            (plan->record != RECORD_MEMORY && !main_listed(options.linked, entry->linked)))
            continue;
        records[count++] = (struct output_record){
            .entry = entry,
            .object_size = object_size,
            .n = n,
            .measured = 1,
        };
    }
    for (unsigned round = 0; round < repeats; round++) {
        for (size_t i = 0; i < count; i++) {
            /* Each round begins with another one: being first or last is nobody's lot. */
            size_t at = (i + round * (count / repeats + 1)) % count;
            struct output_record *record = &records[at];
            const char *missing = "";
            if (!record->measured)
                continue;
            const char *worker = roster_worker(record->entry, &missing);
            enum run_status status = RUN_CANNOT;
            if (worker)
                status = main_run_once(plan, worker, object_size, n, &samples[at]);
            if (status == RUN_OK)
                continue;
            record->measured = 0;
            snprintf(record->missing, sizeof(record->missing), "%s",
                     !worker                ? missing
                     : status == RUN_CANNOT ? "cannot run here"
                                            : "failed");
            failures += status == RUN_FAILED;
        }
    }
    for (size_t i = 0; i < count; i++)
        main_summarise(&records[i], &samples[i]);
    if (options.json)
        output_json(plan, records, count);
    else
        output_table(plan, records, count);
    return failures;
}

static int main_run_plan(const struct plan_case *plan)
{
    int failures = 0;
    /* Records of mixed sizes still run once. */
    size_t one[] = {plan->object_size, 0};
    const size_t *sizes = options.object_size[0] && plan->object_size ? options.object_size : one;
    /* Cases of one object, and those of mixed sizes, have no n to set. */
    const size_t *ns = options.n[0] && plan->n[0] > 1 ? options.n : plan->n;

    for (size_t i = 0; i == 0 || sizes[i]; i++)
        for (size_t j = 0; j == 0 || ns[j]; j++)
            failures += main_run_case(plan, sizes[i], ns[j]);
    return failures;
}

int main(int argc, char **argv)
{
    enum {
        JSON = 1,
        REPEATS,
        CASE,
        ALLOCATORS,
        LINKED,
        SIZE,
        N,
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
        {"repeats", required_argument, NULL, REPEATS},
        {"case", required_argument, NULL, CASE},
        {"allocators", required_argument, NULL, ALLOCATORS},
        {"linked", required_argument, NULL, LINKED},
        {"size", required_argument, NULL, SIZE},
        {"n", required_argument, NULL, N},
        {"threads", required_argument, NULL, THREADS},
        {"mib", required_argument, NULL, MIB},
        {"rounds", required_argument, NULL, ROUNDS},
        {"ms", required_argument, NULL, MS},
        {"settle", required_argument, NULL, SETTLE},
        {"in-order", no_argument, NULL, IN_ORDER},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    int option, failures = 0, ran = 0;

    while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (option) {
        case JSON:
            options.json = 1;
            break;
        case REPEATS:
            options.repeats = (unsigned)main_number("repeats", optarg);
            break;
        case CASE:
            options.subcases = optarg;
            break;
        case ALLOCATORS:
            options.allocators = optarg;
            break;
        case LINKED:
            options.linked = optarg;
            break;
        case SIZE:
            main_numbers("size", optarg, options.object_size);
            break;
        case N:
            main_numbers("n", optarg, options.n);
            break;
        case THREADS:
            options.threads = main_number("threads", optarg);
            break;
        case MIB:
            options.mib = main_number("mib", optarg);
            break;
        case ROUNDS:
            options.rounds = (unsigned)main_number("rounds", optarg);
            break;
        case MS:
            options.ms = (unsigned)main_number("ms", optarg);
            break;
        case SETTLE:
            options.settle = strtod(optarg, NULL);
            break;
        case IN_ORDER:
            options.in_order = 1;
            break;
        case HELP:
        case 'h':
            main_usage(stdout);
            return 0;
        default:
            main_usage(stderr);
            return 2;
        }
    }
    if (optind != argc - 1) {
        main_usage(stderr);
        return 2;
    }
    if (options.repeats > REPEATS_MAX)
        options.repeats = REPEATS_MAX;
    for (size_t i = 0; i < plan_case_count; i++) {
        const struct plan_case *plan = &plan_cases[i];
        int named =
            !strcmp(argv[optind], "all") || !strcmp(argv[optind], plan->name) ||
            (!strcmp(argv[optind], plan->family) && main_listed(options.subcases, plan->name));
        if (!named)
            continue;
        failures += main_run_plan(plan);
        ran = 1;
    }
    if (!ran) {
        fprintf(stderr, "stook-bench: no such case: %s%s%s\n", argv[optind],
                options.subcases ? " --case " : "", options.subcases ? options.subcases : "");
        return 2;
    }
    return failures ? 1 : 0;
}
