/* SPDX-License-Identifier: MIT */
/*
 * profile_samples.c - parts of the document: call sites that objects are counted by (site/tag.h), and the sampled profile
 * (sample/sites.h).
 */
#include "watch/profile.h"

#include "base/raw.h"
#include "charge/group.h"
#include "os/os.h"
#include "sample/sample.h"
#include "sample/sites.h"
#include "watch/stats.h"

#include <stook/stat.h>

#include <stdio.h>
#include <string.h>

static void profile_site(struct writer *w, const struct stook_tag_stat *stat, bool stacks)
{
    if (stat->file) {
        writer_print(w, "\"file\": ");
        writer_json(w, stat->file);
        writer_print(w, ", \"function\": ");
        writer_json(w, stat->function);
        writer_print(w, ", ");
        writer_key(w, "line", stat->line, ", ");
    } else {
        writer_key(w, "address", stat->address, ", ");
    }
    if (stacks && !stat->file)
        writer_print(w, "\"stack\": [%llu], ", (unsigned long long)stat->address);
    writer_key(w, "live_objects", stat->live_objects, ", ");
    writer_key(w, "live_bytes", stat->live_bytes, ", ");
    writer_key(w, "total_objects", stat->total_objects, ", ");
    writer_key(w, "total_bytes", stat->total_bytes, "}");
}

void profile_samples_sites(struct writer *w, bool first, const char *kind)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    for (unsigned tag = 0; (tag = stook_tag_next(tag)) != 0;) {
        if (stook_tag_stat(tag, &stat) != 0)
            continue;
        writer_print(w, "%s%s", first ? "\n  {" : ",\n  {", kind);
        first = false;
        writer_key(w, "tag", tag, ", ");
        profile_site(w, &stat, *kind != '\0');
    }
}

/* What samples of a cache or of a site stand for. */
struct profile_sum {
    uint64_t objects, bytes;
};

/* The name of a thread of this process; false: it has ended. */
static bool profile_samples_thread(uint32_t thread, char *name, size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread);
    if (os_read_file(path, name, size) <= 0)
        return false;
    name[strcspn(name, "\n")] = '\0';
    return true;
}

static void profile_samples_labels(struct writer *w, const struct site *site)
{
    const char *group = site->group ? group_name_of(group_by_number(site->group)) : NULL;
    char name[64];

    writer_print(w, "\"cache\": ");
    writer_json(w, site->name);
    if (group) {
        writer_print(w, ", \"group\": ");
        writer_json(w, group);
    }
    if (site->thread != 0) {
        writer_print(w, ", \"thread\": %u", site->thread);
        if (profile_samples_thread(site->thread, name, sizeof(name))) {
            writer_print(w, ", \"thread_name\": ");
            writer_json(w, name);
        }
    }
    writer_print(w, ",\n   \"kind\": \"%s\", ",
                 site->kind == SITE_TYPED    ? "typed"
                 : site->kind == SITE_LARGE  ? "large"
                 : site->kind == SITE_OTHERS ? "others"
                                             : "object");
}

static void profile_samples_stack(struct writer *w, const struct site *site)
{
    if (site->depth > 0)
        writer_key(w, "address", site->frames[0], ", ");
    writer_print(w, "\"stack\": [");
    for (unsigned i = 0; i < site->depth; i++)
        writer_print(w, i > 0 ? ", %llu" : "%llu", (unsigned long long)site->frames[i]);
    writer_print(w, "],\n   ");
}

/* Objects of the cache in use that a site's samples stand for. */
static uint64_t profile_samples_seen(const struct site *site)
{
    uint64_t went = atomic_load_explicit(&site->went_objects, memory_order_acquire);
    uint64_t came = atomic_load_explicit(&site->came_objects, memory_order_relaxed);

    return came > went ? (came - went) / SITES_ONE : 0;
}

/*
 * A site's share of the cache's objects in use, whose number is exact: its share of the cache's samples.
 * A cache of malloc that was traced for a while has sites of both kinds.  The objects of sites whose frees are seen are
 * subtracted first.
 */
static struct profile_sum profile_samples_share(const struct site *site, uint64_t objects)
{
    struct profile_sum use = {0};
    struct stats_cache row;
    uint64_t all = 0, seen = 0;
    double share;

    for (uint32_t i = 1; i < SITES_MOST; i++) {
        const struct site *other = sites_at(i);
        if (other && other->cache == site->cache &&
            memcmp(other->name, site->name, sizeof(other->name)) == 0) {
            if (other->kind == SITE_TYPED)
                all += atomic_load_explicit(&other->came_objects, memory_order_relaxed);
            else if (other->kind == SITE_OBJECT)
                seen += profile_samples_seen(other);
        }
        if (i >= atomic_load_explicit(&sites.used, memory_order_relaxed))
            break;
    }
    if (all == 0 || !stats_readable() || !stats_read_cache(site->cache, &row) ||
        strcmp(row.name, site->name) != 0)
        return use;
    row.active -= row.active < seen ? row.active : seen;
    share = (double)objects / (double)all;
    use.objects = (uint64_t)(share * (double)row.active + 0.5);
    use.bytes = (uint64_t)(share * (double)(row.active * row.stride) + 0.5);
    return use;
}

static void profile_samples_one(struct writer *w, const struct site *site)
{
    /* What went first: of these, what came is counted too. */
    uint64_t gone = atomic_load_explicit(&site->went, memory_order_acquire);
    struct profile_sum went = {atomic_load_explicit(&site->went_objects, memory_order_relaxed),
                               atomic_load_explicit(&site->went_bytes, memory_order_relaxed)};
    uint64_t lived = atomic_load_explicit(&site->lived, memory_order_relaxed);
    uint64_t samples = atomic_load_explicit(&site->came, memory_order_acquire);
    struct profile_sum came = {atomic_load_explicit(&site->came_objects, memory_order_relaxed),
                               atomic_load_explicit(&site->came_bytes, memory_order_relaxed)};
    struct profile_sum live = {
        came.objects > went.objects ? (came.objects - went.objects + SITES_ONE / 2) / SITES_ONE : 0,
        came.bytes > went.bytes ? came.bytes - went.bytes : 0};

    if (site->kind == SITE_TYPED)
        live = profile_samples_share(site, came.objects);
    profile_samples_stack(w, site);
    writer_key(w, "samples", samples, ", ");
    writer_key(w, "live_samples", site->kind == SITE_TYPED || gone > samples ? 0 : samples - gone,
               ", ");
    writer_key(w, "live_objects", live.objects, ", ");
    writer_key(w, "live_bytes", live.bytes, ", ");
    writer_key(w, "total_objects", (came.objects + SITES_ONE / 2) / SITES_ONE, ", ");
    writer_key(w, "total_bytes", came.bytes, ", ");
    writer_key(w, "asked_bytes", atomic_load_explicit(&site->came_asked, memory_order_relaxed),
               ",\n   ");
    writer_key(w, "lived_bytes", lived, ", ");
    writer_print(w, "\"lives\": [");
    for (unsigned i = 0; i < SITES_LIVES; i++)
        writer_print(w, i > 0 ? ", %u" : "%u",
                     atomic_load_explicit(&site->life[i], memory_order_relaxed));
    writer_print(w, "]}");
}

void profile_samples_write(struct writer *w)
{
    uint32_t used = atomic_load_explicit(&sites.used, memory_order_relaxed);
    bool first = true;

    writer_key(w, "sample_every", sample_mean_of(SAMPLE_PROFILE), ", ");
    writer_key(w, "samples_lost", atomic_load_explicit(&sites.lost, memory_order_relaxed), ",\n ");
    writer_print(w, "\"samples\": [");
    for (uint32_t i = 0; i < used; i++) {
        const struct site *site = sites_at(i);
        if (!site || atomic_load_explicit(&site->came, memory_order_relaxed) == 0)
            continue;
        writer_print(w, first ? "\n  {" : ",\n  {");
        first = false;
        profile_samples_labels(w, site);
        profile_samples_one(w, site);
    }
    /* Objects that are counted by call site are no samples: with them the list speaks of all. */
    if (!first)
        profile_samples_sites(w, false, "\"kind\": \"counted\", ");
    writer_print(w, "]");
}
