/* SPDX-License-Identifier: MIT */
/*
 * profile_show.c - a profile as a table for people, as JSON, and as collapsed stacks.
 */
#include "stook/profile/profile.h"

#include "look/target.h"
#include "stook/command.h"
#include "stook/profile/profile_code.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOW_SITE = 100,    /* characters of a function's name in the table */
    SHOW_CALLERS = 100, /* about, of a stack */
    SHOW_STACKS = 3,    /* of a site, */
    SHOW_SHARE = 10,    /* with at least so many of a hundred */
    SHOW_INDENT = 11,
};

const char *const profile_keys[] = {"live", "total", "calls", "growth", NULL};

/* ---- the table ------------------------------------------------------------------------------ */

/* The last two parts of a path. */
static const char *show_path(const char *path)
{
    const char *from = path + strlen(path);

    for (int slashes = 0; from > path; from--)
        if (from[-1] == '/' && ++slashes == 2)
            break;
    return from;
}

/* Text of any origin: what would move the cursor does not. */
static void show_text(FILE *to, const char *text, size_t most)
{
    for (; *text && most > 0; most--)
        text += output_character(to, text);
    fputs(*text ? "…" : "", to);
}

/* FUNCTION < THE ONE IT WAS INLINED INTO  DIRECTORY/FILE:LINE, or the best that is known. */
static void show_site(FILE *to, const struct profile_site *site)
{
    const struct profile_frame *frame = site->frames;

    if (site->nr_frames == 0) {
        if (site->map)
            fprintf(to, "0x%" PRIx64 "  %s", site->place, site->map->name);
        else
            fprintf(to, "0x%" PRIx64, site->address);
        return;
    }
    for (unsigned i = 0; i < site->nr_frames; i++) {
        const char *name = frame[i].function ? frame[i].function : "?";
        if (i > 0 && strcmp(name, frame[i - 1].function ? frame[i - 1].function : "?") == 0)
            continue; /* a part of a function that was split off, inlined into the rest */
        fputs(i > 0 ? " < " : "", to);
        show_text(to, name, SHOW_SITE);
    }
    if (frame->file) {
        fputs("  ", to);
        show_text(to, show_path(frame->file), SHOW_SITE);
        fprintf(to, ":%" PRIu64, frame->line);
    } else {
        fprintf(to, "+0x%" PRIx64 "  ", frame->offset);
        show_text(to, site->map ? site->map->name : "?", SHOW_SITE);
    }
}

static double show_share(int64_t part, int64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void show_heading(const struct profile *profile, FILE *to)
{
    const struct profile_counts *sum = &profile->sum;

    show_text(to, profile->program, SHOW_SITE);
    fprintf(to, ", process %" PRIu64 ": %zu call sites, %" PRId64 " allocations of %s in all.\n",
            profile->pid, profile->nr_sites, sum->total_objects,
            output_bytes(sum->total_bytes, false));
    fprintf(to, "Live: %s in %" PRId64 " objects", output_bytes(sum->live_bytes, false),
            sum->live_objects);
    if (profile->in_use_bytes != ~(uint64_t)0 && profile->in_use_bytes > 0) {
        double share = show_share(sum->live_bytes, (int64_t)profile->in_use_bytes);
        fprintf(to, ", %.0f %% of what all objects take", share < 100 ? share : 100);
    }
    if (profile->sample_every != 0) {
        fprintf(to, ".\nSampled, each %s: figures of sites are estimates.\n",
                output_bytes((int64_t)profile->sample_every, false));
        return;
    }
    fputs(".\n", to);
    if (profile->compared)
        fprintf(to,
                "Since the earlier profile: %s live in %+" PRId64 " objects, %" PRId64
                " allocations.\n",
                output_bytes(profile->growth.live_bytes, true), profile->growth.live_objects,
                profile->growth.total_objects);
    fputc('\n', to);
}

static void show_row(FILE *to, const struct profile *profile, enum profile_by by,
                     const struct profile_counts *counts, const struct profile_counts *growth)
{
    const struct profile_counts *sum = &profile->sum;
    double share = by == BY_TOTAL   ? show_share(counts->total_bytes, sum->total_bytes)
                   : by == BY_CALLS ? show_share(counts->total_objects, sum->total_objects)
                                    : show_share(counts->live_bytes, sum->live_bytes);

    if (profile->compared)
        fprintf(to, "%9s %+10" PRId64 "  ", output_bytes(growth->live_bytes, true),
                growth->live_objects);
    fprintf(to, "%5.1f %9s %9" PRId64 " ", share, output_bytes(counts->live_bytes, false),
            counts->live_objects);
    fprintf(to, "%11" PRId64 " %9s %9s  ", counts->total_objects,
            output_bytes(counts->total_bytes, false),
            counts->total_objects != 0
                ? output_bytes(counts->total_bytes / counts->total_objects, false)
                : "-");
}

static int64_t show_key(enum profile_by by, const struct profile_counts *counts)
{
    return by == BY_TOTAL   ? counts->total_bytes
           : by == BY_CALLS ? counts->total_objects
                            : counts->live_bytes;
}

/* The callers of a site, innermost first, and what came from there. */
struct show_chain {
    const char **name;
    size_t names;
    int64_t value;
};

static int show_chain_order(const void *left, const void *right)
{
    const struct show_chain *a = left, *b = right;
    int order = 0;

    for (size_t i = 0; i < a->names && i < b->names && order == 0; i++)
        order = strcmp(a->name[i], b->name[i]);
    return order != 0 ? order : (a->names > b->names) - (a->names < b->names);
}

/* A caller whose function is unknown has the name of its file. */
static void show_chain_make(struct show_chain *chain, const struct profile *profile,
                            const struct profile_stack *stack)
{
    chain->name = target_need(calloc(stack->depth * PROFILE_FRAMES, sizeof(*chain->name)));
    for (size_t i = 1; i < stack->depth; i++) {
        const struct profile_site *place = &profile->places[stack->places[i]];
        for (unsigned f = 0; f == 0 || f < place->nr_frames; f++) {
            const char *name = f < place->nr_frames ? place->frames[f].function : NULL;
            name = name ? name : place->map ? place->map->name : "?";
            if (chain->names == 0 || strcmp(chain->name[chain->names - 1], name) != 0)
                chain->name[chain->names++] = name;
        }
    }
}

/* Whether all of these, which are in order, go on with one name there. */
static bool show_chains_agree(const struct show_chain *chain, size_t n, size_t at)
{
    return chain[0].names > at && chain[n - 1].names > at &&
           strcmp(chain[0].name[at], chain[n - 1].name[at]) == 0;
}

/* "a < b < c", as far as these agree and there is room; where they go on, or SIZE_MAX. */
static size_t show_chain(FILE *to, const struct show_chain *chain, size_t n, size_t at)
{
    size_t length = 0;

    for (size_t from = at; show_chains_agree(chain, n, at); at++) {
        fputs(at > from ? " < " : "", to);
        show_text(to, chain->name[at], SHOW_SITE);
        length += strlen(chain->name[at]) + 3;
        if (length >= SHOW_CALLERS)
            return SIZE_MAX;
    }
    return at;
}

static int64_t show_sum(const struct show_chain *chain, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += chain[i].value;
    return sum;
}

/* A tree: callers with the most of the whole first, and theirs below them where they differ. */
static void show_tree(FILE *to, const struct show_chain *chain, size_t n, size_t at, int indent,
                      int64_t whole)
{
    int64_t above = INT64_MAX;
    size_t last = 0;

    for (unsigned shown = 0; shown < SHOW_STACKS; shown++) {
        size_t best = n, many = 0, next;
        int64_t most = -1;
        for (size_t i = 0, end; i < n; i = end) {
            int64_t sum;
            for (end = i + 1; end < n && show_chains_agree(chain + i, end + 1 - i, at); end++)
                ;
            sum = show_sum(chain + i, end - i);
            if (chain[i].names > at && sum > most && (sum < above || (sum == above && i > last))) {
                best = i;
                many = end - i;
                most = sum;
            }
        }
        if (best == n || show_share(most, whole) < SHOW_SHARE)
            return;
        above = most;
        last = best;
        fprintf(to, "%*s%3.0f %% from ", indent, "", show_share(most, whole));
        next = show_chain(to, chain + best, many, at);
        fputc('\n', to);
        if (next != SIZE_MAX && many > 1)
            show_tree(to, chain + best, many, next, indent + 4, whole);
    }
}

/* Where the most of a site comes from; nothing of stacks that have no caller. */
static void show_stacks(FILE *to, const struct profile *profile, enum profile_by by,
                        const struct profile_site *site)
{
    size_t count;
    const struct profile_stack *stacks = profile_stacks_of(profile, site, &count);
    struct show_chain *chain = target_need(calloc(count + 1, sizeof(*chain)));

    for (size_t i = 0; i < count; i++) {
        struct profile_counts part = profile_stack_part(stacks, count, i, &site->counts);
        show_chain_make(&chain[i], profile, &stacks[i]);
        chain[i].value = show_key(by, &part);
    }
    qsort(chain, count, sizeof(*chain), show_chain_order);
    show_tree(to, chain, count, 0, SHOW_INDENT, show_key(by, &site->counts));
    for (size_t i = 0; i < count; i++)
        free(chain[i].name);
    free(chain);
}

static void show_notes(const struct profile *profile, FILE *to)
{
    const char *gap = "\n";

    for (size_t i = 0; i < profile->nr_maps; i++) {
        const struct profile_map *map = &profile->maps[i];
        if (!map->trouble || map->unresolved == 0)
            continue;
        fprintf(to, "%s%u site%s in %s stay%s addresses: it %s%s.\n", gap, map->unresolved,
                map->unresolved == 1 ? "" : "s", map->path, map->unresolved == 1 ? "s" : "",
                strncmp(map->trouble, "is ", 3) == 0 ? "" : "cannot be read: ", map->trouble);
        gap = "";
    }
    if (!dwarf_is_there)
        fprintf(to,
                "%sThis stook was built without libdw: functions are those of symbol tables, "
                "and there are no lines.\n",
                gap);
    fputs("\nnext: with --pprof PATH for go tool pprof, --collapsed PATH for a flame graph, or an "
          "earlier profile for what grew\n",
          to);
}

void profile_table(const struct profile *profile, enum profile_by by, unsigned top, FILE *to)
{
    size_t shown = top == 0 || top > profile->nr_sites ? profile->nr_sites : top;
    struct profile_counts rest = profile->sum, rest_growth = profile->growth;

    while (by == BY_GROWTH && top != 0 && shown > 0 &&
           profile->sites[shown - 1].growth.live_bytes == 0)
        shown--;
    show_heading(profile, to);
    if (profile->nr_sites == 0) {
        fputs("Nothing was counted: tags were off, or nothing was allocated.\n", to);
        return;
    }
    if (profile->compared)
        fprintf(to, "%9s %10s  ", "growth", "objects");
    fprintf(to, "%5s %9s %9s %11s %9s %9s  call site, by %s\n", "%", "live", "objects", "calls",
            "in all", "each", profile_keys[by]);
    for (size_t i = 0; i < shown; i++) {
        const struct profile_site *site = &profile->sites[i];
        show_row(to, profile, by, &site->counts, &site->growth);
        show_site(to, site);
        fputc('\n', to);
        show_stacks(to, profile, by, site);
        profile_add(&rest, &site->counts, -1);
        profile_add(&rest_growth, &site->growth, -1);
    }
    if (shown < profile->nr_sites) {
        show_row(to, profile, by, &rest, &rest_growth);
        fprintf(to, "%zu other%s\n", profile->nr_sites - shown,
                profile->nr_sites - shown == 1 ? "" : "s");
    }
    show_notes(profile, to);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void show_string(FILE *to, const char *text)
{
    if (text)
        output_string(to, text);
    else
        fputs("null", to);
}

static void show_counts(FILE *to, const struct profile_counts *counts)
{
    fprintf(to, "{\"live_objects\": %" PRId64 ", \"live_bytes\": %" PRId64, counts->live_objects,
            counts->live_bytes);
    fprintf(to, ", \"total_objects\": %" PRId64 ", \"total_bytes\": %" PRId64 "}",
            counts->total_objects, counts->total_bytes);
}

/* Callers, innermost first. */
static void show_json_stacks(FILE *to, const struct profile *profile,
                             const struct profile_site *site)
{
    size_t count;
    const struct profile_stack *stacks = profile_stacks_of(profile, site, &count);

    fputs(", \"stacks\": [", to);
    for (size_t i = 0; i < count; i++) {
        struct profile_counts part = profile_stack_part(stacks, count, i, &site->counts);
        const char *before = "";
        fputs(i > 0 ? ",\n    {\"functions\": [" : "\n    {\"functions\": [", to);
        for (size_t f = 1; f < stacks[i].depth; f++) {
            const struct profile_site *place = &profile->places[stacks[i].places[f]];
            for (unsigned n = 0; n < place->nr_frames; n++, before = ", ") {
                fputs(before, to);
                show_string(to, place->frames[n].function);
            }
        }
        fputs("], \"counts\": ", to);
        show_counts(to, &part);
        fputc('}', to);
    }
    fputc(']', to);
}

static void show_json_site(FILE *to, const struct profile *profile, const struct profile_site *site)
{
    fprintf(to, "{\"address\": %" PRIu64 ", \"module\": ", site->address);
    show_string(to, site->map ? site->map->path : NULL);
    fprintf(to, ", \"place\": %" PRIu64 ", \"frames\": [", site->place);
    for (unsigned i = 0; i < site->nr_frames; i++) {
        const struct profile_frame *frame = &site->frames[i];
        fputs(i > 0 ? ", {\"function\": " : "{\"function\": ", to);
        show_string(to, frame->function);
        fputs(", \"file\": ", to);
        show_string(to, frame->file);
        fprintf(to, ", \"line\": %" PRIu64 "}", frame->line);
    }
    fputs("],\n   \"counts\": ", to);
    show_counts(to, &site->counts);
    if (profile->compared) {
        fputs(",\n   \"growth\": ", to);
        show_counts(to, &site->growth);
    }
    show_json_stacks(to, profile, site);
    fputc('}', to);
}

void profile_json(const struct profile *profile, enum profile_by by, unsigned top, FILE *to)
{
    size_t shown = top == 0 || top > profile->nr_sites ? profile->nr_sites : top;

    fputs("{\"program\": ", to);
    show_string(to, profile->program);
    fputs(", \"exe\": ", to);
    show_string(to, profile->exe);
    fprintf(to, ", \"pid\": %" PRIu64 ", \"time_ns\": %" PRIu64 ",\n", profile->pid,
            profile->time_ns);
    if (profile->in_use_bytes == ~(uint64_t)0)
        fputs(" \"in_use_bytes\": null", to);
    else
        fprintf(to, " \"in_use_bytes\": %" PRIu64, profile->in_use_bytes);
    fprintf(to, ", \"by\": \"%s\", \"nr_sites\": %zu,\n \"counts\": ", profile_keys[by],
            profile->nr_sites);
    show_counts(to, &profile->sum);
    if (profile->compared) {
        fputs(",\n \"growth\": ", to);
        show_counts(to, &profile->growth);
    }
    fputs(",\n \"sites\": [", to);
    for (size_t i = 0; i < shown; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", to);
        show_json_site(to, profile, &profile->sites[i]);
    }
    fputs("]}\n", to);
}

/* ---- collapsed stacks ----------------------------------------------------------------------- */

/* A frame's name: no semicolon, and no space that would end the stack. */
static void show_frame(FILE *to, const char *text)
{
    while (*text)
        text += output_character(to, *text == ';' ? ":" : text);
}

static void show_frames(FILE *to, const struct profile_site *place, bool last)
{
    for (unsigned f = place->nr_frames; f-- > 0;) {
        fputc(';', to);
        show_frame(to, place->frames[f].function ? place->frames[f].function : "?");
        if (f == 0 && last && place->frames[0].file) {
            fputc(' ', to);
            show_frame(to, show_path(place->frames[0].file));
            fprintf(to, ":%" PRIu64, place->frames[0].line);
        }
    }
    if (place->nr_frames == 0) {
        fputc(';', to);
        show_frame(to, place->map ? place->map->name : "");
        fprintf(to, "%s0x%" PRIx64, place->map ? " " : "",
                place->map ? place->place : place->address);
    }
}

static int64_t show_value(enum profile_by by, const struct profile_counts *counts,
                          const struct profile_counts *growth)
{
    return by == BY_GROWTH ? growth->live_bytes : show_key(by, counts);
}

void profile_collapsed(const struct profile *profile, enum profile_by by, FILE *to)
{
    for (size_t i = 0; i < profile->nr_sites; i++) {
        const struct profile_site *site = &profile->sites[i];
        size_t count, n = 0;
        const struct profile_stack *stacks = profile_stacks_of(profile, site, &count);
        do { /* once for a site without stacks */
            struct profile_counts counts = site->counts, growth = site->growth;
            if (count > 0) {
                counts = profile_stack_part(stacks, count, n, &site->counts);
                growth = profile_stack_part(stacks, count, n, &site->growth);
            }
            if (show_value(by, &counts, &growth) <= 0) /* viewers know no negative widths */
                continue;
            show_frame(to, profile->program);
            for (size_t f = count > 0 ? stacks[n].depth : 0; f-- > 1;)
                show_frames(to, &profile->places[stacks[n].places[f]], false);
            show_frames(to, site, true);
            fprintf(to, " %" PRId64 "\n", show_value(by, &counts, &growth));
        } while (++n < count);
    }
}
