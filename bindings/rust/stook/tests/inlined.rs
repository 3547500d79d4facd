// SPDX-License-Identifier: MIT
//! The fast path is taken where it should be, and statistics that are switched meanwhile count all of it.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::hint::black_box;
use stook::sys::stook_stat;
use stook::{cache, reuse, Cache, Home, Recycle};

fn counted<T: 'static, H: Home<T>>(cache: &Cache<T, H>) -> stook_stat {
    let mut stat = stook_stat { size: size_of::<stook_stat>(), ..Default::default() };
    let cache = cache.as_ptr().unwrap().as_ptr();
    // SAFETY: the cache lives.
    assert_eq!(unsafe { stook::sys::stook_cache_stat(cache, &mut stat) }, 0);
    stat
}

#[test]
fn statistics_count_what_is_inlined() {
    cache! { static WORDS: Cache<u64, Words>; }
    WORDS.make().unwrap();
    drop(WORDS.alloc(1)); // this CPU has a sheaf now
    let cache = WORDS.as_ptr().unwrap().as_ptr();
    // SAFETY: the cache lives.
    assert_eq!(
        unsafe { stook::sys::stook_cache_stat_enable(cache, stook::sys::STOOK_STATS_ALL) },
        0
    );
    for i in 0..1000 {
        assert_eq!(*WORDS.alloc(i), i);
    }
    let stat = counted(&WORDS);
    let (fast, slow) = (stat.alloc_fastpath, stat.alloc_slowpath);
    assert_eq!(fast + slow, 1000);
    assert_eq!(stat.free_fastpath + stat.free_slowpath, 1000);
    // SAFETY: as above.
    assert_eq!(
        unsafe { stook::sys::stook_cache_stat_enable(cache, stook::sys::STOOK_STATS_OFF) },
        0
    );
    for i in 0..1000 {
        assert_eq!(*WORDS.alloc(i), i);
    }
    assert_eq!(counted(&WORDS).alloc_fastpath, fast, "what is switched off does not count");
}

/// One after the other: the object that was freed last is the next one, if and only if it is this CPU's sheaf that
/// is used.
#[test]
fn the_object_freed_last_is_the_next_one() {
    cache! { static WORDS: Cache<u64, LastWords>; }
    let same = (0..1000)
        .filter(|&i| {
            let word = WORDS.alloc(i);
            let address = word.as_ptr();
            drop(word);
            WORDS.alloc(i).as_ptr() == address
        })
        .count();
    assert!(same > 900, "{same} of 1000");
}

#[test]
fn a_push_of_the_inlined_path_is_seen_by_the_library() {
    if !stook::INLINED || stook::mode().0 != "rseq" {
        eprintln!("not here: inlined {}, mode {:?}", stook::INLINED, stook::mode());
        return;
    }
    cache! { static WORDS: Cache<u64, SeenWords>; }
    let words: Vec<_> = (0..8).map(|i| WORDS.alloc(i)).collect();
    drop(words);
    let handle = WORDS.as_ptr().unwrap().as_ptr();
    // A section that is aborted each time would be wrong: some of a thousand succeed.
    let popped = (0..1000)
        // SAFETY: the cache lives, and each object goes back to it.
        .filter(|_| unsafe {
            let object = stook::sys::inline::pop(handle);
            if object.is_null() {
                return false;
            }
            if !stook::sys::inline::push(handle, object) {
                stook::sys::stook_free(handle, object);
            }
            true
        })
        .count();
    assert!(popped > 900, "{popped} of 1000 pops were inlined");
    // SAFETY: no object is there to be had, and none is.
    assert!(unsafe { stook::sys::inline::pop(stook::sys::inline::UNBORN) }.is_null());
}

/// Values of every kind of register survive the cold path, which saves some of them itself.
#[test]
fn the_cold_path_keeps_what_its_caller_holds() {
    cache! { static WORDS: Cache<[u64; 4], ColdWords>; }
    let mut words = Vec::new();
    for i in 0..20_000u64 {
        let n: [u64; 14] = std::array::from_fn(|k| black_box(i + k as u64));
        let f: [f64; 10] = std::array::from_fn(|k| black_box((i * 2 + k as u64) as f64));
        // Nothing is freed meanwhile, so that every sheaf but the first is fetched by the cold path.
        let word = WORDS.alloc([n[0], n[1], n[2], n[3]]);
        for (k, &n) in n.iter().enumerate() {
            assert_eq!(n, i + k as u64);
        }
        for (k, &f) in f.iter().enumerate() {
            assert_eq!(f, (i * 2 + k as u64) as f64);
        }
        words.push(word);
    }
    assert!(words.iter().zip(0..).all(|(word, i)| **word == [i, i + 1, i + 2, i + 3]));
}

thread_local! {
    static SEEN: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Seen;

impl Default for Seen {
    fn default() -> Self {
        SEEN.set(Backtrace::force_capture().to_string());
        Seen
    }
}

impl Recycle for Seen {
    fn recycle(&mut self) {}
}

reuse! { static SEEN_OBJECTS: Reuse<Seen>; }

#[inline(never)]
fn the_function_that_takes() {
    black_box(SEEN_OBJECTS.take());
}

#[inline(never)]
fn its_caller() {
    the_function_that_takes();
    black_box(());
}

/// A constructor runs within the cold path: an unwinder goes through it to the callers.
#[test]
fn stacks_of_the_cold_path_have_the_callers() {
    its_caller();
    let seen = SEEN.take();
    for name in ["the_function_that_takes", "its_caller"] {
        assert!(seen.contains(name), "no {name} in\n{seen}");
    }
}
