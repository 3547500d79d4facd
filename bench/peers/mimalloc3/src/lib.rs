// Nothing of Rust is used: naming the crate makes its C code part of this archive.
extern crate libmimalloc_sys;
