// SPDX-License-Identifier: MIT
//! A cache of objects of one type.

use crate::raw::Raw;
use crate::{ByAddress, Effort, Error, Home, Pooled, Refused, Return, Settings, Slot};
use core::alloc::Layout;
use core::ffi::{c_void, CStr};
use core::marker::PhantomData;
use core::ptr::NonNull;
use stook_sys::{self as sys, stook_cache};

/// A cache of objects of type `T`, as a rule a `static` that [`cache!`](crate::cache) declares.
///
/// The library's cache is made by the first allocation. It lives until the process ends; its free memory goes
/// back to the system by itself. Every thread may use it.
///
/// ```
/// use stook::{cache, Pooled};
///
/// struct Session { id: u64, bytes: [u8; 200] }
/// cache! { static SESSIONS: Cache<Session>; }
///
/// let session: Pooled<Session> = SESSIONS.alloc(Session { id: 1, bytes: [0; 200] });
/// assert_eq!(session.id, 1);
/// drop(session); // the object goes back to this CPU's sheaf
/// ```
#[repr(transparent)]
pub struct Cache<T, H = T> {
    pub(crate) raw: Raw,
    of: PhantomData<fn(T) -> H>,
}

impl<T> Cache<T, ByAddress> {
    /// A cache without a type that names it: its objects find their way back by their address.
    pub const fn new(settings: Settings) -> Self {
        Cache::with_raw(Raw::new(Layout::new::<T>(), settings))
    }
}

impl<T, H> Cache<T, H> {
    pub(crate) const fn with_raw(raw: Raw) -> Self {
        Cache { raw, of: PhantomData }
    }
}

impl<T: 'static, H: Home<T>> Cache<T, H> {
    /// For `cache!`.
    ///
    /// # Safety
    /// The cache is the one of the home.
    #[doc(hidden)]
    pub const unsafe fn __of_home(name: &'static CStr, mut settings: Settings) -> Self {
        if settings.name.is_none() {
            settings.name = Some(name);
        }
        Cache::with_raw(Raw::new(Layout::new::<T>(), settings))
    }

    /// For `cache!`: memory for one object, if the fast path has some.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __pop_fast(&self) -> Option<NonNull<T>> {
        NonNull::new(self.raw.pop_fast_or::<Slow<T, H>>().cast())
    }

    /// For `cache!`: takes back the memory of one object.
    ///
    /// # Safety
    /// The object is of this cache, and the caller gives it up.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __push(&self, object: NonNull<T>) {
        // SAFETY: by the caller.
        unsafe { self.raw.push(object.as_ptr().cast()) }
    }

    /// For `cache!`: takes back the memory of many.
    ///
    /// # Safety
    /// As of one.
    #[doc(hidden)]
    pub unsafe fn __push_all(&self, objects: &mut [NonNull<T>]) {
        let at = objects.as_mut_ptr().cast::<*mut c_void>();
        // SAFETY: by the caller; a NonNull is a pointer, and an object shows that the cache was made.
        unsafe { sys::stook_free_bulk(self.raw.made(), objects.len(), at) }
    }
}

/// Where the fast path of a home's cache has no object.
struct Slow<T, H>(PhantomData<(T, H)>);

impl<T: 'static, H: Home<T>> sys::Otherwise for Slow<T, H> {
    #[cold]
    extern "C" fn otherwise(from: *const c_void) -> NonNull<c_void> {
        H::cache().raw.pop_or_end(from)
    }
}

impl<T, H: Return<T>> Cache<T, H> {
    /// Stores a value in an object of the cache.
    ///
    /// About a nanosecond, inlined, while this CPU's sheaf holds objects. If there is no memory it ends as
    /// `Box::new` does; an accounted cache is better asked by [`try_alloc`](Cache::try_alloc), since a limit is no
    /// reason to end.
    #[inline(always)]
    pub fn alloc(&self, value: T) -> Pooled<T, H> {
        match H::__pop_fast(self) {
            Some(object) => Slot::from_raw(object).write(value),
            None => self.alloc_slow(value, sys::here()),
        }
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&self, value: T, from: *const c_void) -> Pooled<T, H> {
        Slot::from_raw(self.raw.pop_or_end(from).cast()).write(value)
    }

    /// Stores what the function returns.
    ///
    /// The memory is allocated first, so that a large value can be made in place; it goes back if the function
    /// panics.
    ///
    /// ```
    /// # stook::cache! { static PAGES: Cache<[u8; 4096], Pages>; }
    /// let page = PAGES.alloc_with(|| [7; 4096]);
    /// assert_eq!(page[4095], 7);
    /// ```
    #[inline(always)]
    pub fn alloc_with(&self, make: impl FnOnce() -> T) -> Pooled<T, H> {
        self.slot().write_with(make)
    }

    /// [`alloc`](Cache::alloc) that returns the value if there is no memory for it.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let word = WORDS.try_alloc(3)?;
    /// assert_eq!(*word, 3);
    /// # Ok::<(), stook::Refused<u64>>(())
    /// ```
    #[inline(always)]
    pub fn try_alloc(&self, value: T) -> Result<Pooled<T, H>, Refused<T>> {
        match NonNull::new(self.raw.pop()) {
            Some(object) => Ok(Slot::from_raw(object.cast()).write(value)),
            None => Err(Refused::new(value, Error::last())),
        }
    }

    /// Memory for one object.
    #[inline(always)]
    pub fn slot(&self) -> Slot<T, H> {
        match H::__pop_fast(self) {
            Some(object) => Slot::from_raw(object),
            None => Slot::from_raw(self.raw.pop_or_end(sys::here()).cast()),
        }
    }

    /// Memory for one object, by what the effort allows.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// use stook::Effort;
    /// let word = WORDS.try_slot(Effort::NoReclaim)?.write(9);
    /// assert_eq!(*word, 9);
    /// # Ok::<(), stook::Error>(())
    /// ```
    #[inline(always)]
    pub fn try_slot(&self, effort: Effort) -> Result<Slot<T, H>, Error> {
        match NonNull::new(self.raw.pop_slow(effort.flags(), sys::here())) {
            Some(object) => Ok(Slot::from_raw(object.cast())),
            None => Err(Error::last()),
        }
    }

    /// Makes the library's cache now, so that the first allocation need not: before a signal handler may run, or
    /// before memory is short.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// WORDS.make()?;
    /// # Ok::<(), stook::Error>(())
    /// ```
    pub fn make(&self) -> Result<(), Error> {
        self.raw.handle().map(|_| ())
    }

    /// Gives back the memory that the cache holds and does not use, and returns its bytes. A program need not
    /// call it for memory to be given back.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let words: Vec<_> = (0..100_000).map(|i| WORDS.alloc(i)).collect();
    /// drop(words);
    /// WORDS.shrink();
    /// ```
    pub fn shrink(&self) -> usize {
        // SAFETY: the cache lives, and the call may be made beside every other one.
        self.raw.handle().map_or(0, |cache| unsafe { sys::stook_cache_shrink(cache.as_ptr()) })
    }

    /// Checks every slab, and returns how many errors were found and reported.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// assert_eq!(WORDS.validate()?, 0);
    /// # Ok::<(), stook::Error>(())
    /// ```
    #[cfg(feature = "watch")]
    pub fn validate(&self) -> Result<usize, Error> {
        let cache = self.raw.handle()?;
        // SAFETY: as in shrink().
        usize::try_from(unsafe { sys::stook_cache_validate(cache.as_ptr()) })
            .map_err(|_| Error::last())
    }

    /// How many objects a new sheaf of a CPU holds.
    pub fn capacity(&self) -> u32 {
        let mut usage = sys::stook_cache_usage {
            size: size_of::<sys::stook_cache_usage>(),
            ..Default::default()
        };

        if let Ok(cache) = self.raw.handle() {
            // SAFETY: the cache lives. Where the call fails, there is no capacity.
            unsafe { sys::stook_cache_usage(cache.as_ptr(), &mut usage) };
        }
        usage.capacity as u32
    }

    /// Changes that.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// WORDS.set_capacity(32)?;
    /// assert_eq!(WORDS.capacity(), 32);
    /// # Ok::<(), stook::Error>(())
    /// ```
    pub fn set_capacity(&self, objects: u32) -> Result<(), Error> {
        let cache = self.raw.handle()?;
        // SAFETY: the cache lives.
        match unsafe { sys::stook_cache_set_capacity(cache.as_ptr(), objects) } {
            0 => Ok(()),
            _ => Err(Error::last()),
        }
    }

    /// Its name in reports; empty if it cannot be made.
    pub fn name(&self) -> &str {
        let Ok(cache) = self.raw.handle() else {
            return "";
        };
        // SAFETY: the cache lives, and its name as long.
        let name = unsafe { CStr::from_ptr(sys::stook_cache_name(cache.as_ptr())) };
        name.to_str().unwrap_or("")
    }

    /// The library's cache, for calls that this crate does not have. The caller does not destroy it.
    pub fn as_ptr(&self) -> Result<NonNull<stook_cache>, Error> {
        self.raw.handle()
    }

    #[cfg(any(feature = "allocator-api2", stook_nightly))]
    pub(crate) fn layout(&self) -> Layout {
        self.raw.layout()
    }
}
