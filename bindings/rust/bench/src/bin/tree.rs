// SPDX-License-Identifier: MIT
//! An ordered map with a node an entry, of a million entries: time and bytes, by the allocator of its nodes.
//!
//! Each allocator has a process of its own, and all of them one run. The tree is a treap whose priorities are
//! hashes of the keys, so its shape is the same for all.

use std::fs;
use std::ops::DerefMut;
use std::process::Command;
use std::time::Instant;
use stook::{cache, Pooled};
use stook_bench_rust::{Allocator, BoxIn, Glibc, Jemalloc, Mimalloc, Snmalloc, StookMalloc};

const ENTRIES: u64 = 1_000_000;

/// Where nodes are.
trait Place: Sized + 'static {
    type Link: DerefMut<Target = Node<Self>>;
    fn node(node: Node<Self>) -> Self::Link;
}

struct Node<P: Place> {
    key: u64,
    value: u64,
    left: Option<P::Link>,
    right: Option<P::Link>,
}

struct Cached;
cache! { static NODES: Cache<Node<Cached>>; }
impl Place for Cached {
    type Link = Pooled<Node<Cached>>;
    #[inline(always)]
    fn node(node: Node<Self>) -> Self::Link {
        NODES.alloc(node)
    }
}

struct Boxed<A>(std::marker::PhantomData<A>);
impl<A: Allocator> Place for Boxed<A> {
    type Link = BoxIn<Node<Self>, A>;
    #[inline(always)]
    fn node(node: Node<Self>) -> Self::Link {
        BoxIn::new(node)
    }
}

fn mix(key: u64) -> u64 {
    let z = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

type Tree<P> = Option<<P as Place>::Link>;

fn insert<P: Place>(tree: &mut Tree<P>, key: u64, value: u64) {
    let Some(node) = tree else {
        *tree = Some(P::node(Node { key, value, left: None, right: None }));
        return;
    };
    if key == node.key {
        node.value = value;
    } else if key < node.key {
        insert::<P>(&mut node.left, key, value);
        if node.left.as_ref().is_some_and(|left| mix(left.key) > mix(node.key)) {
            let mut node = tree.take().expect("a node");
            let mut left = node.left.take().expect("a left one");
            node.left = left.right.take();
            left.right = Some(node);
            *tree = Some(left);
        }
    } else {
        insert::<P>(&mut node.right, key, value);
        if node.right.as_ref().is_some_and(|right| mix(right.key) > mix(node.key)) {
            let mut node = tree.take().expect("a node");
            let mut right = node.right.take().expect("a right one");
            node.right = right.left.take();
            right.left = Some(node);
            *tree = Some(right);
        }
    }
}

fn merge<P: Place>(left: Tree<P>, right: Tree<P>) -> Tree<P> {
    match (left, right) {
        (None, tree) | (tree, None) => tree,
        (Some(mut left), Some(mut right)) => {
            if mix(left.key) > mix(right.key) {
                left.right = merge::<P>(left.right.take(), Some(right));
                Some(left)
            } else {
                right.left = merge::<P>(Some(left), right.left.take());
                Some(right)
            }
        }
    }
}

fn remove<P: Place>(tree: &mut Tree<P>, key: u64) -> bool {
    let Some(node) = tree else { return false };
    if key < node.key {
        return remove::<P>(&mut node.left, key);
    }
    if key > node.key {
        return remove::<P>(&mut node.right, key);
    }
    let mut node = tree.take().expect("a node");
    *tree = merge::<P>(node.left.take(), node.right.take());
    true
}

fn find<P: Place>(tree: &Tree<P>, key: u64) -> Option<u64> {
    let mut at = tree;
    while let Some(node) = at {
        if key == node.key {
            return Some(node.value);
        }
        at = if key < node.key { &node.left } else { &node.right };
    }
    None
}

fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").expect("proc");
    text.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok()).expect("pages") * 4096
}

/// Time in ns an entry, and bytes an entry.
fn measure<P: Place>() -> [f64; 5] {
    let key = |i: u64| mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut tree: Tree<P> = None;
    insert::<P>(&mut tree, key(ENTRIES), 0); // what an allocator needs to begin with counts for none
    let before = resident();
    let mut begin = Instant::now();
    let mut lap = || {
        let ns = begin.elapsed().as_nanos() as f64 / ENTRIES as f64;
        begin = Instant::now();
        ns
    };
    for i in 0..ENTRIES {
        insert::<P>(&mut tree, key(i), i);
    }
    let inserted = lap();
    let bytes = (resident() - before) as f64 / ENTRIES as f64;
    lap();
    let sum = (0..ENTRIES).filter_map(|i| find::<P>(&tree, key(i))).sum::<u64>();
    let found = lap();
    assert_eq!(sum, ENTRIES * (ENTRIES - 1) / 2);
    // Half of the entries go and come, in another order.
    for i in 0..ENTRIES / 2 {
        assert!(remove::<P>(&mut tree, key(i * 2)));
        insert::<P>(&mut tree, key(i * 2), i);
    }
    let churned = lap();
    drop(tree);
    let dropped = lap();
    [inserted, found, churned, dropped, bytes]
}

fn named(name: &str) -> Option<[f64; 5]> {
    Some(match name {
        "stook::Pooled" => measure::<Cached>(),
        "glibc" => measure::<Boxed<Glibc>>(),
        "jemalloc" => measure::<Boxed<Jemalloc>>(),
        "mimalloc" => measure::<Boxed<Mimalloc>>(),
        "snmalloc" => measure::<Boxed<Snmalloc>>(),
        "stook::Malloc" => measure::<Boxed<StookMalloc>>(),
        _ => return None,
    })
}

fn main() {
    let names = ["stook::Pooled", "stook::Malloc", "glibc", "jemalloc", "mimalloc", "snmalloc"];
    if let Some(name) = std::env::args().nth(1) {
        match named(&name) {
            Some(figures) => println!("{}", figures.map(|f| format!("{f:.1}")).join(" ")),
            None => eprintln!("one of {}", names.join(", ")),
        }
        return;
    }
    const ROUNDS: usize = 3;
    let program = std::env::current_exe().expect("a path");
    let mut best = vec![[f64::MAX; 5]; names.len()];
    for _ in 0..ROUNDS {
        for (name, best) in names.iter().zip(&mut best) {
            let said = Command::new(&program).arg(name).output().expect("a process");
            let text = String::from_utf8_lossy(&said.stdout);
            let figures = text.split_whitespace().map(|f| f.parse::<f64>().expect("a figure"));
            best.iter_mut().zip(figures).for_each(|(best, figure)| *best = best.min(figure));
        }
    }
    println!("ns an entry, and resident bytes an entry; the best of {ROUNDS} processes each");
    println!(
        "{:<15} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "nodes from", "insert", "find", "churn", "drop", "bytes"
    );
    for (name, [inserted, found, churned, dropped, bytes]) in names.iter().zip(best) {
        println!(
            "{name:<15} {inserted:>7.1} {found:>7.1} {churned:>7.1} {dropped:>7.1} {bytes:>7.1}"
        );
    }
}
