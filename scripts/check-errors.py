#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of heap errors and of what each mode catches, and whether it is what docs/security.md promises.

    scripts/check-errors.py [--build DIR] [--step N] [--modes LIST] [--kind KIND] [--json FILE] [--self-test]

tests/programs/prog_errors.c makes the errors, each in a child: every kind at every size of malloc, kmalloc and typed
caches in every stage of an object's life.  --step N takes each N-th case; an N with a factor of the six stages would
leave stages out, and is refused.  The exit status is 1 if a promise is not kept.
"""
import argparse
import collections
import json
import math
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODES = {"glibc": None, "default": {}, "hardened": {"STOOK_HARDEN": "full"}, "debug": {"STOOK_DEBUG": "FZPU"}}

# Kinds by what the table calls them.
GROUPS = {
    "write of 1 byte behind the object": ["over_1"],
    "of 8": ["over_8"],
    "of 16": ["over_16"],
    "of 64": ["over_64"],
    "write of 8 KiB behind a large object": ["over_page"],
    "write of 1 byte before the object": ["under_1"],
    "of 8 or 16": ["under_8", "under_16"],
    "write to a free object: byte 0": ["after_first"],
    "byte 50": ["after_50"],
    "bytes 0 to 15, where links are": ["link"],
    "double free: `p p`": ["double_p_p"],
    "`p q p`": ["double_p_q_p"],
    "again after other traffic": ["double_later"],
    "after the object went further down": ["double_deep"],
    "by another thread": ["double_thread"],
    "free inside an object": ["inside_16", "inside_half"],
    "free of a misaligned pointer": ["misaligned"],
    "free of a foreign pointer": ["on_stack", "in_data", "mapped", "wild"],
    "free to the wrong cache": ["wrong_cache"],
    "sized delete with a wrong size": ["sized_wrong"],
    "mismatched new, delete, malloc and free": ["malloc_delete", "new_free", "array_delete"],
    "use of a destroyed cache": ["destroyed_alloc", "destroyed_free", "destroyed_again"],
    "realloc of a freed object": ["realloc_freed"],
}
DOUBLE = ("double_p_p", "double_p_q_p", "double_later")
WRONG = ("inside_16", "inside_half", "misaligned", "on_stack", "in_data", "mapped", "wild")
FREES = (*DOUBLE, "double_deep", "double_thread", *WRONG, "realloc_freed")
OVERRUNS = ("over_1", "over_8", "over_16", "over_64")
UNDERRUNS = ("under_1", "under_8", "under_16")
AFTER = ("after_first", "after_50", "link")
STAGES = 6
CLASS_MAX = {"malloc": 32768, "kmalloc": 8192, "typed": math.inf}  # larger objects are whole pages

# Of all errors in percent: (every case, a sample of some hundred).  They are some points below what was measured, so
# that a check that is lost is noticed.
ALL = {"default": (40, 38), "hardened": (90, 89), "debug": (95, 93)}

# Hardened, by kind: (kinds, only objects of size classes, every case, a sample).
HARDENED = {
    "overruns": (OVERRUNS, False, 96, 90),
    "writes before objects of caches": (UNDERRUNS, True, 88, 80),
    "writes to free objects of caches": (AFTER, True, 96, 90),
    "frees that are wrong": (FREES, False, 100, 100),
    "sized deletes with a wrong size": (("sized_wrong",), True, 95, 90),
    "uses of a destroyed cache": (("destroyed_alloc", "destroyed_free", "destroyed_again"), False, 100, 100),
}

Case = collections.namedtuple("Case", "api kind size stage order phase status reused")


def run(build, mode, step, kind=None):
    program = os.path.join(build, "tests/programs/prog_errors")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("STOOK_", "MALLOC_", "GLIBC_"))}
    if "STOOK_MODE" in os.environ:
        environment["STOOK_MODE"] = os.environ["STOOK_MODE"]
    if MODES[mode] is not None:
        environment.update(MODES[mode], LD_PRELOAD=os.path.join(build, "lib/libstook-malloc.so"))
    # A part of each, so that the parts take different sizes of each kind.
    done = subprocess.run([program, str(step), str(step // 2), *([kind] if kind else [])], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"{mode}: status {done.returncode}: {done.stderr[:2000]}")
    return read(done.stdout)


def read(text):
    cases = []
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+) (\w+) (\d+) (\w+) ([01]) (\w+) (\d+) ([01])", line)
        if not match:
            sys.exit(f"not a case: {line}")
        cases.append(Case(match[1], match[2], int(match[3]), match[4], *match.groups()[4:]))
    return cases


def share(cases, caught=lambda case: case.phase != "none"):
    return 100.0 * sum(caught(case) for case in cases) / len(cases) if cases else None


def in_time(case):
    """Before the object had two users."""
    return case.phase != "none" and case.reused == "0"


def promises(results, sample=False):
    """(what, share, least) for the modes that were run."""
    rows = []
    if "default" in results:
        cases = results["default"]
        rows.append(("default: foreign, interior and misaligned frees of malloc and kmalloc",
                     share([c for c in cases if c.kind in WRONG and c.api != "typed"]), 100))
        rows.append(("default: foreign, interior and misaligned frees, all", share([c for c in cases if c.kind in WRONG]), 100))
        for kind in DOUBLE:
            rows.append((f"default: malloc, {kind}, before the memory is handed out again",
                         share([c for c in cases if c.kind == kind and c.api == "malloc"], in_time), 90))
        if not sample:
            rows.append(("default: overflows beyond a page of large objects",
                         share([c for c in cases if c.kind == "over_page"]), 50))
    for mode, least in ALL.items():
        if mode in results:
            rows.append((f"{mode}: all", share(results[mode]), least[sample]))
    for what, (kinds, cached, *least) in HARDENED.items():
        rows.append((f"hardened: {what}", share([
            c for c in results.get("hardened", ()) if c.kind in kinds and not (cached and c.size > CLASS_MAX[c.api])
        ]), least[sample]))
    if "glibc" in results and "default" in results:
        rows.append(("default: wrong frees and reallocs of malloc, against glibc",
                     share([c for c in results["default"] if c.api == "malloc" and c.kind in FREES]),
                     share([c for c in results["glibc"] if c.kind in FREES])))
    return rows


def cell(value):
    return "-" if value is None else f"{value:.0f} %"


def table(results):
    columns = []
    for mode in results:
        for api in ("malloc",) if mode == "glibc" else ("malloc", "kmalloc", "typed"):
            columns.append((mode, api))
    print("| error | " + " | ".join(f"{mode}: {api}" if mode != "glibc" else mode for mode, api in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, kinds in list(GROUPS.items()) + [("**all**", None)]:
        row = []
        for mode, api in columns:
            row.append(cell(share([c for c in results[mode] if c.api == api and (kinds is None or c.kind in kinds)])))
        print(f"| {name} | " + " | ".join(row) + " |")
    print()
    for mode, cases in results.items():
        print(f"{mode}: {len(cases)} cases, {share(cases):.1f} % caught")


def self_test():
    text = "malloc over_1 16 live 0 none 0 0\nmalloc double_p_p 32 main 1 error 6 0\ntyped double_p_p 32 main 1 trim 6 1\n"
    cases = read(text)
    assert round(share(cases)) == 67 and share(cases[1:], in_time) == 50 and share([]) is None
    bad = {"default": read("malloc double_p_p 32 main 1 trim 6 1\nmalloc wild 32 live 1 none 0 0\n"), "debug": cases}
    failed = [row[0] for row in promises(bad) if row[1] is not None and row[1] < row[2]]
    assert len(failed) == 4, failed
    lost = {"hardened": read("malloc link 64 main 1 none 0 0\nmalloc link 40000 main 1 none 0 0\ntyped link 64 main 1 trim 6 0\n")}
    said = {row[0]: row[1] for row in promises(lost, True) if row[1] is not None and row[1] < row[2]}
    assert said["hardened: writes to free objects of caches"] == 50 and len(said) == 2, said
    both = {"default": read("malloc wild 32 live 1 error 6 0\n"), "glibc": read("malloc wild 32 live 1 none 0 0\n")}
    assert promises(both)[-1][1:] == (100, 0), promises(both)
    try:
        read("malloc over_1\n")
    except SystemExit:
        return
    raise AssertionError("a line that is no case was taken")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--kind")
    parser.add_argument("--json")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    if options.step < 1 or math.gcd(options.step, STAGES) != 1:
        parser.error(f"--step {options.step} leaves out some of the {STAGES} stages")
    results = {mode: run(options.build, mode, options.step, options.kind) for mode in options.modes.split(",")}
    table(results)
    bad = 0
    for what, had, least in promises(results, options.step > 5):
        if had is None:
            continue
        ok = had > least if "glibc" in what else had >= least
        bad += not ok
        print(f"{'kept' if ok else 'BROKEN'}: {what}: {had:.1f} %, least {least:.1f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({mode: [case._asdict() for case in cases] for mode, cases in results.items()}, file, indent=0)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
