/* SPDX-License-Identifier: MIT */
/*
 * traces_search.c - the cost of a table, and a search for a cheaper one.  The search removes, splits or moves one class, or
 * gives it slabs or sheaves of the next size, and keeps the best of these changes.
 */
#include "plan/traces.h"
#include "look/target.h"

#include "page/pagemap.h"
#include "slab/layout.h"
#include "stook/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEARCH_FLOOR = 1 << 20, /* a trace that costs less than these bytes weighs less */
    SEARCH_PASSES = 20,     /* over the table at most */
    SEARCH_LEAST = 10000,   /* a change that gains less than one part in so many is none … */
    SEARCH_FITTED = 500,    /* … where it makes a class of sizes that these traces have */
    SEARCH_REACH = 4,       /* steps that a class is moved by at most, of a 32nd of its size */
    SEARCH_MOVES = 64,
    SEARCH_CAPACITIES = 8,
};

/* ---- what was played already ----------------------------------------------------------------- */

struct search_played {
    unsigned trace, above;
    struct traces_class class; /* size 0: none */
    bool any;
    struct traces_cost cost;
};

static struct {
    struct search_played **slot;
    size_t mask, used;
} search_memo;

static size_t search_hash(unsigned trace, unsigned above, const struct traces_class *class)
{
    uint64_t key = trace;

    key = key * 40503 + above;
    key = key * 40503 + class->size;
    key = key * 31 + (unsigned)class->order;
    key = key * 1031 + (unsigned)class->capacity;
    return (size_t)(key * 0x9e3779b97f4a7c15u >> 20);
}

static void search_place(struct search_played *played)
{
    size_t at = search_hash(played->trace, played->above, &played->class) & search_memo.mask;

    while (search_memo.slot[at])
        at = (at + 1) & search_memo.mask;
    search_memo.slot[at] = played;
}

static void search_grow(void)
{
    struct search_played **old = search_memo.slot;
    size_t n = search_memo.mask + 1;

    if (old && search_memo.used < search_memo.mask / 2)
        return;
    search_memo.mask = old ? 2 * n - 1 : 4095;
    search_memo.slot = target_need(calloc(search_memo.mask + 1, sizeof(old[0])));
    for (size_t i = 0; old && i < n; i++)
        if (old[i])
            search_place(old[i]);
    free(old);
}

static void search_forget(void)
{
    for (size_t i = 0; search_memo.slot && i <= search_memo.mask; i++)
        free(search_memo.slot[i]);
    free(search_memo.slot);
    memset(&search_memo, 0, sizeof(search_memo));
}

/* The class is resolved. */
static const struct search_played *search_play(const struct traces_plan *plan, unsigned trace,
                                               unsigned above, const struct traces_class *class)
{
    struct search_played *played;
    size_t at;

    search_grow();
    at = search_hash(trace, above, class) & search_memo.mask;
    for (; (played = search_memo.slot[at]) != NULL; at = (at + 1) & search_memo.mask)
        if (played->trace == trace && played->above == above &&
            memcmp(&played->class, class, sizeof(*class)) == 0)
            return played;
    played = target_need(malloc(sizeof(*played)));
    *played = (struct search_played){.trace = trace, .above = above, .class = *class};
    played->any = traces_play(&plan->trace[trace], above, class, &played->cost, NULL);
    search_memo.used++;
    search_place(played);
    return played;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static void search_add(struct traces_cost *to, const struct traces_cost *cost, int sign)
{
    uint64_t by = (uint64_t)(int64_t)sign;

    to->made += by * cost->made;
    to->gone += by * cost->gone;
    to->through += by * cost->through;
    for (unsigned i = 0; i < TRACES_PARTS; i++) {
        to->bytes[i] += by * cost->bytes[i];
        to->requested[i] += by * cost->requested[i];
    }
}

static void search_weigh(const struct traces_plan *plan, struct traces_sum *sum)
{
    sum->part = 0;
    for (unsigned i = 1; i < TRACES_PARTS; i++)
        if (sum->cost.bytes[i] > sum->cost.bytes[sum->part] ||
            (sum->cost.bytes[i] == sum->cost.bytes[sum->part] &&
             sum->cost.requested[i] > sum->cost.requested[sum->part]))
            sum->part = i;
    sum->peak = sum->cost.bytes[sum->part];
    sum->weighed = (double)sum->peak + plan->object * (double)sum->cost.through +
                   plan->slab * (double)(sum->cost.made + sum->cost.gone);
}

void traces_sum(const struct traces_plan *plan, unsigned trace, const struct traces_table *table,
                struct traces_sum *sum)
{
    unsigned above = 0;

    memset(sum, 0, sizeof(*sum));
    for (unsigned i = 0; i < table->classes; above = table->class[i++].size) {
        const struct search_played *played = search_play(plan, trace, above, &table->class[i]);
        if (played->any)
            search_add(&sum->cost, &played->cost, 1);
    }
    search_weigh(plan, sum);
}

static double search_ratio(const struct traces_sum *now, const struct traces_sum *before)
{
    double base = before->weighed > SEARCH_FLOOR ? before->weighed : SEARCH_FLOOR;

    return 1 + (now->weighed - before->weighed) / base;
}

double traces_mean(const struct traces_sum *now, const struct traces_sum *before, unsigned first,
                   unsigned end)
{
    double sum = 0;

    for (unsigned i = first; i < end; i++)
        sum += search_ratio(&now[i], &before[i]);
    return end > first ? sum / (end - first) : 1;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Classes first to first + old - 1 become the `new` ones; the last of these has the size of the last of those. */
struct search_move {
    unsigned first, old, new;
    double least; /* gain that it must bring */
    struct traces_class class[2];
    char what[80];
};

struct search {
    const struct traces_plan *plan;
    struct traces_table *table;
    struct traces_sum *before, *now, *then; /* of each trace; of a change that is tried */
    struct search_move move[SEARCH_MOVES];
    unsigned moves;
};

static unsigned search_above(const struct traces_table *table, unsigned class)
{
    return class > 0 ? table->class[class - 1].size : 0;
}

static void search_apply(struct traces_table *table, const struct search_move *move)
{
    unsigned behind = table->classes - move->first - move->old;

    memmove(&table->class[move->first + move->new], &table -> class[move->first + move->old],
            behind * sizeof(table->class[0]));
    memcpy(&table->class[move->first], move -> class, move -> new * sizeof(move->class[0]));
    table->classes = table->classes - move->old + move->new;
}

/* A change is kept for the trial if malloc could have the table. */
static void search_offer(struct search *s, struct search_move move)
{
    struct traces_table table = *s->table;

    if (s->moves == SEARCH_MOVES || table.classes - move.old + move.new > TRACES_CLASSES)
        return;
    for (unsigned i = 0; i < move.new; i++)
        if (!traces_resolve(&move.class[i]))
            return;
    search_apply(&table, &move);
    if (!traces_table_wrong(&table))
        s->move[s->moves++] = move;
}

static void search_offer_sizes(struct search *s, unsigned i)
{
    const struct traces_class *class = &s->table->class[i], *next = class + 1;
    unsigned size = class->size, step = size / 32 < TRACES_STEP ? TRACES_STEP : size / 32;
    struct search_move move = {
        .first = i, .old = 2, .new = 1, .least = 1.0 / SEARCH_LEAST, .class = {*next}};

    step -= step % TRACES_STEP;
    if (i + 1 == s->table->classes)
        return;
    snprintf(move.what, sizeof(move.what), "remove %u", size);
    search_offer(s, move);
    for (int n = -SEARCH_REACH; n <= SEARCH_REACH; n++) {
        unsigned to = size + (unsigned)n * step;
        if (n == 0 || to <= search_above(s->table, i) || to >= next->size)
            continue;
        move = (struct search_move){.first = i,
                                    .old = 2,
                                    .new = 2,
                                    .least = 1.0 / SEARCH_FITTED,
                                    .class = {{to, TRACES_AUTO, TRACES_AUTO}, *next}};
        snprintf(move.what, sizeof(move.what), "move %u to %u", size, to);
        search_offer(s, move);
    }
}

static void search_offer_split(struct search *s, unsigned i)
{
    const struct traces_class *class = &s->table->class[i];
    unsigned above = search_above(s->table, i), room = class->size - above;

    for (unsigned n = 1; n < 4; n++) {
        unsigned at = above + room * n / 4;
        struct search_move move = {.first = i, .old = 1, .new = 2, .least = 1.0 / SEARCH_FITTED};
        at -= at % TRACES_STEP;
        if (at <= above || (n > 1 && at == above + room * (n - 1) / 4))
            continue;
        move.class[0] = (struct traces_class){at, TRACES_AUTO, TRACES_AUTO};
        move.class[1] = *class;
        snprintf(move.what, sizeof(move.what), "add %u", at);
        search_offer(s, move);
    }
}

static void search_offer_policy(struct search *s, unsigned i)
{
    static const int capacity[SEARCH_CAPACITIES] = {2, 4, 6, 14, 22, 38, 70, 134};
    const struct traces_class *class = &s->table->class[i];
    struct search_move move = {.first = i, .old = 1, .new = 1, .least = 1.0 / SEARCH_LEAST};

    for (int by = -1; by <= 1; by += 2) {
        move.class[0] = *class;
        move.class[0].order += by;
        if (move.class[0].order < 0 || move.class[0].order > LAYOUT_ORDER_MAX)
            continue;
        snprintf(move.what, sizeof(move.what), "%u: slabs of order %d for %d", class->size,
                 move.class[0].order, class->order);
        search_offer(s, move);
    }
    for (unsigned n = 0; n < SEARCH_CAPACITIES; n++) {
        bool next = (n > 0 && capacity[n - 1] == class->capacity) ||
                    (n + 1 < SEARCH_CAPACITIES && capacity[n + 1] == class->capacity);
        if (!next)
            continue;
        move.class[0] = *class;
        move.class[0].capacity = capacity[n];
        snprintf(move.what, sizeof(move.what), "%u: sheaves of %d for %d", class->size, capacity[n],
                 class->capacity);
        search_offer(s, move);
    }
}

/* The costs after a change, of all traces from `first` on. */
static void search_try(struct search *s, const struct search_move *move, unsigned first,
                       unsigned end)
{
    for (unsigned t = first; t < end; t++) {
        unsigned above = search_above(s->table, move->first);
        s->then[t] = s->now[t];
        for (unsigned i = 0; i < move->old + move->new; i++) {
            bool old = i < move->old;
            const struct traces_class *class =
                old ? &s->table->class[move->first + i] : &move->class[i - move->old];
            const struct search_played *played;
            if (i == move->old)
                above = search_above(s->table, move->first);
            played = search_play(s->plan, t, above, class);
            if (played->any)
                search_add(&s->then[t].cost, &played->cost, old ? -1 : 1);
            above = class->size;
        }
        search_weigh(s->plan, &s->then[t]);
    }
}

/* The best change of a class, if one helps; its gain, or 0. */
static double search_class(struct search *s, unsigned i, struct search_move *best)
{
    unsigned searched = s->plan->traces - s->plan->judged;
    double now = traces_mean(s->now, s->before, 0, searched), gain = 0;

    s->moves = 0;
    search_offer_sizes(s, i);
    search_offer_split(s, i);
    search_offer_policy(s, i);
    for (unsigned m = 0; m < s->moves; m++) {
        double gained;
        search_try(s, &s->move[m], 0, searched);
        gained = now - traces_mean(s->then, s->before, 0, searched);
        if (gained > gain && gained > s->move[m].least) {
            gain = gained;
            *best = s->move[m];
        }
    }
    return gain;
}

static void search_keep(struct search *s, const struct search_move *move, double gain,
                        struct traces_change *change)
{
    unsigned traces = s->plan->traces, searched = traces - s->plan->judged;
    double judged = traces_mean(s->now, s->before, searched, traces);

    search_try(s, move, 0, traces);
    memcpy(s->now, s->then, traces * sizeof(s->now[0]));
    search_apply(s->table, move);
    memcpy(change->what, move->what, sizeof(change->what));
    change->gain = gain;
    change->judged = judged - traces_mean(s->now, s->before, searched, traces);
}

static void search_all(struct search *s, struct traces_change *change, unsigned *changes)
{
    struct search_move best;
    double gain;

    for (unsigned t = 0; t < s->plan->traces; t++)
        traces_sum(s->plan, t, s->table, &s->before[t]);
    memcpy(s->now, s->before, s->plan->traces * sizeof(s->now[0]));
    for (unsigned pass = 0, last = ~0u; pass < SEARCH_PASSES && last != *changes; pass++) {
        last = *changes;
        for (unsigned i = 0; i < s->table->classes && *changes < TRACES_CHANGES; i++) {
            if ((gain = search_class(s, i, &best)) > 0)
                search_keep(s, &best, gain, &change[(*changes)++]);
        }
    }
}

void traces_search(const struct traces_plan *plan, struct traces_table *table,
                   struct traces_change *change, unsigned *changes)
{
    struct traces_sum *sums = target_need(calloc((size_t)3 * plan->traces, sizeof(*sums)));
    struct search *s = target_need(calloc(1, sizeof(*s)));

    *s = (struct search){.plan = plan,
                         .table = table,
                         .before = sums,
                         .now = sums + plan->traces,
                         .then = sums + (size_t)2 * plan->traces};
    *changes = 0;
    search_all(s, change, changes);
    search_forget();
    free(sums);
    free(s);
}
