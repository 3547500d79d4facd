// SPDX-License-Identifier: MIT
//! Errors: a value of errno, and the value that could not be stored.

use core::fmt;

/// Why the library refused a call: a value of `errno`.
///
/// ```
/// let e = stook::Error::from_errno(12);
/// assert_eq!(e, stook::Error::NO_MEMORY);
/// assert_eq!(e.to_string(), "out of memory");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error(i32);

impl Error {
    /// Out of memory, or the [`Effort`](crate::Effort) forbids the work needed to get some (ENOMEM).
    pub const NO_MEMORY: Error = Error(12);
    /// The limit of the thread's group, or of an ancestor of it (EDQUOT).
    pub const LIMIT: Error = Error(122);
    /// The library has objects of this cache, or a group has children (EBUSY).
    pub const BUSY: Error = Error(16);
    /// An argument or a setting is not valid (EINVAL).
    pub const INVALID: Error = Error(22);

    /// The error with this number.
    pub const fn from_errno(errno: i32) -> Error {
        Error(errno)
    }

    /// Its number.
    pub const fn errno(self) -> i32 {
        self.0
    }

    /// That of the call that just failed.
    pub(crate) fn last() -> Error {
        Error(stook_sys::errno())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            7 => "beyond a limit of the library",
            12 => "out of memory",
            16 => "in use",
            17 => "it exists",
            22 => "not valid",
            23 => "too many caches or groups",
            95 => "not supported by this build or this process",
            122 => "a group is at its limit",
            errno => return write!(f, "errno {errno}"),
        })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0)
    }
}

impl core::error::Error for Error {}

/// A value that found no memory, and why: the caller has the value back.
///
/// ```
/// # use stook::{cache, Group};
/// cache! { static LINES: Cache<Line> = stook::Settings::new().accounted(); }
/// struct Line([u8; 64]);
///
/// let full = Group::new("full", None, 0)?;
/// let inside = full.enter();
/// let refused = LINES.try_alloc(Line([7; 64])).err().unwrap();
/// assert_eq!(refused.error(), stook::Error::LIMIT);
/// assert_eq!(refused.into_value().0[0], 7);
/// # Ok::<(), stook::Error>(())
/// ```
pub struct Refused<T> {
    value: T,
    error: Error,
}

impl<T> Refused<T> {
    pub(crate) fn new(value: T, error: Error) -> Self {
        Refused { value, error }
    }

    /// Why.
    pub fn error(&self) -> Error {
        self.error
    }

    /// The value.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refused({:?})", self.error)
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> core::error::Error for Refused<T> {}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Error {
        refused.error
    }
}
