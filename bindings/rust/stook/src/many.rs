// SPDX-License-Identifier: MIT
//! Many objects in one call.

#[cfg(feature = "alloc")]
use crate::raw::out_of_memory;
use crate::{Cache, Error, Pooled, Return};
#[cfg(feature = "alloc")]
use core::alloc::Layout;
use core::ffi::c_void;
use core::mem::{self, MaybeUninit};
use core::ptr::{self, NonNull};
use stook_sys as sys;

#[cfg(feature = "alloc")]
use alloc::vec::{self, Vec};
#[cfg(feature = "alloc")]
use core::ops::{Deref, DerefMut};

impl<T, H: Return<T>> Cache<T, H> {
    /// Fills the slice with objects: all of them or none.
    #[inline(always)] // so that the call returns to the program's function
    fn pop_all(&self, objects: &mut [MaybeUninit<NonNull<T>>]) -> Result<(), Error> {
        let cache = self.raw.handle()?;
        let at = objects.as_mut_ptr().cast::<*mut c_void>();
        // SAFETY: a NonNull is a pointer, and the array has room for as many.
        match unsafe { sys::stook_alloc_bulk(cache.as_ptr(), sys::STOOK_WAIT, objects.len(), at) } {
            0 => Ok(()),
            _ => Err(Error::last()),
        }
    }

    /// Stores `N` values, all of them or none; needs no heap.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<usize, Words>; }
    /// let words = WORDS.alloc_array_with::<4>(|i| i * i)?;
    /// assert_eq!(*words[3], 9);
    /// # Ok::<(), stook::Error>(())
    /// ```
    #[inline(always)]
    pub fn alloc_array_with<const N: usize>(
        &self,
        make: impl FnMut(usize) -> T,
    ) -> Result<[Pooled<T, H>; N], Error> {
        let mut objects = [MaybeUninit::<NonNull<T>>::uninit(); N];
        self.pop_all(&mut objects)?;
        // SAFETY: they were all filled in, with objects of this cache; a Pooled is a NonNull.
        let mut objects = unsafe { mem::transmute_copy::<_, [NonNull<T>; N]>(&objects) };
        Filling::<T, H>::new(&mut objects).fill(make);
        // SAFETY: all have a value now.
        Ok(objects.map(|object| unsafe { Pooled::from_raw(object) }))
    }

    /// Stores `n` values, all of them or none: one call of the library for the memory of all.
    ///
    /// It ends as `Box::new` does if there is no memory.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<usize, Words>; }
    /// let words = WORDS.alloc_bulk_with(100, |i| 2 * i);
    /// assert_eq!(*words[99], 198);
    /// drop(words); // the memory of all goes back in some calls
    /// ```
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub fn alloc_bulk_with(&self, n: usize, make: impl FnMut(usize) -> T) -> Batch<T, H> {
        match self.try_alloc_bulk_with(n, make) {
            Ok(batch) => batch,
            Err(_) => out_of_memory(Layout::new::<T>()),
        }
    }

    /// [`alloc_bulk_with`](Cache::alloc_bulk_with) that says if there is no memory.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub fn try_alloc_bulk_with(
        &self,
        n: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<Batch<T, H>, Error> {
        let mut objects = room(n)?;
        self.pop_all(&mut objects.spare_capacity_mut()[..n])?;
        // SAFETY: the call filled in the first n.
        Ok(unsafe { Batch::filled(objects, n, make) })
    }
}

#[cfg(feature = "alloc")]
fn room<T>(n: usize) -> Result<Vec<NonNull<T>>, Error> {
    let mut objects = Vec::new();
    objects.try_reserve_exact(n).map_err(|_| Error::NO_MEMORY)?;
    Ok(objects)
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> Batch<T, H> {
    /// # Safety
    /// The first `n` places have objects of a cache with this home, which nothing else owns.
    unsafe fn filled(mut objects: Vec<NonNull<T>>, n: usize, make: impl FnMut(usize) -> T) -> Self {
        // SAFETY: by the caller.
        unsafe { objects.set_len(n) };
        Filling::<T, H>::new(&mut objects).fill(make);
        let mut objects = mem::ManuallyDrop::new(objects);
        // SAFETY: all have a value now, and a Pooled is a NonNull.
        let objects = unsafe {
            Vec::from_raw_parts(objects.as_mut_ptr().cast(), objects.len(), objects.capacity())
        };
        Batch { objects }
    }
}

/// Objects of which the first `filled` have a value. If a constructor panics they are dropped, and the memory of
/// all goes back.
struct Filling<'a, T, H: Return<T>> {
    objects: &'a mut [NonNull<T>],
    filled: usize,
    home: core::marker::PhantomData<fn() -> H>,
}

impl<'a, T, H: Return<T>> Filling<'a, T, H> {
    fn new(objects: &'a mut [NonNull<T>]) -> Self {
        Filling { objects, filled: 0, home: core::marker::PhantomData }
    }

    fn fill(mut self, mut make: impl FnMut(usize) -> T) {
        while self.filled < self.objects.len() {
            let value = make(self.filled);
            // SAFETY: the memory is this one's.
            unsafe { self.objects[self.filled].as_ptr().write(value) };
            self.filled += 1;
        }
        mem::forget(self);
    }
}

impl<T, H: Return<T>> Drop for Filling<'_, T, H> {
    fn drop(&mut self) {
        let (filled, empty) = self.objects.split_at_mut(self.filled);
        // SAFETY: the memory is this one's.
        unsafe { H::give_back_all(empty) };
        // SAFETY: these have a value.
        unsafe { drop_all::<T, H>(filled) };
    }
}

/// Drops the values and gives back the memory of all, also if one of them panics.
///
/// # Safety
/// The objects are the caller's, and have values.
unsafe fn drop_all<T, H: Return<T>>(objects: &mut [NonNull<T>]) {
    struct Dropping<'a, T, H: Return<T>> {
        objects: &'a mut [NonNull<T>],
        dropped: usize,
        home: core::marker::PhantomData<fn() -> H>,
    }
    impl<T, H: Return<T>> Dropping<'_, T, H> {
        fn run(&mut self) {
            while self.dropped < self.objects.len() {
                self.dropped += 1;
                // SAFETY: each once, by the count.
                unsafe { ptr::drop_in_place(self.objects[self.dropped - 1].as_ptr()) };
            }
        }
    }
    impl<T, H: Return<T>> Drop for Dropping<'_, T, H> {
        fn drop(&mut self) {
            self.run();
            // SAFETY: their values are dropped.
            unsafe { H::give_back_all(self.objects) };
        }
    }
    let mut dropping = Dropping::<T, H> { objects, dropped: 0, home: core::marker::PhantomData };
    if mem::needs_drop::<T>() {
        dropping.run();
    } else {
        dropping.dropped = dropping.objects.len();
    }
}

impl<T, H: Return<T>> Pooled<T, H> {
    /// Drops many objects; their memory goes back in one call for each 32.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let words: Vec<_> = (0..100).map(|i| WORDS.alloc(i)).collect();
    /// stook::Pooled::drop_bulk(words);
    /// ```
    pub fn drop_bulk(objects: impl IntoIterator<Item = Self>) {
        let mut objects = objects.into_iter();
        loop {
            let mut some = [const { MaybeUninit::<NonNull<T>>::uninit() }; 32];
            let mut n = 0;
            for (room, object) in some.iter_mut().zip(&mut objects) {
                room.write(Pooled::into_raw(object));
                n += 1;
            }
            if n == 0 {
                return;
            }
            // SAFETY: the first n were written, and are owned here.
            unsafe {
                drop_all::<T, H>(core::slice::from_raw_parts_mut(some.as_mut_ptr().cast(), n));
            }
        }
    }
}

/// Objects that were allocated together and go back together: a `Vec<Pooled<T>>` with a faster drop.
///
/// ```
/// # stook::cache! { static WORDS: Cache<usize, Words>; }
/// let mut batch = WORDS.alloc_bulk_with(10, |i| i);
/// *batch[0] = 7;
/// let sum: usize = batch.iter().map(|word| **word).sum();
/// assert_eq!(sum, 52);
/// let words: Vec<_> = batch.into_vec(); // each on its own from now on
/// assert_eq!(words.len(), 10);
/// ```
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct Batch<T, H: Return<T> = T> {
    objects: Vec<Pooled<T, H>>,
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> Batch<T, H> {
    /// The objects, each on its own.
    pub fn into_vec(mut self) -> Vec<Pooled<T, H>> {
        mem::take(&mut self.objects)
    }
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> Drop for Batch<T, H> {
    fn drop(&mut self) {
        let n = self.objects.len();
        // SAFETY: the Vec forgets them first, and a Pooled is a NonNull.
        unsafe {
            self.objects.set_len(0);
            let at = self.objects.as_mut_ptr().cast::<NonNull<T>>();
            drop_all::<T, H>(core::slice::from_raw_parts_mut(at, n));
        }
    }
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> Deref for Batch<T, H> {
    type Target = [Pooled<T, H>];

    fn deref(&self) -> &Self::Target {
        &self.objects
    }
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> DerefMut for Batch<T, H> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.objects
    }
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> From<Vec<Pooled<T, H>>> for Batch<T, H> {
    fn from(objects: Vec<Pooled<T, H>>) -> Self {
        Batch { objects }
    }
}

#[cfg(feature = "alloc")]
impl<T, H: Return<T>> IntoIterator for Batch<T, H> {
    type Item = Pooled<T, H>;
    type IntoIter = vec::IntoIter<Pooled<T, H>>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}
