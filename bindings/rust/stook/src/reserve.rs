// SPDX-License-Identifier: MIT
//! Objects that are allocated beforehand.

use crate::{Cache, Effort, Error, Pooled, Return, Slot};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use stook_sys::{self as sys, stook_cache, stook_sheaf};

/// Memory for a number of objects that is there already: allocating from it cannot fail.
///
/// For work that must not stop halfway: reserve what it may need at most, then begin. What is left goes back when
/// the reserve is dropped. It mostly is a whole sheaf that changes hands, and costs as little.
///
/// ```
/// # struct Leaf(u64);
/// # stook::cache! { static LEAVES: Cache<Leaf>; }
/// let mut reserve = LEAVES.reserve(16)?; // the one place that can fail
/// let left = reserve.alloc(Leaf(1));
/// let right = reserve.alloc(Leaf(2));
/// assert_eq!(left.0 + right.0, 3);
/// assert!(reserve.len() >= 14);
/// # Ok::<(), stook::Error>(())
/// ```
pub struct Reserve<T, H: Return<T> = T> {
    cache: NonNull<stook_cache>,
    sheaf: NonNull<stook_sheaf>,
    of: PhantomData<fn(T) -> H>,
}

// SAFETY: one thread at a time uses it, by &mut; it has no values.
unsafe impl<T, H: Return<T>> Send for Reserve<T, H> {}
// SAFETY: shared access reads one word.
unsafe impl<T, H: Return<T>> Sync for Reserve<T, H> {}

impl<T, H: Return<T>> Cache<T, H> {
    /// Reserves memory for at least `n` objects.
    pub fn reserve(&self, n: u32) -> Result<Reserve<T, H>, Error> {
        self.try_reserve(n, Effort::Wait)
    }

    /// [`reserve`](Cache::reserve), by what the effort allows.
    pub fn try_reserve(&self, n: u32, effort: Effort) -> Result<Reserve<T, H>, Error> {
        let cache = self.raw.handle()?;
        // SAFETY: the cache lives; objects of an OwnedCache borrow it, and so does a Reserve by H.
        let sheaf = unsafe { sys::stook_sheaf_prefill(cache.as_ptr(), effort.flags(), n.max(1)) };
        match NonNull::new(sheaf) {
            Some(sheaf) => Ok(Reserve { cache, sheaf, of: PhantomData }),
            None => Err(Error::last()),
        }
    }
}

impl<T, H: Return<T>> Reserve<T, H> {
    /// Stores a value in a reserved object.
    ///
    /// # Panics
    /// If more are taken than were reserved.
    #[inline(always)]
    pub fn alloc(&mut self, value: T) -> Pooled<T, H> {
        match self.slot() {
            Some(slot) => slot.write(value),
            None => panic!("more objects were taken from a reserve than it had"),
        }
    }

    /// Memory of a reserved object; None if none is left.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let mut reserve = WORDS.reserve(1)?;
    /// while let Some(slot) = reserve.slot() {
    ///     slot.write(1);
    /// }
    /// assert!(reserve.is_empty());
    /// # Ok::<(), stook::Error>(())
    /// ```
    #[inline(always)]
    pub fn slot(&mut self) -> Option<Slot<T, H>> {
        // SAFETY: by &mut this thread alone uses the sheaf, which is of this cache.
        let object = unsafe {
            sys::stook_sheaf_alloc(self.cache.as_ptr(), sys::STOOK_WAIT, self.sheaf.as_ptr())
        };
        NonNull::new(object).map(|object| Slot::from_raw(object.cast()))
    }

    /// How many objects are left.
    pub fn len(&self) -> usize {
        // SAFETY: the sheaf is this reserve's.
        unsafe { sys::stook_sheaf_size(self.sheaf.as_ptr()) as usize }
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills it up to at least `n` again; if it fails the reserve is as it was.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let mut reserve = WORDS.reserve(4)?;
    /// reserve.refill(2000)?;
    /// assert!(reserve.len() >= 2000);
    /// # Ok::<(), stook::Error>(())
    /// ```
    pub fn refill(&mut self, n: u32) -> Result<(), Error> {
        let mut sheaf = self.sheaf.as_ptr();
        // SAFETY: the sheaf is this reserve's; the call may replace it.
        let result =
            unsafe { sys::stook_sheaf_refill(self.cache.as_ptr(), sys::STOOK_WAIT, &mut sheaf, n) };
        if let Some(sheaf) = NonNull::new(sheaf) {
            self.sheaf = sheaf;
        }
        if result == 0 {
            Ok(())
        } else {
            Err(Error::last())
        }
    }
}

impl<T, H: Return<T>> Drop for Reserve<T, H> {
    fn drop(&mut self) {
        // SAFETY: the sheaf is this reserve's, of this cache.
        unsafe { sys::stook_sheaf_return(self.cache.as_ptr(), self.sheaf.as_ptr()) }
    }
}

impl<T, H: Return<T>> fmt::Debug for Reserve<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserve({})", self.len())
    }
}
