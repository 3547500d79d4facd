#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every case of stook-bench with tiny parameters and checks what it prints.

Nothing is said here about how fast anything is: only that each case runs, that its records have
exactly the keys that are promised, that no figure is impossible, and that what is missing is said.
"""
import json
import subprocess
import sys

TIME = {"case", "allocator", "linked", "object_size", "n",
        "alloc_ns", "free_ns", "pair_ns", "pair_min", "pair_max"}
IDLE = TIME | {"kib_per_thread", "kib_at_once"}
MEMORY = {"case", "allocator", "resident_over_live", "resident_mib", "faults_per_1000"}

STOOK = {("stook-inline", "static"), ("stook-inline", "shared"), ("stook", "static"),
         ("stook", "shared"), ("stook-malloc", "static"), ("stook-malloc", "shared")}
# What every machine that can build this has; the other peers may be missing, but must be said.
ALWAYS = STOOK | {("glibc", "shared")}
LOOPS = ALWAYS | {("floor-rseq", "static")}

failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def run(bench, *arguments):
    done = subprocess.run([bench, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=240)
    check(done.returncode == 0,
          f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    missing = [line for line in done.stderr.splitlines() if line.startswith("missing: ")]
    return done.stdout, missing


def records(bench, *arguments):
    text, missing = run(bench, *arguments, "--json", "--repeats", "2")
    return [json.loads(line) for line in text.splitlines()], missing


def said_or_there(wanted, found, missing, what):
    for allocator, linked in wanted:
        said = any(f": {allocator} ({linked}): " in line for line in missing)
        check((allocator, linked) in found or said, f"{what}: no word of {allocator} ({linked})")


def check_times(bench, case, n, wanted, split, *arguments):
    lines, missing = records(bench, case, "--ms", "1", "--rounds", "3", *arguments)
    found = set()
    for line in lines:
        check(set(line) == TIME, f"{case}: keys {sorted(line)}")
        check(line["case"] == case and line["n"] == n, f"{case}: {line}")
        check(line["linked"] in ("static", "shared"), f"{case}: {line}")
        check(0 < line["pair_min"] <= line["pair_ns"] <= line["pair_max"], f"{case}: {line}")
        if split:
            check(line["alloc_ns"] > 0 and line["free_ns"] > 0, f"{case}: no split in {line}")
        else:
            check(line["alloc_ns"] is None and line["free_ns"] is None, f"{case}: {line}")
        found.add((line["allocator"], line["linked"]))
    check(len(found) == len(lines), f"{case}: an allocator came twice")
    said_or_there(wanted, found, missing, case)
    return lines


def check_idle(bench):
    lines, missing = records(bench, "idle", "--threads", "4", "--n", "50")
    for line in lines:
        check(set(line) - {"reserve_mib"} == IDLE, f"idle: keys {sorted(line)}")
        check(line["kib_at_once"] >= 0 and line["kib_per_thread"] is not None, f"idle: {line}")
    said_or_there(ALWAYS, {(line["allocator"], line["linked"]) for line in lines}, missing, "idle")


def check_memory(bench, case, *arguments):
    lines, _ = records(bench, "memory", "--case", case, *arguments)
    allocators = [line["allocator"] for line in lines]
    check("stook-malloc" in allocators and "glibc" in allocators, f"{case}: only {allocators}")
    check(len(set(allocators)) == len(allocators), f"{case}: an allocator came twice")
    for line in lines:
        check(set(line) - {"reserve_mib"} == MEMORY, f"{case}: keys {sorted(line)}")
        check(line["case"] == case, f"{case}: {line}")
        check(line["resident_mib"] >= 0 and line["faults_per_1000"] >= 0, f"{case}: {line}")
        if case.startswith("remote"):
            # Every page of a live object was touched: it cannot be less.
            check(line["resident_over_live"] >= 1, f"{case}: {line}")


def main():
    bench = sys.argv[1]
    check_times(bench, "pair", 1, LOOPS, False)
    check_times(bench, "batch", 4, LOOPS, True, "--n", "4")
    check_times(bench, "handoff", 1, ALWAYS | {("floor-ring", "static")}, False)
    check_idle(bench)
    check_memory(bench, "returned", "--mib", "8")
    check_memory(bench, "breathing", "--mib", "4", "--rounds", "2")
    check_memory(bench, "remote-ordered", "--mib", "8", "--threads", "3", "--rounds", "8")
    check_memory(bench, "remote-random", "--mib", "8", "--threads", "3", "--rounds", "8")

    text, _ = run(bench, "pair", "--ms", "1", "--rounds", "1", "--repeats", "1", "--size",
                  "64,4096", "--allocators", "stook,glibc", "--linked", "shared")
    check(text.count("stook ") == 2 and text.count("glibc ") == 2 and "mimalloc" not in text,
          f"the table of a selection:\n{text}")
    refused = subprocess.run([bench, "nonsense"], stderr=subprocess.PIPE, text=True)
    check(refused.returncode == 2 and "no such case" in refused.stderr, "an unknown case")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
