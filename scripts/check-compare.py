#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make check-compare: what stook compare says of programs of which it is known, each within five minutes.

check-compare.py [-n N]

sha256sum does not use malloc, a program of the bench hardly does anything else, and a planted malloc takes twice the memory in a third.
A second row without any library (copy) may differ in nothing.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build"
OWN = str(BUILD / "libexec/stook-bench/stook-bench-own")
failures = 0


def compare(mallocs, *command, stdin=None):
    """The rows by name; the table goes to standard error."""
    begin = time.monotonic()
    with open(stdin or os.devnull, "rb") as file:
        done = subprocess.run([str(BUILD / "bin/stook"), "compare", *sys.argv[1:], "--mallocs", mallocs, "--json", "-", "--", *command],
                              stdin=file, stdout=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"{command[0]} ends with {done.returncode}")
    expect(time.monotonic() - begin < 300, f"{command[0]} takes {time.monotonic() - begin:.0f} s")
    whole = json.loads(done.stdout)
    return {one["name"]: one for one in whole["mallocs"]}


def expect(is_so, what):
    global failures
    if not is_so:
        failures += 1
        print(f"FAILED: {what}")


def verdicts(row, *keys):
    return {row["against_base"][key]["verdict"] for key in keys}


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    (work / "bytes").write_bytes(os.urandom(1 << 20) * 64)
    rows = compare("glibc,copy=-,stook,jemalloc", "sha256sum", stdin=work / "bytes")
    for name in ("copy", "stook", "jemalloc"):
        expect(verdicts(rows[name], "cpu_s") == {"even"}, f"sha256sum under {name}: {rows[name]['verdict']}")
    rows = compare("glibc,copy=-,stook,jemalloc", OWN, "mixed", "5")
    expect(verdicts(rows["copy"], "cpu_s", "peak_mib") == {"even"}, f"mixed under a copy: {rows['copy']['verdict']}")
    expect(any(verdicts(rows[name], "cpu_s", "peak_mib") != {"even"} for name in ("stook", "jemalloc")), "no malloc differs for mixed")
    shutil.copy(BUILD / "tests/programs/plug_twice.so", work / "libmemory.so")
    rows = compare(f"glibc,copy=-,memory={work}/libmemory.so", "perl", "-e", "my @all = map { 'x' x 100000 } 1 .. 500; print scalar @all")
    expect(rows["memory"]["against_base"]["peak_mib"]["ratio"] > 1.7, f"twice the memory: {rows['memory']['verdict']}")
    expect(verdicts(rows["copy"], "peak_mib") == {"even"}, f"perl under a copy: {rows['copy']['verdict']}")
sys.exit(1 if failures else 0)
