// SPDX-License-Identifier: MIT
//! An object of 64 bytes, allocated and freed: one by one, 32 in a row, and among 100,000 that live.

use criterion::{criterion_group, criterion_main, Criterion};
use std::hint::black_box;
use std::time::Duration;
use stook::{cache, Pooled};
use stook_bench_rust::{Allocator, BoxIn, Glibc, Jemalloc, Mimalloc, Snmalloc, StookMalloc};

const BATCH: usize = 32;
const MANY: usize = 100_000;

struct Object([u64; 8]);
cache! { static OBJECTS: Cache<Object>; }

#[inline(always)]
fn object(i: usize) -> Object {
    Object([i as u64; 8])
}

/// Where objects are: what is measured.
trait Place {
    const NAME: &'static str;
    type Key;
    fn new() -> Self;
    fn put(&mut self, object: Object) -> Self::Key;
    fn read(&self, key: &Self::Key) -> u64;
    fn remove(&mut self, key: Self::Key);
}

struct Cached;
impl Place for Cached {
    const NAME: &'static str = "stook::Pooled";
    type Key = Pooled<Object>;
    fn new() -> Self {
        Cached
    }
    #[inline(always)]
    fn put(&mut self, object: Object) -> Self::Key {
        OBJECTS.alloc(object)
    }
    #[inline(always)]
    fn read(&self, key: &Self::Key) -> u64 {
        key.0[7]
    }
    #[inline(always)]
    fn remove(&mut self, key: Self::Key) {
        drop(key);
    }
}

struct Boxes<A>(std::marker::PhantomData<A>);
impl<A: Allocator> Place for Boxes<A> {
    const NAME: &'static str = A::NAME;
    type Key = BoxIn<Object, A>;
    fn new() -> Self {
        Boxes(std::marker::PhantomData)
    }
    #[inline(always)]
    fn put(&mut self, object: Object) -> Self::Key {
        BoxIn::new(object)
    }
    #[inline(always)]
    fn read(&self, key: &Self::Key) -> u64 {
        key.0[7]
    }
    #[inline(always)]
    fn remove(&mut self, key: Self::Key) {
        drop(key);
    }
}

/// One thread's: it needs `&mut` for each of them.
struct Slab(slab::Slab<Object>);
impl Place for Slab {
    const NAME: &'static str = "slab";
    type Key = usize;
    fn new() -> Self {
        Slab(slab::Slab::new())
    }
    #[inline(always)]
    fn put(&mut self, object: Object) -> usize {
        self.0.insert(object)
    }
    #[inline(always)]
    fn read(&self, key: &usize) -> u64 {
        self.0[*key].0[7]
    }
    #[inline(always)]
    fn remove(&mut self, key: usize) {
        black_box(&self.0.remove(key));
    }
}

struct Sharded(sharded_slab::Slab<Object>);
impl Place for Sharded {
    const NAME: &'static str = "sharded-slab";
    type Key = usize;
    fn new() -> Self {
        Sharded(sharded_slab::Slab::new())
    }
    #[inline(always)]
    fn put(&mut self, object: Object) -> usize {
        self.0.insert(object).expect("room")
    }
    #[inline(always)]
    fn read(&self, key: &usize) -> u64 {
        self.0.get(*key).map_or(0, |object| object.0[7])
    }
    #[inline(always)]
    fn remove(&mut self, key: usize) {
        self.0.remove(key);
    }
}

fn measure<P: Place>(c: &mut Criterion) {
    let mut place = P::new();
    c.benchmark_group("pair").bench_function(P::NAME, |b| {
        b.iter(|| {
            let key = place.put(object(black_box(1)));
            // The compiler knows glibc's malloc() and free(), and removes both where nothing sees the memory.
            black_box(&key);
            black_box(place.read(&key));
            place.remove(key);
        })
    });
    c.benchmark_group("batch of 32").bench_function(P::NAME, |b| {
        let mut keys = Vec::with_capacity(BATCH);
        b.iter(|| {
            keys.extend((0..BATCH).map(|i| place.put(object(i))));
            black_box(&keys);
            keys.drain(..).for_each(|key| place.remove(key));
        })
    });
    c.benchmark_group("one of 100000").bench_function(P::NAME, |b| {
        let mut keys: Vec<_> = (0..MANY).map(|i| Some(place.put(object(i)))).collect();
        let mut random = 1u64;
        b.iter(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = &mut keys[random as usize % MANY];
            if let Some(key) = at.take() {
                black_box(place.read(&key));
                place.remove(key);
            }
            *at = Some(place.put(object(random as usize)));
        });
        keys.into_iter().flatten().for_each(|key| place.remove(key));
    });
}

fn bulk(c: &mut Criterion) {
    c.benchmark_group("batch of 32").bench_function("stook::Batch", |b| {
        b.iter(|| black_box(OBJECTS.alloc_bulk_with(BATCH, object)))
    });
    c.benchmark_group("batch of 32").bench_function("stook, array", |b| {
        b.iter(|| Pooled::drop_bulk(black_box(OBJECTS.alloc_array_with::<BATCH>(object).unwrap())))
    });
}

fn config() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(30)
        .without_plots()
}

criterion_group! {
    name = objects;
    config = config();
    targets = measure::<Cached>, bulk, measure::<Slab>, measure::<Sharded>, measure::<Boxes<Glibc>>,
        measure::<Boxes<Jemalloc>>, measure::<Boxes<Mimalloc>>, measure::<Boxes<Snmalloc>>,
        measure::<Boxes<StookMalloc>>
}
criterion_main!(objects);
