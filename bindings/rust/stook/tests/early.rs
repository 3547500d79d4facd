// SPDX-License-Identifier: MIT
//! Static caches are used by constructors, before main() and before the crate's own constructor.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU64, Ordering};
use stook::cache;

cache! { static WORDS: Cache<u64, Words>; }
static SUM: AtomicU64 = AtomicU64::new(0);

extern "C" fn early() {
    let words: [_; 3] = [10, 20, 30].map(|n| WORDS.alloc(n));
    SUM.fetch_add(words.iter().map(|word| **word).sum(), Ordering::Relaxed);
}

#[used]
#[link_section = ".preinit_array"]
static FIRST: extern "C" fn() = early;
#[used]
#[link_section = ".init_array"]
static SECOND: extern "C" fn() = early;

#[test]
fn constructors_allocate() {
    assert_eq!(SUM.load(Ordering::Relaxed), 120);
    assert_eq!(*WORDS.alloc(7), 7);
}
