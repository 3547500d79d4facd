// SPDX-License-Identifier: MIT
//! Finds libstook, or builds it; decides whether the fast path is inlined.
//!
//! In this order: `STOOK_LIB_DIR` (a folder with libstook.a), pkg-config's `stook` unless the feature
//! `vendored` is on, the C sources of this package (`vendor/`, which is a copy of `src/` and `include/` of the
//! C project, or those folders themselves in its tree).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What of `src/` other libraries and compositions have.
const OTHERS: &[&str] = &["malloc/", "sim/", "urcu/", "face/alone.c"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["STOOK_LIB_DIR", "STOOK_NO_PKG_CONFIG", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    decide_inlining();
    let mocked =
        env::var_os("CARGO_CFG_MIRI").is_some() || env::var_os("CARGO_CFG_STOOK_MOCK").is_some();
    if mocked || env::var_os("DOCS_RS").is_some() {
        return; // nothing is linked
    }
    find_library();
}

/// Sets `stook_inline` where this compiler has labels in `asm!`, and `stook_goto_outputs` where such a block
/// may have outputs too.
fn decide_inlining() {
    let linux = env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let little = env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("little");
    let known = little && matches!(arch.as_str(), "x86_64" | "aarch64");
    let wide = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").as_deref() == Ok("64");
    let refused = env::var_os("CARGO_FEATURE_NO_INLINE").is_some();
    let (minor, nightly) = compiler();
    let mocked =
        env::var_os("CARGO_CFG_MIRI").is_some() || env::var_os("CARGO_CFG_STOOK_MOCK").is_some();
    if linux && known && wide && !refused && !mocked && minor >= 87 {
        println!("cargo:rustc-cfg=stook_inline");
        if nightly && arch == "x86_64" && env::var_os("CARGO_CFG_STOOK_NIGHTLY").is_some() {
            println!("cargo:rustc-cfg=stook_goto_outputs");
        }
    }
}

/// The minor version of the compiler, and whether it is a nightly one.
fn compiler() -> (u32, bool) {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output();
    let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let minor = said.split('.').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (minor, said.contains("nightly") || said.contains("-dev"))
}

fn find_library() {
    if let Some(dir) = env::var_os("STOOK_LIB_DIR") {
        let dir = PathBuf::from(dir);
        println!("cargo:rerun-if-changed={}", dir.join("libstook.a").display());
        println!("cargo:rustc-link-search=native={}", dir.display());
        println!("cargo:rustc-link-lib=static=stook");
        return;
    }
    let vendored = env::var_os("CARGO_FEATURE_VENDORED").is_some();
    if !vendored && env::var_os("STOOK_NO_PKG_CONFIG").is_none() {
        let mut found = pkg_config::Config::new();
        if found.atleast_version("0.3.0").probe("stook").is_ok() {
            return;
        }
    }
    build(&sources());
}

/// The folder with `src/` and `include/` of the C project.
fn sources() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    for root in [here.join("vendor"), here.join("../../..")] {
        if root.join("src/cache/alloc.c").exists() {
            return root;
        }
    }
    panic!("no libstook was found: pkg-config knows no `stook`, STOOK_LIB_DIR is not set, and this package has no C sources");
}

/// The C files of the library: of the lean one without the feature `watch`.
fn files(src: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_to_string(src.join("face/lean.list")).expect("face/lean.list");
    let lacking: Vec<&str> = if env::var_os("CARGO_FEATURE_WATCH").is_some() {
        vec!["face/lean.c"]
    } else {
        list.lines().filter(|line| !line.starts_with('#')).collect()
    };
    let folders = entries(src).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| entries(&folder)).collect();
    files.retain(|path| {
        let name = path.strip_prefix(src).expect("below src/").to_string_lossy();
        let elsewhere = OTHERS.iter().chain(&lacking).any(|begin| name.starts_with(begin));
        name.ends_with(".c") && !elsewhere
    });
    files.sort();
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.expect("a folder that can be read").path()).collect()
}

fn build(root: &Path) {
    for folder in ["src", "include"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let sections = matches!(arch.as_str(), "x86_64" | "aarch64" | "riscv64");
    let mut c = cc::Build::new();
    c.files(files(&root.join("src")))
        .include(root.join("include"))
        .include(root.join("src"))
        .std("gnu17")
        .define("_GNU_SOURCE", None)
        .define("STOOK_RSEQ", if sections { "1" } else { "0" })
        .define("STOOK_PROBES", "0")
        .define("STOOK_INLINE_NO_PIN", "")
        .flag("-fvisibility=hidden")
        .flag("-ftls-model=initial-exec")
        .flag_if_supported("-fno-plt")
        .warnings(false)
        .pic(true);
    if !sections {
        c.define("STOOK_NO_INLINE", None);
    }
    // A debug build of a Rust program wants its allocator as fast as a release build does.
    if env::var("OPT_LEVEL").as_deref() == Ok("0") {
        c.opt_level(2);
    }
    c.compile("stook");
    println!("cargo:rustc-link-lib=pthread");
}
