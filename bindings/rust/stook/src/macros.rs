// SPDX-License-Identifier: MIT
//! Declarations of static caches.

/// Declares static caches.
///
/// `static NAME: Cache<Type>;` makes it the cache of that type: `Pooled<Type>` goes back to it. For a second
/// cache of a type, or for a type of another crate, name it by a type that the macro makes:
/// `static NAME: Cache<Type, Marker>;`, and `Pooled<Type, Marker>`. Either may have settings behind `=`.
///
/// ```
/// use stook::{cache, Pooled, Settings};
///
/// /// A session of a client.
/// pub struct Session([u8; 192]);
///
/// cache! {
///     /// All of them.
///     pub static SESSIONS: Cache<Session> = Settings::new().aligned_to_lines();
///     static BUFFERS: Cache<[u8; 2048], Buffer>;
/// }
///
/// let session: Pooled<Session> = SESSIONS.alloc(Session([0; 192]));
/// let buffer: Pooled<[u8; 2048], Buffer> = BUFFERS.alloc([0; 2048]);
/// assert_eq!(session.0.len() + buffer.len(), 2240);
/// ```
///
/// ```compile_fail
/// stook::cache! { static BIG: Cache<[u8; (4 << 20) + 1], Big>; } // objects have 4 MiB at most
/// BIG.slot();
/// ```
#[macro_export]
macro_rules! cache {
    () => {};
    ($(#[$meta:meta])* $vis:vis static $name:ident : Cache<$type:ty> $(= $settings:expr)? ; $($rest:tt)*) => {
        $(#[$meta])*
        // SAFETY: the implementation below names this cache, and nothing else can implement it.
        $vis static $name: $crate::Cache<$type> = unsafe {
            $crate::Cache::__of_home($crate::__name!($type), $crate::__settings!($($settings)?))
        };
        $crate::__return!($type, $type, $name);
        // SAFETY: it is always this cache, and has this home.
        unsafe impl $crate::Home<$type> for $type {
            #[inline(always)]
            fn cache() -> &'static $crate::Cache<$type> {
                &$name
            }
        }
        $crate::cache! { $($rest)* }
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : Cache<$type:ty, $home:ident> $(= $settings:expr)? ; $($rest:tt)*) => {
        #[doc = concat!("Names the cache `", stringify!($name), "`.")]
        #[derive(Debug)]
        $vis enum $home {}
        $(#[$meta])*
        // SAFETY: the implementation below names this cache, and nothing else can implement it.
        $vis static $name: $crate::Cache<$type, $home> = unsafe {
            $crate::Cache::__of_home($crate::__name!($home), $crate::__settings!($($settings)?))
        };
        $crate::__return!($home, $type, $name);
        // SAFETY: it is always this cache, and has this home.
        unsafe impl $crate::Home<$type> for $home {
            #[inline(always)]
            fn cache() -> &'static $crate::Cache<$type, $home> {
                &$name
            }
        }
        $crate::cache! { $($rest)* }
    };
}

/// Declares static caches of objects that stay constructed: [`Reuse`](crate::Reuse).
///
/// ```
/// use stook::{reuse, Recycle};
/// #[derive(Default)]
/// struct Request { path: String, body: Vec<u8> }
/// impl Recycle for Request {
///     fn recycle(&mut self) { self.path.clear(); self.body.clear(); }
/// }
/// reuse! { static REQUESTS: Reuse<Request>; }
///
/// let mut request = REQUESTS.take();
/// request.path.push_str("/index.html");
/// ```
#[macro_export]
macro_rules! reuse {
    () => {};
    ($(#[$meta:meta])* $vis:vis static $name:ident : Reuse<$type:ty> $(= $settings:expr)? ; $($rest:tt)*) => {
        $(#[$meta])*
        // SAFETY: the implementation below names this cache, and nothing else can implement it.
        $vis static $name: $crate::Reuse<$type> = unsafe {
            $crate::Reuse::__of_home($crate::__name!($type), $crate::__settings!($($settings)?))
        };
        // SAFETY: it is always this cache, and has this home.
        unsafe impl $crate::ReuseHome<$type> for $type {
            #[inline(always)]
            fn cache() -> &'static $crate::Reuse<$type> {
                &$name
            }
        }
        $crate::reuse! { $($rest)* }
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : Reuse<$type:ty, $home:ident> $(= $settings:expr)? ; $($rest:tt)*) => {
        #[doc = concat!("Names the cache `", stringify!($name), "`.")]
        #[derive(Debug)]
        $vis enum $home {}
        $(#[$meta])*
        // SAFETY: the implementation below names this cache, and nothing else can implement it.
        $vis static $name: $crate::Reuse<$type, $home> = unsafe {
            $crate::Reuse::__of_home($crate::__name!($home), $crate::__settings!($($settings)?))
        };
        // SAFETY: it is always this cache, and has this home.
        unsafe impl $crate::ReuseHome<$type> for $home {
            #[inline(always)]
            fn cache() -> &'static $crate::Reuse<$type, $home> {
                &$name
            }
        }
        $crate::reuse! { $($rest)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __return {
    ($home:ty, $type:ty, $name:ident) => {
        // SAFETY: objects with this home are of this cache.
        unsafe impl $crate::Return<$type> for $home {
            #[inline(always)]
            unsafe fn give_back(object: ::core::ptr::NonNull<$type>) {
                // SAFETY: by the caller.
                unsafe { $name.__push(object) }
            }

            unsafe fn give_back_all(objects: &mut [::core::ptr::NonNull<$type>]) {
                // SAFETY: by the caller.
                unsafe { $name.__push_all(objects) }
            }

            #[inline(always)]
            fn __pop_fast(
                cache: &$crate::Cache<$type, $home>,
            ) -> ::core::option::Option<::core::ptr::NonNull<$type>> {
                cache.__pop_fast()
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($type:ty) => {
        match ::core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($type), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a NUL in the name of a type"),
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __settings {
    () => {
        $crate::Settings::new()
    };
    ($settings:expr) => {
        $settings
    };
}
