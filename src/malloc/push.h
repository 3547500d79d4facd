/* SPDX-License-Identifier: MIT */
/*
 * push.h - malloc's push: that of stook/sections.h, which also leaves when the object is one of the two
 * that came last.
 *
 *   push fresh:  arm; cpu; m = main; if m is NULL leave; n = m.size; if n >= m.capacity leave;
 *                if m.object[n-1] == o or m.object[n-2] == o leave;
 *                m.object[n] = o; m.size += 1                                      <- commits
 *
 * With fewer than two objects it compares with the sheaf's own header.  What that holds may look like an
 * object, so leaving says nothing by itself: the slow path decides.
 */
#ifndef STOOK_MALLOC_PUSH_H
#define STOOK_MALLOC_PUSH_H

#define STOOK_INLINE_NO_PIN /* linked with -z nodelete, as the library is */
#include <stook/inline.h>

#ifdef STOOK_INLINE_SECTIONS
static inline __attribute__((always_inline)) int push_fresh(const void *slots, intptr_t rseq,
                                                            void *object)
{
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT)
            STOOK_OP_LEAVE_IF_NULL("m") STOOK_OP_LOAD32("n", "m", "8")
                STOOK_OP_LEAVE_UNLESS_BELOW("n", "m", "12")
                    STOOK_OP_LEAVE_IF_ELEMENT("object", "m", "n", "8")
                        STOOK_OP_LEAVE_IF_ELEMENT("object", "m", "n", "0")
                            STOOK_OP_STORE_ELEMENT("object", "m", "n", "16")
                                STOOK_OP_COMMIT_INCREMENT("n", "m", "8") STOOK_OP_END("leave")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [slots] "r"(slots), [rseq] "r"(rseq), [object] "r"(object)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave);
    STOOK_SECTION_EDGE();
    return 1;
leave:
    STOOK_SECTION_EDGE();
    return 0;
}
#else
static inline int push_fresh(const void *slots, intptr_t rseq, void *object)
{
    return stook_rseq_push(slots, rseq, object);
}
#endif

#endif
