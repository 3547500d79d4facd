// SPDX-License-Identifier: MIT
//! What callers of the inlined fast path are compiled to; `tests/rust/test_golden.py` counts the instructions and
//! compares them with C's.

use stook::{cache, Pooled, Slot};

/// A plain type.
pub struct Point {
    x: u64,
    y: u64,
}

cache! { static POINTS: Cache<Point>; }

/// A pop.
#[no_mangle]
#[inline(never)]
pub fn golden_rust_pop() -> Slot<Point> {
    POINTS.slot()
}

/// A push.
#[no_mangle]
#[inline(never)]
pub fn golden_rust_push(point: Pooled<Point>) {
    drop(point);
}

/// A pop and the two stores of the value.
#[no_mangle]
#[inline(never)]
pub fn golden_rust_alloc(x: u64, y: u64) -> Pooled<Point> {
    POINTS.alloc(Point { x, y })
}

fn main() {
    let point = golden_rust_alloc(3, 4);
    assert_eq!(point.x + point.y, 7);
    golden_rust_push(point);
    drop(golden_rust_pop());
}
