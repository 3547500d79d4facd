#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a Markdown table of what mempool_perf_autotest wrote for several drivers.

    perf_table.py NAME=FILE...     the first is what the others are divided by

Figures are millions of objects taken and put back a second, all lcores together; "all" is the geometric mean of
all combinations of bulk sizes and kept objects.
"""
import math
import re
import sys

LINE = re.compile(r"cache=(\d+) cores=(\d+) n_get_bulk=(\d+) n_put_bulk=(\d+) n_keep=(\d+) "
                  r"constant_n=(\d) rate_persec=(\d+)")
SHOWN = [(1, 1, 32, 0), (4, 4, 128, 0), (32, 32, 128, 0), (32, 32, 512, 0), (1, 32, 512, 0), (32, 1, 512, 0)]


def read(path):
    """{(kind, cores): {(get, put, keep, constant): rate}}"""
    kind, found = None, {}
    for line in open(path, encoding="utf-8", errors="replace"):
        start = re.match(r"start performance test .*\((.*)\)", line)
        if start:
            kind = start[1]
        hit = LINE.search(line)
        if hit:
            get, put, keep, constant, rate = (int(hit[i]) for i in range(3, 8))
            found.setdefault((kind, int(hit[2])), {})[get, put, keep, constant] = rate
    return found


def main(arguments):
    drivers = {name: read(path) for name, path in (a.split("=", 1) for a in arguments)}
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


main(sys.argv[1:])
