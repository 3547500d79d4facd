// Nothing of Rust is used: naming the crate makes its C code part of this archive.
#[cfg(feature = "hardened")]
extern crate hardened_malloc_sys;
#[cfg(any(feature = "mimalloc23", feature = "mimalloc3"))]
extern crate libmimalloc_sys;
#[cfg(feature = "tcg")]
extern crate libtcmalloc_sys;
#[cfg(feature = "rpmalloc")]
extern crate rpmalloc_sys;
#[cfg(feature = "snmalloc")]
extern crate snmalloc_sys;
#[cfg(feature = "jemalloc531")]
extern crate tikv_jemalloc_sys;
