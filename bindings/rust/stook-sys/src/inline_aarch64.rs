// SPDX-License-Identifier: MIT
//! Pop and push as restartable sections in the caller, for aarch64: `stook/sections.h` over
//! `stook/arch/ops_aarch64.h` in Rust.
//!
//! The rules are those of `inline_x86_64.rs`. Three things differ. The block loads the head of the cache itself: the
//! address dependency orders these loads behind that of the cache's pointer, so this needs no acquire. A static cache
//! that is not made yet has the pointer NULL, for which a pop has a comparison: no memory of every thread is known
//! that could serve as its `struct rseq`. And branches stay within the subsection behind the code, since a
//! conditional branch spans 1 MiB.
//!
//! A pop leaves NULL in its output, which the caller tests with one instruction.

use crate::{stook_cache, Otherwise};
use core::arch::asm;
use core::ffi::{c_int, c_void};

/// Whether pops and pushes are inlined.
pub const INLINED: bool = true;

const LAYOUT: c_int = 3;

extern "C" {
    fn stook_inline_layout_3(layout: c_int, address: *const c_void);
}

/// What a static cache points to until it is made.
pub const UNBORN: *mut stook_cache = core::ptr::null_mut();

/// Pins the object that holds the sections: a thread may carry a pointer to one of them after it is unloaded.
extern "C" fn pin() {
    // SAFETY: the address is within this object, and the call may be made at any time.
    unsafe { stook_inline_layout_3(LAYOUT, pin as extern "C" fn() as *const c_void) }
}

#[used]
#[link_section = ".init_array.00000"]
static PIN: extern "C" fn() = pin;

/// Up to the slot of this CPU, in `m`; `t` is the thread's struct rseq until the CPU is known.
macro_rules! begin {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw?\"\n",
            ".balign 32\n",
            "3:\n",
            ".long 0, 0\n",
            ".quad 5f, (2f - 5f), 4f\n",
            ".popsection\n",
            "ldr {n}, [{cache}]\n",
            "ldr {m}, [{cache}, #16]\n",
            "mrs {t}, tpidr_el0\n",
            "add {t}, {t}, {m}\n",
            "adrp {m}, 3b\n",
            "add {m}, {m}, :lo12:3b\n",
            "str {m}, [{t}, #8]\n",
            "5:\n",
            "ldrsw {m}, [{t}, #4]\n",
            "add {m}, {n}, {m}, lsl #18"
        )
    };
}

/// Takes the top object of this CPU's main sheaf; NULL when it is empty, closed or aborted.
///
/// # Safety
/// `cache` is a cache that is not destroyed meanwhile, or [`UNBORN`].
#[inline(always)]
pub unsafe fn pop(cache: *mut stook_cache) -> *mut c_void {
    let object: *mut c_void;
    asm!(
        "cbz {cache}, 6f",
        begin!(),
        "ldar {n}, [{m}]",
        "ldr {t}, [{m}, #8]",
        "cmp {t}, {n}",
        "b.ls 6f",
        "ldr {object}, [{t}, #-8]!",
        "str {t}, [{m}, #8]",
        "2:",
        ".subsection 1",
        ".inst 0xd428bc00",
        "4:",
        "6:",
        "mov {object}, xzr",
        "b 2b",
        ".previous",
        m = out(reg) _,
        n = out(reg) _,
        t = out(reg) _,
        object = lateout(reg) object,
        cache = in(reg) cache,
        options(nostack)
    );
    object
}

/// [`pop`]: the block does not hold the call of `O`, whose registers it would have to save.
///
/// # Safety
/// As of [`pop`].
#[inline(always)]
pub unsafe fn pop_or<O: Otherwise>(cache: *mut stook_cache) -> *mut c_void {
    pop(cache)
}

/// Puts an object on this CPU's main sheaf; false when it is full, closed or aborted.
///
/// # Safety
/// `object` was allocated from `cache`, and the caller gives it up if the result is true.
#[inline(always)]
pub unsafe fn push(cache: *mut stook_cache, object: *mut c_void) -> bool {
    asm!(
        begin!(),
        "add {n}, {m}, #16",
        "ldar {n}, [{n}]",
        "ldr {t}, [{m}, #8]",
        "cmp {n}, {t}",
        "b.ls 6f",
        "str {object}, [{t}], #8",
        "str {t}, [{m}, #8]",
        "2:",
        ".subsection 1",
        ".inst 0xd428bc00",
        "4:",
        "6:",
        "b {leave}",
        ".previous",
        m = out(reg) _,
        n = out(reg) _,
        t = out(reg) _,
        object = in(reg) object,
        cache = in(reg) cache,
        leave = label { return false },
        options(nostack)
    );
    true
}
