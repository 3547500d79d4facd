// SPDX-License-Identifier: MIT
//! A cache that is made at run time and destroyed.

use crate::raw::Raw;
use crate::{ByAddress, Cache, Error, Of, Pooled, Refused, Settings};
use core::alloc::Layout;

/// A cache that is made at run time, and destroyed when it is dropped.
///
/// Its objects borrow it. Objects that were leaked keep the library's cache, and a message says how many.
///
/// ```
/// use stook::{OwnedCache, Settings};
/// let cache = OwnedCache::<[u32; 25]>::new("squares", Settings::new())?;
/// let object = cache.alloc([5; 25]);
/// assert_eq!(object[24], 5);
/// drop(object);
/// # Ok::<(), stook::Error>(())
/// ```
///
/// ```compile_fail
/// # use stook::{OwnedCache, Settings};
/// let cache = OwnedCache::<u64>::new("words", Settings::new()).unwrap();
/// let object = cache.alloc(1);
/// drop(cache); // the object borrows it
/// drop(object);
/// ```
pub struct OwnedCache<T> {
    cache: Cache<T, ByAddress>,
}

impl<T> OwnedCache<T> {
    /// Makes a cache. Of the name the first 63 bytes are kept.
    pub fn new(name: &str, settings: Settings) -> Result<Self, Error> {
        let raw = Raw::new(Layout::new::<T>(), settings);
        raw.make(Some(name))?;
        Ok(OwnedCache { cache: Cache::with_raw(raw) })
    }

    /// The cache, whose objects borrow this.
    pub fn cache(&self) -> &Cache<T, Of<'_>> {
        // SAFETY: the two types differ in a marker, and Cache is transparent.
        unsafe { &*core::ptr::from_ref(&self.cache).cast::<Cache<T, Of<'_>>>() }
    }

    /// [`Cache::alloc`].
    #[inline(always)]
    pub fn alloc(&self, value: T) -> Pooled<T, Of<'_>> {
        self.cache().alloc(value)
    }

    /// [`Cache::try_alloc`].
    #[inline(always)]
    pub fn try_alloc(&self, value: T) -> Result<Pooled<T, Of<'_>>, Refused<T>> {
        self.cache().try_alloc(value)
    }
}

impl<T> Drop for OwnedCache<T> {
    fn drop(&mut self) {
        self.cache.raw.destroy();
    }
}
