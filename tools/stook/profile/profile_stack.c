/* SPDX-License-Identifier: MIT */
/*
 * profile_stack.c - the stacks of a sampled profile, by site: a site's sums are shared out among its stacks as the
 * samples of each.
 */
#include "stook/profile/profile.h"

#include "look/target.h"
#include "stook/profile/json.h"

#include <stdlib.h>
#include <string.h>

enum { STACK_DEPTH = 1024 }; /* beyond it a stack is cut */

static size_t stack_depth(const struct json *stack)
{
    size_t depth = 0;

    for (const struct json *one = stack ? stack->first : NULL; one && depth < STACK_DEPTH;
         one = one->next)
        depth++;
    return depth;
}

/* All addresses of all stacks, each once, as places. */
static bool stack_places(struct profile *profile, const struct json *sites, size_t addresses)
{
    uint64_t *all = malloc((addresses + 1) * sizeof(*all));
    size_t n = 0;

    profile->places = calloc(addresses + 1, sizeof(*profile->places));
    if (!all || !profile->places) {
        free(all);
        return false;
    }
    for (const struct json *site = sites->first; site; site = site->next) {
        const struct json *stack = json_member(site, "stack");
        size_t depth = stack_depth(stack);
        for (const struct json *one = stack ? stack->first : NULL; depth-- > 0; one = one->next)
            all[n++] = one->number;
    }
    qsort(all, n, sizeof(*all), target_by_number);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || all[i] != all[i - 1]) {
            profile->places[profile->nr_places].address = all[i];
            profile_set_map(profile, &profile->places[profile->nr_places++]);
        }
    free(all);
    return true;
}

bool profile_read_stacks(struct profile *profile, const struct json *sites)
{
    size_t addresses = 0, stacks = 0, number = 0;

    for (const struct json *site = sites ? sites->first : NULL; site; site = site->next) {
        size_t depth = stack_depth(json_member(site, "stack"));
        addresses += depth;
        stacks += depth > 0;
    }
    profile->stacks = calloc(stacks + 1, sizeof(*profile->stacks));
    if (!profile->stacks)
        return false;
    if (stacks == 0)
        return true;
    if (!stack_places(profile, sites, addresses))
        return false;
    for (const struct json *site = sites->first; site; site = site->next, number++) {
        const struct json *json = json_member(site, "stack");
        size_t depth = stack_depth(json);
        struct profile_stack *stack = &profile->stacks[profile->nr_stacks];
        if (depth == 0)
            continue;
        stack->places = malloc(depth * sizeof(*stack->places));
        if (!stack->places)
            return false;
        profile->nr_stacks++;
        for (const struct json *one = json->first; stack->depth < depth; one = one->next)
            stack->places[stack->depth++] =
                target_rows_to(profile->places, profile->nr_places, address, one->number) - 1;
        stack->site = number;
        stack->counts = profile_read_counts(site);
        stack->cache = json_string(site, "cache", NULL);
        stack->group = json_string(site, "group", NULL);
        stack->thread = json_string(site, "thread_name", NULL);
    }
    return true;
}

static int stack_rank(const void *left, const void *right)
{
    const struct profile_stack *a = left, *b = right;

    if (a->site != b->site)
        return a->site < b->site ? -1 : 1;
    if (a->counts.total_bytes != b->counts.total_bytes)
        return a->counts.total_bytes > b->counts.total_bytes ? -1 : 1;
    return a->places[0] < b->places[0] ? -1 : a->places[0] > b->places[0];
}

void profile_match_stacks(struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_stacks; i++) {
        struct profile_stack *stack = &profile->stacks[i];
        size_t low = 0, high = profile->nr_sites;
        while (high - low > 1) { /* sites are in the order of places */
            size_t middle = low + (high - low) / 2;
            bool up =
                profile_order(&profile->sites[middle], &profile->places[stack->places[0]]) <= 0;
            *(up ? &low : &high) = middle;
        }
        stack->site = profile->sites[low].number;
    }
    if (profile->stacks)
        qsort(profile->stacks, profile->nr_stacks, sizeof(*profile->stacks), stack_rank);
}

void profile_free_stacks(struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_stacks; i++)
        free(profile->stacks[i].places);
    free(profile->stacks);
    free(profile->places);
}

const struct profile_stack *profile_stacks_of(const struct profile *profile,
                                              const struct profile_site *site, size_t *count)
{
    /* The first of the site's. */
    size_t low = site->number
                     ? target_rows_to(profile->stacks, profile->nr_stacks, site, site->number - 1)
                     : 0;

    for (*count = 0; low + *count < profile->nr_stacks; ++*count)
        if (profile->stacks[low + *count].site != site->number)
            break;
    return profile->stacks + low;
}

static int64_t stack_share(const struct profile_stack *stacks, size_t count, size_t which,
                           int64_t whole, size_t offset)
{
    double sum = 0, before = 0, own = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t value;
        memcpy(&value, (const char *)&stacks[i].counts + offset, sizeof(value));
        value = value > 0 ? value : 0;
        before += i < which ? (double)value : 0;
        own = i == which ? (double)value : own;
        sum += (double)value;
    }
    if (sum <= 0) /* nothing of it was sampled: the stack with the most in all stands for it */
        return which == 0 ? whole : 0;
    /* Differences of rounded borders: the parts sum up to the whole. */
    return (int64_t)((double)whole * (before + own) / sum) -
           (int64_t)((double)whole * before / sum);
}

struct profile_counts profile_stack_part(const struct profile_stack *stacks, size_t count,
                                         size_t which, const struct profile_counts *whole)
{
    struct profile_counts part;

#define PART(field)                                                                                \
    part.field =                                                                                   \
        stack_share(stacks, count, which, whole->field, offsetof(struct profile_counts, field))
    PART(live_objects);
    PART(live_bytes);
    PART(total_objects);
    PART(total_bytes);
#undef PART
    return part;
}
