// SPDX-License-Identifier: MIT
//! An allocator in Rust in place of the library, for Miri and for sanitizers, which see no C code.
//!
//! Only with `--cfg stook_mock`, or under Miri. Each object is memory of its own, which is freed at once, so that
//! a use after free and a double free are found; objects with a constructor stay until the cache is shrunk or
//! destroyed. What is counted, refused and charged is as the tests of the crate `stook` need it; nothing is fast.

extern crate std;
use crate::*;
use std::alloc::{alloc, alloc_zeroed, dealloc, Layout};
use std::borrow::ToOwned;
use std::boxed::Box;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

const EINVAL: c_int = 22;
const ENOMEM: c_int = 12;
const EBUSY: c_int = 16;
const EDQUOT: c_int = 122;

struct Made {
    name: CString,
    layout: Layout,
    args: stook_cache_args,
    capacity: c_uint,
    free: Vec<*mut c_void>,
}

struct Live {
    object: *mut c_void,
    cache: *mut stook_cache,
    layout: Layout,
    group: u32,
}

#[derive(Default)]
struct All {
    live: BTreeMap<usize, Live>,
    /// Limit and use, by the number less one; None when it was destroyed.
    groups: Vec<Option<(usize, usize)>>,
}

// SAFETY: pointers are followed under the lock only.
unsafe impl Send for All {}

static ALL: Mutex<All> = Mutex::new(All { live: BTreeMap::new(), groups: Vec::new() });

std::thread_local! {
    static ERRNO: Cell<c_int> = const { Cell::new(0) };
    static GROUP: Cell<u32> = const { Cell::new(0) };
}

pub fn errno() -> c_int {
    ERRNO.get()
}

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail<T>(errno: c_int, with: T) -> T {
    ERRNO.set(errno);
    with
}

/// Under the lock only: while one thread has it, no other may.
unsafe fn made<'a>(cache: *const stook_cache) -> &'a mut Made {
    &mut *(cache as *mut Made)
}

pub unsafe fn stook_cache_create(
    name: *const c_char,
    object_size: usize,
    args: *const stook_cache_args,
) -> *mut stook_cache {
    let args = *args;
    if args.flags >= 1 << 22 || object_size == 0 {
        return fail(EINVAL, core::ptr::null_mut());
    }
    let align = if args.flags & STOOK_CACHE_HWALIGN != 0 { 64 } else { args.align };
    let layout = Layout::from_size_align(object_size, align.max(8)).unwrap().pad_to_align();
    let capacity = if args.sheaf_capacity == 0 { 30 } else { args.sheaf_capacity };
    let name = CStr::from_ptr(name).to_owned();
    Box::into_raw(Box::new(Made { name, layout, args, capacity, free: Vec::new() })).cast()
}

pub unsafe fn stook_cache_destroy(cache: *mut stook_cache) -> c_int {
    if all().live.values().any(|live| live.cache == cache) {
        return fail(EBUSY, -1);
    }
    stook_cache_shrink(cache);
    drop(Box::from_raw(cache.cast::<Made>()));
    0
}

pub unsafe fn stook_cache_shrink(cache: *mut stook_cache) -> usize {
    let (held, args, layout) = {
        let _all = all();
        let made = made(cache);
        (core::mem::take(&mut made.free), made.args, made.layout)
    };
    for &object in &held {
        if let Some(dtor) = args.dtor {
            dtor(object, args.arg);
        }
        dealloc(object.cast(), layout);
    }
    held.len() * layout.size()
}

pub unsafe fn stook_cache_validate(_: *mut stook_cache) -> core::ffi::c_long {
    0
}

/// The group that pays, if it can.
fn charge(all: &mut All, made: &Made, group: u32) -> Option<u32> {
    if made.args.flags & STOOK_CACHE_ACCOUNT == 0 || group == 0 {
        return Some(0);
    }
    match &mut all.groups[group as usize - 1] {
        Some((limit, used)) if limit.saturating_sub(*used) >= made.layout.size() => {
            *used += made.layout.size();
            Some(group)
        }
        Some(_) => None,
        None => Some(0),
    }
}

unsafe fn allocate(cache: *mut stook_cache, group: u32) -> *mut c_void {
    let mut all = all();
    let made = made(cache);
    let Some(group) = charge(&mut all, made, group) else {
        return fail(EDQUOT, core::ptr::null_mut());
    };
    let (reused, args, layout) = (made.free.pop(), made.args, made.layout);
    drop(all);
    let object = reused.unwrap_or_else(|| {
        let object: *mut c_void = alloc(layout).cast();
        if let Some(ctor) = args.ctor {
            ctor(object, args.arg);
        }
        object
    });
    let live = Live { object, cache, layout, group };
    assert!(self::all().live.insert(object as usize, live).is_none());
    object
}

fn forget(object: *mut c_void) -> Live {
    let mut all = all();
    let live = all.live.remove(&(object as usize)).expect("an object that is in use");
    if live.group != 0 {
        if let Some((_, used)) = &mut all.groups[live.group as usize - 1] {
            *used -= live.layout.size();
        }
    }
    live
}

pub unsafe fn stook_alloc(cache: *mut stook_cache, _flags: c_uint) -> *mut c_void {
    allocate(cache, GROUP.get())
}

pub unsafe fn stook_alloc_with(
    cache: *mut stook_cache,
    _flags: c_uint,
    args: *const stook_alloc_args,
) -> *mut c_void {
    // A group is NULL or a valid one.
    allocate(cache, (*args).group.as_ref().map_or_else(|| GROUP.get(), |group| group.id))
}

pub unsafe fn stook_free(cache: *mut stook_cache, object: *mut c_void) {
    let live = forget(object);
    assert_eq!(live.cache, cache, "an object of this cache");
    let all = all();
    let made = made(cache);
    if made.args.ctor.is_some() {
        made.free.push(object);
    } else {
        drop(all);
        dealloc(object.cast(), live.layout);
    }
}

pub unsafe fn stook_free_any(object: *mut c_void) {
    let cache = stook_cache_of(object);
    if cache.is_null() {
        dealloc(object.cast(), forget(object).layout);
    } else {
        stook_free(cache, object);
    }
}

pub unsafe fn stook_alloc_bulk(
    cache: *mut stook_cache,
    flags: c_uint,
    n: usize,
    objects: *mut *mut c_void,
) -> c_int {
    for i in 0..n {
        let object = stook_alloc(cache, flags);
        if object.is_null() {
            stook_free_bulk(cache, i, objects);
            return -1;
        }
        *objects.add(i) = object;
    }
    0
}

pub unsafe fn stook_free_bulk(cache: *mut stook_cache, n: usize, objects: *mut *mut c_void) {
    for i in 0..n {
        stook_free(cache, *objects.add(i));
    }
}

pub unsafe fn stook_cache_name(cache: *const stook_cache) -> *const c_char {
    let _all = all();
    made(cache).name.as_ptr()
}

pub unsafe fn stook_cache_of(object: *const c_void) -> *mut stook_cache {
    all().live.get(&(object as usize)).map_or(core::ptr::null_mut(), |live| live.cache)
}

pub unsafe fn stook_cache_walk(
    cache: *mut stook_cache,
    each: unsafe extern "C" fn(object: *mut c_void, arg: *mut c_void) -> c_int,
    arg: *mut c_void,
) -> c_int {
    let objects: Vec<_> =
        all().live.values().filter(|live| live.cache == cache).map(|live| live.object).collect();
    for object in objects {
        each(object, arg);
    }
    0
}

pub unsafe fn stook_cache_set_capacity(cache: *mut stook_cache, capacity: c_uint) -> c_int {
    let _all = all();
    made(cache).capacity = capacity;
    0
}

pub unsafe fn stook_cache_usage(cache: *mut stook_cache, usage: *mut stook_cache_usage) -> c_int {
    let _all = all();
    (*usage).capacity = made(cache).capacity.into();
    0
}

pub unsafe fn stook_report(_fd: c_int, _format: c_uint) -> c_int {
    std::println!("{} objects", all().live.len());
    0
}

pub unsafe fn stook_mode(why: *mut *const c_char) -> *const c_char {
    *why = c"a mock".as_ptr();
    c"locked".as_ptr()
}

pub unsafe fn stook_version() -> *const c_char {
    c"0.mock".as_ptr()
}

pub unsafe fn stook_sheaf_prefill(
    cache: *mut stook_cache,
    flags: c_uint,
    size: c_uint,
) -> *mut stook_sheaf {
    let mut sheaf = Box::into_raw(Box::new(Vec::<*mut c_void>::new())).cast();
    if stook_sheaf_refill(cache, flags, &mut sheaf, size) != 0 {
        stook_sheaf_return(cache, sheaf);
        return core::ptr::null_mut();
    }
    sheaf
}

pub unsafe fn stook_sheaf_refill(
    cache: *mut stook_cache,
    flags: c_uint,
    sheaf: *mut *mut stook_sheaf,
    size: c_uint,
) -> c_int {
    let objects = &mut *(*sheaf).cast::<Vec<*mut c_void>>();
    while objects.len() < size as usize {
        let object = stook_alloc(cache, flags);
        if object.is_null() {
            return -1;
        }
        objects.push(object);
    }
    0
}

pub unsafe fn stook_sheaf_size(sheaf: *const stook_sheaf) -> c_uint {
    (*sheaf.cast::<Vec<*mut c_void>>()).len() as c_uint
}

pub unsafe fn stook_sheaf_alloc(
    _cache: *mut stook_cache,
    _flags: c_uint,
    sheaf: *mut stook_sheaf,
) -> *mut c_void {
    let object = (*sheaf.cast::<Vec<*mut c_void>>()).pop();
    object.unwrap_or_else(|| fail(ENOMEM, core::ptr::null_mut()))
}

pub unsafe fn stook_sheaf_return(cache: *mut stook_cache, sheaf: *mut stook_sheaf) {
    for object in *Box::from_raw(sheaf.cast::<Vec<*mut c_void>>()) {
        stook_free(cache, object);
    }
}

pub unsafe fn stook_group_create(
    _name: *const c_char,
    _parent: stook_group,
    limit: usize,
) -> stook_group {
    let mut all = all();
    all.groups.push(Some((limit, 0)));
    stook_group { id: all.groups.len() as u32 }
}

pub unsafe fn stook_group_destroy(group: stook_group) -> c_int {
    all().groups[group.id as usize - 1] = None;
    0
}

pub unsafe fn stook_group_enter(group: stook_group) -> stook_group {
    stook_group { id: GROUP.replace(group.id) }
}

pub unsafe fn stook_group_of(object: *const c_void) -> stook_group {
    stook_group { id: all().live.get(&(object as usize)).map_or(0, |live| live.group) }
}

pub unsafe fn stook_group_set_limit(group: stook_group, limit: usize) -> c_int {
    if let Some(group) = &mut all().groups[group.id as usize - 1] {
        group.0 = limit;
    }
    0
}

pub unsafe fn stook_group_stat(group: stook_group, stat: *mut stook_group_stat) -> c_int {
    let Some((limit, used)) = all().groups[group.id as usize - 1] else {
        return fail(EINVAL, -1);
    };
    *stat = stook_group_stat { usage: used as u64, limit: limit as u64, ..Default::default() };
    0
}

pub unsafe fn stook_kmalloc(size: usize, flags: c_uint) -> *mut c_void {
    let align = if size.is_power_of_two() { size.min(2 << 20) } else { 16 };
    let layout = Layout::from_size_align(size, align).unwrap();
    let object: *mut c_void =
        if flags & STOOK_ZERO != 0 { alloc_zeroed(layout) } else { alloc(layout) }.cast();
    let live = Live { object, cache: core::ptr::null_mut(), layout, group: 0 };
    all().live.insert(object as usize, live);
    object
}

pub unsafe fn stook_krealloc(object: *mut c_void, size: usize, flags: c_uint) -> *mut c_void {
    let new = stook_kmalloc(size, flags);
    let old = all().live[&(object as usize)].layout.size();
    core::ptr::copy_nonoverlapping(object.cast::<u8>(), new.cast::<u8>(), old.min(size));
    stook_free_any(object);
    new
}
