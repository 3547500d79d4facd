#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAProxy by its own pools, by malloc and on Stook: requests per second of CPU time, and memory.

    tests/pools/compare.py [--build DIR] [--only REGEX] [--rounds 40] [--scale 1.0] [--idle 10]

For each load all variants are up at once.  A round gives every one of them a short slice of the load, in random order, so what
else the machine does meets all alike.  CPU time is the kernel's clock of the proxy's process.  A rate is that of all rounds
together; it is divided by the best other's, which is chosen in other rounds than those that are compared.  The peak is VmHWM.
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


def ratio(variant, rates, halves):
    """Rates of half of the rounds, beside the best other's, which the other half chooses; and the halves the other way round."""
    def rate_of(name, rounds):
        return statistics.harmonic_mean(rates[name][n] for n in rounds)
    others = [name for name in rates if name not in (variant, "on Stook")]
    ratios = []
    for choose, judge in (halves, halves[::-1]):
        best = max(others, key=lambda name: rate_of(name, choose))
        ratios.append(rate_of(variant, judge) / rate_of(best, judge))
    return statistics.mean(ratios)


def interval(variant, rates, halves):
    """95 %, by drawing the rounds of each half again."""
    ratios = sorted(ratio(variant, rates, [random.choices(half, k=len(half)) for half in halves]) for _ in range(1000))
    return ratios[25], ratios[-26]


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
        all_rates = {variant: row[0] for variant, row in found.items()}
        halves = range(0, options.rounds, 2), range(1, options.rounds, 2)
        for variant, (rates, peak, after) in found.items():
            low, high = interval(variant, all_rates, halves)
            print(f"| {load} | {variant} | {statistics.harmonic_mean(rates):.0f} | {ratio(variant, all_rates, halves):.3f} "
                  f"[{low:.2f}, {high:.2f}] | {peak:.1f} | {after:.1f} |", flush=True)


main()
