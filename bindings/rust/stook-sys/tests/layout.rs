// SPDX-License-Identifier: MIT
//! The declarations are the headers': a C program prints what the compiler makes of them.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use stook_sys as sys;

macro_rules! constants {
    ($($name:ident)*) => { [$((stringify!($name), sys::$name as u64)),*] };
}

macro_rules! layout {
    ($lines:ident, $type:ident: $($field:ident)*) => {
        let c = concat!("struct ", stringify!($type));
        $lines.push((format!("sizeof({c})"), size_of::<sys::$type>() as u64));
        $lines.push((format!("_Alignof({c})"), align_of::<sys::$type>() as u64));
        prefix!($lines, $type: $($field)*);
    };
}

/// The same of a structure that has more members in C.
macro_rules! prefix {
    ($lines:ident, $type:ident: $($field:ident)*) => {
        $($lines.push((
            format!("offsetof(struct {}, {})", stringify!($type), stringify!($field)),
            std::mem::offset_of!(sys::$type, $field) as u64,
        ));)*
    };
}

/// What a C expression should be, by the Rust declarations.
fn expected() -> Vec<(String, u64)> {
    let mut lines: Vec<(String, u64)> = constants! {
        STOOK_VERSION STOOK_UNLIMITED STOOK_OBJECT_SIZE_MAX STOOK_ALIGN_MAX STOOK_NAME_MAX
        STOOK_SHEAF_CAPACITY_MAX STOOK_CACHE_HWALIGN STOOK_CACHE_NOSHEAF
        STOOK_CACHE_RANDOM STOOK_CACHE_LINK_INSIDE STOOK_CACHE_LINK_OUTSIDE STOOK_CACHE_TYPESAFE
        STOOK_CACHE_ADAPTIVE STOOK_CACHE_ACCOUNT STOOK_CACHE_DEBUG_CHECKS
        STOOK_CACHE_DEBUG_RED_ZONE STOOK_CACHE_DEBUG_POISON STOOK_CACHE_DEBUG_USER
        STOOK_CACHE_ZERO_ON_FREE STOOK_CACHE_QUARANTINE STOOK_CACHE_GUARD_PAGES
        STOOK_CACHE_OWN_PAGES STOOK_WAIT STOOK_NORECLAIM STOOK_SIGNAL_SAFE STOOK_ZERO STOOK_NOFAIL
        STOOK_REPORT_TABLE STOOK_REPORT_JSON STOOK_REPORT_ALL STOOK_STATS_OFF STOOK_STATS_ALL
        STOOK_STATS_SLOW STOOK_KMALLOC_CACHE_MAX
    }
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect();
    layout!(lines, stook_cache_args: size align ctor dtor arg flags sheaf_capacity cached_bytes_max
        slab_bytes_max);
    layout!(lines, stook_alloc_args: size site from group fail node align);
    layout!(lines, stook_group: id);
    layout!(lines, stook_cache_head: slots reserved rseq_offset);
    prefix!(lines, stook_group_stat: size usage own stocked peak limit soft_limit refused reclaims
        soft_events children);
    prefix!(lines, stook_stat: size cached_bytes cached_bytes_max alloc_fastpath free_fastpath alloc_cpu_sheaf
        free_cpu_sheaf alloc_slowpath free_slowpath);
    layout!(lines, stook_cache_usage: size in_use cached free slabs bytes bytes_peak meta capacity);
    lines
}

fn compiled(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (c, out) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&c, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor/include");
    let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
    let done = Command::new(cc)
        .args(["-std=gnu17", "-Wall", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(include)
        .arg(&c)
        .arg("-o")
        .arg(&out)
        .output()
        .expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    out
}

#[test]
fn sizes_offsets_and_values_are_the_headers() {
    let expected = expected();
    let mut source = String::from(
        "#define STOOK_INLINE_NO_PIN\n#include <stook/inline.h>\n#include <stook/group.h>\n\
         #include <stook/stat.h>\n#include <stook/kmalloc.h>\n#include <stdio.h>\nint main(void)\n{\n",
    );
    for (what, _) in &expected {
        writeln!(source, "    printf(\"%llu\\n\", (unsigned long long)({what}));").unwrap();
    }
    source.push_str("    return 0;\n}\n");
    // The header's inline functions refer to the library, which this program does not need.
    let program = compiled(
        "layout",
        &source,
        &["-DSTOOK_NO_INLINE", "-O1", "-ffunction-sections", "-Wl,--gc-sections"],
    );
    let said = Command::new(program).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let values: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), expected.len());
    for ((what, ours), theirs) in expected.iter().zip(values) {
        assert_eq!(*ours, theirs, "{what}");
    }
}

/// The text of the declarations, as C: a prototype that differs from the header's is an error of the compiler.
#[test]
fn functions_have_the_types_of_the_headers() {
    let rust = include_str!("../src/lib.rs");
    let block = rust.split("extern \"C\" {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut source = String::new();
    for header in ["stook", "reserve", "group", "kmalloc", "stat"] {
        writeln!(source, "#include <stook/{header}.h>").unwrap();
    }
    source.push_str("#include <sys/types.h>\n");
    let code: String = block
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join(" ");
    let mut functions = 0;
    for declaration in code.split(';') {
        let Some(declaration) = declaration.trim().strip_prefix("pub fn ") else { continue };
        let (name, rest) = declaration.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(')').unwrap();
        let result = result.trim().strip_prefix("->").map_or("void", |r| r.trim());
        let types: Vec<String> = split_arguments(arguments).iter().map(|a| c_type(a)).collect();
        let types = if types.is_empty() { "void".into() } else { types.join(", ") };
        writeln!(source, "{} {name}({types});", c_type(result)).unwrap();
        functions += 1;
    }
    assert!(functions > 40, "{functions}");
    source.push_str("int main(void) { return 0; }\n");
    compiled("functions", &source, &["-Wno-nonnull"]);
}

fn split_arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' | '<' => depth += 1,
            ')' | '>' if !text[..i].ends_with('-') => depth -= 1,
            ',' if depth == 0 => {
                all.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    all.push(&text[start..]);
    all.into_iter()
        .map(str::trim)
        .filter(|a| !a.is_empty())
        .map(|a| a.split_once(": ").unwrap().1)
        .collect()
}

fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        let to = c_type(to);
        // `const` goes behind a pointer and before everything else.
        return if to.ends_with('*') { format!("{to}const *") } else { format!("const {to} *") };
    }
    if let Some(inner) = rust.strip_prefix("Option<").and_then(|r| r.strip_suffix('>')) {
        return c_type(inner);
    }
    match rust {
        "c_int" => "int",
        "c_uint" => "unsigned",
        "c_long" => "long",
        "c_char" => "char",
        "c_void" | "void" => "void",
        "usize" => "size_t",
        "isize" => "ssize_t",
        "stook_reclaim_fn" | "stook_group_reclaim_fn" => rust,
        function if function.starts_with("unsafe extern") => "int (*)(void *, void *)",
        structure if structure == "timespec" || structure.starts_with("stook_") => {
            return format!("struct {structure}")
        }
        other => panic!("no C type for {other}"),
    }
    .to_string()
}
