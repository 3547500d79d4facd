// SPDX-License-Identifier: MIT
//! Functions that allocate, one for each way; `tests/rust/test_sites.py` looks for their names in profiles.

use std::hint::black_box;
use stook::{cache, reuse, ByAddress, Cache, OwnedCache, Pooled, Recycle, Settings};

#[global_allocator]
static GLOBAL: stook::Malloc = stook::Malloc;

/// A plain type.
#[derive(Default)]
pub struct Point(pub [u64; 4]);

impl Recycle for Point {
    fn recycle(&mut self) {}
}

cache! { static POINTS: Cache<Point>; }
reuse! { static REUSED: Reuse<Point, Reused>; }
static ADDRESSED: Cache<[u64; 9], ByAddress> = Cache::new(Settings::new());

/// More than a sheaf, so that objects come by the slow path even where the profile does not see to that.
const MANY: u64 = 3000;

macro_rules! ways {
    ($($name:ident: $allocate:expr;)*) => {
        $(
            #[no_mangle]
            #[inline(never)]
            fn $name() {
                let objects: Vec<_> = {
                    let mut objects = Vec::with_capacity(MANY as usize);
                    for i in 0..MANY {
                        let allocate: fn(u64) -> _ = $allocate;
                        objects.push(allocate(i));
                    }
                    objects
                };
                std::mem::forget(black_box(objects)); // live when the profile is written
            }
        )*

        fn main() {
            $($name();)*
            site_owned();
            site_reserve();
        }
    };
}

ways! {
    site_alloc: |i| POINTS.alloc(Point([i; 4]));
    site_new: |i| Pooled::new(Point([i + 2; 4]));
    site_with: |i| POINTS.alloc_with(|| Point([i + 1; 4]));
    site_try: |i| POINTS.try_alloc(Point([i; 4])).ok().unwrap();
    site_slot: |_| POINTS.slot();
    site_bulk: |i| POINTS.alloc_bulk_with(2, |_| Point([i; 4]));
    site_address: |i| ADDRESSED.alloc([i; 9]);
    site_reuse: |_| REUSED.take();
    site_box: |i| Box::new([i; 30]);
    site_zeroed: |i| vec![0u8; 500 + (i % 2) as usize];
}

#[no_mangle]
#[inline(never)]
fn site_owned() {
    let cache = Box::leak(Box::new(OwnedCache::new("owned", Settings::new()).unwrap()));
    for i in 0..MANY {
        std::mem::forget(black_box(cache.alloc(i)));
    }
}

#[no_mangle]
#[inline(never)]
fn site_reserve() {
    let mut reserve = POINTS.reserve(MANY as u32).unwrap();
    for i in 0..MANY {
        std::mem::forget(black_box(reserve.alloc(Point([i; 4]))));
    }
}
