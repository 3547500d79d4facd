// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(stook_nightly, feature(allocator_api))]

#[cfg(feature = "alloc")]
extern crate alloc;

mod allocator;
mod cache;
mod error;
mod group;
mod home;
mod library;
mod macros;
mod malloc;
mod many;
mod owned;
mod pooled;
mod raw;
mod reserve;
mod reuse;
mod settings;
mod slot;

pub use cache::Cache;
pub use error::{Error, Refused};
pub use group::{Entered, Group, GroupUsage};
pub use home::{ByAddress, Home, Of, Return};
pub use library::{mode, report, version, Format};
pub use malloc::Malloc;
#[cfg(feature = "alloc")]
pub use many::Batch;
pub use owned::OwnedCache;
pub use pooled::Pooled;
pub use reserve::Reserve;
pub use reuse::{Recycle, Reuse, ReuseHome, Reused};
pub use settings::{Effort, Settings};
pub use slot::Slot;

#[doc(hidden)]
pub use stook_sys as sys;

/// Whether this build has the fast path of allocations and frees in the caller.
///
/// It has on x86-64 Linux with rustc 1.87 or newer, unless the feature `no-inline` is on.
///
/// ```
/// println!("inlined: {}", stook::INLINED);
/// ```
pub const INLINED: bool = stook_sys::inline::INLINED;
