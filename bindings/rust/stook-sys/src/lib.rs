// SPDX-License-Identifier: MIT
//! Declarations of libstook and its inlined fast path; the crate `stook` has types over them.
//!
//! The declarations follow the C headers by name and by order; a test compiles the headers and compares sizes,
//! offsets and values. What each call does, and what its caller must guarantee, is in the man pages and in
//! `include/stook/*.h`. Only what the crate `stook` or a Rust program needs is here: call sites, debugging and
//! topologies are not.
#![no_std]
#![cfg_attr(stook_goto_outputs, feature(asm_goto_with_outputs))]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr::NonNull;

/// What [`inline::pop_or`] does where the fast path has no object.
pub trait Otherwise {
    /// An object of the cache. `from` is in the function that allocates; NULL if that is not known.
    extern "C" fn otherwise(from: *const c_void) -> NonNull<c_void>;
}

#[cfg(all(stook_inline, target_arch = "aarch64"))]
#[path = "inline_aarch64.rs"]
pub mod inline;
#[cfg(all(stook_inline, target_arch = "x86_64"))]
#[path = "inline_x86_64.rs"]
pub mod inline;
#[cfg(not(stook_inline))]
#[path = "inline_none.rs"]
pub mod inline;

/// An address in the function that this is inlined into, for `stook_alloc_args.from`; NULL on machines that it does not
/// know.
#[inline(always)]
pub fn here() -> *const c_void {
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    return core::ptr::null();
    #[cfg(not(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64")))))]
    {
        let at: *const c_void;
        // SAFETY: it reads the program counter. Behind the instruction, as a return address would be.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                "leaq 0(%rip), {}",
                lateout(reg) at,
                options(att_syntax, nomem, nostack, preserves_flags)
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("adr {}, . + 4", lateout(reg) at, options(nomem, nostack, preserves_flags));
        }
        at
    }
}

#[cfg(any(miri, stook_mock))]
mod mock;
#[cfg(any(miri, stook_mock))]
pub use mock::*;

/// A cache of objects of one size. Only pointers to it exist.
#[repr(C)]
pub struct stook_cache {
    _opaque: [u8; 0],
}

/// A prefilled sheaf. Only pointers to it exist.
#[repr(C)]
pub struct stook_sheaf {
    _opaque: [u8; 0],
}

/// A pool with a reserve. Only pointers to it exist.
#[repr(C)]
pub struct stook_pool {
    _opaque: [u8; 0],
}

/// A time of the C library. Only pointers to it exist.
#[repr(C)]
pub struct timespec {
    _opaque: [u8; 0],
}

/// A group, by its number; 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct stook_group {
    pub id: u32,
}

/// Runs when a slab is made or given back.
pub type stook_object_fn = unsafe extern "C" fn(object: *mut c_void, arg: *mut c_void);
/// Frees memory that the program can do without, and returns how much.
pub type stook_reclaim_fn = unsafe extern "C" fn(wanted: usize, arg: *mut c_void) -> usize;
/// Frees objects of a group that is at its limit.
pub type stook_group_reclaim_fn =
    unsafe extern "C" fn(group: stook_group, wanted: usize, arg: *mut c_void) -> usize;

/// Arguments of [`stook_cache_create`]; `size` is the size of this structure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stook_cache_args {
    pub size: usize,
    pub align: usize,
    pub ctor: Option<stook_object_fn>,
    pub dtor: Option<stook_object_fn>,
    pub arg: *mut c_void,
    pub flags: c_uint,
    pub sheaf_capacity: c_uint,
    pub cached_bytes_max: usize,
    pub slab_bytes_max: usize,
}

/// What an allocation may say besides its flags; the caller sets `size`, and zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct stook_alloc_args {
    pub size: usize,
    pub site: *mut c_void,
    pub from: *const c_void,
    pub group: *const stook_group,
    pub fail: Option<unsafe extern "C" fn(*mut stook_cache, c_uint) -> *mut c_void>,
    pub node: c_int,
    pub align: c_uint,
}

impl stook_alloc_args {
    /// The defaults: `stook_alloc_with` is `stook_alloc`.
    pub const NONE: Self = Self {
        size: size_of::<Self>(),
        site: core::ptr::null_mut(),
        from: core::ptr::null(),
        group: core::ptr::null(),
        fail: None,
        node: 0,
        align: 0,
    };
}

/// The numbers of a group, without what follows them in C; the caller sets `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct stook_group_stat {
    pub size: usize,
    pub usage: u64,
    pub own: u64,
    pub stocked: u64,
    pub peak: u64,
    pub limit: u64,
    pub soft_limit: u64,
    pub refused: u64,
    pub reclaims: u64,
    pub soft_events: u64,
    pub children: u64,
}

/// The first counters of a cache; the caller sets `size`, and the library writes that many bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct stook_stat {
    pub size: usize,
    pub cached_bytes: u64,
    pub cached_bytes_max: u64,
    pub alloc_fastpath: u64,
    pub free_fastpath: u64,
    pub alloc_cpu_sheaf: u64,
    pub free_cpu_sheaf: u64,
    pub alloc_slowpath: u64,
    pub free_slowpath: u64,
}

/// What a cache holds; the caller sets `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct stook_cache_usage {
    pub size: usize,
    pub in_use: u64,
    pub cached: u64,
    pub free: u64,
    pub slabs: u64,
    pub bytes: u64,
    pub bytes_peak: u64,
    pub meta: u64,
    pub capacity: u64,
}

/// The head of a cache, which the inlined fast path reads (`struct stook_cache_head`).
#[repr(C)]
pub struct stook_cache_head {
    pub slots: *const c_void,
    pub reserved: usize,
    pub rseq_offset: isize,
}

pub const STOOK_VERSION: c_uint = 300;
pub const STOOK_UNLIMITED: usize = usize::MAX;
pub const STOOK_OBJECT_SIZE_MAX: usize = 4 << 20;
pub const STOOK_ALIGN_MAX: usize = 4096;
pub const STOOK_NAME_MAX: usize = 63;
pub const STOOK_SHEAF_CAPACITY_MAX: c_uint = 1022;

pub const STOOK_CACHE_HWALIGN: c_uint = 0x1;
pub const STOOK_CACHE_NOSHEAF: c_uint = 0x4;
pub const STOOK_CACHE_RANDOM: c_uint = 0x8;
pub const STOOK_CACHE_LINK_INSIDE: c_uint = 0x10;
pub const STOOK_CACHE_LINK_OUTSIDE: c_uint = 0x20;
pub const STOOK_CACHE_TYPESAFE: c_uint = 0x40;
pub const STOOK_CACHE_ADAPTIVE: c_uint = 0x80;
pub const STOOK_CACHE_ACCOUNT: c_uint = 0x100;
pub const STOOK_CACHE_DEBUG_CHECKS: c_uint = 0x1000;
pub const STOOK_CACHE_DEBUG_RED_ZONE: c_uint = 0x2000;
pub const STOOK_CACHE_DEBUG_POISON: c_uint = 0x4000;
pub const STOOK_CACHE_DEBUG_USER: c_uint = 0x8000;
pub const STOOK_CACHE_ZERO_ON_FREE: c_uint = 0x40000;
pub const STOOK_CACHE_QUARANTINE: c_uint = 0x80000;
pub const STOOK_CACHE_GUARD_PAGES: c_uint = 0x100000;
pub const STOOK_CACHE_OWN_PAGES: c_uint = 0x200000;

pub const STOOK_WAIT: c_uint = 0x0;
pub const STOOK_NORECLAIM: c_uint = 0x1;
pub const STOOK_SIGNAL_SAFE: c_uint = 0x2;
pub const STOOK_ZERO: c_uint = 0x4;
pub const STOOK_NOFAIL: c_uint = 0x100;

pub const STOOK_REPORT_TABLE: c_uint = 0;
pub const STOOK_REPORT_JSON: c_uint = 1;
pub const STOOK_REPORT_ALL: c_uint = 0x10;
pub const STOOK_STATS_OFF: c_int = 0;
pub const STOOK_STATS_ALL: c_int = 1;
pub const STOOK_STATS_SLOW: c_int = 2;
pub const STOOK_KMALLOC_CACHE_MAX: usize = 8192;

#[cfg(not(any(miri, stook_mock)))]
extern "C" {
    // stook/stook.h: caches
    pub fn stook_cache_create(
        name: *const c_char,
        object_size: usize,
        args: *const stook_cache_args,
    ) -> *mut stook_cache;
    pub fn stook_cache_destroy(cache: *mut stook_cache) -> c_int;
    pub fn stook_cache_shrink(cache: *mut stook_cache) -> usize;
    #[cfg(feature = "watch")]
    pub fn stook_cache_validate(cache: *mut stook_cache) -> core::ffi::c_long;

    // objects
    pub fn stook_alloc(cache: *mut stook_cache, flags: c_uint) -> *mut c_void;
    pub fn stook_alloc_with(
        cache: *mut stook_cache,
        flags: c_uint,
        args: *const stook_alloc_args,
    ) -> *mut c_void;
    pub fn stook_free(cache: *mut stook_cache, object: *mut c_void);
    pub fn stook_free_any(object: *mut c_void);
    pub fn stook_alloc_bulk(
        cache: *mut stook_cache,
        flags: c_uint,
        n: usize,
        objects: *mut *mut c_void,
    ) -> c_int;
    pub fn stook_free_bulk(cache: *mut stook_cache, n: usize, objects: *mut *mut c_void);
    pub fn stook_usable_size(object: *const c_void) -> usize;

    // inspection
    pub fn stook_cache_object_size(cache: *const stook_cache) -> usize;
    pub fn stook_cache_name(cache: *const stook_cache) -> *const c_char;
    pub fn stook_cache_of(object: *const c_void) -> *mut stook_cache;
    pub fn stook_cache_by_name(name: *const c_char) -> *mut stook_cache;
    pub fn stook_cache_walk(
        cache: *mut stook_cache,
        each: unsafe extern "C" fn(object: *mut c_void, arg: *mut c_void) -> c_int,
        arg: *mut c_void,
    ) -> c_int;
    pub fn stook_cache_set_capacity(cache: *mut stook_cache, capacity: c_uint) -> c_int;
    pub fn stook_cached_bytes_set_max(bytes: usize) -> c_int;

    // the library
    pub fn stook_report(fd: c_int, format: c_uint) -> c_int;
    pub fn stook_mode(why: *mut *const c_char) -> *const c_char;
    pub fn stook_version() -> *const c_char;

    // stook/stat.h
    pub fn stook_cache_stat_enable(cache: *mut stook_cache, on: c_int) -> c_int;
    pub fn stook_cache_stat(cache: *mut stook_cache, stat: *mut stook_stat) -> c_int;
    pub fn stook_cache_usage(cache: *mut stook_cache, usage: *mut stook_cache_usage) -> c_int;

    // stook/stat.h
    #[cfg(feature = "watch")]
    pub fn stook_profile_write(fd: c_int) -> c_int;

    // stook/reserve.h
    pub fn stook_sheaf_prefill(
        cache: *mut stook_cache,
        flags: c_uint,
        size: c_uint,
    ) -> *mut stook_sheaf;
    pub fn stook_sheaf_refill(
        cache: *mut stook_cache,
        flags: c_uint,
        sheaf: *mut *mut stook_sheaf,
        size: c_uint,
    ) -> c_int;
    pub fn stook_sheaf_size(sheaf: *const stook_sheaf) -> c_uint;
    pub fn stook_sheaf_alloc(
        cache: *mut stook_cache,
        flags: c_uint,
        sheaf: *mut stook_sheaf,
    ) -> *mut c_void;
    pub fn stook_sheaf_return(cache: *mut stook_cache, sheaf: *mut stook_sheaf);

    // stook/reserve.h
    pub fn stook_pool_create(cache: *mut stook_cache, min_objects: c_uint) -> *mut stook_pool;
    pub fn stook_pool_destroy(pool: *mut stook_pool) -> c_int;
    pub fn stook_pool_alloc(
        pool: *mut stook_pool,
        flags: c_uint,
        deadline: *const timespec,
    ) -> *mut c_void;
    pub fn stook_pool_free(pool: *mut stook_pool, object: *mut c_void);
    pub fn stook_pool_resize(pool: *mut stook_pool, min_objects: c_uint) -> c_int;
    pub fn stook_pool_available(pool: *const stook_pool) -> c_uint;

    // stook/reserve.h
    pub fn stook_reclaim_register(call: stook_reclaim_fn, arg: *mut c_void) -> c_int;
    pub fn stook_reclaim_unregister(call: stook_reclaim_fn, arg: *mut c_void) -> c_int;

    // stook/group.h
    pub fn stook_group_create(
        name: *const c_char,
        parent: stook_group,
        limit: usize,
    ) -> stook_group;
    pub fn stook_group_destroy(group: stook_group) -> c_int;
    pub fn stook_group_enter(group: stook_group) -> stook_group;
    pub fn stook_group_current() -> stook_group;
    pub fn stook_group_of(object: *const c_void) -> stook_group;
    pub fn stook_group_set_limit(group: stook_group, limit: usize) -> c_int;
    pub fn stook_group_set_reclaim(
        group: stook_group,
        call: Option<stook_group_reclaim_fn>,
        arg: *mut c_void,
    ) -> c_int;
    pub fn stook_group_stat(group: stook_group, stat: *mut stook_group_stat) -> c_int;

    // stook/kmalloc.h
    pub fn stook_kmalloc(size: usize, flags: c_uint) -> *mut c_void;
    pub fn stook_krealloc(object: *mut c_void, size: usize, flags: c_uint) -> *mut c_void;
    pub fn stook_kmalloc_size(size: usize) -> usize;

    fn __errno_location() -> *mut c_int;
}

// A program that is linked with libstook.a writes no profile (STOOK_PROFILE) unless it refers to this call.
#[cfg(all(feature = "watch", not(any(miri, stook_mock))))]
#[used]
static PROFILES: unsafe extern "C" fn(c_int) -> c_int = stook_profile_write;

/// The value of errno of this thread, after a call that failed.
#[cfg(not(any(miri, stook_mock)))]
pub fn errno() -> c_int {
    // SAFETY: the C library returns a valid pointer to this thread's own value.
    unsafe { *__errno_location() }
}
