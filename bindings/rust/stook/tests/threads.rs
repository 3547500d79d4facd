// SPDX-License-Identifier: MIT
//! Threads and processes: objects move between CPUs, caches are made at the same time, children go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use stook::{cache, reuse, Pooled, Recycle};

/// How many: Miri interprets, and takes a hundred times as long.
const fn few(miri: u64, else_: u64) -> u64 {
    if cfg!(miri) {
        miri
    } else {
        else_
    }
}

/// Its words are a function of the first, so that two owners of one object are found out.
struct Stamp([u64; 6]);

impl Stamp {
    fn new(n: u64) -> Stamp {
        Stamp(std::array::from_fn(|i| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32)))
    }

    fn check(&self, n: u64) {
        assert_eq!(self.0, Stamp::new(n).0);
    }
}
cache! { static STAMPS: Cache<Stamp>; }

#[test]
fn threads_own_what_they_allocate() {
    thread::scope(|scope| {
        for t in 0..few(3, 8) {
            scope.spawn(move || {
                let mut held: Vec<(u64, Pooled<Stamp>)> = Vec::new();
                let mut random = t + 1;
                for i in 0..few(40, 60_000) {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if held.is_empty() || random % 100 < 52 {
                        let n = t << 32 | i;
                        held.push((n, STAMPS.alloc(Stamp::new(n))));
                    } else {
                        let at = random as usize % held.len();
                        let (n, stamp) = held.swap_remove(at);
                        stamp.check(n);
                    }
                    if i % 512 == 0 {
                        thread::yield_now();
                    }
                }
                held.iter().for_each(|(n, stamp)| stamp.check(*n));
            });
        }
        scope.spawn(|| {
            for _ in 0..few(5, 50) {
                STAMPS.shrink(); // takes the sheaves of all CPUs away from under the others
                thread::yield_now();
            }
        });
    });
    #[cfg(feature = "watch")]
    assert_eq!(STAMPS.validate(), Ok(0));
}

#[test]
fn objects_are_freed_by_other_threads() {
    thread::scope(|scope| {
        for t in 0..few(2, 3) {
            let (send, receive) = sync_channel::<(u64, Pooled<Stamp>)>(few(4, 256) as usize);
            scope.spawn(move || {
                for i in 0..few(30, 50_000) {
                    let n = t << 40 | i;
                    send.send((n, STAMPS.alloc(Stamp::new(n)))).unwrap();
                }
            });
            scope.spawn(move || receive.iter().for_each(|(n, stamp)| stamp.check(n)));
        }
    });
}

#[test]
fn a_cache_is_made_once_by_many_threads() {
    struct First(u64);
    cache! { static FIRSTS: Cache<First>; }
    let barrier = Barrier::new(few(3, 8) as usize);
    let handles = thread::scope(|scope| {
        let all: Vec<_> = (0..few(3, 8))
            .map(|i| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    assert_eq!(FIRSTS.alloc(First(i)).0, i);
                    FIRSTS.as_ptr().unwrap().as_ptr() as usize
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(handles.iter().all(|&h| h == handles[0]));
}

#[test]
fn reused_objects_move_between_threads() {
    let uses = few(30, 20_000) as usize;
    static MADE: AtomicUsize = AtomicUsize::new(0);
    struct Buffer(Vec<u8>);
    impl Default for Buffer {
        fn default() -> Self {
            MADE.fetch_add(1, Ordering::Relaxed);
            Buffer(Vec::new())
        }
    }
    impl Drop for Buffer {
        fn drop(&mut self) {
            MADE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    impl Recycle for Buffer {
        fn recycle(&mut self) {
            self.0.clear();
        }
    }
    reuse! { static BUFFERS: Reuse<Buffer>; }

    thread::scope(|scope| {
        let (send, receive) = sync_channel(few(4, 64) as usize);
        scope.spawn(move || {
            for i in 0..uses as u32 {
                let mut buffer = BUFFERS.take();
                assert!(buffer.0.is_empty());
                buffer.0.extend_from_slice(&i.to_le_bytes());
                send.send(buffer).unwrap();
            }
        });
        scope.spawn(move || {
            for (i, buffer) in receive.iter().enumerate() {
                assert_eq!(buffer.0, (i as u32).to_le_bytes());
            }
        });
    });
    let made = MADE.load(Ordering::Relaxed);
    assert!(made > 0 && made < uses, "{made} objects were made for {uses} uses");
    // A shrink leaves the slots alone that another test's fork has closed at the moment.
    for _ in 0..20_000 {
        BUFFERS.shrink();
        if MADE.load(Ordering::Relaxed) == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{} objects were not dropped by shrinking", MADE.load(Ordering::Relaxed));
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork()")]
fn forked_children_allocate_and_free() {
    let kept: Vec<_> = (0..1000).map(|n| STAMPS.alloc(Stamp::new(n))).collect();
    let stop = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while stop.load(Ordering::Relaxed) == 0 {
                    let some: Vec<_> = (0..200).map(|n| STAMPS.alloc(Stamp::new(n))).collect();
                    some.iter().enumerate().for_each(|(n, stamp)| stamp.check(n as u64));
                }
            });
        }
        for _ in 0..50 {
            // SAFETY: the child uses this library, whose handlers make that possible, and leaves by _exit().
            let pid = unsafe { fork() };
            assert!(pid >= 0);
            if pid == 0 {
                let mut good = kept.iter().enumerate().all(|(n, s)| s.0 == Stamp::new(n as u64).0);
                for round in 0..20 {
                    let some = STAMPS.alloc_array_with::<64>(|n| Stamp::new(round << 8 | n as u64));
                    good &= some.is_ok_and(|some| {
                        some.iter()
                            .enumerate()
                            .all(|(n, s)| s.0 == Stamp::new(round << 8 | n as u64).0)
                    });
                    // One by one, so that it is the inlined path.
                    let one = STAMPS.alloc(Stamp::new(round));
                    good &= one.0 == Stamp::new(round).0;
                }
                // SAFETY: nothing of the parent's is run.
                unsafe { _exit(if good { 0 } else { 1 }) }
            }
            let mut status = -1;
            // SAFETY: it is this process's child.
            assert_eq!(unsafe { waitpid(pid, &mut status, 0) }, pid);
            assert_eq!(status, 0);
        }
        stop.store(1, Ordering::Relaxed);
    });
}
