// SPDX-License-Identifier: MIT
//! Objects that stay constructed while they are free, and keep their inner buffers.

use crate::raw::Raw;
use crate::{Error, Settings};
use core::alloc::Layout;
use core::ffi::{c_void, CStr};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use stook_sys as sys;

/// A type whose objects are emptied and used again instead of being dropped and made anew.
///
/// `Default` makes an object when its slab is made, and `Drop` ends it when the slab is given back, in whichever
/// thread that happens: hence `Send`. Both may allocate and free. The process aborts if they panic there.
pub trait Recycle: Default + Send + 'static {
    /// Empties the object and keeps what the next user can use, such as the buffer of a `Vec`.
    fn recycle(&mut self);
}

/// A type that names a static cache of reused `T`: [`reuse!`](crate::reuse) implements it.
///
/// # Safety
/// Every call returns the same cache, and only [`Reuse`]s with this home hand out objects with it.
pub unsafe trait ReuseHome<T: Recycle>: Sized + 'static {
    /// The cache.
    fn cache() -> &'static Reuse<T, Self>;
}

/// A cache of objects that stay constructed (Bonwick's object caching): what a user leaves in them, the next one
/// need not allocate.
///
/// [`reuse!`](crate::reuse) declares one. A buffer that grew stays with its object while that is free, and the
/// library does not see its bytes: let [`recycle`](Recycle::recycle) shrink what is too large.
///
/// ```
/// use stook::{reuse, Recycle};
///
/// #[derive(Default)]
/// struct Message { bytes: Vec<u8> }
/// impl Recycle for Message {
///     fn recycle(&mut self) { self.bytes.clear(); }
/// }
/// reuse! { static MESSAGES: Reuse<Message>; }
///
/// let mut first = MESSAGES.take();
/// first.bytes.extend_from_slice(&[1; 1000]);
/// drop(first);
///
/// let second = MESSAGES.take(); // the same object, as a rule
/// assert!(second.bytes.is_empty());
/// ```
#[repr(transparent)]
pub struct Reuse<T, H = T> {
    raw: Raw,
    of: PhantomData<fn() -> (T, H)>,
}

/// Runs once an object, when its slab is made. A panic aborts, since the caller is C.
unsafe extern "C" fn construct<T: Default>(object: *mut c_void, _arg: *mut c_void) {
    // SAFETY: the library hands over memory for a T.
    unsafe { object.cast::<T>().write(T::default()) }
}

/// Runs once an object, when its slab is given back.
unsafe extern "C" fn destruct<T>(object: *mut c_void, _arg: *mut c_void) {
    // SAFETY: the object is a T, and free.
    unsafe { object.cast::<T>().drop_in_place() }
}

/// Where the fast path has no object.
struct Slow<T, H>(PhantomData<(T, H)>);

impl<T: Recycle, H: ReuseHome<T>> sys::Otherwise for Slow<T, H> {
    #[cold]
    extern "C" fn otherwise(from: *const c_void) -> NonNull<c_void> {
        H::cache().raw.pop_or_end(from)
    }
}

impl<T: Recycle, H: ReuseHome<T>> Reuse<T, H> {
    /// For `reuse!`.
    ///
    /// # Safety
    /// The cache is the one of the home.
    #[doc(hidden)]
    pub const unsafe fn __of_home(name: &'static CStr, mut settings: Settings) -> Self {
        if settings.name.is_none() {
            settings.name = Some(name);
        }
        let raw = Raw::new(Layout::new::<T>(), settings).constructed(construct::<T>, destruct::<T>);
        Reuse { raw, of: PhantomData }
    }

    /// An object as [`recycle`](Recycle::recycle) left it, or a new one. Ends as `Box::new` does if there is no
    /// memory.
    #[inline(always)]
    pub fn take(&self) -> Reused<T, H> {
        let object = match NonNull::new(self.raw.pop_fast_or::<Slow<T, H>>()) {
            Some(object) => object,
            None => self.raw.pop_or_end(sys::here()),
        };
        Reused { object: object.cast(), home: PhantomData }
    }

    /// [`take`](Reuse::take) that says if there is no memory.
    #[inline(always)]
    pub fn try_take(&self) -> Result<Reused<T, H>, Error> {
        match NonNull::new(self.raw.pop()) {
            Some(object) => Ok(Reused { object: object.cast(), home: PhantomData }),
            None => Err(Error::last()),
        }
    }

    /// Gives back free memory, and drops the objects in it.
    pub fn shrink(&self) -> usize {
        // SAFETY: the cache lives, and the call may be made beside every other one.
        self.raw.handle().map_or(0, |cache| unsafe { sys::stook_cache_shrink(cache.as_ptr()) })
    }
}

/// Owns one object of a [`Reuse`]: one word. Dropping it recycles the object.
///
/// ```
/// # #[derive(Default)] struct Line(String);
/// # impl stook::Recycle for Line { fn recycle(&mut self) { self.0.clear(); } }
/// # stook::reuse! { static LINES: Reuse<Line>; }
/// use stook::Reused;
/// let line: Reused<Line> = LINES.take();
/// assert_eq!(size_of_val(&line), size_of::<usize>());
/// ```
#[repr(transparent)]
pub struct Reused<T: Recycle, H: ReuseHome<T> = T> {
    object: NonNull<T>,
    home: PhantomData<(T, fn() -> H)>,
}

// SAFETY: it owns its T, which is Send by Recycle; any thread may free an object.
unsafe impl<T: Recycle, H: ReuseHome<T>> Send for Reused<T, H> {}
// SAFETY: a shared one gives shared access to its T only.
unsafe impl<T: Recycle + Sync, H: ReuseHome<T>> Sync for Reused<T, H> {}

impl<T: Recycle, H: ReuseHome<T>> Drop for Reused<T, H> {
    #[inline(always)]
    fn drop(&mut self) {
        /// Also if recycle() panics: the object is a T still.
        struct Memory<T: Recycle, H: ReuseHome<T>>(NonNull<T>, PhantomData<fn() -> H>);
        impl<T: Recycle, H: ReuseHome<T>> Drop for Memory<T, H> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: the object is of this cache, constructed, and not used afterwards.
                unsafe { H::cache().raw.push(self.0.as_ptr().cast()) }
            }
        }
        let memory = Memory::<T, H>(self.object, PhantomData);
        self.recycle();
        drop(memory);
    }
}

impl<T: Recycle, H: ReuseHome<T>> Deref for Reused<T, H> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the object is this pointer's.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Recycle, H: ReuseHome<T>> DerefMut for Reused<T, H> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the object is this pointer's.
        unsafe { self.object.as_mut() }
    }
}

impl<T: Recycle + fmt::Debug, H: ReuseHome<T>> fmt::Debug for Reused<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
