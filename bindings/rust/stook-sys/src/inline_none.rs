// SPDX-License-Identifier: MIT
//! The fast path of machines, compilers and builds without inlined sections: every operation calls the library.

use crate::{stook_cache, Otherwise};
use core::ffi::c_void;

/// Whether pops and pushes are inlined.
pub const INLINED: bool = false;

/// What a static cache points to until it is made.
pub const UNBORN: *mut stook_cache = core::ptr::null_mut();

/// Never has an object: the caller calls `stook_alloc`.
///
/// # Safety
/// As of the inlined one.
#[inline(always)]
pub unsafe fn pop(_cache: *mut stook_cache) -> *mut c_void {
    core::ptr::null_mut()
}

/// The same.
///
/// # Safety
/// As of the inlined one.
#[inline(always)]
pub unsafe fn pop_or<O: Otherwise>(_cache: *mut stook_cache) -> *mut c_void {
    core::ptr::null_mut()
}

/// Never takes an object: the caller calls `stook_free`.
///
/// # Safety
/// As of the inlined one.
#[inline(always)]
pub unsafe fn push(_cache: *mut stook_cache, _object: *mut c_void) -> bool {
    false
}
