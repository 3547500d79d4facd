# SPDX-License-Identifier: MIT
"""mimalloc-bench's programs, from a checkout of the user's: its own script runs them, one malloc at a time."""
import os
import pathlib
import re
import shutil
import sys
import tempfile

import measure

# The class of those that people use; the others are made for measuring a malloc.
REAL = {"cfrac", "espresso", "barnes", "redis", "lean", "leanN", "gs", "lua", "rocksdb", "mathlib", "linux", "z3"}
HEADER = "# benchmark allocator elapsed rss user sys page-faults page-reclaims"


class Test:
    """A test of the suite: one row of its table, or more."""
    is_server, threads = False, True
    compared = {"wall_s": True, "peak_mib": True}  # some state a time of their own in place of the elapsed one

    def __init__(self, checkout, name):
        self.folder, self.name, self.what = checkout / "out/bench", name, "of mimalloc-bench"

    def missing(self):
        return next((f"{need} not found (Debian: {need})" for need in ("time", "bc") if not shutil.which(need)), None)

    def run(self, malloc, seconds):
        """The figures of each row."""
        results = self.folder / "benchres.csv"
        results.unlink(missing_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as external:
            which = "sys"
            if malloc.preload not in (None, measure.C_LIBRARY):
                external.write(f"{malloc.name} {malloc.preload}\n")
                external.flush()
                which = f"--external={external.name}"
            command = measure.Command(["/bin/bash", "../../bench.sh", self.name, which], cwd=self.folder)
            measure.run(command, None, None, seconds)
        lines = results.read_text(encoding="utf-8") if results.exists() else "it wrote no results"
        rows = {row: figures for row, _, figures in read(lines.splitlines())}
        if not rows or "Command " in lines:
            raise measure.Failed((lines.splitlines() or ["its results are empty"])[0])
        return rows


def tests(checkout, wanted):
    """Those that are wanted, or the suite's own choice."""
    checkout = pathlib.Path(checkout).resolve()
    for need in ("bench.sh", "out/bench", "extern"):
        if not (checkout / need).exists():
            sys.exit(f"stook-bench programs: --suite {checkout}: no {need}: build-bench-env.sh of the suite makes it")
    lists = re.findall(r'^readonly tests_all(\d)="([^"]*)"', (checkout / "bench.sh").read_text(encoding="utf-8"), re.M)
    known = {name: int(at) for at, names in lists for name in names.split()}
    for name in wanted or []:
        if name not in known:
            sys.exit(f"stook-bench programs: no such test of the suite: {name} (it has {', '.join(known)})")
    return [Test(checkout, name) for name in wanted or [name for name, at in known.items() if at <= 2]]


def seconds_of(text):
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total


# ---- the suite's form of results: a line a run, its eight columns first ----

MORE = ("mean_pss_mib", "peak_pss_mib", "requests_per_s", "p50_us", "p99_us", "p999_us")


def line_of(row, malloc, figures, more):
    words = [row, malloc, f"{figures['wall_s']:.3f}", round(figures["peak_mib"] * 1024), f"{figures['user_s']:.3f}",
             f"{figures['system_s']:.3f}", figures["faults_major"], figures["faults_minor"]]
    if more:
        words += ["-" if figures.get(key) is None else f"{figures[key]:.3f}" for key in MORE]
    return " ".join(map(str, words))


def read(lines):
    """(row, malloc, figures) of each run; a run that did not work has no time."""
    for line in lines:
        words = line.split()
        if line.startswith("#") or len(words) < 8 or words[0] == "Command":
            continue
        row, malloc, elapsed, rss, user, system, major, minor, *more = words
        figures = {"wall_s": seconds_of(elapsed), "peak_mib": int(rss) / 1024, "user_s": float(user),
                   "system_s": float(system), "cpu_s": float(user) + float(system), "faults_major": int(major),
                   "faults_minor": int(minor)}
        figures |= {key: None if word == "-" else float(word) for key, word in zip(MORE, more)}
        if figures["wall_s"] and figures["cpu_s"]:
            yield row, malloc, figures
