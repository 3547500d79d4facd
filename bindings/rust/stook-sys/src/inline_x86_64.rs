// SPDX-License-Identifier: MIT
//! Pop and push as restartable sections in the caller: `stook/sections.h` in Rust.
//!
//! The sections are those of `stook/sections.h`, operation by operation, and keep the same rules: the store that
//! arms is the last instruction before the section, the committing store its last, and the descriptor and the
//! abort exit lie in sections of their own. The layout that they know is versioned: `stook_inline_layout_3`
//! fails to link against a library with another one.
//!
//! Two things differ from C. The offset of the thread's `struct rseq` is the one in the cache's head, which the
//! library itself uses; so a thread or a process without registration needs no case of its own. And a static
//! cache that is not made yet points to [`UNBORN`], a head whose slot has no sheaf: a pop finds that out where
//! it finds an empty sheaf, and pays no comparison for it.
//!
//! Stable Rust has no block of `asm!` with labels and outputs (rust-lang/rust#119364). So [`pop`] leaves NULL in its
//! output, which the caller tests: two instructions more than C's. With `--cfg stook_nightly` and a nightly compiler
//! it jumps, as C's does. [`pop_or`] has nothing to test: its cold path, within the block, calls a function that
//! returns an object or does not return.

use crate::{stook_cache, stook_cache_head, Otherwise};
use core::arch::{asm, global_asm};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// Whether pops and pushes are inlined.
pub const INLINED: bool = true;

const LAYOUT: c_int = 3;

// The head of a cache that is not made yet. A section on it arms 32 bytes of thread-local memory, which the kernel
// does not know, reads CPU 0 there, and finds that the slot, words of zeros, has no sheaf.
//
// Linkers do not put the offset of thread-local memory into the data of a shared object, so the constructor does.
// Until then, for constructors that run earlier still, it is that of memory which glibc has at the same place in
// every thread and does not use: __glibc_unused2 of its tcbhead_t, 512 bytes of zeros.
global_asm!(
    ".pushsection .tbss.stook_rust_thread, \"awT\", @nobits",
    ".balign 32",
    "stook_rust_thread:",
    ".zero 32",
    ".popsection",
    ".pushsection .rodata.stook_rust_slot, \"a\", @progbits",
    ".balign 8",
    "stook_rust_slot:",
    ".quad 0, 0, 0",
    ".popsection",
    ".pushsection .data.stook_rust_unborn_3, \"aw\", @progbits",
    ".balign 32",
    ".globl stook_rust_unborn_3",
    ".type stook_rust_unborn_3, @object",
    ".size stook_rust_unborn_3, 24",
    "stook_rust_unborn_3:",
    "stook_rust_unborn:",
    ".quad stook_rust_slot",
    ".quad 0",
    ".quad 128",
    ".popsection",
    ".pushsection .text.stook_rust_begin, \"ax\", @progbits",
    ".globl stook_rust_begin",
    ".hidden stook_rust_begin",
    ".type stook_rust_begin, @function",
    "stook_rust_begin:",
    ".cfi_startproc",
    "movq stook_rust_thread@gottpoff(%rip), %rax",
    "movq %rax, 16+stook_rust_unborn(%rip)",
    "ret",
    ".cfi_endproc",
    ".size stook_rust_begin, .-stook_rust_begin",
    ".popsection",
    options(att_syntax)
);

// The cold path of pop_or(): calls the function in %rax with the return address as its argument, and returns what
// it returns. Every other register of the caller that the block does not name survives. The caller has left room
// for its red zone and pushed its return address, so that an unwinder finds the frame of the caller from here. (A
// shadow stack would object to that address. The kernel has it on only if every object of the program asks for it.)
global_asm!(
    ".pushsection .text.unlikely.stook_rust_or, \"ax\", @progbits",
    ".globl stook_rust_or",
    ".hidden stook_rust_or",
    ".type stook_rust_or, @function",
    "stook_rust_or:",
    ".cfi_startproc",
    ".cfi_def_cfa %rsp, 136",
    ".cfi_offset %rip, -136",
    "pushq %rbp",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset %rbp, 0",
    "movq %rsp, %rbp",
    ".cfi_def_cfa_register %rbp",
    "pushq %rcx",
    "pushq %rdx",
    "pushq %rsi",
    "pushq %rdi",
    "pushq %r8",
    "pushq %r9",
    "pushq %r10",
    "pushq %r11",
    "andq $-16, %rsp",
    "movq 8(%rbp), %rdi",
    "callq *%rax",
    "leaq -64(%rbp), %rsp",
    "popq %r11",
    "popq %r10",
    "popq %r9",
    "popq %r8",
    "popq %rdi",
    "popq %rsi",
    "popq %rdx",
    "popq %rcx",
    "popq %rbp",
    ".cfi_def_cfa %rsp, 136",
    ".cfi_restore %rbp",
    "retq $128",
    ".cfi_endproc",
    ".size stook_rust_or, .-stook_rust_or",
    ".popsection",
    options(att_syntax)
);

extern "C" {
    static stook_rust_unborn_3: stook_cache_head;
    fn stook_rust_begin();
    fn stook_inline_layout_3(layout: c_int, address: *const c_void);
}

/// What a static cache points to until it is made.
pub const UNBORN: *mut stook_cache =
    // Only its address is taken.
    core::ptr::addr_of!(stook_rust_unborn_3) as *mut stook_cache;

/// Begins, and pins the object that holds the sections: a thread may carry a pointer to one of them after it is unloaded.
extern "C" fn pin() {
    // SAFETY: the address is within this object, and the calls may be made at any time.
    unsafe {
        stook_rust_begin();
        stook_inline_layout_3(LAYOUT, pin as extern "C" fn() as *const c_void);
    }
}

#[used]
#[link_section = ".init_array.00000"] // first, so that other constructors may allocate
static PIN: extern "C" fn() = pin;

/// The slots of a cache. Another thread may switch statistics meanwhile; either slot works.
///
/// # Safety
/// `cache` is a cache or [`UNBORN`].
#[inline(always)]
unsafe fn slots_and_rseq(cache: *mut stook_cache) -> (*const c_void, isize) {
    let head = cache as *const stook_cache_head;
    let slots = core::ptr::addr_of!((*head).slots) as *const AtomicPtr<c_void>;
    ((*slots).load(Ordering::Relaxed), (*head).rseq_offset)
}

macro_rules! begin {
    ($tmp:literal) => {
        concat!(
            ".pushsection __rseq_cs, \"aw?\"\n",
            ".balign 32\n",
            "3:\n",
            ".long 0, 0\n",
            ".quad 5f, (2f - 5f), 4f\n",
            ".popsection\n",
            "leaq 3b(%rip), ",
            $tmp,
            "\n",
            "movq ",
            $tmp,
            ", %fs:8({rseq})\n",
            "5:\n",
            "movslq %fs:4({rseq}), ",
            $tmp,
            "\n",
            "shlq $18, ",
            $tmp,
            "\n",
            "addq {slots}, ",
            $tmp,
        )
    };
}

/// Takes the top object of this CPU's main sheaf; NULL when it is empty, closed or aborted.
///
/// # Safety
/// `cache` is a cache that is not destroyed meanwhile, or [`UNBORN`].
#[cfg(not(stook_goto_outputs))]
#[inline(always)]
pub unsafe fn pop(cache: *mut stook_cache) -> *mut c_void {
    let (slots, rseq) = slots_and_rseq(cache);
    let object: *mut c_void;
    asm!(
        begin!("{m}"),
        "movq ({m}), {object}",
        "movq 8({m}), {t}",
        "cmpq {object}, {t}",
        "jbe 6f",
        "movq -8({t}), {object}",
        "subq $8, {t}",
        "movq {t}, 8({m})",
        "2:",
        ".pushsection __rseq_abort, \"ax?\"",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "4:",
        "6:",
        "xorl {object:e}, {object:e}",
        "jmp 2b",
        ".popsection",
        m = out(reg) _,
        t = out(reg) _,
        object = lateout(reg) object,
        slots = in(reg) slots,
        rseq = in(reg) rseq,
        options(att_syntax, nostack)
    );
    object
}

/// Takes the top object of this CPU's main sheaf; NULL when it is empty, closed or aborted.
///
/// # Safety
/// `cache` is a cache that is not destroyed meanwhile, or [`UNBORN`].
#[cfg(stook_goto_outputs)]
#[inline(always)]
pub unsafe fn pop(cache: *mut stook_cache) -> *mut c_void {
    let (slots, rseq) = slots_and_rseq(cache);
    let object: *mut c_void;
    asm!(
        begin!("{m}"),
        "movq ({m}), {object}",
        "movq 8({m}), {t}",
        "cmpq {object}, {t}",
        "jbe {leave}",
        "movq -8({t}), {object}",
        "subq $8, {t}",
        "movq {t}, 8({m})",
        "2:",
        ".pushsection __rseq_abort, \"ax?\"",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "4:",
        "jmp {leave}",
        ".popsection",
        m = out(reg) _,
        t = out(reg) _,
        object = lateout(reg) object,
        slots = in(reg) slots,
        rseq = in(reg) rseq,
        leave = label { return core::ptr::null_mut() },
        options(att_syntax, nostack)
    );
    // A sheaf holds no NULL: the caller's test for it is the jump above.
    core::hint::assert_unchecked(!object.is_null());
    object
}

/// Takes the top object of this CPU's main sheaf. When it is empty, closed or aborted, what `O` returns. Machines
/// whose blocks cannot hold the call return NULL instead; this one does not.
///
/// Stack traces and the argument of `O` name the function that this is inlined into. The block keeps its caller's
/// integer registers across the call, but no vector registers: for these the compiler chooses another place.
///
/// # Safety
/// `cache` is a cache that is not destroyed meanwhile, or [`UNBORN`].
#[inline(always)]
pub unsafe fn pop_or<O: Otherwise>(cache: *mut stook_cache) -> *mut c_void {
    let (slots, rseq) = slots_and_rseq(cache);
    let object: *mut c_void;
    // Not nostack's promise to the letter: the cold path writes below the red zone, as a signal handler does.
    asm!(
        begin!("{m}"),
        "movq ({m}), %rax",
        "movq 8({m}), {t}",
        "cmpq %rax, {t}",
        "jbe 6f",
        "movq -8({t}), %rax",
        "subq $8, {t}",
        "movq {t}, 8({m})",
        "2:",
        ".pushsection __rseq_abort, \"ax?\"",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "4:",
        "6:",
        "leaq -128(%rsp), %rsp",
        "leaq 2b(%rip), %rax",
        "pushq %rax",
        "movq {otherwise}@GOTPCREL(%rip), %rax",
        "jmp stook_rust_or",
        ".popsection",
        m = out(reg) _,
        t = out(reg) _,
        out("rax") object,
        slots = in(reg) slots,
        rseq = in(reg) rseq,
        otherwise = sym O::otherwise,
        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
        out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
        out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
        out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _,
        out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
        out("xmm24") _, out("xmm25") _, out("xmm26") _, out("xmm27") _,
        out("xmm28") _, out("xmm29") _, out("xmm30") _, out("xmm31") _,
        out("k0") _, out("k1") _, out("k2") _, out("k3") _,
        out("k4") _, out("k5") _, out("k6") _, out("k7") _,
        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
        out("mm0") _, out("mm1") _, out("mm2") _, out("mm3") _,
        out("mm4") _, out("mm5") _, out("mm6") _, out("mm7") _,
        options(att_syntax, nostack)
    );
    // A sheaf holds no NULL, and O returns none: a test of the caller is removed.
    core::hint::assert_unchecked(!object.is_null());
    object
}

/// Puts an object on this CPU's main sheaf; false when it is full, closed or aborted.
///
/// # Safety
/// `object` was allocated from `cache`, and the caller gives it up if the result is true.
#[inline(always)]
pub unsafe fn push(cache: *mut stook_cache, object: *mut c_void) -> bool {
    let (slots, rseq) = slots_and_rseq(cache);
    asm!(
        begin!("{m}"),
        "movq 16({m}), {end}",
        "movq 8({m}), {t}",
        "cmpq {t}, {end}",
        "jbe {leave}",
        "movq {object}, ({t})",
        "addq $8, {t}",
        "movq {t}, 8({m})",
        "2:",
        ".pushsection __rseq_abort, \"ax?\"",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "4:",
        "jmp {leave}",
        ".popsection",
        m = out(reg) _,
        t = out(reg) _,
        end = out(reg) _,
        object = in(reg) object,
        slots = in(reg) slots,
        rseq = in(reg) rseq,
        leave = label { return false },
        options(att_syntax, nostack)
    );
    true
}
