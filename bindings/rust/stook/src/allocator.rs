// SPDX-License-Identifier: MIT
//! `Allocator`, of allocator-api2 on every toolchain and of the standard library on a nightly one.

#[cfg(any(feature = "allocator-api2", stook_nightly))]
macro_rules! implement {
    ($($api:tt)*) => {
        use crate::{Cache, Malloc, Return};
        use core::alloc::Layout;
        use core::ptr::NonNull;
        use stook_sys as sys;
        use $($api)*::{AllocError, Allocator};

        fn slice(memory: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
            NonNull::new(memory)
                .map(|memory| NonNull::slice_from_raw_parts(memory, size))
                .ok_or(AllocError)
        }

        fn dangling(layout: Layout) -> NonNull<[u8]> {
            // SAFETY: an alignment is not 0.
            let at = unsafe { NonNull::new_unchecked(core::ptr::null_mut::<u8>().wrapping_add(layout.align())) };
            NonNull::slice_from_raw_parts(at, 0)
        }

        // SAFETY: memory is exclusive and stays until it is freed; all values of the type are one allocator.
        unsafe impl Allocator for Malloc {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                if layout.size() == 0 {
                    return Ok(dangling(layout));
                }
                slice(Malloc::get(layout, sys::STOOK_WAIT), layout.size())
            }

            #[inline]
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                if layout.size() == 0 {
                    return Ok(dangling(layout));
                }
                slice(Malloc::get(layout, sys::STOOK_ZERO), layout.size())
            }

            #[inline]
            unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
                if layout.size() != 0 {
                    // SAFETY: by the caller.
                    unsafe { Malloc::put(memory.as_ptr()) }
                }
            }
        }

        // SAFETY: as above; the layout alone decides whether memory is an object or of `Malloc`, the layouts of
        // deallocate() being those of allocate().
        unsafe impl<T, H: Return<T>> Allocator for &'static Cache<T, H> {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                if !self.serves(layout) {
                    return Malloc.allocate(layout);
                }
                slice(self.raw.pop().cast(), layout.size())
            }

            #[inline]
            unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
                // SAFETY: by the caller, of the same branch of allocate().
                unsafe {
                    if self.serves(layout) {
                        self.raw.push(memory.as_ptr().cast());
                    } else {
                        Malloc.deallocate(memory, layout);
                    }
                }
            }
        }
    };
}

/// Which layouts are objects of the cache: those of its type. Others, such as tables of a hash map, are memory of
/// any size.
#[cfg(any(feature = "allocator-api2", stook_nightly))]
impl<T, H: crate::Return<T>> crate::Cache<T, H> {
    #[inline(always)]
    fn serves(&self, layout: core::alloc::Layout) -> bool {
        layout == self.layout() && layout.size() != 0
    }
}

#[cfg(feature = "allocator-api2")]
mod api2 {
    implement!(allocator_api2::alloc);
}

#[cfg(stook_nightly)]
mod core_api {
    implement!(core::alloc);
}
