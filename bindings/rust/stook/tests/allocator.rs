// SPDX-License-Identifier: MIT
//! Containers of allocator-api2, and of a nightly standard library, over caches and over memory of any size.
#![cfg_attr(stook_nightly, feature(allocator_api, btreemap_alloc))]
#![cfg(any(feature = "allocator-api2", stook_nightly))]

use stook::{cache, Malloc};

struct Node {
    value: u64,
    next: u64,
}
cache! { static NODES: Cache<Node>; }

fn is_of_nodes(address: *const Node) -> bool {
    // SAFETY: any pointer may be asked for.
    let cache = unsafe { stook::sys::stook_cache_of(address.cast()) };
    cache == NODES.as_ptr().unwrap().as_ptr()
}

#[cfg(feature = "allocator-api2")]
#[test]
fn containers_of_allocator_api2() {
    use allocator_api2::{boxed::Box, vec::Vec};
    let boxed = Box::new_in(Node { value: 7, next: 8 }, &NODES);
    assert!(is_of_nodes(&*boxed));
    assert_eq!(boxed.value + boxed.next, 15);
    let mut one = Vec::with_capacity_in(1, &NODES);
    one.push(Node { value: 1, next: 2 });
    assert!(is_of_nodes(one.as_ptr()));
    one.extend((0..100).map(|i| Node { value: i, next: i }));
    assert!(!is_of_nodes(one.as_ptr()), "many in a row are no object of the cache");
    assert_eq!(one[100].value, 99);
    let mut words = Vec::new_in(Malloc);
    words.extend(0..10_000u32);
    assert!(words.iter().enumerate().all(|(i, &n)| i == n as usize));
    let empty: Vec<(), &stook::Cache<Node>> = Vec::new_in(&NODES);
    assert!(empty.is_empty());
}

#[cfg(stook_nightly)]
#[test]
fn containers_of_the_standard_library() {
    use std::collections::BTreeMap;
    let boxed = Box::new_in(Node { value: 7, next: 8 }, &NODES);
    assert!(is_of_nodes(&*boxed));
    assert_eq!(boxed.value + boxed.next, 15);
    let mut tree = BTreeMap::new_in(Malloc);
    tree.extend((0..10_000).map(|i| (i, i.to_string())));
    assert_eq!(tree[&9999], "9999");
}
