/* SPDX-License-Identifier: MIT */
/*
 * A profile as stook profile reads it, or two with a zero byte between them: read, merged, compared and written in
 * each form.  No file that the profile names is opened; the target elf reads such files.
 */
#include "support/fuzz.h"

#include "stook/profile/profile.h"

#include <string.h>

static bool profile_load(struct profile *profile, const uint8_t *bytes, size_t n)
{
    if (profile_read(profile, fuzz_file(bytes, n)) != 0)
        return false;
    for (size_t i = 0; i < profile->nr_maps; i++)
        if (profile->maps[i].path[0] == '/')
            profile->maps[i].path = profile->maps[i].name;
    profile_resolve(profile);
    profile_merge(profile);
    return true;
}

static void profile_check(const struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_stacks; i++) {
        FUZZ_CHECK(profile->stacks[i].depth > 0);
        for (size_t k = 0; k < profile->stacks[i].depth; k++)
            FUZZ_CHECK(profile->stacks[i].places[k] < profile->nr_places);
    }
    for (size_t i = 1; i < profile->nr_sites; i++)
        FUZZ_CHECK(profile_order(&profile->sites[i - 1], &profile->sites[i]) < 0);
}

static void profile_write(struct profile *profile, enum profile_by by, FILE *to)
{
    profile_sort(profile, by);
    profile_table(profile, by, 5, to);
    profile_json(profile, by, 0, to);
    profile_collapsed(profile, by, to);
    FUZZ_CHECK(profile_pprof(profile, by, to));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static FILE *to;
    const uint8_t *zero = n ? memchr(bytes, '\0', n) : NULL;
    struct profile profile, before;
    bool compared = false;

    if (!to)
        to = fopen("/dev/null", "w");
    FUZZ_CHECK(to);
    memset(&before, 0, sizeof(before));
    if (profile_load(&profile, bytes, zero ? (size_t)(zero - bytes) : n)) {
        profile_check(&profile);
        if (zero && profile_load(&before, zero + 1, (size_t)(bytes + n - zero - 1))) {
            profile_compare(&profile, &before);
            compared = true;
        }
        for (int by = BY_LIVE; by <= (compared ? BY_GROWTH : BY_CALLS); by++)
            profile_write(&profile, (enum profile_by)by, to);
    }
    profile_free(&profile);
    profile_free(&before);
    return 0;
}
