// SPDX-License-Identifier: MIT
//! A shared object with a cache of its own, as a plugin is.

stook::cache! { static WORDS: Cache<u64, Words>; }

/// Allocates and frees, and returns the sum of 0 to n - 1.
#[no_mangle]
pub extern "C" fn module_work(n: u64) -> u64 {
    (0..n).map(|i| *WORDS.alloc(i)).sum()
}
