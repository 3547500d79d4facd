// SPDX-License-Identifier: MIT
//! Accounting domains: how much memory each part of a program uses, and limits.

use crate::raw::c_text;
use crate::{Cache, Error, Pooled, Refused, Return, Slot};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use stook_sys::{self as sys, stook_group};

/// A group, to which the objects of accounted caches are charged. It is destroyed when it is dropped; live
/// objects are charged to its parent from then on.
///
/// ```
/// use stook::{cache, Group, Settings};
/// struct Row([u8; 100]);
/// cache! { static ROWS: Cache<Row> = Settings::new().accounted(); }
///
/// let tenant = Group::new("tenant", None, 1 << 20)?; // one MiB at most
/// let row = tenant.run(|| ROWS.alloc(Row([0; 100])));
/// assert!(tenant.usage()?.used >= 100);
/// drop(row);
/// assert_eq!(tenant.usage()?.used, 0);
/// # Ok::<(), stook::Error>(())
/// ```
#[derive(PartialEq, Eq, Hash)]
pub struct Group(stook_group);

/// What a group uses. Bytes, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupUsage {
    /// Of live objects, of this group and those below.
    pub used: u64,
    /// In stocks of CPUs, which count against the limit.
    pub stocked: u64,
    /// The highest sum of both.
    pub peak: u64,
    /// `u64::MAX`: none.
    pub limit: u64,
    /// How many charges failed because of this group's limit.
    pub refused: u64,
}

impl Group {
    /// No limit.
    pub const UNLIMITED: usize = sys::STOOK_UNLIMITED;

    /// Makes a group; each charge to it is a charge to its parent too. A group with children is not destroyed
    /// when it is dropped, so keep parents longer.
    pub fn new(name: &str, parent: Option<&Group>, limit: usize) -> Result<Group, Error> {
        let mut text = [0u8; sys::STOOK_NAME_MAX + 1];
        let name = c_text(name, &mut text);
        let parent = parent.map_or(stook_group::default(), |group| group.0);
        // SAFETY: the name ends with NUL and is copied.
        let group = unsafe { sys::stook_group_create(name.as_ptr(), parent, limit) };
        if group.id == 0 {
            Err(Error::last())
        } else {
            Ok(Group(group))
        }
    }

    /// Charges this thread's allocations to the group until what it returns is dropped.
    ///
    /// ```
    /// # let group = stook::Group::new("g", None, stook::Group::UNLIMITED)?;
    /// {
    ///     let _inside = group.enter();
    ///     // allocations here are charged to the group
    /// }
    /// # Ok::<(), stook::Error>(())
    /// ```
    pub fn enter(&self) -> Entered<'_> {
        // SAFETY: any thread may enter any group.
        Entered { previous: unsafe { sys::stook_group_enter(self.0) }, of: PhantomData }
    }

    /// Runs the function in the group.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let _inside = self.enter();
        work()
    }

    /// What it uses now.
    pub fn usage(&self) -> Result<GroupUsage, Error> {
        let mut stat = sys::stook_group_stat {
            size: size_of::<sys::stook_group_stat>(),
            ..Default::default()
        };
        // SAFETY: the structure says its size.
        match unsafe { sys::stook_group_stat(self.0, &mut stat) } {
            0 => Ok(GroupUsage {
                used: stat.usage,
                stocked: stat.stocked,
                peak: stat.peak,
                limit: stat.limit,
                refused: stat.refused,
            }),
            _ => Err(Error::last()),
        }
    }

    /// Changes the limit, in bytes.
    ///
    /// ```
    /// # let group = stook::Group::new("g", None, stook::Group::UNLIMITED)?;
    /// group.set_limit(1 << 30)?;
    /// assert_eq!(group.usage()?.limit, 1 << 30);
    /// # Ok::<(), stook::Error>(())
    /// ```
    pub fn set_limit(&self, bytes: usize) -> Result<(), Error> {
        // SAFETY: a group by its number.
        match unsafe { sys::stook_group_set_limit(self.0, bytes) } {
            0 => Ok(()),
            _ => Err(Error::last()),
        }
    }

    /// Whether an object is charged to this group.
    ///
    /// ```
    /// # stook::cache! { static WORDS: Cache<u64, Words> = stook::Settings::new().accounted(); }
    /// let group = stook::Group::new("words", None, stook::Group::UNLIMITED)?;
    /// let word = WORDS.alloc_charged(1, &group)?;
    /// assert!(group.is_charged_for(&word));
    /// # Ok::<(), stook::Error>(())
    /// ```
    pub fn is_charged_for<T, H: Return<T>>(&self, object: &Pooled<T, H>) -> bool {
        // SAFETY: the caller borrows the object from its owner.
        unsafe { sys::stook_group_of(object.as_ptr().cast()) == self.0 }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: a group by its number; with children it stays.
        unsafe { sys::stook_group_destroy(self.0) };
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.0.id)
    }
}

/// While it lives, this thread's allocations are charged to a group.
#[must_use = "the thread leaves the group when this is dropped"]
#[derive(Debug)]
pub struct Entered<'a> {
    previous: stook_group,
    /// Not Send: it is this thread that entered.
    of: PhantomData<(&'a Group, *const ())>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: the call is for the thread that entered.
        unsafe { sys::stook_group_enter(self.previous) };
    }
}

impl<T, H: Return<T>> Cache<T, H> {
    /// Stores a value in an object that is charged to the group, whichever one the thread is in.
    ///
    /// In a cache that is not accounted the group is ignored.
    pub fn alloc_charged(&self, value: T, group: &Group) -> Result<Pooled<T, H>, Refused<T>> {
        let cache = match self.raw.handle() {
            Ok(cache) => cache,
            Err(error) => return Err(Refused::new(value, error)),
        };
        let args = sys::stook_alloc_args { group: &group.0, ..sys::stook_alloc_args::NONE };
        // SAFETY: the cache and the group live.
        let object = unsafe { sys::stook_alloc_with(cache.as_ptr(), sys::STOOK_WAIT, &args) };
        match NonNull::new(object) {
            Some(object) => Ok(Slot::from_raw(object.cast()).write(value)),
            None => Err(Refused::new(value, Error::last())),
        }
    }
}
