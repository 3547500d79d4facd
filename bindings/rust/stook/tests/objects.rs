// SPDX-License-Identifier: MIT
//! Objects, one by one and many: what goes in comes out, and every object goes back.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use stook::{cache, Cache, Effort, OwnedCache, Pooled, Return, Settings};

/// How many: Miri interprets, and takes a hundred times as long.
const fn few(miri: u64, else_: u64) -> u64 {
    if cfg!(miri) {
        miri
    } else {
        else_
    }
}

/// Objects that are in use, by the library's own account.
fn in_use<T, H: Return<T>>(cache: &Cache<T, H>) -> usize {
    unsafe extern "C" fn count(_: *mut std::ffi::c_void, arg: *mut std::ffi::c_void) -> i32 {
        // SAFETY: the argument is the counter below.
        unsafe { *arg.cast::<usize>() += 1 };
        0
    }
    let mut n = 0usize;
    let handle = cache.as_ptr().unwrap();
    // SAFETY: the cache lives, and the counter outlives the call.
    let result =
        unsafe { stook::sys::stook_cache_walk(handle.as_ptr(), count, (&raw mut n).cast()) };
    assert_eq!(result, 0);
    n
}

#[derive(Debug, PartialEq)]
struct Point {
    x: i64,
    y: i64,
}
cache! { static POINTS: Cache<Point>; }

#[test]
fn a_value_goes_in_and_comes_out() {
    let mut point = POINTS.alloc(Point { x: 1, y: 2 });
    point.x = 7;
    assert_eq!(*point, Point { x: 7, y: 2 });
    assert_eq!(Pooled::into_inner(point), Point { x: 7, y: 2 });
    let point = Pooled::new(Point { x: 3, y: 4 });
    assert_eq!(format!("{point:?}"), "Point { x: 3, y: 4 }");
    assert_eq!(POINTS.try_slot(Effort::SignalSafe).unwrap().write(Point { x: 5, y: 6 }).y, 6);
}

#[test]
fn objects_are_distinct_and_aligned() {
    #[repr(align(256))]
    struct Wide([u8; 300]);
    cache! { static WIDES: Cache<Wide>; }
    let n = few(200, 5000) as usize;
    let mut objects: Vec<_> = (0..n).map(|i| WIDES.alloc(Wide([i as u8; 300]))).collect();
    let addresses: HashSet<_> = objects.iter().map(|o| o.as_ptr() as usize).collect();
    assert_eq!(addresses.len(), objects.len());
    assert!(addresses.iter().all(|a| a % 256 == 0));
    assert_eq!(in_use(&WIDES), n);
    for (i, object) in objects.iter().enumerate() {
        assert!(object.0.iter().all(|&b| b == i as u8));
    }
    objects.truncate(n / 4);
    assert_eq!(in_use(&WIDES), n / 4);
    drop(objects);
    assert_eq!(in_use(&WIDES), 0);
}

#[test]
fn a_size_of_nothing_is_served() {
    struct Nothing;
    cache! { static NOTHINGS: Cache<Nothing>; }
    let (a, b) = (NOTHINGS.alloc(Nothing), NOTHINGS.alloc(Nothing));
    assert_ne!(a.as_ptr(), b.as_ptr());
}

struct Counted(&'static AtomicUsize);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_value_is_dropped_once() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    cache! { static COUNTED: Cache<Counted, Once>; }
    drop(COUNTED.alloc(Counted(&DROPS)));
    assert_eq!(DROPS.load(Ordering::Relaxed), 1);
    drop(COUNTED.alloc_bulk_with(100, |_| Counted(&DROPS)));
    assert_eq!(DROPS.load(Ordering::Relaxed), 101);
    Pooled::drop_bulk(COUNTED.alloc_bulk_with(77, |_| Counted(&DROPS)).into_vec());
    assert_eq!(DROPS.load(Ordering::Relaxed), 178);
    drop(COUNTED.alloc_array_with::<9>(|_| Counted(&DROPS)).unwrap());
    assert_eq!(DROPS.load(Ordering::Relaxed), 187);
    drop(COUNTED.slot());
    drop(Pooled::into_inner(COUNTED.alloc(Counted(&DROPS))));
    assert_eq!(DROPS.load(Ordering::Relaxed), 188);
    assert_eq!(in_use(&COUNTED), 0);
}

#[test]
fn a_constructor_that_panics_leaves_nothing_behind() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    cache! { static PANICS: Cache<Counted, Panics>; }
    assert!(catch_unwind(|| PANICS.alloc_with(|| panic!("no"))).is_err());
    assert_eq!(in_use(&PANICS), 0);
    let result = catch_unwind(|| {
        PANICS.alloc_bulk_with(50, |i| if i < 20 { Counted(&DROPS) } else { panic!("no") })
    });
    assert!(result.is_err());
    assert_eq!(DROPS.load(Ordering::Relaxed), 20);
    assert_eq!(in_use(&PANICS), 0);
    let result = catch_unwind(|| {
        PANICS.alloc_array_with::<8>(|i| if i < 3 { Counted(&DROPS) } else { panic!("no") })
    });
    assert!(result.is_err());
    assert_eq!(DROPS.load(Ordering::Relaxed), 23);
    assert_eq!(in_use(&PANICS), 0);
}

#[test]
fn a_drop_that_panics_leaves_nothing_behind() {
    struct Bomb(bool, &'static AtomicUsize);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            assert!(!self.0, "no");
        }
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    cache! { static BOMBS: Cache<Bomb, Bombs>; }
    let bomb = BOMBS.alloc(Bomb(true, &DROPS));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(bomb))).is_err());
    assert_eq!(in_use(&BOMBS), 0);
    let batch = BOMBS.alloc_bulk_with(40, |i| Bomb(i == 13, &DROPS));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(batch))).is_err());
    assert_eq!(DROPS.load(Ordering::Relaxed), 41);
    assert_eq!(in_use(&BOMBS), 0);
}

#[test]
fn a_batch_is_all_or_nothing() {
    cache! { static LIMITED: Cache<[u8; 1000], Limited> = Settings::new().accounted(); }
    let group = stook::Group::new("limited", None, 200_000).unwrap();
    group.run(|| {
        assert_eq!(
            LIMITED.try_alloc_bulk_with(1000, |_| [0; 1000]).err(),
            Some(stook::Error::LIMIT)
        );
        assert_eq!(in_use(&LIMITED), 0);
        assert_eq!(LIMITED.try_alloc_bulk_with(100, |_| [0; 1000]).unwrap().len(), 100);
    });
}

#[test]
fn owned_caches_come_and_go() {
    let n = few(50, 1000);
    for round in 0..few(5, 50) {
        let cache = OwnedCache::<u64>::new(&format!("round {round}"), Settings::new()).unwrap();
        assert_eq!(cache.cache().name(), format!("round {round}"));
        let objects: Vec<_> = (0..n).map(|i| cache.alloc(i * round)).collect();
        assert!(objects.iter().enumerate().all(|(i, o)| **o == i as u64 * round));
        assert_eq!(in_use(cache.cache()), n as usize);
    }
    let name = "x".repeat(200);
    let cache = OwnedCache::<u64>::new(&name, Settings::new()).unwrap();
    assert_eq!(cache.cache().name(), &name[..63]);
}

#[test]
fn an_object_may_borrow_the_stack() {
    let seen = Cell::new(0);
    let cache = OwnedCache::<&Cell<i32>>::new("cells", Settings::new()).unwrap();
    let object = cache.alloc(&seen);
    object.set(5);
    drop(object);
    assert_eq!(seen.get(), 5);
}

#[test]
fn settings_that_are_not_valid_are_refused() {
    let error = OwnedCache::<u64>::new("bad", Settings::new().flag(1 << 30)).err();
    assert_eq!(error, Some(stook::Error::INVALID));
    cache! { static BAD: Cache<u64, Bad> = Settings::new().flag(1 << 30); }
    assert_eq!(BAD.make(), Err(stook::Error::INVALID));
    let refused = BAD.try_alloc(77).unwrap_err();
    assert_eq!((refused.error(), refused.into_value()), (stook::Error::INVALID, 77));
}

#[test]
fn a_reserve_does_not_fail() {
    cache! { static NODES: Cache<[u64; 4], Nodes>; }
    let mut reserve = NODES.reserve(500).unwrap();
    let had = reserve.len();
    assert!(had >= 500);
    let objects: Vec<_> = (0..500).map(|i| reserve.alloc([i; 4])).collect();
    assert_eq!(reserve.len(), had - 500);
    assert!(objects.iter().enumerate().all(|(i, o)| o[3] == i as u64));
    reserve.refill(700).unwrap();
    assert!(reserve.len() >= 700);
    drop(objects);
    while reserve.slot().is_some() {}
    assert!(catch_unwind(AssertUnwindSafe(|| reserve.alloc([0; 4]))).is_err());
    drop(reserve);
    assert_eq!(in_use(&NODES), 0);
}

#[cfg(feature = "watch")]
#[test]
fn debugged_and_hardened_caches_work_too() {
    cache! {
        static CHECKED: Cache<[u64; 5], Checked> = Settings::new().debugged();
        static HARD: Cache<[u64; 5], Hard> = Settings::new().hardened();
    }
    for i in 0..few(100, 2000) {
        assert_eq!(CHECKED.alloc([i; 5])[4], i);
        assert_eq!(HARD.alloc([i; 5])[4], i);
    }
    assert_eq!(CHECKED.validate(), Ok(0));
    assert_eq!(in_use(&CHECKED), 0);
}

#[cfg(not(feature = "watch"))]
#[test]
fn the_lean_library_refuses_a_debugged_cache() {
    cache! { static CHECKED: Cache<u64, Checked> = Settings::new().debugged(); }
    assert_eq!(CHECKED.try_alloc(1).err().unwrap().error().errno(), 95); // ENOTSUP
}

#[test]
fn lists_of_a_million_are_dropped() {
    struct Link(#[allow(dead_code)] u64, Option<Pooled<Link>>);
    cache! { static LINKS: Cache<Link>; }
    let mut head = None;
    for i in 0..few(1000, 1_000_000) {
        head = Some(LINKS.alloc(Link(i, head)));
    }
    while let Some(mut link) = head {
        head = link.1.take();
    }
    assert_eq!(in_use(&LINKS), 0);
}
