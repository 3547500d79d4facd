/* SPDX-License-Identifier: MIT */
/*
 * The floor of the fast path: one bare restartable pop and push on a per-CPU array of pointers,
 * inlined, with nothing behind it. No allocator with per-CPU caches can be faster in the same
 * loops, so the ratio to this is what its fast path costs.
 *
 *   pop:   arm; cpu; slot = area(cpu); m = slot.main; n = m.size; if n == 0 leave;
 *          o = m.object[n-1]; m.size = n-1 (commits)
 *   push:  arm; cpu; slot; m = slot.main; n = m.size; if n >= m.capacity leave;
 *          m.object[n] = o; m.size = n+1 (commits)
 *
 * An aborted section starts over without limit, which single-stepping would turn into a hang: this
 * is a floor, not a library.
 */
#if !defined(__x86_64__)
#error "floor_rseq has sections for x86-64 only"
#endif

#include <stddef.h>
#include <stdint.h>

#define FLOOR_AREA_SHIFT 12
#define FLOOR_CAPACITY 480

struct sheaf {
    uint32_t size;
    uint32_t capacity;
    void *object[];
};

struct floor_slot {
    struct sheaf *main;
};

/* Both stay in registers of the timed loop. */
typedef struct {
    char *areas;    /* [cpu << FLOOR_AREA_SHIFT] is that CPU's slot */
    ptrdiff_t rseq; /* offset of the C library's rseq area from the thread pointer */
} adapter_t;

/* Fills the sheaves of all CPUs it may run on; ends the worker where there is no rseq. */
adapter_t floor_rseq_open(size_t object_size);

/*
 * Field offsets of the kernel's struct rseq (cpu_id 4, rseq_cs 8) and the signature that glibc
 * registers with (53053053, inside an undefined instruction in front of the abort handler).
 */
#define FLOOR_RSEQ_ARM                                                                             \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3: .long 0, 0\n\t"                                                                            \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "5: leaq 3b(%%rip), %[tmp]\n\t"                                                                \
    "movq %[tmp], %%fs:8(%[rseq])\n\t"                                                             \
    "1:\n\t"

#define FLOOR_RSEQ_END                                                                             \
    "2:\n\t"                                                                                       \
    ".pushsection __rseq_failure, \"ax\"\n\t"                                                      \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n\t"                                                                         \
    "4: jmp 5b\n\t"                                                                                \
    ".popsection\n\t"

/* GCC 12 may mix up outputs of an asm goto and values of the code behind it (PR 113921). */
#define FLOOR_RSEQ_EDGE() __asm__ volatile("")

static inline adapter_t adapter_open(size_t object_size)
{
    return floor_rseq_open(object_size);
}

static inline void *adapter_alloc(adapter_t bare)
{
    void *object;
    uint64_t size;
    uint64_t tmp;
    __asm__ volatile goto(FLOOR_RSEQ_ARM
                          "movl %%fs:4(%[rseq]), %k[tmp]\n\t"
                          "shlq %[shift], %[tmp]\n\t"
                          "movq (%[areas],%[tmp]), %[tmp]\n\t"
                          "movl (%[tmp]), %k[size]\n\t"
                          "subl $1, %k[size]\n\t"
                          "jb %l[empty]\n\t"
                          "movq 8(%[tmp],%[size],8), %[object]\n\t"
                          "movl %k[size], (%[tmp])\n\t" /* commits */
                          FLOOR_RSEQ_END
                          : [object] "=&r"(object), [size] "=&r"(size), [tmp] "=&r"(tmp)
                          : [areas] "r"(bare.areas), [rseq] "r"(bare.rseq),
                            [shift] "i"(FLOOR_AREA_SHIFT)
                          : "cc", "memory"
                          : empty);
    FLOOR_RSEQ_EDGE();
    return object;
empty:
    FLOOR_RSEQ_EDGE();
    return NULL;
}

static inline void adapter_free(adapter_t bare, void *object)
{
    uint64_t size;
    uint64_t tmp;
    __asm__ volatile goto(FLOOR_RSEQ_ARM
                          "movl %%fs:4(%[rseq]), %k[tmp]\n\t"
                          "shlq %[shift], %[tmp]\n\t"
                          "movq (%[areas],%[tmp]), %[tmp]\n\t"
                          "movl (%[tmp]), %k[size]\n\t"
                          "cmpl 4(%[tmp]), %k[size]\n\t"
                          "jae %l[full]\n\t"
                          "movq %[object], 8(%[tmp],%[size],8)\n\t"
                          "addl $1, %k[size]\n\t"
                          "movl %k[size], (%[tmp])\n\t" /* commits */
                          FLOOR_RSEQ_END
                          : [size] "=&r"(size), [tmp] "=&r"(tmp)
                          : [areas] "r"(bare.areas), [rseq] "r"(bare.rseq),
                            [object] "r"(object), [shift] "i"(FLOOR_AREA_SHIFT)
                          : "cc", "memory"
                          : full);
    FLOOR_RSEQ_EDGE();
    return;
full:
    FLOOR_RSEQ_EDGE();
    case_die("the floor's sheaf is full");
}

static inline void adapter_check(void)
{
}
