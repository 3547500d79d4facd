// SPDX-License-Identifier: MIT
//! Memory for one object, without the object.

use crate::{Pooled, Return};
use core::marker::PhantomData;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;

/// Memory for one `T` of a cache; dropping it gives the memory back.
///
/// ```
/// use stook::{cache, Pooled};
/// struct Page([u8; 4096]);
/// cache! { static PAGES: Cache<Page>; }
///
/// let slot = PAGES.slot();
/// let page: Pooled<Page> = slot.write(Page([0; 4096]));
/// assert_eq!(page.0.len(), 4096);
/// ```
#[repr(transparent)]
pub struct Slot<T, H: Return<T> = T> {
    object: NonNull<T>,
    home: PhantomData<(T, fn() -> H)>,
}

// SAFETY: the memory has no T yet that could be used in the wrong thread, and every thread may free it.
unsafe impl<T, H: Return<T>> Send for Slot<T, H> {}
// SAFETY: there is nothing to share but the address.
unsafe impl<T, H: Return<T>> Sync for Slot<T, H> {}

impl<T, H: Return<T>> Slot<T, H> {
    #[inline(always)]
    pub(crate) fn from_raw(object: NonNull<T>) -> Self {
        Slot { object, home: PhantomData }
    }

    /// Stores the value.
    #[inline(always)]
    pub fn write(self, value: T) -> Pooled<T, H> {
        // SAFETY: the memory is this slot's, and has the size and the alignment of a T.
        unsafe {
            self.object.as_ptr().write(value);
            self.assume_init()
        }
    }

    /// Stores what the function returns; if it panics the memory goes back.
    #[inline(always)]
    pub fn write_with(self, make: impl FnOnce() -> T) -> Pooled<T, H> {
        let value = make();
        self.write(value)
    }

    /// The memory.
    ///
    /// ```
    /// stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let mut slot = WORDS.slot();
    /// slot.as_uninit().write(7);
    /// // SAFETY: it was written.
    /// assert_eq!(*unsafe { slot.assume_init() }, 7);
    /// ```
    pub fn as_uninit(&mut self) -> &mut MaybeUninit<T> {
        // SAFETY: the memory is this slot's.
        unsafe { self.object.cast::<MaybeUninit<T>>().as_mut() }
    }

    /// The object that the memory holds now.
    ///
    /// # Safety
    /// The caller has stored one.
    #[inline(always)]
    pub unsafe fn assume_init(self) -> Pooled<T, H> {
        let object = self.object;
        mem::forget(self);
        // SAFETY: by the caller.
        unsafe { Pooled::from_raw(object) }
    }

    /// Its address.
    pub fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T, H: Return<T>> Drop for Slot<T, H> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the memory is this slot's.
        unsafe { H::give_back(self.object) }
    }
}
