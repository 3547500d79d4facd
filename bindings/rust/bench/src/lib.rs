// SPDX-License-Identifier: MIT
//! A `Box` of a given allocator, so that one process can measure several.

use std::alloc::{GlobalAlloc, Layout};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// An allocator by its type.
pub trait Allocator: 'static {
    /// What the tables call it.
    const NAME: &'static str;
    /// Its functions.
    fn functions() -> &'static impl GlobalAlloc;
}

macro_rules! allocators {
    ($($type:ident $name:literal $functions:ty = $value:expr;)*) => {$(
        #[doc = $name]
        pub struct $type;
        impl Allocator for $type {
            const NAME: &'static str = $name;
            #[inline(always)]
            fn functions() -> &'static impl GlobalAlloc {
                static FUNCTIONS: $functions = $value;
                &FUNCTIONS
            }
        }
    )*};
}

allocators! {
    Glibc "glibc" std::alloc::System = std::alloc::System;
    Jemalloc "jemalloc" tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
    Mimalloc "mimalloc" mimalloc::MiMalloc = mimalloc::MiMalloc;
    Snmalloc "snmalloc" snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;
    StookMalloc "stook::Malloc" stook::Malloc = stook::Malloc;
}

/// As `Box`, from the allocator `A`.
pub struct BoxIn<T, A: Allocator>(NonNull<T>, PhantomData<(T, A)>);

impl<T, A: Allocator> BoxIn<T, A> {
    /// Stores a value.
    #[inline(always)]
    pub fn new(value: T) -> Self {
        // SAFETY: T has a size here, and the memory is written before it is read.
        unsafe {
            let memory = A::functions().alloc(Layout::new::<T>()).cast::<T>();
            let memory = NonNull::new(memory).expect("memory");
            memory.as_ptr().write(value);
            BoxIn(memory, PhantomData)
        }
    }
}

impl<T, A: Allocator> Drop for BoxIn<T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the memory is of new().
        unsafe {
            self.0.as_ptr().drop_in_place();
            A::functions().dealloc(self.0.as_ptr().cast(), Layout::new::<T>());
        }
    }
}

impl<T, A: Allocator> Deref for BoxIn<T, A> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it is this one's.
        unsafe { self.0.as_ref() }
    }
}

impl<T, A: Allocator> DerefMut for BoxIn<T, A> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: it is this one's.
        unsafe { self.0.as_mut() }
    }
}
