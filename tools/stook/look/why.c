/* SPDX-License-Identifier: MIT */
/*
 * why.c - stook why: finds the objects that keep a process large, and how much memory would come back by which action.
 */
#include "stook/look/why.h"

#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/look/report.h"
#include "stook/option.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    WHY_SLABS = 4096, /* sparse slabs whose objects are asked for their call sites */
    WHY_LEAST = 10,   /* waste is worth a verdict from one in so many resident bytes on */
    WHY_GROUPS = 1024,
};

/* ---- which objects keep the sparse slabs ------------------------------------------------------ */

/* Calls fn for each object in use of each step-th sparse slab, with its share of the bytes. */
static void why_each_object(struct why *why, size_t step,
                            void (*fn)(struct why *why, const struct heap_slab *slab,
                                       uint32_t index, uint64_t share))
{
    const struct heap *heap = why->heap;
    uint8_t *state = target_need(malloc(HEAP_OBJECTS));
    size_t n = 0;

    for (size_t i = 0; i < heap->slabs && !heap->target->over; i++) {
        const struct heap_slab *slab = &heap->slab[i];
        const struct holes_slab *is = &why->holes.slab[i];
        const struct heap_cache *cache = heap_cache_at(heap, slab->cache);
        uint64_t live = 0;
        if (!cache || cache->internal || !holes_is_sparse(slab, is) || n++ % step != 0 ||
            !heap_states(why->heap, slab, state))
            continue;
        for (uint32_t j = 0; j < slab->objects; j++)
            live += state[j] == HEAP_LIVE;
        for (uint32_t j = 0; j < slab->objects; j++)
            if (state[j] == HEAP_LIVE)
                fn(why, slab, j, (uint64_t)is->there * TARGET_PAGE * step / live);
    }
    free(state);
}

static void why_count_group(struct why *why, uint32_t number, uint64_t bytes)
{
    for (size_t i = 0; number && i < why->heap->groups && i < WHY_GROUPS; i++)
        if (why->heap->group[i].number == number)
            why->group[i] += bytes;
}

static void why_count(struct why *why, const struct heap_slab *slab, uint32_t index, uint64_t share)
{
    struct heap_what what;

    heap_describe(why->heap, slab, index, 0, &what);
    look_sites_count(&why->sites, &what, what.tag || what.who[0].known ? WHY_EXACT : WHY_UNKNOWN)
        ->bytes += share;
    why_count_group(why, what.group, share);
}

/* A sampled object is a witness for its place among the objects of its cache. */
static bool why_sample(uint64_t address, uint64_t bytes, const struct heap_slab *slab,
                       uint32_t index, void *arg)
{
    struct why *why = arg;
    struct heap_what what;

    (void)bytes;
    heap_describe(why->heap, slab, index, address, &what);
    if (what.cache && !what.cache->shadow && what.who[0].known) {
        (void)look_sites_count(&why->sites, &what, WHY_SAMPLED);
        why->samples[what.cache - why->heap->cache]++;
    }
    return true;
}

/* The sparse slabs of a cache are divided among its places as its sampled objects are. */
static void why_add_samples(struct why *why)
{
    for (size_t i = 0; i < why->heap->caches; i++)
        if (why->heap->cache[i].shadow)
            (void)heap_each_live(why->heap, &why->heap->cache[i], why_sample, why);
    for (size_t i = 0; i < why->sites.sites; i++) {
        struct look_site *site = why->sites.site[i];
        if (site->kind == WHY_SAMPLED) {
            size_t cache = (size_t)(site->cache - why->heap->cache);
            const struct holes_sum *sparse = &why->holes.cache[cache].sparse;
            double share = (double)site->objects / (double)why->samples[cache];
            site->bytes = (uint64_t)(share * (double)sparse->bytes);
            site->objects = (uint64_t)(share * (double)sparse->objects);
        }
    }
}

static int why_by_bytes(const void *left, const void *right)
{
    const struct look_site *a = *(struct look_site *const *)left,
                           *b = *(struct look_site *const *)right;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static void why_find_sites(struct why *why)
{
    size_t step = why->holes.sum->sparse.slabs / WHY_SLABS + 1;
    bool exact = false;

    look_sites_begin(&why->sites, why->heap);
    why->group = target_need(calloc(why->heap->groups + 1, sizeof(*why->group)));
    why->samples = target_need(calloc(why->heap->caches + 1, sizeof(*why->samples)));
    why_each_object(why, step, why_count);
    for (size_t i = 0; i < why->sites.sites; i++) {
        why->sites.site[i]->objects *= step;
        exact |= why->sites.site[i]->kind == WHY_EXACT;
    }
    if (!exact)
        why_add_samples(why);
    look_names_find(why->sites.names);
    if (why->sites.sites > 0)
        qsort(why->sites.site, why->sites.sites, sizeof(struct look_site *), why_by_bytes);
}

/* ---- the verdict ------------------------------------------------------------------------------ */

/* The cache with the most of a field of struct holes_cache. */
static const struct holes_cache *why_most(const struct why *why, size_t field)
{
    const struct holes_cache *most = NULL;
    uint64_t bytes, all = 0;

    for (size_t i = 0; i < why->heap->caches; i++) {
        memcpy(&bytes, (const char *)&why->holes.cache[i] + field, sizeof(bytes));
        if (!why->heap->cache[i].internal && bytes > all) {
            most = &why->holes.cache[i];
            all = bytes;
        }
    }
    return most;
}

/* The cache that has most of the sparse slabs, and the place that keeps most of those. */
static void why_find_keeper(struct why *why)
{
    why->cache = why_most(why, offsetof(struct holes_cache, sparse.bytes));
    why->kept = why->cache ? why->cache->sparse.bytes : 0;
    for (size_t i = 0; i < why->sites.sites && why->cache; i++) {
        const struct look_site *site = why->sites.site[i];
        if (site->cache == why->cache->cache && site->kind != WHY_UNKNOWN && !why->site &&
            2 * site->bytes >= why->kept)
            why->site = site;
    }
    if (why->site)
        why->kept = why->site->bytes;
}

/* Objects of a cache of their own lie side by side: as if they had just been allocated. */
static void why_find_acts(struct why *why)
{
    const struct holes *holes = &why->holes;
    uint64_t packed = 0;

    why->act[WHY_ACT_TRIM] = holes->part[HOLES_WARM] + holes->part[HOLES_IDLE];
    why->act[WHY_ACT_LIMIT] = holes->part[HOLES_WARM];
    why->act[WHY_ACT_OBJECTS] = holes->sum->sparse.bytes + holes->meta;
    if (!why->cache || (!why->site && why->cache->cache->malloc))
        return;
    packed =
        (why->site ? why->site->objects : why->cache->sparse.objects) * why->cache->cache->stride;
    why->act[WHY_ACT_CACHE] = why->kept > packed ? why->kept - packed : 0;
}

/* "1.2", of a hundred. */
static const char *why_percent(uint64_t part, uint64_t all, char text[32])
{
    double percent = all ? 100 * (double)part / (double)all : 0;

    (void)snprintf(text, 32,
                   percent < 0.05 && part ? "less than 0.1"
                   : percent < 99.95      ? "%.1f"
                                          : "%.0f",
                   percent);
    return text;
}

static void why_say_sparse(struct why *why, const char *bytes)
{
    const struct holes_cache *sum = why->holes.sum;
    char objects[32], kept[32], name[LOOK_NAME] = "";

    if (why->site)
        (void)look_site_name(why->sites.names, &why->site->place.site, name);
    (void)snprintf(
        why->verdict, sizeof(why->verdict),
        "%s would come back if %s %% of the objects were gone: those of %s%s%s%s keep %s %% of the "
        "sparse slabs",
        bytes, why_percent(sum->sparse.objects, sum->all.objects + why->heap->larges, objects),
        why->cache->cache->name, *name ? ", allocated in " : "", name, *name ? "," : "",
        why_percent(why->kept, sum->sparse.bytes, kept));
}

static void why_say_other(struct why *why, const char *bytes, const char *resident)
{
    const struct holes *holes = &why->holes;
    const struct holes_cache *loose = why_most(why, offsetof(struct holes_cache, scattered)),
                             *most = why_most(why, offsetof(struct holes_cache, all.bytes));
    uint64_t large = holes->part[HOLES_LARGE], has = most ? most->all.bytes : 0;
    enum holes_part part = HOLES_FILES;
    char hint[128];

    for (enum holes_part i = HOLES_FILES; i < HOLES_PARTS; i++)
        part = holes->part[i] > holes->part[part] ? i : part;
    if (why->kind == WHY_TRIM)
        (void)snprintf(why->verdict, sizeof(why->verdict),
                       "%s would come back by malloc_trim(0): free pages that are kept, and slabs "
                       "without an object in use",
                       bytes);
    else if (why->kind == WHY_SCATTERED)
        (void)snprintf(
            why->verdict, sizeof(why->verdict),
            "%s are free objects in slabs that are more than a quarter full, which no few "
            "objects keep: %s has %s of them",
            bytes, loose->cache->name, output_bytes((int64_t)loose->scattered, false));
    else if (why->kind == WHY_OUTSIDE)
        (void)snprintf(why->verdict, sizeof(why->verdict), "%s of %s is not Stook's: %s have %s%s",
                       bytes, resident, strchr(why_parts[part].name, ':') + 2,
                       output_bytes((int64_t)holes->part[part], false),
                       why_hint(holes, part, hint));
    else
        (void)snprintf(why->verdict, sizeof(why->verdict),
                       "%s of %s is in use, and little would come back: %s has %s", bytes, resident,
                       has > large ? most->cache->name : "large objects",
                       output_bytes((int64_t)(has > large ? has : large), false));
}

static void why_say(struct why *why)
{
    const struct holes *holes = &why->holes;
    const uint64_t bytes[WHY_KINDS] = {why->act[WHY_ACT_OBJECTS], why->act[WHY_ACT_TRIM],
                                       holes->part[HOLES_SCATTERED], holes->resident - holes->stook,
                                       holes->part[HOLES_IN_USE] + holes->part[HOLES_LARGE]};
    char text[32], resident[32];

    for (unsigned i = 0; i <= WHY_SCATTERED; i++)
        why->kind = bytes[i] > bytes[why->kind] ? i : why->kind;
    if (bytes[why->kind] <= holes->resident / WHY_LEAST)
        why->kind = bytes[WHY_OUTSIDE] > bytes[WHY_IN_USE] ? WHY_OUTSIDE : WHY_IN_USE;
    why->bytes = bytes[why->kind];
    (void)snprintf(text, sizeof(text), "%s", output_bytes((int64_t)why->bytes, false));
    (void)snprintf(resident, sizeof(resident), "%s", output_bytes((int64_t)holes->resident, false));
    if (why->kind == WHY_SPARSE && why->bytes > 0)
        why_say_sparse(why, text);
    else
        why_say_other(why, text, resident);
}

void why_find(struct why *why, struct heap *heap)
{
    *why = (struct why){.heap = heap};
    holes_read(&why->holes, heap);
    why_find_sites(why);
    why_find_keeper(why);
    why_find_acts(why);
    why_say(why);
}

void why_free(struct why *why)
{
    look_sites_free(&why->sites);
    holes_free(&why->holes);
    free(why->group);
    free(why->samples);
}

/* ---- the command ------------------------------------------------------------------------------ */

static void why_address(struct why *why, const struct heap_slab *slab, uint32_t index,
                        uint64_t share)
{
    (void)share;
    printf("0x%lx\n", heap_object(why->heap, heap_cache_at(why->heap, slab->cache), slab, index));
}

/* `stook why FILE` is `stook why --core FILE`. */
static const char *why_whom(int argc, char **argv)
{
    const char *whom = look_whom(argc, argv);
    struct stat st;
    int pid;

    if (whom && !look_core && !look_pid(whom, &pid) && stat(whom, &st) == 0 && S_ISREG(st.st_mode))
        look_core = whom;
    return whom;
}

static int why_run(int argc, char **argv)
{
    bool json = false, objects = false;
    const struct option_row rows[] = {
        {"json", OPTION_FLAG, &json, .letter = 'j'},
        {"objects", OPTION_FLAG, &objects, .letter = 'o'},
        {"wrappers", OPTION_TEXT, .to = &look_wrappers},
        LOOK_CORE_ROWS,
    };
    const char *whom;
    struct heap *heap;
    struct writer w;
    struct why why;
    int status;

    if ((status = option_take("why", rows, argc, argv)) != STATUS_OK)
        return status;
    whom = why_whom(argc, argv);
    if (!whom || optind != argc)
        return complain(STATUS_USAGE, "takes a process, or a core file");
    if ((status = look_open(whom, &heap)) != STATUS_OK)
        return status;
    why_find(&why, heap);
    if (objects) {
        why_each_object(&why, 1, why_address);
    } else {
        output_writer(&w);
        if (json)
            why_json(&why, &w);
        else
            why_text(&why, &w);
        (void)writer_finish(&w);
    }
    why_free(&why);
    heap_close(heap);
    return STATUS_OK;
}

static const char why_help[] =
    "usage: stook why [--json | --objects] [--wrappers LIST] {PID | [--core] FILE [--exe FILE]}\n"
    "\n"
    "Says why a process is so large.  The first line is a verdict: the bytes that would come back, and the objects that\n"
    "keep them.  Then come the resident bytes, in lines that add up to the kernel's count, with memory that is not\n"
    "Stook's.  Slabs follow by how full they are, caches, call sites and groups whose slabs are almost empty, huge pages,\n"
    "and the bytes that each action would bring back.  The process is not stopped, and runs nothing for it.\n"
    "\n"
    "  --json       as one JSON object; docs/look-inside.md has its keys\n"
    "  --objects    the addresses of the objects in use in sparse slabs instead, one a line, for stook whatis\n"
    "  --wrappers LIST  functions that only call malloc for others: their callers are named (stook help profile)\n" HELP_CORE
    "\n"
    "A slab is sparse if at most a quarter of its objects are in use.  Call sites are known where the process counts them\n"
    "(STOOK_TAGS=1), has stacks and times (STOOK_DEBUG=U), or, as estimates, where it takes samples (STOOK_SAMPLE=512K).\n" HELP_END(
        "why redis-server");

const struct command command_why = {"why", "why a process is so large, and what would come back",
                                    why_help, why_run};
