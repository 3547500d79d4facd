// SPDX-License-Identifier: MIT
//! Which cache an object goes back to: a type says so, so that pointers to objects are one word.

use crate::Cache;
use core::marker::PhantomData;
use core::ptr::NonNull;
use stook_sys as sys;

/// A type that names a static cache of `T`: [`cache!`](crate::cache) implements it.
///
/// It is `T` itself if `T` has one cache in the program, else a type made for the purpose.
///
/// # Safety
/// Every call returns the same cache, and only [`Cache`]s with this home hand out objects with it.
///
/// ```
/// use stook::{cache, Home, Pooled};
/// struct Point { x: i32, y: i32 }
/// cache! { static POINTS: Cache<Point>; }
/// cache! { static OTHER_POINTS: Cache<Point, Others>; }
///
/// let near: Pooled<Point> = Pooled::new(Point { x: 1, y: 2 });
/// let far: Pooled<Point, Others> = OTHER_POINTS.alloc(Point { x: 3, y: 4 });
/// assert!(std::ptr::eq(<Point as Home<Point>>::cache(), &POINTS));
/// assert_eq!(near.x + near.y + far.x + far.y, 10);
/// ```
pub unsafe trait Home<T: 'static>: Return<T> + 'static {
    /// The cache.
    fn cache() -> &'static Cache<T, Self>;
}

/// How objects go back to their cache. Every [`Home`] does it, as do [`ByAddress`] and [`Of`].
///
/// # Safety
/// Both calls take back objects of the caches that hand out objects with this type.
pub unsafe trait Return<T>: Sized {
    /// Takes back the memory of one object, which is not dropped.
    ///
    /// # Safety
    /// A cache of this type handed it out, and the caller gives it up.
    unsafe fn give_back(object: NonNull<T>);

    /// Takes back the memory of many.
    ///
    /// # Safety
    /// As [`give_back`](Return::give_back), for each. The contents of the slice are unspecified afterwards.
    unsafe fn give_back_all(objects: &mut [NonNull<T>]);

    /// Memory for one object, if the fast path has some. [`cache!`](crate::cache) has a faster one.
    #[doc(hidden)]
    #[inline(always)]
    fn __pop_fast(cache: &Cache<T, Self>) -> Option<NonNull<T>> {
        NonNull::new(cache.raw.pop_fast().cast())
    }
}

/// The home of objects of a static cache that no type names: the library finds the cache by the address.
///
/// A drop is a call and some loads, and not inlined.
///
/// ```
/// use stook::{ByAddress, Cache, Pooled, Settings};
/// static HUNDREDS: Cache<[u8; 100], ByAddress> = Cache::new(Settings::new());
/// let object: Pooled<[u8; 100], ByAddress> = HUNDREDS.alloc([1; 100]);
/// assert_eq!(size_of_val(&object), size_of::<usize>());
/// ```
#[derive(Debug)]
pub enum ByAddress {}

/// The home of objects of an [`OwnedCache`](crate::OwnedCache), which they borrow.
///
/// The library finds the cache by the address, as for [`ByAddress`].
#[derive(Debug)]
pub struct Of<'c>(PhantomData<&'c ()>);

unsafe fn give_back_by_address<T>(object: NonNull<T>) {
    // SAFETY: by the caller.
    unsafe { sys::stook_free_any(object.as_ptr().cast()) }
}

// SAFETY: the library finds the cache of each object.
unsafe impl<T> Return<T> for ByAddress {
    unsafe fn give_back(object: NonNull<T>) {
        // SAFETY: by the caller.
        unsafe { give_back_by_address(object) }
    }

    unsafe fn give_back_all(objects: &mut [NonNull<T>]) {
        for &mut object in objects {
            // SAFETY: by the caller. Objects of several caches may have this home.
            unsafe { give_back_by_address(object) }
        }
    }
}

// SAFETY: as above; one cache has the lifetime, or several of which each finds its own.
unsafe impl<T> Return<T> for Of<'_> {
    unsafe fn give_back(object: NonNull<T>) {
        // SAFETY: by the caller.
        unsafe { give_back_by_address(object) }
    }

    unsafe fn give_back_all(objects: &mut [NonNull<T>]) {
        for &mut object in objects {
            // SAFETY: by the caller.
            unsafe { give_back_by_address(object) }
        }
    }
}
