/* SPDX-License-Identifier: MIT */
/*
 * chain_sections.h - pop and push in several forms, made of the operations of the library's sections
 * (stook/arch/ops_x86_64.h) and of a few more.  Each differs from another one in a single piece, or is another
 * protocol.  Arming, the CPU's number and the end of a section are the library's in all.
 *
 *   in the sheaf    size      and capacity; an object's place is the array's begin and an index
 *                   top       a pointer behind the last object, and the array's begin and end
 *   in the slot     size      with the capacity, beside main
 *                   top       with the array's begin and its end; no main sheaf is loaded
 *                   front     one object, and the size behind it
 *
 * All have the slot's address, CPU 0's, and give 1, or 0 when they are empty, full or aborted.
 */
#ifndef STOOK_BENCH_CHAIN_SECTIONS_H
#define STOOK_BENCH_CHAIN_SECTIONS_H

#define STOOK_INLINE_NO_PIN
#include <stook/inline.h>

#define CHAIN static inline __attribute__((always_inline)) int

/* to = the address base + (to << the shift of areas). */
#define CHAIN_ROW(to, base)                                                                       \
    "shlq $" STOOK_OP_STRING(STOOK_AREA_SHIFT) ", %[" to "]\n\t"                                  \
    "addq %[" base "], %[" to "]\n\t"
#define CHAIN_LOAD(to, at) "movq " at ", %[" to "]\n\t"
/* m = the first word of the slot, unless that is NULL. */
#define CHAIN_LOAD_MAIN                                                                           \
    "shlq $" STOOK_OP_STRING(STOOK_AREA_SHIFT) ", %[m]\n\t"                                       \
    CHAIN_LOAD("m", "(%[slots], %[m])") CHAIN_LEAVE("testq %[m], %[m]", "jz")
#define CHAIN_LEAVE(compare, jump) compare "\n\t" jump " %l[leave]\n\t"
#define CHAIN_COMMIT(store) store "\n2:\n\t"

#define CHAIN_POP(name, sections)                                                                 \
    CHAIN name##_pop(const void *slots, intptr_t rseq, void **taken)                              \
    {                                                                                             \
        uintptr_t m, n, other;                                                                    \
        void *object;                                                                             \
        __asm__ __volatile__ goto(sections                                                        \
                                  : [m] "=&r"(m), [n] "=&r"(n), [other] "=&r"(other), [object] "=&r"(object) \
                                  : [slots] "r"(slots), [rseq] "r"(rseq)                          \
                                  : STOOK_OP_CLOBBERS "cc", "memory"                              \
                                  : leave);                                                       \
        STOOK_SECTION_EDGE();                                                                     \
        *taken = object;                                                                          \
        return 1;                                                                                 \
    leave:                                                                                        \
        STOOK_SECTION_EDGE();                                                                     \
        return 0;                                                                                 \
    }
#define CHAIN_PUSH(name, sections)                                                                \
    CHAIN name##_push(const void *slots, intptr_t rseq, void *object)                             \
    {                                                                                             \
        uintptr_t m, n, other;                                                                    \
        __asm__ __volatile__ goto(sections                                                        \
                                  : [m] "=&r"(m), [n] "=&r"(n), [other] "=&r"(other)               \
                                  : [slots] "r"(slots), [rseq] "r"(rseq), [object] "r"(object)    \
                                  : STOOK_OP_CLOBBERS "memory", "cc"                              \
                                  : leave);                                                       \
        STOOK_SECTION_EDGE();                                                                     \
        return 1;                                                                                 \
    leave:                                                                                        \
        STOOK_SECTION_EDGE();                                                                     \
        return 0;                                                                                 \
    }

#define CHAIN_MAIN                                                                                \
    STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") CHAIN_LOAD_MAIN
#define CHAIN_SLOT STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") CHAIN_ROW("m", "slots")

/* The library's own. */
CHAIN library_pop(const void *slots, intptr_t rseq, void **taken)
{
    return stook_rseq_pop(slots, rseq, taken);
}
CHAIN library_push(const void *slots, intptr_t rseq, void *object)
{
    return stook_rseq_push(slots, rseq, object);
}

#define CHAIN_SIZE_POP(at)                                                                        \
    STOOK_OP_LOAD32("n", "m", at) CHAIN_LEAVE("subl $1, %k[n]", "jb")                             \
        CHAIN_LOAD("object", "16(%[m], %[n], 8)") STOOK_OP_COMMIT32("n", "m", at)
#define CHAIN_SIZE_PUSH(at, commit)                                                               \
    STOOK_OP_LOAD32("n", "m", at) CHAIN_LEAVE("cmpl 12(%[m]), %k[n]", "jae")                      \
        "movq %[object], 16(%[m], %[n], 8)\n\t" commit
#define CHAIN_ADD_ONE(at) CHAIN_COMMIT("addl $1, " at "(%[m])")
CHAIN_POP(sheaf_size, CHAIN_MAIN CHAIN_SIZE_POP("8") STOOK_OP_END("leave"))
CHAIN_PUSH(sheaf_size, CHAIN_MAIN CHAIN_SIZE_PUSH("8", CHAIN_ADD_ONE("8")) STOOK_OP_END("leave"))

/* The push stores the size that it loaded, plus one. */
#define sheaf_size_store_pop sheaf_size_pop
CHAIN_PUSH(sheaf_size_store,
           CHAIN_MAIN CHAIN_SIZE_PUSH("8", "addl $1, %k[n]\n\t" STOOK_OP_COMMIT32("n", "m", "8"))
               STOOK_OP_END("leave"))

/* The size at the sheaf's begin, without displacement. */
CHAIN_POP(sheaf_size_first, CHAIN_MAIN CHAIN_SIZE_POP("0") STOOK_OP_END("leave"))
CHAIN_PUSH(sheaf_size_first,
           CHAIN_MAIN CHAIN_SIZE_PUSH("0", CHAIN_ADD_ONE("0")) STOOK_OP_END("leave"))

/* No section: nothing is armed. */
CHAIN_POP(sheaf_size_bare, STOOK_OP_LOAD_CPU("m") CHAIN_LOAD_MAIN CHAIN_SIZE_POP("8"))
CHAIN_PUSH(sheaf_size_bare,
           STOOK_OP_LOAD_CPU("m") CHAIN_LOAD_MAIN CHAIN_SIZE_PUSH("8", CHAIN_ADD_ONE("8")))

/* sheaf: 8 top, 16 begin, 24 end. */
CHAIN_POP(sheaf_top,
          CHAIN_MAIN CHAIN_LOAD("n", "8(%[m])") CHAIN_LEAVE("cmpq 16(%[m]), %[n]", "jbe")
              CHAIN_LOAD("object", "-8(%[n])") "subq $8, %[n]\n\t"
                  CHAIN_COMMIT("movq %[n], 8(%[m])") STOOK_OP_END("leave"))
CHAIN_PUSH(sheaf_top,
           CHAIN_MAIN CHAIN_LOAD("n", "8(%[m])") CHAIN_LEAVE("cmpq 24(%[m]), %[n]", "jae")
               "movq %[object], (%[n])\n\t" CHAIN_COMMIT("addq $8, 8(%[m])") STOOK_OP_END("leave"))

/* slot: 0 main, 8 size, 12 capacity. */
CHAIN_POP(slot_size,
          CHAIN_SLOT STOOK_OP_LOAD32("n", "m", "8") CHAIN_LEAVE("subl $1, %k[n]", "jb")
              CHAIN_LOAD("object", "(%[m])") CHAIN_LOAD("object", "16(%[object], %[n], 8)")
                  STOOK_OP_COMMIT32("n", "m", "8") STOOK_OP_END("leave"))
CHAIN_PUSH(slot_size,
           CHAIN_SLOT STOOK_OP_LOAD32("n", "m", "8") CHAIN_LEAVE("cmpl 12(%[m]), %k[n]", "jae")
               CHAIN_LOAD("other", "(%[m])") "movq %[object], 16(%[other], %[n], 8)\n\t"
                   CHAIN_ADD_ONE("8") STOOK_OP_END("leave"))

/* slot: 0 begin, 8 top, 16 end; begin and end are the gates, each loaded before top. */
CHAIN_POP(slot_top,
          CHAIN_SLOT CHAIN_LOAD("object", "(%[m])") CHAIN_LOAD("n", "8(%[m])")
              CHAIN_LEAVE("cmpq %[object], %[n]", "jbe") "subq $8, %[n]\n\t"
                  CHAIN_LOAD("object", "(%[n])") CHAIN_COMMIT("movq %[n], 8(%[m])")
                      STOOK_OP_END("leave"))
CHAIN_PUSH(slot_top,
           CHAIN_SLOT CHAIN_LOAD("n", "8(%[m])") CHAIN_LEAVE("cmpq 16(%[m]), %[n]", "jae")
               "movq %[object], (%[n])\n\t" CHAIN_COMMIT("addq $8, 8(%[m])") STOOK_OP_END("leave"))
/* The same with base and index instead of the slot's address. */
#define CHAIN_AREA STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m")                                     \
    "shlq $" STOOK_OP_STRING(STOOK_AREA_SHIFT) ", %[m]\n\t"
CHAIN_POP(slot_top_index,
          CHAIN_AREA CHAIN_LOAD("object", "(%[slots], %[m])") CHAIN_LOAD("n", "8(%[slots], %[m])")
              CHAIN_LEAVE("cmpq %[object], %[n]", "jbe") "subq $8, %[n]\n\t"
                  CHAIN_LOAD("object", "(%[n])") CHAIN_COMMIT("movq %[n], 8(%[slots], %[m])")
                      STOOK_OP_END("leave"))
CHAIN_PUSH(slot_top_index,
           CHAIN_AREA CHAIN_LOAD("n", "8(%[slots], %[m])")
               CHAIN_LEAVE("cmpq 16(%[slots], %[m]), %[n]", "jae") "movq %[object], (%[n])\n\t"
                   CHAIN_COMMIT("addq $8, 8(%[slots], %[m])") STOOK_OP_END("leave"))
/* The address that the commit of the pop stores by is in another register than the load's. */
CHAIN_POP(slot_top_base,
          CHAIN_SLOT "leaq (%[m]), %[other]\n\t" CHAIN_LOAD("object", "(%[m])")
              CHAIN_LOAD("n", "8(%[m])") CHAIN_LEAVE("cmpq %[object], %[n]", "jbe")
              "subq $8, %[n]\n\t" CHAIN_LOAD("object", "(%[n])")
                  CHAIN_COMMIT("movq %[n], 8(%[other])") STOOK_OP_END("leave"))
#define slot_top_base_push slot_top_push

/* slot: 0 begin, 8 top, 16 end, 24 front: what a pop takes first, and a push fills first. */
CHAIN_POP(slot_front,
        CHAIN_SLOT CHAIN_LEAVE("cmpq $-1, (%[m])", "je") CHAIN_LOAD("object", "24(%[m])")
            "leaq 24(%[m]), %[m]\n\t"
            "xorl %k[n], %k[n]\n\t"
            "testq %[object], %[object]\n\t"
            "jnz 11f\n\t"
            CHAIN_LOAD("n", "-16(%[m])") CHAIN_LEAVE("cmpq -24(%[m]), %[n]", "jbe")
            "subq $8, %[n]\n\t" CHAIN_LOAD("object", "(%[n])")
            "subq $16, %[m]\n"
            "11:\n\t"
            CHAIN_COMMIT("movq %[n], (%[m])") STOOK_OP_END("leave"))
CHAIN_PUSH(slot_front,
        CHAIN_SLOT CHAIN_LEAVE("cmpq $-1, (%[m])", "je")
            "movq %[object], %[n]\n\t"
            "addq $24, %[m]\n\t"
            "cmpq $0, (%[m])\n\t"
            "je 11f\n\t"
            CHAIN_LOAD("n", "-16(%[m])") CHAIN_LEAVE("cmpq -8(%[m]), %[n]", "jae")
            "movq %[object], (%[n])\n\t"
            "addq $8, %[n]\n\t"
            "subq $16, %[m]\n"
            "11:\n\t"
            CHAIN_COMMIT("movq %[n], (%[m])") STOOK_OP_END("leave"))

#endif
