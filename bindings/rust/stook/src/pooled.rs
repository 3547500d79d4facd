// SPDX-License-Identifier: MIT
//! The owner of one object of a cache.

use crate::{Home, Return, Slot};
use core::borrow::{Borrow, BorrowMut};
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::mem;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::{self, NonNull};

/// Owns one object of a cache, as a `Box` owns one of the heap: one word, never NULL.
///
/// `H` says which cache the object goes back to; by default it is the one of the type, made by
/// [`cache!`](crate::cache). It is `Send` and `Sync` exactly if `T` is, and any thread may drop it.
///
/// ```
/// use stook::{cache, Pooled};
/// struct Node { key: u64, next: Option<Pooled<Node>> }
/// cache! { static NODES: Cache<Node>; }
///
/// let tail = NODES.alloc(Node { key: 2, next: None });
/// let list = NODES.alloc(Node { key: 1, next: Some(tail) });
/// assert_eq!(list.next.as_ref().unwrap().key, 2);
/// assert_eq!(size_of::<Option<Pooled<Node>>>(), size_of::<usize>());
/// ```
#[repr(transparent)]
pub struct Pooled<T, H: Return<T> = T> {
    object: NonNull<T>,
    home: PhantomData<(T, fn() -> H)>,
}

// SAFETY: it owns its T, and any thread may free an object.
unsafe impl<T: Send, H: Return<T>> Send for Pooled<T, H> {}
// SAFETY: a shared one gives shared access to its T only.
unsafe impl<T: Sync, H: Return<T>> Sync for Pooled<T, H> {}

impl<T: Home<T> + 'static> Pooled<T> {
    /// Stores a value in the cache of its type; `Box::new` for cached types.
    ///
    /// It ends as `Box::new` does if there is no memory. For other homes use [`Cache::alloc`](crate::Cache::alloc).
    #[inline(always)]
    pub fn new(value: T) -> Self {
        T::cache().alloc(value)
    }

    /// [`new`](Pooled::new), pinned.
    ///
    /// ```
    /// # struct Task(u32);
    /// # stook::cache! { static TASKS: Cache<Task>; }
    /// let task = stook::Pooled::pin(Task(1));
    /// assert_eq!(task.as_ref().0, 1);
    /// ```
    #[inline(always)]
    pub fn pin(value: T) -> Pin<Self> {
        Pooled::into_pin(Pooled::new(value))
    }
}

impl<T, H: Return<T>> Pooled<T, H> {
    /// The object does not move while this pointer lives.
    pub fn into_pin(pooled: Self) -> Pin<Self> {
        // SAFETY: moving the pointer does not move the object, and no safe call moves it out of a Pin.
        unsafe { Pin::new_unchecked(pooled) }
    }

    /// Moves the value out and frees the object.
    ///
    /// ```
    /// stook::cache! { static NAMES: Cache<String, Names>; }
    /// let name = NAMES.alloc("Ada".to_string());
    /// let name: String = stook::Pooled::into_inner(name);
    /// assert_eq!(name, "Ada");
    /// ```
    pub fn into_inner(pooled: Self) -> T {
        let object = Pooled::into_raw(pooled);
        let slot = Slot::<T, H>::from_raw(object);
        // SAFETY: the object is read once, and its memory goes back without a drop.
        let value = unsafe { slot.as_ptr().read() };
        drop(slot);
        value
    }

    /// The pointer, which the caller owns; [`from_raw`](Pooled::from_raw) takes it back.
    #[inline(always)]
    pub fn into_raw(pooled: Self) -> NonNull<T> {
        let object = pooled.object;
        mem::forget(pooled);
        object
    }

    /// Owns what [`into_raw`](Pooled::into_raw) returned.
    ///
    /// # Safety
    /// The pointer is of `into_raw` of the same type, and is used once.
    ///
    /// ```
    /// use stook::Pooled;
    /// stook::cache! { static WORDS: Cache<u64, Words>; }
    /// let raw = Pooled::into_raw(WORDS.alloc(5));
    /// // SAFETY: it is of the line above.
    /// let word: Pooled<u64, Words> = unsafe { Pooled::from_raw(raw) };
    /// assert_eq!(*word, 5);
    /// ```
    #[inline(always)]
    pub unsafe fn from_raw(object: NonNull<T>) -> Self {
        Pooled { object, home: PhantomData }
    }

    /// Its address.
    pub fn as_ptr(&self) -> *const T {
        self.object.as_ptr()
    }

    /// The object lives until the process ends.
    pub fn leak<'a>(pooled: Self) -> &'a mut T
    where
        T: 'a,
    {
        // SAFETY: nothing frees it any more.
        unsafe { Pooled::into_raw(pooled).as_mut() }
    }
}

impl<T, H: Return<T>> Drop for Pooled<T, H> {
    #[inline(always)]
    fn drop(&mut self) {
        // The memory goes back also if the object's drop panics.
        let memory = Slot::<T, H>::from_raw(self.object);
        if mem::needs_drop::<T>() {
            // SAFETY: the object is this pointer's, and is not used afterwards.
            unsafe { ptr::drop_in_place(memory.as_ptr()) }
        }
    }
}

impl<T, H: Return<T>> Deref for Pooled<T, H> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the object is this pointer's.
        unsafe { self.object.as_ref() }
    }
}

impl<T, H: Return<T>> DerefMut for Pooled<T, H> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the object is this pointer's.
        unsafe { self.object.as_mut() }
    }
}

impl<T, H: Return<T>> AsRef<T> for Pooled<T, H> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T, H: Return<T>> AsMut<T> for Pooled<T, H> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T, H: Return<T>> Borrow<T> for Pooled<T, H> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T, H: Return<T>> BorrowMut<T> for Pooled<T, H> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

/// Moving the pointer does not move the object.
impl<T, H: Return<T>> Unpin for Pooled<T, H> {}

impl<T: Clone + 'static, H: Home<T>> Clone for Pooled<T, H> {
    fn clone(&self) -> Self {
        H::cache().alloc_with(|| (**self).clone())
    }
}

impl<T: Default + 'static, H: Home<T>> Default for Pooled<T, H> {
    #[inline(always)]
    fn default() -> Self {
        H::cache().alloc_with(T::default)
    }
}

impl<T: 'static, H: Home<T>> From<T> for Pooled<T, H> {
    #[inline(always)]
    fn from(value: T) -> Self {
        H::cache().alloc(value)
    }
}

impl<T: fmt::Debug, H: Return<T>> fmt::Debug for Pooled<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display, H: Return<T>> fmt::Display for Pooled<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T, H: Return<T>> fmt::Pointer for Pooled<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.object, f)
    }
}

impl<T: PartialEq, H: Return<T>> PartialEq for Pooled<T, H> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, H: Return<T>> Eq for Pooled<T, H> {}

impl<T: PartialOrd, H: Return<T>> PartialOrd for Pooled<T, H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord, H: Return<T>> Ord for Pooled<T, H> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: Hash, H: Return<T>> Hash for Pooled<T, H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        (**self).hash(state)
    }
}
