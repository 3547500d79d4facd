// SPDX-License-Identifier: MIT
//! Pop and push as restartable sections in the caller: `stook/sections.h` in Rust.
//!
//! The sections are those of `stook/sections.h`, operation by operation, and keep the same rules: the store that
//! arms is the last instruction before the section, the committing store its last, and the descriptor and the
//! abort exit lie in sections of their own. The layout that they know is versioned: `stook_inline_layout_2`
//! fails to link against a library with another one.
//!
//! Two things differ from C. The offset of the thread's `struct rseq` is the one in the cache's head, which the
//! library itself uses; so a thread or a process without registration needs no case of its own. And a static
//! cache that is not made yet points to [`UNBORN`], a head whose slot has no sheaf: a pop finds that out where
//! it finds an empty sheaf, and pays no comparison for it.
//!
//! Stable Rust has no block of `asm!` with labels and outputs (rust-lang/rust#119364). A pop therefore leaves
//! NULL in its output and the caller tests that: two instructions more than C's. With `--cfg stook_nightly` and a
//! nightly compiler it jumps, as C's does.

use crate::{stook_cache, stook_cache_head};
use core::arch::{asm, global_asm};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// Whether pops and pushes are inlined.
pub const INLINED: bool = true;

const LAYOUT: c_int = 2;

// The head of a cache that is not made yet. A section on it arms 32 bytes of thread-local memory, which the kernel
// does not know, reads CPU 0 there, and finds that the slot, a word of zeros, has no sheaf.
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
    ".quad 0",
    ".popsection",
    ".pushsection .data.stook_rust_unborn_2, \"aw\", @progbits",
    ".balign 32",
    ".globl stook_rust_unborn_2",
    ".type stook_rust_unborn_2, @object",
    ".size stook_rust_unborn_2, 24",
    "stook_rust_unborn_2:",
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

extern "C" {
    static stook_rust_unborn_2: stook_cache_head;
    fn stook_rust_begin();
    fn stook_inline_layout_2(layout: c_int, address: *const c_void);
}

/// What a static cache points to until it is made.
pub const UNBORN: *mut stook_cache =
    // Only its address is taken.
    core::ptr::addr_of!(stook_rust_unborn_2) as *mut stook_cache;

/// Begins, and pins the object that holds the sections: a thread may carry a pointer to one of them after it is unloaded.
extern "C" fn pin() {
    // SAFETY: the address is within this object, and the calls may be made at any time.
    unsafe {
        stook_rust_begin();
        stook_inline_layout_2(LAYOUT, pin as extern "C" fn() as *const c_void);
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
            "movq ({slots}, ",
            $tmp,
            "), ",
            $tmp,
            "\n",
            "testq ",
            $tmp,
            ", ",
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
        "jz 6f",
        "movl 8({m}), {n:e}",
        "subl $1, {n:e}",
        "jb 6f",
        "movq 16({m}, {n}, 8), {object}",
        "movl {n:e}, 8({m})",
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
        n = out(reg) _,
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
        "jz {leave}",
        "movl 8({m}), {n:e}",
        "subl $1, {n:e}",
        "jb {leave}",
        "movq 16({m}, {n}, 8), {object}",
        "movl {n:e}, 8({m})",
        "2:",
        ".pushsection __rseq_abort, \"ax?\"",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "4:",
        "jmp {leave}",
        ".popsection",
        m = out(reg) _,
        n = out(reg) _,
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

/// Puts an object on this CPU's main sheaf; false when it is full, closed or aborted.
///
/// # Safety
/// `object` was allocated from `cache`, and the caller gives it up if the result is true.
#[inline(always)]
pub unsafe fn push(cache: *mut stook_cache, object: *mut c_void) -> bool {
    let (slots, rseq) = slots_and_rseq(cache);
    asm!(
        begin!("{m}"),
        "jz {leave}",
        "movl 8({m}), {n:e}",
        "cmpl 12({m}), {n:e}",
        "jae {leave}",
        "movq {object}, 16({m}, {n}, 8)",
        "addl $1, 8({m})",
        "2:",
        ".pushsection __rseq_abort, \"ax?\"",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "4:",
        "jmp {leave}",
        ".popsection",
        m = out(reg) _,
        n = out(reg) _,
        object = in(reg) object,
        slots = in(reg) slots,
        rseq = in(reg) rseq,
        leave = label { return false },
        options(att_syntax, nostack)
    );
    true
}
