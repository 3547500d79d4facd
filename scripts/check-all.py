#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every check target of the Makefile in turn, and goes on after one that fails.

    check-all.py [TARGET...]     these instead of all
    check-all.py --list          the targets

Each target's output goes to build-all/TARGET.log.  At the end a table has a row for each: target, passed, failed, seconds.
The last line is the same as JSON.  The exit status is 1 if a target failed.

What a target counts is in its last line "N passed, N failed"; one that says no such line has passed or failed as a whole.
"""
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build-all")
NOT_ALONE = {"check-all", "check-aarch64"}  # check-long runs the latter


def targets():
    """In the Makefile's order."""
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as makefile:
        found = re.findall(r"^(check(?:-[a-z0-9]+)*):", makefile.read(), re.M)
    return [target for target in found if target not in NOT_ALONE]


def counts(said, status):
    """Passed and failed, of what a target said and its exit status."""
    lines = re.findall(r"^(\d+) passed(?:, \d+ \w+)*, (\d+) failed", said, re.M)
    passed, failed = map(int, lines[-1]) if lines else (int(status == 0), int(status != 0))
    return passed, max(failed, int(status != 0))


def run(target):
    log = os.path.join(LOGS, target + ".log")
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as out:
        status = subprocess.run(["make", "--no-print-directory", target], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT, check=False).returncode
    with open(log, encoding="utf-8", errors="replace") as out:
        passed, failed = counts(out.read(), status)
    return {"target": target, "passed": passed, "failed": failed, "seconds": round(time.monotonic() - begin)}


def show(row):
    print(f"{row['target']:<16} {row['passed']:>7} {row['failed']:>7} {row['seconds']:>8}", flush=True)


def main():
    known = targets()
    chosen = sys.argv[1:] or known
    if chosen == ["--list"]:
        print("\n".join(known))
        return 0
    unknown = [target for target in chosen if target not in known]
    if unknown:
        print("check-all.py: no target " + " ".join(unknown), file=sys.stderr)
        return 2
    os.makedirs(LOGS, exist_ok=True)
    rows = []
    for target in chosen:
        print(f"== {target}", flush=True)
        rows.append(run(target))
    total = {"target": "all", **{key: sum(row[key] for row in rows) for key in ("passed", "failed", "seconds")}}
    print(f"{'target':<16} {'passed':>7} {'failed':>7} {'seconds':>8}")
    for row in [*rows, total]:
        show(row)
    print(json.dumps({**total, "targets": rows}))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
