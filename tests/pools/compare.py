#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAProxy by its own pools, by malloc and on Stook: requests per second of CPU time, and memory.

    tests/pools/compare.py [--build DIR] [--only REGEX] [--rounds 40] [--scale 1.0] [--idle 10]

For each load all variants are up at once.  A round gives every one of them a short slice of the load, in random order, so what
else the machine does meets all alike.  CPU time is the kernel's clock of the proxy's process.  A ratio is the median over the
rounds of a variant's rate divided by the best other's, which is chosen in other rounds than those that compare.  The peak is VmHWM.
The memory after is resident `--idle` seconds behind the load.  build.sh makes the programs.
"""
import argparse
import contextlib
import pathlib
import random
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
# name: port, requests of a slice, connections, words
LOADS = {
    "keep-alive": ("keep", 6000, 50, ()),
    "close": ("close", 1500, 50, ()),
    "2000 connections": ("keep", 8000, 2000, ()),
    "HTTP/2": ("h2", 6000, 50, ("-m", "20")),
}


def cpu_ns(pid):
    """Of all its threads: the kernel's clock of the process."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def memory(pid, key):
    return int(re.search(rf"^{key}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M)[1]) / 1024


def start(build, variant, folder):
    program, words, preloaded = VARIANTS[variant]
    environment = {"LD_PRELOAD": str(build / "lib/libstook-malloc.so")} if preloaded else {}
    return haproxy.Proxy(build / "pools/haproxy", program, f"{folder}/{list(VARIANTS).index(variant)}", words, "", environment)


def rate(proxy, load, scale):
    """Requests per second of CPU time in one slice."""
    port, requests, connections, words = LOADS[load]
    requests = max(int(requests * scale), connections)
    begin = cpu_ns(proxy.process.pid)
    done = haproxy.answered(proxy.load(port, requests, connections, *words))
    if done < requests * 0.99:
        raise haproxy.Wrong(f"{load}: {done} of {requests} answered")
    return done / (cpu_ns(proxy.process.pid) - begin) * 1e9


def measure(build, load, rounds, scale, idle):
    """{variant: (rates, peak, memory after)}"""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        proxies = {}
        for variant in VARIANTS:
            proxies[variant] = start(build, variant, folder)
            stack.callback(proxies[variant].end)
        rates = {variant: [] for variant in VARIANTS}
        for n in range(rounds + 2):
            for variant in random.sample(list(VARIANTS), len(VARIANTS)):
                one = rate(proxies[variant], load, scale)
                if n >= 2:  # the first two warm them up
                    rates[variant].append(one)
        time.sleep(idle)
        return {variant: (rates[variant], memory(proxy.process.pid, "VmHWM"), memory(proxy.process.pid, "VmRSS"))
                for variant, proxy in proxies.items()}


def ratios_of(variant, rates):
    """Beside the best other, which every second round chooses for the rounds between, and those for it."""
    ratios = []
    for n in (0, 1):
        others = {name: statistics.median(row[n::2]) for name, row in rates.items() if name not in (variant, "on Stook")}
        best = max(others, key=others.get)
        ratios += [own / other for own, other in zip(rates[variant][1 - n::2], rates[best][1 - n::2])]
    return ratios


def interval(ratios):
    """95 % of the median, by drawing the rounds again."""
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--idle", type=float, default=10)
    options = parser.parse_args()
    build = options.build.resolve()
    subprocess.run([HERE / "build.sh", build], check=True)
    print("| load | pools | requests / CPU s | to the best other [95 %] | peak MiB | after |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for load in filter(re.compile(options.only).search, LOADS):
        found = measure(build, load, options.rounds, options.scale, options.idle)
        for variant, (rates, peak, after) in found.items():
            ratios = ratios_of(variant, {name: row[0] for name, row in found.items()})
            low, high = interval(ratios)
            print(f"| {load} | {variant} | {statistics.median(rates):.0f} | {statistics.median(ratios):.3f} "
                  f"[{low:.2f}, {high:.2f}] | {peak:.1f} | {after:.1f} |", flush=True)


main()
