#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a Markdown table of what mempool_perf_autotest wrote for several drivers.

    perf_table.py NAME=FILES... moved=FILE
        of each driver all files FILES.*, a round each; the first divides the others.  FILE counted what the driver moved.

Figures are millions of objects taken and put back a second, all lcores together, the median of the rounds; "all" is
the geometric mean of all combinations of bulk sizes and kept objects.
"""
import glob
import math
import re
import statistics
import sys

LINE = re.compile(r"cache=(\d+) cores=(\d+) n_get_bulk=(\d+) n_put_bulk=(\d+) n_keep=(\d+) "
                  r"constant_n=(\d) rate_persec=(\d+) moved=(\d+)")
SECONDS = 0.02  # of a combination: TIME_S in check.sh
SHOWN = [(1, 1, 32, 0), (4, 4, 128, 0), (32, 32, 128, 0), (32, 32, 512, 0), (1, 32, 512, 0), (32, 1, 512, 0)]


def read(path):
    """{(kind, cores): {(get, put, keep, constant): rate}}, and by kind the objects that the driver moved if counted"""
    kind, found, moved = None, {}, {}
    for line in open(path, encoding="utf-8", errors="replace"):
        start = re.match(r"start performance test .*\((.*)\)", line)
        if start:
            kind = start[1]
        hit = LINE.search(line)
        if hit:
            get, put, keep, constant, rate = (int(hit[i]) for i in range(3, 8))
            found.setdefault((kind, int(hit[2])), {})[get, put, keep, constant] = rate
            moved[kind] = moved.get(kind, 0) + int(hit[8])
    return found, moved


def rounds(prefix):
    """The same, of the medians over all files that begin so."""
    runs = [read(path)[0] for path in glob.glob(prefix + ".*")]
    if not runs or not runs[0] or any({pool: set(run[pool]) for pool in run} !=
                                      {pool: set(runs[0][pool]) for pool in runs[0]} for run in runs):
        sys.exit(f"perf_table.py: {prefix}: no rounds, or not the same combinations in all")
    return {pool: {key: statistics.median(run[pool][key] for run in runs) for key in runs[0][pool]}
            for pool in runs[0]}


def main(arguments):
    drivers = {name: rounds(prefix) for name, prefix in (a.split("=", 1) for a in arguments[:-1])}
    names = list(drivers)
    print("| pool | lcores | get, put, kept | " + " | ".join(names) + " | " +
          " | ".join(f"{n} / {names[0]}" for n in names[1:]) + " |")
    print("| --- | ---: | --- |" + " ---: |" * (2 * len(names) - 1))
    for kind, cores in drivers[names[0]]:
        runs = [drivers[n][kind, cores] for n in names]
        if any(r.keys() != runs[0].keys() for r in runs):
            sys.exit(f"perf_table.py: {kind}, {cores} lcores: not the same combinations in all files")
        rows = [(f"{g}, {p}, {k}", [r[g, p, k, c] / 1e6 for r in runs]) for g, p, k, c in SHOWN]
        rows.append(("all", [math.exp(sum(math.log(v) for v in r.values()) / len(r)) / 1e6 for r in runs]))
        for label, rates in rows:
            print(f"| {kind} | {cores} | {label} | " + " | ".join(f"{r:.0f}" for r in rates) + " | " +
                  " | ".join(f"{r / rates[0]:.2f}" for r in rates[1:]) + " |")


    found, moved = read(arguments[-1].split("=", 1)[1])
    print()
    for kind, objects in moved.items():
        asked = sum(2 * SECONDS * rate for (k, _), run in found.items() if k == kind for rate in run.values())
        print(f"{kind}: {100 * objects / asked:.3g} % of {asked / 1e6:.0f} million objects passed through the driver")


main(sys.argv[1:])
