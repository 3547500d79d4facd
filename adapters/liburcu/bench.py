#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lookups of cds_lfht during churn: nodes from a typed cache beside call_rcu() and free() on each malloc.

  bench.py BUILD [SECONDS [ROUNDS]]    medians of ROUNDS (15) rounds of all in turn, as a table of Markdown

"Beside glibc" is the median, with quartiles, of each round's lookups over glibc's of that round: a machine that is slower
for a while is so for both.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import compare  # noqa: E402

COLUMNS = ("lookups", "lookups_p50", "lookups_p99", "lookups_p999", "writes_p50", "writes_p99", "writes_p999",
           "peak_kib")


def main():
    build, seconds, rounds = sys.argv[1], (sys.argv[2:] + ["0.6"])[0], int((sys.argv[3:] + ["15"])[0])
    program = os.path.join(build, "bin", "stook-bench-lfht")
    plans = [("typed cache, stook_free_rcu", "stook", None)]
    plans += [(f"call_rcu and free, {name}", "malloc", preload) for name, preload in compare.mallocs(build)]
    results = {name: [] for name, _, _ in plans}
    for _ in range(rounds):
        for name, source, preload in plans:
            _, _, out = compare.run([program, source, seconds], compare.environment(preload))
            results[name].append(json.loads(out))
    print("| nodes | lookups per CPU second, million | beside glibc | p50 ns | p99 | p99.9 | replace p50 ns | p99 | p99.9 | "
          "peak MiB |")
    print("| --- " + "| ---: " * 9 + "|")
    base = next(runs for name, runs in results.items() if name.endswith("glibc"))
    for name, runs in results.items():
        middle = [compare.median([one[column] for one in runs]) for column in COLUMNS]
        ratios = sorted(one["lookups"] / other["lookups"] for one, other in zip(runs, base))
        low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        print(f"| {name} | {middle[0] / 1e6:.2f} | {compare.median(ratios):.2f} ({low:.2f} to {high:.2f}) | " +
              " | ".join(f"{v:.0f}" for v in middle[1:7]) + f" | {middle[7] / 1024:.1f} |")


if __name__ == "__main__":
    main()
