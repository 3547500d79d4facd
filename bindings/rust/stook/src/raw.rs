// SPDX-License-Identifier: MIT
//! A cache without its type: the pointer to the library's cache, and how it is made when it is first used.

use crate::settings::Settings;
use crate::Error;
use core::alloc::Layout;
use core::ffi::{c_uint, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use stook_sys::{self as sys, inline, stook_cache};

pub(crate) struct Raw {
    /// [`inline::UNBORN`] until the cache is made; it never changes afterwards.
    handle: AtomicPtr<stook_cache>,
    layout: Layout,
    settings: Settings,
    ctor: Option<sys::stook_object_fn>,
    dtor: Option<sys::stook_object_fn>,
}

impl Raw {
    pub(crate) const fn new(layout: Layout, settings: Settings) -> Raw {
        assert!(
            layout.size() <= sys::STOOK_OBJECT_SIZE_MAX,
            "objects of a cache have 4 MiB at most"
        );
        assert!(
            layout.align() <= sys::STOOK_ALIGN_MAX,
            "objects of a cache are aligned to 4096 bytes at most"
        );
        Raw { handle: AtomicPtr::new(inline::UNBORN), layout, settings, ctor: None, dtor: None }
    }

    pub(crate) const fn constructed(
        mut self,
        ctor: sys::stook_object_fn,
        dtor: sys::stook_object_fn,
    ) -> Raw {
        self.ctor = Some(ctor);
        self.dtor = Some(dtor);
        self
    }

    /// The library's cache, which is made now if it was not.
    pub(crate) fn handle(&self) -> Result<NonNull<stook_cache>, Error> {
        let handle = self.get();
        if handle == inline::UNBORN {
            return self.make(None);
        }
        // SAFETY: the library returned it, and it was not NULL.
        Ok(unsafe { NonNull::new_unchecked(handle) })
    }

    /// Acquire: the head of the cache was written by the thread that made it. A plain load on x86-64. On aarch64 the
    /// address dependency does it: all that reads the head reads through this pointer, in assembly or in the library.
    #[inline(always)]
    fn get(&self) -> *mut stook_cache {
        self.handle.load(if cfg!(all(target_arch = "aarch64", not(miri))) {
            Ordering::Relaxed
        } else {
            Ordering::Acquire
        })
    }

    /// For frees: an object shows that the cache was made.
    #[inline(always)]
    pub(crate) fn made(&self) -> *mut stook_cache {
        self.get()
    }

    /// Of two threads that make the cache the second destroys its own. A fork in the middle leaves a child that
    /// makes it again.
    #[cold]
    pub(crate) fn make(&self, name: Option<&str>) -> Result<NonNull<stook_cache>, Error> {
        let mut text = [0u8; sys::STOOK_NAME_MAX + 1];
        let name = match (name, self.settings.name) {
            (Some(name), _) => c_text(name, &mut text).as_ptr().cast(),
            (None, Some(name)) => name.as_ptr(),
            (None, None) => c"rust".as_ptr(),
        };
        let args = sys::stook_cache_args {
            size: size_of::<sys::stook_cache_args>(),
            align: self.layout.align(),
            ctor: self.ctor,
            dtor: self.dtor,
            arg: ptr::null_mut(),
            flags: self.settings.flags,
            sheaf_capacity: self.settings.capacity,
            cached_bytes_max: self.settings.cached_bytes_max,
            slab_bytes_max: self.settings.slab_bytes_max,
        };
        // SAFETY: the name ends with NUL, and the arguments are of this version.
        let cache = unsafe { sys::stook_cache_create(name, self.layout.size().max(1), &args) };
        let Some(made) = NonNull::new(cache) else {
            return Err(Error::last());
        };
        // AcqRel: readers of the handle read the head; the loser reads the winner's.
        match self.handle.compare_exchange(
            inline::UNBORN,
            cache,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => Ok(made),
            Err(other) => {
                // SAFETY: no object was ever allocated from it, and no other thread knows it.
                unsafe { sys::stook_cache_destroy(cache) };
                // SAFETY: as in handle().
                Ok(unsafe { NonNull::new_unchecked(other) })
            }
        }
    }

    /// Memory for one object, if the fast path has some; else NULL.
    #[inline(always)]
    pub(crate) fn pop_fast(&self) -> *mut c_void {
        let handle = self.get();
        if inline::INLINED {
            // SAFETY: a cache is destroyed only when nothing borrows it.
            unsafe { inline::pop(handle) }
        } else if handle != inline::UNBORN {
            // SAFETY: as above.
            unsafe { sys::stook_alloc(handle, sys::STOOK_WAIT) }
        } else {
            ptr::null_mut()
        }
    }

    /// The same for a cache that a type names: where the machine allows, the call of `O` is within the fast path's
    /// block, and the result not NULL.
    #[inline(always)]
    pub(crate) fn pop_fast_or<O: sys::Otherwise>(&self) -> *mut c_void {
        if inline::INLINED {
            // SAFETY: as in pop_fast().
            unsafe { inline::pop_or::<O>(self.get()) }
        } else {
            self.pop_fast()
        }
    }

    /// Memory for one object, or NULL and errno.
    #[inline(always)]
    pub(crate) fn pop(&self) -> *mut c_void {
        let object = self.pop_fast();
        if object.is_null() {
            self.pop_slow(sys::STOOK_WAIT, sys::here())
        } else {
            object
        }
    }

    /// Memory for one object; ends as Box::new() does if there is none. Callers end with a call of it, and need no
    /// frame for their fast path. `from` is in the program's function that allocates: sys::here() of a function that
    /// is inlined there.
    #[cold]
    #[inline(never)]
    pub(crate) fn pop_or_end(&self, from: *const c_void) -> NonNull<c_void> {
        NonNull::new(self.pop_slow(sys::STOOK_WAIT, from))
            .unwrap_or_else(|| out_of_memory(self.layout))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn pop_slow(&self, flags: c_uint, from: *const c_void) -> *mut c_void {
        match self.handle() {
            Ok(cache) => {
                let args = sys::stook_alloc_args { from, ..sys::stook_alloc_args::NONE };
                // SAFETY: as in pop().
                unsafe { sys::stook_alloc_with(cache.as_ptr(), flags, &args) }
            }
            Err(_) => ptr::null_mut(),
        }
    }

    /// Takes an object back.
    ///
    /// # Safety
    /// The object was allocated from this cache, and the caller gives it up.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, object: *mut c_void) {
        // SAFETY: the object is of this cache, which was therefore made.
        unsafe {
            if !inline::push(self.made(), object) {
                push_slow(object, self);
            }
        }
    }

    pub(crate) fn destroy(&mut self) {
        let handle = *self.handle.get_mut();
        if handle != inline::UNBORN {
            // SAFETY: by &mut no other thread is in a call on it. With live objects it stays.
            unsafe { sys::stook_cache_destroy(handle) };
        }
    }

    #[cfg(any(feature = "allocator-api2", stook_nightly))]
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }
}

/// In this order, since the object is in the first register of a drop.
///
/// # Safety
/// As of [`Raw::push`].
#[cold]
#[inline(never)]
unsafe fn push_slow(object: *mut c_void, raw: &Raw) {
    // SAFETY: by the caller.
    unsafe { sys::stook_free(raw.made(), object) }
}

/// The text with a NUL behind it, cut where it is too long or has one inside.
pub(crate) fn c_text<'a>(
    text: &str,
    room: &'a mut [u8; sys::STOOK_NAME_MAX + 1],
) -> &'a core::ffi::CStr {
    let bytes = text.as_bytes();
    let n = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()).min(sys::STOOK_NAME_MAX);
    room[..n].copy_from_slice(&bytes[..n]);
    room[n] = 0;
    core::ffi::CStr::from_bytes_until_nul(room).unwrap_or(c"rust")
}

/// Ends as Box::new() does.
#[cold]
#[inline(never)]
pub(crate) fn out_of_memory(layout: Layout) -> ! {
    #[cfg(feature = "alloc")]
    alloc::alloc::handle_alloc_error(layout);
    #[cfg(not(feature = "alloc"))]
    panic!("stook: no memory for an object of {} bytes", layout.size());
}
