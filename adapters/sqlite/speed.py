#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs SQLite's speedtest1 on several mallocs and on the adapter, and prints a Markdown table.

    speed.py SPEEDTEST1 BUILD-FOLDER [--rounds N] [--size N]

SPEEDTEST1 is test/speedtest1.c with sqlite3.c, linked with -rdynamic, so that preloads reach it.  Rounds go through
all allocators in turn; the table has the median of the rounds in seconds of CPU time, the median of the rounds' ratios
to glibc, and the peak resident MiB (the least of the rounds).
"""
import argparse
import glob
import os
import re
import statistics
import sys
import tempfile

WORKLOADS = {
    "file, cache of 2 MB": [],
    "file, cache of 40 MB": ["--cachesize", "10000"],
    "in memory": ["--memdb"],
}


def peers(build):
    found = {"glibc": ""}
    for name in ("jemalloc", "mimalloc", "tcmalloc_minimal"):
        library = sorted(glob.glob(f"/usr/lib/*/lib{name}.so.?"))
        if library:
            found[name] = library[0]
    found["stook malloc"] = f"{build}/lib/libstook-malloc.so"
    found["adapter"] = f"{build}/lib/libstook-sqlite-preload.so"
    return found


def run(program, arguments, preload, folder):
    """(seconds of CPU time, MiB)"""
    out = os.path.join(folder, "out")
    database = os.path.join(folder, "test.db")
    for old in glob.glob(database + "*"):
        os.unlink(old)
    if "--memdb" not in arguments:
        arguments = [*arguments, database]
    # A shell between: peak resident memory outlives exec(), and Python's is larger than what is measured.
    child = os.fork()
    if not child:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.execv("/bin/sh", ["sh", "-c", 'LD_PRELOAD="$0" "$@"; exit $?', preload, program, *arguments])
    _, status, usage = os.wait4(child, 0)
    text = open(out, encoding="utf-8").read()
    if status or not re.search(r"TOTAL\.* +[0-9.]+s", text):
        sys.exit(f"speed.py: speedtest1 failed with {preload or 'glibc'}: {text[-300:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("speedtest1")
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=20)
    options = parser.parse_args()
    allocators = peers(os.path.abspath(options.build))
    program = os.path.abspath(options.speedtest1)
    print("| database | allocator | seconds | to glibc | peak MiB |\n| --- | --- | ---: | ---: | ---: |")
    # In memory, where a file costs CPU time alone.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for workload, arguments in WORKLOADS.items():
            arguments = ["--size", str(options.size), *arguments]
            results = {name: [] for name in allocators}
            for _ in range(options.rounds):
                for name, preload in allocators.items():
                    results[name].append(run(program, arguments, preload, folder))
            base = [r[0] for r in results["glibc"]]
            for name, rows in results.items():
                seconds = statistics.median(r[0] for r in rows)
                ratio = statistics.median(r[0] / one for r, one in zip(rows, base))
                print(f"| {workload} | {name} | {seconds:.2f} | {ratio:.2f} "
                      f"| {min(r[1] for r in rows):.1f} |", flush=True)


main()
