// SPDX-License-Identifier: MIT
//! The library as the global allocator of this test, and memory of every size and alignment.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};
use stook::Malloc;

#[global_allocator]
static GLOBAL: Malloc = Malloc;

/// Whether the memory is of this library: its usable size is known.
fn is_ours(memory: *const u8) -> bool {
    // SAFETY: any pointer may be asked for.
    !unsafe { stook::sys::stook_cache_of(memory.cast()) }.is_null()
}

#[test]
fn boxes_are_served() {
    let number = Box::new(5u64);
    assert!(is_ours((&raw const *number).cast()));
    let text: HashMap<String, Vec<u32>> =
        (0..2000).map(|i| (i.to_string(), (0..i % 50).collect())).collect();
    assert_eq!(text["1049"].len(), 49);
    let tree: BTreeMap<u32, String> = (0..5000).map(|i| (i, "x".repeat(i as usize % 99))).collect();
    assert_eq!(tree[&98].len(), 98);
    let threads: Vec<_> =
        (0..8).map(|i| std::thread::spawn(move || vec![i; 10_000].into_boxed_slice())).collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert!(thread.join().unwrap().iter().all(|&n| n == i));
    }
}

#[test]
fn every_size_and_alignment_is_right() {
    let sizes = [1, 7, 8, 9, 16, 17, 31, 48, 64, 96, 100, 192, 200, 1000, 4095, 8192, 8193, 70_000];
    for size in sizes {
        for align in (0..=21).map(|shift| 1usize << shift) {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: the size is not 0; each is freed with its layout.
            unsafe {
                let memory = GLOBAL.alloc(layout);
                assert!(!memory.is_null(), "{layout:?}");
                assert_eq!(memory as usize % align, 0, "{layout:?}");
                memory.write_bytes(0xa5, size);
                let grown = GLOBAL.realloc(memory, layout, size * 3);
                assert!(!grown.is_null() && grown as usize % align == 0, "{layout:?}");
                assert!((0..size).all(|i| *grown.add(i) == 0xa5), "{layout:?}");
                let bigger = Layout::from_size_align(size * 3, align).unwrap();
                let small = GLOBAL.realloc(grown, bigger, 1);
                assert!(!small.is_null() && small as usize % align == 0, "{layout:?}");
                assert_eq!(*small, 0xa5);
                GLOBAL.dealloc(small, Layout::from_size_align(1, align).unwrap());
                let zeros = GLOBAL.alloc_zeroed(layout);
                assert!((0..size).all(|i| *zeros.add(i) == 0), "{layout:?}");
                GLOBAL.dealloc(zeros, layout);
            }
        }
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    for (size, align) in [(1, 1 << 22), ((2 << 20) + 1, 8192), (usize::MAX >> 2, 1)] {
        // SAFETY: the size is not 0.
        assert!(unsafe { GLOBAL.alloc(Layout::from_size_align(size, align).unwrap()) }.is_null());
    }
}
