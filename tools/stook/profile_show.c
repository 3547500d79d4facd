/* SPDX-License-Identifier: MIT */
/*
 * profile_show.c - a profile as a table for people, as JSON, and as collapsed stacks.
 */
#include "stook/profile.h"

#include "stook/profile_code.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOW_SITE = 100 }; /* characters of a function's name in the table */

static const char *const show_keys[] = {"live", "peak", "calls", "growth"};

/* ---- the table ------------------------------------------------------------------------------ */

/* "4.21 MiB", three digits; static, four at a time. */
static const char *show_bytes(int64_t bytes, bool sign)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static char texts[4][24];
    static unsigned next;
    char *text = texts[next++ % 4];
    double value = bytes < 0 ? -(double)bytes : (double)bytes;
    const char *mark = bytes < 0 ? "-" : sign && bytes > 0 ? "+" : "";
    unsigned unit = 0;

    for (; value >= 999.5 && unit < 5; unit++)
        value /= 1024;
    snprintf(text, sizeof(texts[0]), "%s%.*f %s", mark,
             unit == 0 || value >= 99.95 ? 0
             : value >= 9.995            ? 1
                                         : 2,
             value, units[unit]);
    return text;
}

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
    for (size_t n = 0; *text; text++) {
        bool starts = ((unsigned char)*text & 0xc0) != 0x80; /* a character of UTF-8 */
        if (starts && n++ == most) {
            fputs("…", to);
            return;
        }
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, to);
    }
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
            show_bytes(sum->total_bytes, false));
    fprintf(to, "Live: %s in %" PRId64 " objects", show_bytes(sum->live_bytes, false),
            sum->live_objects);
    if (profile->in_use_bytes != ~(uint64_t)0 && profile->in_use_bytes > 0) {
        double share = show_share(sum->live_bytes, (int64_t)profile->in_use_bytes);
        fprintf(to, ", %.0f %% of what all objects take", share < 100 ? share : 100);
    }
    fprintf(to, "; at the peak %s in %" PRId64 " objects.\n", show_bytes(sum->peak_bytes, false),
            sum->peak_objects);
    if (profile->compared)
        fprintf(to,
                "Since the earlier profile: %s live in %+" PRId64 " objects, %" PRId64
                " allocations.\n",
                show_bytes(profile->growth.live_bytes, true), profile->growth.live_objects,
                profile->growth.total_objects);
    fputc('\n', to);
}

static void show_row(FILE *to, const struct profile *profile, enum profile_by by,
                     const struct profile_counts *counts, const struct profile_counts *growth)
{
    const struct profile_counts *sum = &profile->sum;
    double share = by == BY_PEAK    ? show_share(counts->peak_bytes, sum->peak_bytes)
                   : by == BY_CALLS ? show_share(counts->total_objects, sum->total_objects)
                                    : show_share(counts->live_bytes, sum->live_bytes);

    if (profile->compared)
        fprintf(to, "%9s %+10" PRId64 "  ", show_bytes(growth->live_bytes, true),
                growth->live_objects);
    fprintf(to, "%5.1f %9s %9s %9" PRId64 " ", share, show_bytes(counts->peak_bytes, false),
            show_bytes(counts->live_bytes, false), counts->live_objects);
    fprintf(to, "%11" PRId64 " %9s %9s  ", counts->total_objects,
            show_bytes(counts->total_bytes, false),
            counts->total_objects != 0
                ? show_bytes(counts->total_bytes / counts->total_objects, false)
                : "-");
}

static void show_take(struct profile_counts *rest, const struct profile_counts *counts)
{
    rest->live_objects -= counts->live_objects;
    rest->live_bytes -= counts->live_bytes;
    rest->total_objects -= counts->total_objects;
    rest->total_bytes -= counts->total_bytes;
    rest->peak_objects -= counts->peak_objects;
    rest->peak_bytes -= counts->peak_bytes;
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
    fprintf(to, "%5s %9s %9s %9s %11s %9s %9s  call site, by %s\n", "%", "at peak", "live",
            "objects", "calls", "in all", "each", show_keys[by]);
    for (size_t i = 0; i < shown; i++) {
        const struct profile_site *site = &profile->sites[i];
        show_row(to, profile, by, &site->counts, &site->growth);
        show_site(to, site);
        fputc('\n', to);
        show_take(&rest, &site->counts);
        show_take(&rest_growth, &site->growth);
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
    if (!text) {
        fputs("null", to);
        return;
    }
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < 0x20 || *text == 0x7f)
            fprintf(to, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, to);
    fputc('"', to);
}

static void show_counts(FILE *to, const struct profile_counts *counts)
{
    fprintf(to, "{\"live_objects\": %" PRId64 ", \"live_bytes\": %" PRId64, counts->live_objects,
            counts->live_bytes);
    fprintf(to, ", \"peak_objects\": %" PRId64 ", \"peak_bytes\": %" PRId64, counts->peak_objects,
            counts->peak_bytes);
    fprintf(to, ", \"total_objects\": %" PRId64 ", \"total_bytes\": %" PRId64 "}",
            counts->total_objects, counts->total_bytes);
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
    fprintf(to, ", \"by\": \"%s\", \"nr_sites\": %zu,\n \"counts\": ", show_keys[by],
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
    for (; *text; text++)
        fputc(*text == ';' ? ':' : (unsigned char)*text < 0x20 ? '?' : *text, to);
}

void profile_collapsed(const struct profile *profile, enum profile_by by, FILE *to)
{
    for (size_t i = 0; i < profile->nr_sites; i++) {
        const struct profile_site *site = &profile->sites[i];
        int64_t value = by == BY_CALLS    ? site->counts.total_objects
                        : by == BY_GROWTH ? site->growth.live_bytes
                        : by == BY_PEAK   ? site->counts.peak_bytes
                                          : site->counts.live_bytes;
        if (value <= 0) /* viewers know no negative widths */
            continue;
        show_frame(to, profile->program);
        if (site->map) {
            fputc(';', to);
            show_frame(to, site->map->name);
        }
        for (unsigned f = site->nr_frames; f-- > 0;) {
            fputc(';', to);
            show_frame(to, site->frames[f].function ? site->frames[f].function : "?");
            if (f == 0 && site->frames[0].file) {
                fputc(' ', to);
                show_frame(to, show_path(site->frames[0].file));
                fprintf(to, ":%" PRIu64, site->frames[0].line);
            }
        }
        if (site->nr_frames == 0)
            fprintf(to, ";0x%" PRIx64, site->map ? site->place : site->address);
        fprintf(to, " %" PRId64 "\n", value);
    }
}
