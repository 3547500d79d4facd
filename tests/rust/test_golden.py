#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# timeout: 600
"""The machine code of a static cache's pop and push in Rust beside C's, which tests/golden has.

A pop and a push together have as many instructions as C's: each loads the pointer of the static cache, which a C
function gets as its argument, and a push saves the test of a pointer that is never NULL.  The toolchain of the machine
is compared, and a nightly one where there is one; and aarch64's code where rustup has that target's library.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

source, build = pathlib.Path(os.environ["STOOK_SOURCE_DIR"]), os.environ["STOOK_BUILD_DIR"]


def skip(why):
    print("skipped:", why)
    sys.exit(77)


if os.uname().machine != "x86_64":
    skip("it compares code of x86-64 with golden code of that machine, and cross-compiles from there")


def cargo(command):
    script = f". {source}/tests/rust/lib_cargo.sh; need_crates; export STOOK_LIB_DIR={build}/lib; " \
        f"{command} || fail 'does not build'"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    if said.returncode:
        print(said.stdout, said.stderr, sep="")
        sys.exit(said.returncode)


def example(arguments, flags=""):
    cargo(f"{flags} cargo {arguments} build --locked --offline --release --example golden")


def instructions(path, function, objdump):
    said = subprocess.run([objdump, "-d", "--no-show-raw-insn", f"--disassemble={function}", path],
                          capture_output=True, text=True, check=True).stdout
    return [(int(m[1], 16), m[2].strip()) for m in re.finditer(r"^ +([0-9a-f]+):\t(.*)$", said, re.M)]


def hot_path(code, function):
    """Instructions from the entry to the return, no conditional branch taken."""
    for n, (_, text) in enumerate(code, 1):
        if re.match(r"ret", text):
            return [text for _, text in code[:n]]
        if re.match(r"(jmp|call|b|bl|br|blr)\b(?!\.)", text):
            raise SystemExit(f"{function}: a jump or a call in the hot path:\n" + "\n".join(t for _, t in code))
    raise SystemExit(f"{function}: no return")


def of_c(function, machine="x86_64"):
    text = (source / f"tests/golden/gcc-12.{machine}.txt").read_text()
    return int(re.search(rf"^{function}: hot path (\d+)", text, re.M)[1])


def check(path, wanted, cpu="%fs:0x4", objdump="objdump"):
    for function, most in wanted.items():
        code = hot_path(instructions(path, function, objdump), function)
        print(f"{function}: {len(code)} instructions, {most} wanted")
        # The section itself, so that a path that does nothing is found out.
        if not any(cpu in text for text in code) or len(code) != most:
            raise SystemExit("\n".join(["not what is wanted:"] + code))


pop, push = of_c("golden_pop"), of_c("golden_push")
wanted = {"golden_rust_pop": pop + 1, "golden_rust_push": push + 1 - 2, "golden_rust_alloc": pop + 1 + 2}
example("")
check(f"{build}/rust/release/examples/golden", wanted)
print(f"a pop and a push: C {pop + push}, Rust {wanted['golden_rust_pop'] + wanted['golden_rust_push']}")

with_nightly = subprocess.run(["bash", "-c", f". {source}/tests/rust/lib_cargo.sh; nightly"], check=False).returncode == 0
if with_nightly:
    example("+nightly", f"CARGO_TARGET_DIR={build}/rust-nightly RUSTFLAGS='--cfg stook_nightly'")
    check(f"{build}/rust-nightly/release/examples/golden", wanted)
else:
    print("no nightly toolchain: the machine's alone is compared")

target, tool = "aarch64-unknown-linux-gnu", "aarch64-linux-gnu-objdump"
sysroot = subprocess.run(["bash", "-c", f". {source}/tests/rust/lib_cargo.sh; rustc --print sysroot"],
                         capture_output=True, text=True, check=True).stdout.strip()
if pathlib.Path(sysroot, "lib/rustlib", target, "lib").is_dir() and shutil.which(tool):
    # Nothing is linked: the object file is what counts.
    folder = pathlib.Path(f"{build}/rust-aarch64-golden")
    cargo(f"CARGO_TARGET_DIR={folder} DOCS_RS=1 CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=true "
          f"cargo rustc --locked --offline --release --target {target} -p stook --example golden -- "
          "--emit=obj -Ccodegen-units=1")
    objects = sorted((folder / target / "release/examples").glob("golden-*.o"), key=lambda path: path.stat().st_mtime)
    pop, push = of_c("golden_pop", "aarch64"), of_c("golden_push", "aarch64")
    # Two for the pointer of the static cache, a test for "made already" and one of the result; but the offset of the
    # thread's struct rseq takes one load, not three.  One more to move the object into the register of results.
    check(objects[-1], {"golden_rust_pop": pop + 1, "golden_rust_push": push - 1, "golden_rust_alloc": pop + 1 + 2},
          cpu="ldrsw", objdump=tool)
    print(f"aarch64, a pop and a push: C {pop + push}, Rust {pop + push}")
else:
    print(f"no {tool}, or no library for {target}: aarch64's code is not compared")
