#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python on Stook beside pymalloc, and beside PYTHONMALLOC=malloc on each malloc.

  bench.py BUILD [ROUNDS]    medians of ROUNDS (3) rounds of all in turn: two tables of Markdown
"""
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import compare  # noqa: E402
import workloads  # noqa: E402

PYTHON = "/usr/bin/python3"


def main():
    build, rounds = sys.argv[1], int((sys.argv[2:] + ["3"])[0])
    mallocs = compare.mallocs(build)
    with tempfile.TemporaryDirectory() as user:
        site = os.path.join(user, "lib", "python%d.%d" % python_version(), "site-packages")
        shutil.copytree(os.path.join(build, "adapters", "cpython", "stook"), os.path.join(site, "stook"))
        shutil.copy(os.path.join(HERE, "stook.pth"), site)
        ours = {"PYTHONSTOOK": "1", "PYTHONUSERBASE": user,
                "LD_LIBRARY_PATH": os.path.abspath(os.path.join(build, "lib"))}
        plans = [("pymalloc", None, {}), ("Stook", None, ours), ("Stook, over stook-malloc", mallocs[-1][1], ours)]
        plans += [(f"malloc: {name}", preload, {"PYTHONMALLOC": "malloc"}) for name, preload in mallocs]
        measure(plans, rounds)


def python_version():
    out = compare.run([PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], compare.environment(None))[2]
    return tuple(int(word) for word in out.split())


def measure(plans, rounds):
    names = list(workloads.WORKLOADS)
    times = {(plan[0], name): [] for plan in plans for name in names + ["start"]}
    peaks = {key: [] for key in times}
    for _ in range(rounds):
        for name in names + ["start"]:
            words = [os.path.join(HERE, "workloads.py"), name] if name != "start" else ["-c", "print(0)"]
            for label, preload, env in plans:
                wall, peak, out = compare.run([PYTHON, "-B"] + words, compare.environment(preload, **env))
                times[label, name].append(wall if name == "start" else float(out))
                peaks[label, name].append(peak)
    for title, table, scale, form in (("ms", times, 1000, ".1f"), ("peak MiB", peaks, 1 / 1024, ".1f")):
        print(f"| {title} | " + " | ".join(names + ["start"]) + " |")
        print("| --- " + "| ---: " * (len(names) + 1) + "|")
        for label, _, _ in plans:
            cells = [format(compare.median(table[label, name]) * scale, form) for name in names + ["start"]]
            print(f"| {label} | " + " | ".join(cells) + " |")
        print()


if __name__ == "__main__":
    main()
