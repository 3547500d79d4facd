#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python on Stook beside pymalloc, and beside PYTHONMALLOC=malloc on each malloc.

  bench.py BUILD [ROUNDS]    medians of ROUNDS (9) rounds of all in turn: two tables of Markdown

Times are of the CPU, in brackets the median of each round's ratio to pymalloc's of that round.
"""
import os
import resource
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import compare  # noqa: E402
import workloads  # noqa: E402

PYTHON = "/usr/bin/python3"


def main():
    build, rounds = sys.argv[1], int((sys.argv[2:] + ["9"])[0])
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
                before = cpu_of_children()
                _, peak, out = compare.run([PYTHON, "-B"] + words, compare.environment(preload, **env))
                times[label, name].append(cpu_of_children() - before if name == "start" else float(out))
                peaks[label, name].append(peak)
    print_table("ms", names, plans, lambda key: f"{compare.median(times[key]) * 1000:.1f} ({ratio(times, *key):.2f})")
    print_table("peak MiB", names, plans, lambda key: f"{compare.median(peaks[key]) / 1024:.1f}")


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ratio(times, label, name):
    return compare.median([one / base for one, base in zip(times[label, name], times["pymalloc", name])])


def print_table(title, names, plans, cell):
    print(f"| {title} | " + " | ".join(names + ["start"]) + " |")
    print("| --- " + "| ---: " * (len(names) + 1) + "|")
    for label, _, _ in plans:
        print(f"| {label} | " + " | ".join(cell((label, name)) for name in names + ["start"]) + " |")
    print()


if __name__ == "__main__":
    main()
