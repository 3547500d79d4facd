#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What hardening of links costs: the benches that follow and write links, built with it and without,
run in turns; the ratio of the medians, and of the fastest runs, for each case.

    bench/hardening.py [TURNS]
"""
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TREES = {"hardened": "ON", "plain": "OFF"}
CASES = [
    ["slub_bulk", "--quick", "--mode", "emit,link-inside", "--size", "64,256", "--mib", "64"],
    ["kmalloc", "--size", "32,64,256,1024"],
    ["slab_bulk", "--mode", "bulk", "--n", "8,64,250"],
]


def build():
    for name, harden in TREES.items():
        tree = f"{ROOT}/build-{name}"
        for command in (
            ["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
             f"-DSTOOK_ENCODED_LINKS={harden}", "-DSTOOK_TESTS=OFF", "-DSTOOK_BENCH_PEERS=OFF"],
            ["cmake", "--build", tree, "--target", "bench-stook-shared", "stook-bench"],
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run(name, case, figures):
    command = [f"{ROOT}/build-{name}/bin/stook-bench", *case, "--json", "--repeats", "1",
               "--allocators", "stook", "--linked", "shared"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        record = json.loads(line)
        key = tuple(record.get(k) for k in ("case", "object_size", "mode", "order", "free_order"))
        for half in ("alloc_ns", "free_ns"):
            figures.setdefault((*key, half), {}).setdefault(name, []).append(record[half])


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    figures, medians, least = {}, [], []
    build()
    for turn in range(turns):
        for case in CASES:
            for name in sorted(TREES, reverse=turn % 2 == 0):
                run(name, case, figures)
    print(f"hardened over plain, {turns} turns: medians, fastest")
    for key, by_name in figures.items():
        hard, plain = by_name["hardened"], by_name["plain"]
        medians.append(statistics.median(hard) / statistics.median(plain))
        least.append(min(hard) / min(plain))
        print(f"  {medians[-1]:.3f} {least[-1]:.3f}  " + " ".join(str(k) for k in key if k))
    print(f"  {statistics.median(medians):.3f} {statistics.median(least):.3f}  in the middle")


if __name__ == "__main__":
    main()
