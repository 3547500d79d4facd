/* SPDX-License-Identifier: MIT */
/* A module with the fast path inlined into it; test_dlopen loads and unloads it. */
#include <stook/inline.h>

#include <stdatomic.h>
#include <stdbool.h>

unsigned long plug_churn(struct stook_cache *cache, const atomic_bool *stop, unsigned long most);

/* Allocates and frees until told to stop, or so often; how often. */
unsigned long plug_churn(struct stook_cache *cache, const atomic_bool *stop, unsigned long most)
{
    void *object[40];
    unsigned long done = 0;

    while (done < most && !atomic_load_explicit(stop, memory_order_relaxed)) {
        unsigned n = 0;
        while (n < 1 + done % 40 && (object[n] = stook_alloc_inline(cache, 0)) != NULL) {
            *(unsigned long *)object[n] = done + n;
            n++;
        }
        for (unsigned i = 0; i < n; i++) {
            if (*(unsigned long *)object[i] != done + i)
                return 0; /* another thread has it too */
            stook_free_inline(cache, object[i]);
        }
        done += n ? n : 1;
    }
    return done;
}
