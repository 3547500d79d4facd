// SPDX-License-Identifier: MIT
//! What concerns all caches.

use crate::Error;
use core::ffi::{c_int, c_uint, CStr};
use stook_sys as sys;

/// The form of a [`report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table of the caches that have memory.
    Table,
    /// A table of all caches.
    TableOfAll,
    /// A JSON object.
    Json,
}

impl Format {
    const fn number(self) -> c_uint {
        match self {
            Format::Table => sys::STOOK_REPORT_TABLE,
            Format::TableOfAll => sys::STOOK_REPORT_TABLE | sys::STOOK_REPORT_ALL,
            Format::Json => sys::STOOK_REPORT_JSON,
        }
    }
}

/// Writes what every cache holds to a file descriptor (1: standard output).
///
/// ```
/// # stook::cache! { static WORDS: Cache<u64, Words>; }
/// let _word = WORDS.alloc(1);
/// stook::report(1, stook::Format::Table)?;
/// # Ok::<(), stook::Error>(())
/// ```
pub fn report(fd: i32, format: Format) -> Result<(), Error> {
    // SAFETY: any number may be given.
    match unsafe { sys::stook_report(fd as c_int, format.number()) } {
        0 => Ok(()),
        _ => Err(Error::last()),
    }
}

fn text(from: *const core::ffi::c_char) -> &'static str {
    // SAFETY: the library's strings of these calls are static.
    unsafe { CStr::from_ptr(from) }.to_str().unwrap_or("")
}

/// How the process runs, `"rseq"` or `"locked"`, and why.
///
/// ```
/// let (mode, why) = stook::mode();
/// assert!(["rseq", "locked"].contains(&mode), "{why}");
/// ```
pub fn mode() -> (&'static str, &'static str) {
    let mut why = core::ptr::null();
    // SAFETY: the pointer is written before the call returns.
    let mode = unsafe { sys::stook_mode(&mut why) };
    (text(mode), text(why))
}

/// The version of the library that runs.
///
/// ```
/// assert!(stook::version().starts_with("0."));
/// ```
pub fn version() -> &'static str {
    // SAFETY: no arguments.
    text(unsafe { sys::stook_version() })
}
