#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAProxy by its own pools, by malloc and on Stook: requests per second of CPU time, and memory.

    tests/pools/compare.py [--build DIR] [--rounds 5] [--scale 1.0] [--idle 10]

Each round runs every variant under every load, in turn; the figures are medians over the rounds.  CPU time is the kernel's
clock of the proxy's process.  The peak is VmHWM.  The memory after is resident `--idle` seconds behind the load, in the last
round.  build.sh makes the programs.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import haproxy

HERE = pathlib.Path(__file__).resolve().parent
PLAIN = ("-dMno-cache,no-global,no-tag",)
# name: program, words, preloaded
VARIANTS = {
    "own pools": ("haproxy-own", (), False),
    "own pools, tuned": ("haproxy-tuned", ("-dMno-tag",), False),
    "malloc": ("haproxy-own", PLAIN, False),
    "malloc, preloaded": ("haproxy-own", PLAIN, True),
    "on Stook": ("haproxy-stook", (), False),
}
# name: port, requests, connections, words
LOADS = {
    "keep-alive": ("keep", 60000, 50, ()),
    "close": ("close", 15000, 50, ()),
    "2000 connections": ("keep", 60000, 2000, ()),
    "HTTP/2": ("h2", 60000, 50, ("-m", "20")),
}


def cpu_ns(pid):
    """Of all its threads: the kernel's clock of the process."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def memory(pid, key):
    return int(re.search(rf"^{key}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M)[1]) / 1024


def run(build, variant, load, scale, idle):
    program, words, preloaded = VARIANTS[variant]
    port, requests, connections, more = LOADS[load]
    environment = {"LD_PRELOAD": str(build / "lib/libstook-malloc.so")} if preloaded else {}
    with tempfile.TemporaryDirectory() as folder:
        proxy = haproxy.Proxy(build / "pools/haproxy", program, f"{folder}/proxy", words, "", environment)
        try:
            pid = proxy.process.pid
            requests = max(int(requests * scale), connections)
            haproxy.answered(proxy.load(port, max(requests // 10, connections), connections, *more))
            begin = cpu_ns(pid)
            done = haproxy.answered(proxy.load(port, requests, connections, *more))
            rate = done / (cpu_ns(pid) - begin) * 1e9
            if done < requests * 0.99:
                raise haproxy.Wrong(f"{variant}, {load}: {done} of {requests} answered")
            peak = memory(pid, "VmHWM")
            time.sleep(idle)
            return rate, peak, memory(pid, "VmRSS")
        finally:
            proxy.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--idle", type=float, default=10)
    options = parser.parse_args()
    build = options.build.resolve()
    subprocess.run([HERE / "build.sh", build], check=True)
    found = {load: {variant: [] for variant in VARIANTS} for load in LOADS}
    for n in range(options.rounds):
        last = n + 1 == options.rounds
        for load in LOADS:
            for variant in VARIANTS:
                found[load][variant].append(run(build, variant, load, options.scale, options.idle if last else 0))
    print("| load | pools | requests / CPU s | to the best other | spread | peak MiB | after |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for load, rows in found.items():
        rate = {variant: statistics.median(row[0] for row in runs) for variant, runs in rows.items()}
        best = max(value for variant, value in rate.items() if variant != "on Stook")
        for variant, runs in rows.items():
            rates = [row[0] for row in runs]
            print(f"| {load} | {variant} | {rate[variant]:.0f} | {rate[variant] / best:.2f} | "
                  f"{(max(rates) - min(rates)) / rate[variant]:.2f} | {statistics.median(row[1] for row in runs):.1f} | "
                  f"{runs[-1][2]:.1f} |")


main()
