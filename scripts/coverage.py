#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the lines and branches that the tests run, by layer.

  coverage.py --run BUILD            runs the tests of BUILD (preset coverage) first, from zero
  coverage.py [--uncovered] BUILD    the table alone; with the lines that nothing runs
  coverage.py --least PERCENT ...    fails if less of the core's lines are run

A line counts once however many compilers, modes and tests run it.  What a test that is killed ran is lost;
_exit() and abort() are seen to (tests/support/coverage.c).
"""
import argparse
import json
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CORE = ["base", "os", "percpu", "page", "slab", "sheaf", "cache"]
KINDS = "^(unit|api|property|fault|stress|death)$"


def run(build, jobs):
    for counts in build.rglob("*.gcda"):
        counts.unlink()
    status = subprocess.run(["ctest", "--test-dir", str(build), "-L", KINDS, "-LE", "^long$", "-j",
                             str(jobs), "--output-on-failure", "--progress"], check=False).returncode
    if status:
        print("some tests failed: what they would have run is missing below", file=sys.stderr)
    return status


def read(build):
    """[(file, [line], [branch])] of src/ and include/."""
    said = subprocess.run(
        ["gcovr", "--root", str(SOURCE), "--filter", "src/", "--filter", "include/", "--json",
         "--gcov-ignore-parse-errors", "--exclude-unreachable-branches", str(build)], capture_output=True, text=True, check=True, cwd=SOURCE).stdout
    return json.loads(said)["files"]


def spans(numbers):
    """"3-5 9"."""
    text = []
    for n in numbers:
        if text and text[-1][1] == n - 1:
            text[-1][1] = n
        else:
            text.append([n, n])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--uncovered", action="store_true")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("build", type=pathlib.Path)
    arguments = parser.parse_args()
    status = run(arguments.build, arguments.jobs) if arguments.run else 0

    layers, missing = {}, {}
    for file in read(arguments.build):
        layer = file["file"].split("/")[1] if file["file"].startswith("src/") else "include"
        count = layers.setdefault(layer, [0, 0, 0, 0])
        for line in file["lines"]:
            if line.get("gcovr/noncode") or line.get("gcovr/excluded"):
                continue
            count[0] += line["count"] > 0
            count[1] += 1
            if line["count"] == 0:
                missing.setdefault(file["file"], []).append(line["line_number"])
            for branch in line["branches"]:
                count[2] += branch["count"] > 0
                count[3] += 1

    def row(name, count):
        branches = f"{100 * count[2] / count[3]:7.1f} %" if count[3] else ""
        print(f"{name:<10} {count[1]:7} {100 * count[0] / count[1]:7.1f} % {count[3]:9} {branches}")

    def total(names):
        return [sum(layers[name][i] for name in names if name in layers) for i in range(4)]

    print(f"{'layer':<10} {'lines':>7} {'run':>9} {'branches':>9} {'taken':>9}")
    for name in CORE + sorted(set(layers) - set(CORE)):
        if name in layers:
            row(name, layers[name])
    core = total(CORE)
    row("the core", core)
    row("all", total(layers))
    if arguments.uncovered:
        for name in sorted(missing):
            print(f"{name}: {spans(missing[name])}")
    if 100 * core[0] < arguments.least * core[1]:
        print(f"less than {arguments.least} % of the core's lines are run")
        return 1
    return 1 if status else 0


sys.exit(main())
