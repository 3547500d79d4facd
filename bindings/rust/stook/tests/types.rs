// SPDX-License-Identifier: MIT
//! What the types promise: sizes, Send, Sync and Unpin.

use static_assertions::{assert_eq_size, assert_impl_all, assert_not_impl_any};
use std::cell::Cell;
use std::marker::PhantomPinned;
use std::rc::Rc;
use std::sync::MutexGuard;
use stook::{
    cache, reuse, Batch, Cache, Entered, Group, Of, OwnedCache, Pooled, Recycle, Reserve, Reused,
    Slot,
};

cache! {
    static PLAIN: Cache<u64, Plain>;
    static SHARED: Cache<Rc<u64>, Shared>;
    static CELLS: Cache<Cell<u64>, Cells>;
    static GUARDS: Cache<MutexGuard<'static, u64>, Guards>;
    static PINNED: Cache<PhantomPinned, Pinned>;
}

#[derive(Default)]
struct Line(Cell<u64>);
impl Recycle for Line {
    fn recycle(&mut self) {
        self.0.set(0);
    }
}
reuse! { static LINES: Reuse<Line>; }

assert_eq_size!(Pooled<u64, Plain>, usize);
assert_eq_size!(Option<Pooled<u64, Plain>>, usize);
assert_eq_size!(Slot<u64, Plain>, usize);
assert_eq_size!(Reused<Line>, usize);
assert_eq_size!(Pooled<u64, Of<'static>>, usize);

assert_impl_all!(Pooled<u64, Plain>: Send, Sync, Unpin);
assert_not_impl_any!(Pooled<Rc<u64>, Shared>: Send, Sync);
assert_impl_all!(Pooled<Cell<u64>, Cells>: Send);
assert_not_impl_any!(Pooled<Cell<u64>, Cells>: Sync);
assert_impl_all!(Pooled<MutexGuard<'static, u64>, Guards>: Sync);
assert_not_impl_any!(Pooled<MutexGuard<'static, u64>, Guards>: Send);
assert_impl_all!(Pooled<PhantomPinned, Pinned>: Unpin);
assert_not_impl_any!(Batch<Rc<u64>, Shared>: Send, Sync);
assert_impl_all!(Batch<u64, Plain>: Send, Sync);

// Caches have no values; every thread may use them.
assert_impl_all!(Cache<Rc<u64>, Shared>: Send, Sync);
assert_impl_all!(OwnedCache<Rc<u64>>: Send, Sync);
assert_impl_all!(Reserve<Rc<u64>, Shared>: Send, Sync);
assert_impl_all!(Slot<Rc<u64>, Shared>: Send, Sync);

assert_impl_all!(Reused<Line>: Send);
assert_not_impl_any!(Reused<Line>: Sync);
assert_impl_all!(Group: Send, Sync);
assert_not_impl_any!(Entered<'static>: Send, Sync);

#[test]
fn the_statics_are_used() {
    assert_eq!(*PLAIN.alloc(1) + **SHARED.alloc(Rc::new(2)) + CELLS.alloc(Cell::new(3)).get(), 6);
    assert_eq!(LINES.take().0.get(), 0);
    assert_eq!(GUARDS.capacity() > 0, PINNED.capacity() > 0);
}
