// SPDX-License-Identifier: MIT
//! What a cache is made with, and what an allocation may do.

use core::ffi::{c_uint, CStr};
use stook_sys as sys;

/// What an allocation may do to get memory.
///
/// ```
/// use stook::{cache, Effort};
/// cache! { static WORDS: Cache<u64, Words>; }
/// assert!(WORDS.try_slot(Effort::NoReclaim).is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// It may ask the kernel, run reclaim callbacks, and sleep until memory is freed.
    #[default]
    Wait,
    /// It may ask the kernel, and wait for a lock of the library; no callback runs.
    NoReclaim,
    /// It is async-signal-safe: it waits for no lock, and fails instead.
    SignalSafe,
}

impl Effort {
    pub(crate) const fn flags(self) -> c_uint {
        match self {
            Effort::Wait => sys::STOOK_WAIT,
            Effort::NoReclaim => sys::STOOK_NORECLAIM,
            Effort::SignalSafe => sys::STOOK_SIGNAL_SAFE,
        }
    }
}

/// What a cache is made with. Every setting has a default; all of them can be set in a `static`.
///
/// ```
/// use stook::{cache, Settings};
/// struct Packet([u8; 1500]);
/// cache! {
///     static PACKETS: Cache<Packet> = Settings::new().aligned_to_lines().name(c"packet");
/// }
/// let packet = PACKETS.alloc(Packet([0; 1500]));
/// assert_eq!(packet.as_ptr() as usize % 64, 0);
/// assert_eq!(PACKETS.name(), "packet");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub(crate) name: Option<&'static CStr>,
    pub(crate) flags: c_uint,
    pub(crate) capacity: c_uint,
    pub(crate) cached_bytes_max: usize,
    pub(crate) slab_bytes_max: usize,
}

impl Settings {
    /// The defaults.
    pub const fn new() -> Self {
        Settings { name: None, flags: 0, capacity: 0, cached_bytes_max: 0, slab_bytes_max: 0 }
    }

    /// The name in reports; by default the type's as it is written in `cache!`.
    pub const fn name(mut self, name: &'static CStr) -> Self {
        self.name = Some(name);
        self
    }

    /// Objects are aligned to cache lines of 64 bytes.
    pub const fn aligned_to_lines(self) -> Self {
        self.flag(sys::STOOK_CACHE_HWALIGN)
    }

    /// Each object is charged to the [`Group`](crate::Group) that the thread is in.
    pub const fn accounted(self) -> Self {
        self.flag(sys::STOOK_CACHE_ACCOUNT)
    }

    /// Freed objects are filled with zeros, and reused only after a quarantine.
    pub const fn hardened(self) -> Self {
        self.flag(sys::STOOK_CACHE_ZERO_ON_FREE | sys::STOOK_CACHE_QUARANTINE)
    }

    /// Objects have red zones and poison, and every call is checked; `docs/debug.md` of the library.
    pub const fn debugged(self) -> Self {
        self.flag(
            sys::STOOK_CACHE_DEBUG_CHECKS
                | sys::STOOK_CACHE_DEBUG_RED_ZONE
                | sys::STOOK_CACHE_DEBUG_POISON
                | sys::STOOK_CACHE_DEBUG_USER,
        )
    }

    /// Other flags of `stook/stook.h`.
    pub const fn flag(mut self, flags: c_uint) -> Self {
        self.flags |= flags;
        self
    }

    /// How many objects a sheaf of a CPU holds; by default the library chooses, and adapts.
    pub const fn capacity(mut self, objects: u32) -> Self {
        self.capacity = objects;
        self
    }

    /// How many bytes the free objects of the cache may take beside its CPUs' sheaves.
    pub const fn cached_bytes_max(mut self, bytes: usize) -> Self {
        self.cached_bytes_max = bytes;
        self
    }

    /// How many bytes the cache's slabs may take; beyond it allocations reclaim, or fail.
    pub const fn slab_bytes_max(mut self, bytes: usize) -> Self {
        self.slab_bytes_max = bytes;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new()
    }
}
