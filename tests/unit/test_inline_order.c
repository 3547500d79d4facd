/* SPDX-License-Identifier: MIT */
/* needs: rseq */
/*
 * What the compiler may not do around an inlined section: read or write an object after it was
 * pushed.  The "object" here is the very word that the push writes, so that a load which was moved
 * behind the section reads what the push wrote, and a store that was overwrites it.
 */
#include "sheaf/slot.h"
#include "os/topology.h"
#include "support/test.h"

#if defined(STOOK_INLINE_SECTIONS)
static const char *slots;

/* The value is used on the way that pushed only: GCC moves an unhindered load there. */
static __attribute__((noinline)) uintptr_t read_then_push(uintptr_t *object)
{
    uintptr_t value = *object;

    if (stook_rseq_push(slots, percpu.rseq_offset, object))
        return value;
    return 1;
}

static __attribute__((noinline)) int write_then_push(uintptr_t *object)
{
    *object = 2;
    return stook_rseq_push(slots, percpu.rseq_offset, object);
}

TEST(test_objects_are_let_go)
{
    struct sheaf *sheaf = calloc(1, sizeof(*sheaf) + 8 * sizeof(void *));
    struct slot *slot;
    unsigned wrong = 0, pushed = 0;

    if (!percpu.rseq)
        skip();
    assert_non_null(sheaf);
    sheaf->capacity = 8;
    percpu_slot_init(1);
    slots = percpu.areas + percpu_offset(1);
    for (int i = 0; i < 100; i++) { /* again where a section was aborted, or on another CPU */
        struct sheaf *main = slot_close(percpu_offset(1), &slot, false);
        if (!main)
            continue;
        uintptr_t *object = (uintptr_t *)&sheaf->object[0], value;
        *object = 0x1234;
        sheaf->size = 0;
        slot_open(slot, sheaf);
        value = read_then_push(object);
        if (value != 1) {
            pushed++;
            wrong += value != 0x1234;
        }
        object = (uintptr_t *)&sheaf->object[1];
        if (write_then_push(object)) {
            pushed++;
            wrong += *(volatile uintptr_t *)object != (uintptr_t)object;
        }
        while ((main = slot_take(slot, true)) == NULL)
            ;
        slot_open(slot, SHEAF_NONE);
    }
    assert_true(pushed > 50);
    assert_int_equal(wrong, 0);
    free(sheaf);
}
#endif

int main(void)
{
    topology_init();
    percpu_init();
    percpu_map();
    return tests_run(NULL, NULL);
}
