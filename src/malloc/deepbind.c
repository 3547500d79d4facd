/* SPDX-License-Identifier: MIT */
/*
 * deepbind.c - dlopen() and dlmopen(), which take RTLD_DEEPBIND away and jump to glibc's.
 *
 * A library that is opened with that flag finds malloc and free in libc before it finds ours, and so frees our objects
 * by glibc's free().  A namespace other than the base has a libc of its own and keeps the flag.
 *
 * glibc takes the RUNPATH, $ORIGIN and namespace from the object that the call returns to.  So the call must not return
 * here: both are in assembly, and jump.  The first call finds where to: constructors that run before ours may open
 * libraries, too.  Libraries that glibc opens by itself (NSS, iconv) do not come here; it opens them without the flag.
 *
 * The archive does not have this file: in a static program there is no next dlopen().
 */
#include "malloc/fast.h"
#include "malloc/libc_heap.h"
#include "malloc/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GLIBC__) && !defined(STOOK_MALLOC_PREFIX) &&                                         \
    (defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64))

#define DEEPBIND_READ __attribute__((visibility("hidden"), used)) /* by the assembly */

/* glibc's, or those of a library behind us that has such names; NULL: not found yet. */
DEEPBIND_READ void *deepbind_open;
DEEPBIND_READ void *deepbind_open_in;
DEEPBIND_READ int deepbind_mask; /* of the flags; stored before both */
DEEPBIND_READ void deepbind_find(void);

static void *deepbind_none(void)
{
    errno = ENOSYS;
    return NULL;
}

/* Any number of threads at a time. */
void deepbind_find(void)
{
    void *open = dlsym(RTLD_NEXT, "dlopen"), *open_in = dlsym(RTLD_NEXT, "dlmopen");

    libc_heap_find();
    (void)start_malloc();
    __atomic_store_n(&deepbind_mask, fast.keeps_deepbind ? -1 : ~RTLD_DEEPBIND, __ATOMIC_RELAXED);
    __atomic_store_n(&deepbind_open, open ? open : (void *)deepbind_none, __ATOMIC_RELEASE);
    __atomic_store_n(&deepbind_open_in, open_in ? open_in : (void *)deepbind_none,
                     __ATOMIC_RELEASE);
}

/*
 * `base` jumps to 3 unless the namespace is the base's.  The target is loaded before the mask: a thread that sees the
 * target sees the mask.  deepbind_first keeps the arguments while C code finds both.
 */
/* clang-format off */
#if defined(__x86_64__)
#define DEEPBIND_CALL(name, target, base, flags)                                                   \
    name ": .cfi_startproc\n endbr64\n"                                                            \
    "2: mov " target "(%rip), %rax\n test %rax, %rax\n jz 1f\n" base                               \
    " and deepbind_mask(%rip), " flags "\n"                                                        \
    "3: jmp *%rax\n"                                                                               \
    "1: call deepbind_first\n jmp 2b\n .cfi_endproc\n"
#define DEEPBIND_BASE " test %rdi, %rdi\n jnz 3f\n"
#define DEEPBIND_FLAGS "%esi"
#define DEEPBIND_FLAGS_IN "%edx"
#define DEEPBIND_FIRST                                                                             \
    " push %rdi\n push %rsi\n push %rdx\n sub $8, %rsp\n call deepbind_find\n"                     \
    " add $8, %rsp\n pop %rdx\n pop %rsi\n pop %rdi\n ret\n"
#elif defined(__aarch64__)
#define DEEPBIND_CALL(name, target, base, flags)                                                   \
    name ": .cfi_startproc\n hint #34\n" /* bti c */                                               \
    "2: adrp x16, " target "\n add x16, x16, :lo12:" target "\n ldar x16, [x16]\n cbz x16, 1f\n"   \
    base                                                                                           \
    " adrp x17, deepbind_mask\n ldr w17, [x17, :lo12:deepbind_mask]\n"                             \
    " and " flags ", " flags ", w17\n"                                                             \
    "3: br x16\n"                                                                                  \
    "1: mov x3, x30\n bl deepbind_first\n mov x30, x3\n b 2b\n .cfi_endproc\n"
#define DEEPBIND_BASE " cbnz x0, 3f\n"
#define DEEPBIND_FLAGS "w1"
#define DEEPBIND_FLAGS_IN "w2"
#define DEEPBIND_FIRST                                                                             \
    " stp x29, x30, [sp, #-48]!\n mov x29, sp\n stp x0, x1, [sp, #16]\n stp x2, x3, [sp, #32]\n"   \
    " bl deepbind_find\n"                                                                          \
    " ldp x2, x3, [sp, #32]\n ldp x0, x1, [sp, #16]\n ldp x29, x30, [sp], #48\n ret\n"
#else
#define DEEPBIND_CALL(name, target, base, flags)                                                   \
    name ": .cfi_startproc\n"                                                                      \
    "2: ld t1, " target "\n fence r, rw\n beqz t1, 1f\n" base                                      \
    " lw t2, deepbind_mask\n and " flags ", " flags ", t2\n"                                       \
    "3: jr t1\n"                                                                                   \
    "1: mv a3, ra\n call deepbind_first\n mv ra, a3\n j 2b\n .cfi_endproc\n"
#define DEEPBIND_BASE " bnez a0, 3f\n"
#define DEEPBIND_FLAGS "a1"
#define DEEPBIND_FLAGS_IN "a2"
#define DEEPBIND_FIRST                                                                             \
    " addi sp, sp, -48\n sd ra, 0(sp)\n sd a0, 8(sp)\n sd a1, 16(sp)\n sd a2, 24(sp)\n"            \
    " sd a3, 32(sp)\n call deepbind_find\n ld a3, 32(sp)\n ld a2, 24(sp)\n ld a1, 16(sp)\n"        \
    " ld a0, 8(sp)\n ld ra, 0(sp)\n addi sp, sp, 48\n ret\n"
#endif

__asm__(".pushsection .text\n .p2align 4\n .globl dlopen, dlmopen\n"
        " .type dlopen, %function\n .type dlmopen, %function\n"
        "deepbind_first:\n" DEEPBIND_FIRST
        DEEPBIND_CALL("dlopen", "deepbind_open", "", DEEPBIND_FLAGS)
        DEEPBIND_CALL("dlmopen", "deepbind_open_in", DEEPBIND_BASE, DEEPBIND_FLAGS_IN)
        " .size dlopen, . - dlopen\n .size dlmopen, . - dlmopen\n .popsection\n");
/* clang-format on */

#else
typedef int deepbind_none; /* a file may not be empty */
#endif
