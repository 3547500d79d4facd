/* SPDX-License-Identifier: MIT */
/*
 * A kernel's caches, as stook plan --slabinfo reads them: a slabinfo or a table.  The first byte says whether the
 * result is printed as JSON, and the pages of the slabs.
 */
#include "support/fuzz.h"

#include "plan/plan.h"
#include "plan/slabinfo.h"

#include <string.h>

static void slabinfo_check(const char *file)
{
    struct slabinfo info;

    if (slabinfo_read(&info, file))
        for (size_t i = 0; i < info.count; i++) {
            const struct slabinfo_cache *cache = &info.caches[i];
            FUZZ_CHECK(memchr(cache->name, '\0', sizeof(cache->name)));
            FUZZ_CHECK(cache->size > 0 && cache->stride >= cache->size && cache->objects > 0);
            FUZZ_CHECK(cache->align > 0 && !(cache->align & (cache->align - 1)));
            /* The slab holds its objects. */
            FUZZ_CHECK(cache->stride <= ((uint64_t)65536 << cache->order) / cache->objects);
        }
    slabinfo_free(&info);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct plan_options options = {.order = PLAN_ORDER_AUTO, .page_shift = 12};
    const char *file;

    fuzz_silence();
    if (n == 0)
        return 0;
    options.json = *bytes & 1;
    options.page_shift += (*bytes >> 1) % 5;
    file = fuzz_file(bytes + 1, n - 1);
    slabinfo_check(file);
    (void)plan_slabinfo(&options, file);
    return 0;
}
