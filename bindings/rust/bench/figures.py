#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Both tables of docs/rust.md in one run: criterion's medians, and the ordered map's best of three processes.

    figures.py        on a machine that does nothing else; some two minutes, and a build first
    figures.py --build  only that
"""
import json
import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", here / "target")).resolve()
names = ["stook::Pooled", "stook::Batch", "stook, array", "slab", "sharded-slab", "glibc", "jemalloc", "mimalloc", "snmalloc",
         "stook::Malloc"]
columns = ["pair", "batch of 32", "one of 100000"]


def median(column, name):
    """ns an object; a folder is called as criterion writes the name."""
    folder = name.replace("::", "__")
    path = target / "criterion" / column / folder / "new/estimates.json"
    if not path.exists():
        return ""
    each = 32 if column == "batch of 32" else 1
    return f"{json.loads(path.read_text())['median']['point_estimate'] / each:.1f}"


def cargo(*arguments):
    subprocess.run(["cargo", *arguments], cwd=here, check=True, stdout=subprocess.DEVNULL)


cargo("bench", "--locked", "--no-run")
cargo("build", "--locked", "--release", "--bin", "tree")
if sys.argv[1:] == ["--build"]:
    sys.exit()
cargo("bench", "--locked")
print("| ns an object | pair | 32, then 32 drops | one of 100,000 |\n| --- | ---: | ---: | ---: |")
for name in names:
    print(f"| {name} | " + " | ".join(median(column, name) for column in columns) + " |")
print(flush=True)
subprocess.run([target / "release/tree"], check=True)
