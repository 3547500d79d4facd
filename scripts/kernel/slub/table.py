#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints counters side by side: table.py LOG... (what run.sh printed); a table a run, a column a log."""
import os
import re
import sys

ROWS = [
    ("frees to slabs, one by one", "free_slowpath"),
    ("frees to remote sheaves", "free_remote"),
    ("allocations from slabs, one by one", "alloc_slowpath"),
    ("objects refilled from slabs", "sheaf_refill"),
    ("objects flushed to slabs", "sheaf_flush"),
    ("full sheaves from barns", "barn_get"),
    ("... missed", "barn_get_fail"),
    ("full sheaves to barns", "barn_put"),
    ("... refused", "barn_put_fail"),
    ("barns' limits raised", "barn_raise"),
    ("sheaves made", "sheaf_alloc"),
    ("slabs put on partial lists", "free_add_partial"),
    ("slabs allocated", "alloc_slab"),
    ("slabs left after shrinking", "shrunk slabs"),
    ("errors", "errors"),
]


def runs(path):
    """{run: {counter: value}} of a log."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    found = {}
    for run, section in re.findall(r"^== slubtest-(\S+)\n(.*?)(?=^==|\Z)", text, re.M | re.S):
        for name, value in re.findall(r"^((?:shrunk )?\w+): (\d+)", section, re.M):
            found.setdefault(run, {})[name] = int(value)
    for run, errors in re.findall(r"slubtest-(\S+): \d+ objects, (\d+) errors", text):
        found.setdefault(run, {})["errors"] = int(errors)
    if "left 0 caches" not in text:
        print(f"table.py: {path}: a cache was not destroyed", file=sys.stderr)
    for bad in re.findall(r"^.*(?:WARNING:|BUG:|Oops|possible (?:circular|recursive|irq)|INFO: |list corruption).*$", text, re.M):
        print(f"table.py: {path}: {bad.strip()}", file=sys.stderr)
    return found


def main():
    logs = [(os.path.splitext(os.path.basename(path))[0], runs(path)) for path in sys.argv[1:]]
    for run in dict.fromkeys(run for _, log in logs for run in log):
        columns = [(name, log[run]) for name, log in logs if run in log]
        print(f"| {run} | " + " | ".join(name for name, _ in columns) + " |")
        print("| --- |" + " ---: |" * len(columns))
        for label, key in ROWS:
            values = [f"{column[key]:,}" if key in column else "-" for _, column in columns]
            print(f"| {label} | " + " | ".join(values) + " |")
        print()


if __name__ == "__main__":
    main()
