#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A std::map<std::string, long> of a million nodes: nodes from typed caches against std::allocator on each malloc.

    bench/cpp_map.py [--repeats N] [--nodes N] [--key BYTES] [--json] [BUILD]

Prints medians of N runs in turns: nanoseconds an operation, and resident bytes a node, filled, after every second
node was replaced, and after all were freed.  "typed" has its nodes from stook::allocator, and keys beyond 15
bytes from glibc's malloc; "typed, stook" has these from libstook-malloc.  --json: one line a run instead.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

COLUMNS = [("insert_ns", "insert"), ("find_ns", "find"), ("walk_ns", "walk"), ("replace_ns", "replace"),
           ("delete_ns", "free"), ("node_bytes", "bytes"), ("churned_bytes", "replaced"), ("left_bytes", "left")]


def variants(build):
    """(name, program, what is preloaded)"""
    folder = build / "libexec" / "stook-bench"
    mallocs = dict(line.split("=", 1) for line in (folder / "mallocs").read_text().split())
    yield "typed", folder / "stook-bench-map-typed", None
    if os.path.exists(mallocs.get("stook", "")):
        yield "typed, stook", folder / "stook-bench-map-typed", mallocs["stook"]
    for name, path in mallocs.items():
        if "/" not in path or os.path.exists(path):
            yield name, folder / "stook-bench-map-std", path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "build")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1000000)
    parser.add_argument("--key", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures, sums = {}, set()
    for turn in range(options.repeats):
        all_of = list(variants(options.build))
        for name, program, preload in all_of if turn % 2 == 0 else reversed(all_of):
            environment = os.environ | ({"LD_PRELOAD": preload} if preload else {})
            said = subprocess.run([program, str(options.nodes), str(options.key)], env=environment, check=True,
                                  capture_output=True, text=True).stdout
            record = json.loads(said)
            sums.add(record["sum"])
            figures.setdefault(name, []).append(record)
            if options.json:
                print(json.dumps({"allocator": name, "key_bytes": options.key, **record}), flush=True)
    if len(sums) != 1:
        raise SystemExit(f"the maps differ: {sums}")
    if options.json:
        return
    print(f"{options.nodes} nodes, keys of {options.key} bytes, medians of {options.repeats} runs; ns an operation, resident bytes a node")
    print(f"{'':14}" + "".join(f"{title:>10}" for _, title in COLUMNS))
    for name, records in sorted(figures.items(), key=lambda item: not item[0].startswith("typed")):
        print(f"{name:14}" + "".join(f"{statistics.median(r[key] for r in records):10.1f}" for key, _ in COLUMNS))


main()
