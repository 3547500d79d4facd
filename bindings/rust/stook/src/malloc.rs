// SPDX-License-Identifier: MIT
//! Memory of any size, as the global allocator or in containers.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_uint;
use core::ptr;
use stook_sys as sys;

/// The library's allocator for any size (`stook_kmalloc`), as the global one.
///
/// It serves what Rust code allocates; `malloc` of C code stays the C library's. To replace both, run the program
/// with `stook run`, or link it with `libstook-malloc`, and leave Rust's default allocator as it is.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: stook::Malloc = stook::Malloc;
///
/// let text = "a heap of words ".repeat(1000);
/// assert_eq!(text.len(), 16_000);
/// ```
///
/// With the feature `allocator-api2` it is an `Allocator` of that crate too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Malloc;

/// What is aligned to `align` and has `size` bytes, or 0: an alignment that the library does not have.
///
/// Powers of two are aligned to themselves, up to 2 MiB; other sizes up to 8 KiB as little as 16 bytes, and
/// larger ones to pages.
#[inline(always)]
fn rounded(layout: Layout) -> usize {
    let (size, align) = (layout.size(), layout.align());
    if align <= 8 {
        return size;
    }
    if align <= 16 {
        return size.max(16);
    }
    if align <= 4096 && size > sys::STOOK_KMALLOC_CACHE_MAX {
        return size;
    }
    if align > 2 << 20 || size > 1 << 62 {
        return 0;
    }
    let power = size.max(align).next_power_of_two();
    if power > 2 << 20 {
        0
    } else {
        power
    }
}

impl Malloc {
    #[inline(always)]
    pub(crate) fn get(layout: Layout, flags: c_uint) -> *mut u8 {
        match rounded(layout) {
            0 => ptr::null_mut(),
            // SAFETY: any size may be asked for.
            size => unsafe { sys::stook_kmalloc(size, flags).cast() },
        }
    }

    /// # Safety
    /// The memory is of [`get`](Malloc::get), and the caller gives it up.
    #[inline(always)]
    pub(crate) unsafe fn put(memory: *mut u8) {
        // SAFETY: by the caller.
        unsafe { sys::stook_free_any(memory.cast()) }
    }
}

// SAFETY: the library's memory is exclusive, aligned as `rounded` has it, and its calls do not unwind.
unsafe impl GlobalAlloc for Malloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Malloc::get(layout, sys::STOOK_WAIT)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Malloc::get(layout, sys::STOOK_ZERO)
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: by the caller.
        unsafe { Malloc::put(memory) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the caller, the size does not overflow when it is rounded to the alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if layout.align() <= 16 {
            // SAFETY: by the caller; every class of 16 bytes and more is aligned to 16.
            return unsafe {
                sys::stook_krealloc(memory.cast(), rounded(wanted), sys::STOOK_WAIT).cast()
            };
        }
        let new = Malloc::get(wanted, sys::STOOK_WAIT);
        if !new.is_null() {
            // SAFETY: both are of that many bytes, and the old one is given up.
            unsafe {
                ptr::copy_nonoverlapping(memory, new, layout.size().min(new_size));
                Malloc::put(memory);
            }
        }
        new
    }
}
