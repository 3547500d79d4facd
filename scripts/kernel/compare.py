#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a kernel counted beside what the lab counted of the same calls.

    compare.py RUN LAB... [--expected FILE --key KEY] [--json | --show]
    compare.py RUN [--same OTHER]
    compare.py RUN --before OTHER
    compare.py RUN --bios READS

RUN is the path of a run's files without their endings (machine.py's OUT/NAME).  Each LAB is the JSON of
`stook lab order` for the same order, each of another seed: the kernel draws from the clock whether it looks at
other nodes' slabs, and the lab from its seed.  One row a counter: the kernel's value, the lab's first and the
range of all, the shares of the operations (an operation is an object allocated), and lab/kernel.

A row is alike if the kernel's value is in the lab's range, or misses it by no more than a tenth of the
value, two events (two sheaves, where objects of sheaves are counted), or FLOOR of the operations: below that
one slab more or less is a large part of the value.
--expected gives rows a wider tolerance, each with its reason (expected.txt).
Without LAB only the kernel's own counters are checked: every call was counted once, nothing was lost,
and OTHER, which followed RUN's order, made the same calls.
--before: RUN made OTHER's calls on a kernel with the change of slub/; the rows of both, and what the change
promises: a tenth at most of the frees past sheaves, and no more objects refilled.
--bios: what the block layer's own cache of bios counted in READS reads of ublk.c.
The last line is `N passed, N failed`; the status is 1 if a row failed.  --show prints the table alone.
"""
import argparse
import fnmatch
import glob
import json
import struct
import sys

TOLERANCE = 0.10
FLOOR = 0.0005
POOL = 257  # bios that a CPU of the block layer keeps (bio_put_percpu_cache, ALLOC_CACHE_MAX)

# Counters that sheaves or the lists before them do not have are absent in one of the kernels.
ROWS = """alloc_fastpath alloc_slowpath free_fastpath free_slowpath
barn_get barn_get_fail barn_put barn_put_fail sheaf_refill sheaf_flush
alloc_refill alloc_from_partial cpu_partial_alloc cpu_partial_node cpu_partial_free
cpu_partial_drain deactivate_bypass deactivate_empty free_frozen
alloc_slab free_slab free_add_partial free_remove_partial""".split()
SHAPE = "slab_size order objs_per_slab sheaf_capacity".split()


def counters(path):
    """name -> value of a file of init.c: the sum of all CPUs, or the value."""
    result = {}
    with open(path) as file:
        for line in file:
            name, _, text = line.rstrip("\n").partition(":")
            first = text.split(" ")[0]
            if first.lstrip("-").isdigit():
                result[name] = int(first)
    return result


def per_cpu(path, name):
    """What each CPU counted: cpu -> value."""
    with open(path) as file:
        for line in file:
            if line.startswith(name + ":"):
                pairs = (word[1:].split("=") for word in line.split()[1:] if word[0] == "C")
                return {int(cpu): int(value) for cpu, value in pairs}
    return {}


def lab_value(lab, name):
    """Of a JSON of `stook lab order`: behind the last record, as the kernel's counters are read."""
    return lab.get(name) if name in SHAPE else lab["before"].get(name)


def expected(path, key):
    """row -> (tolerance, reason), of the lines `KEY ROW PERCENT REASON`."""
    result = {}
    with open(path) as file:
        for number, line in enumerate(file, 1):
            words = line.split(None, 3)
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 4 or not words[2].isdigit() or words[1] not in ROWS:
                sys.exit(f"{path}:{number}: a line is KEY ROW PERCENT REASON")
            if fnmatch.fnmatch(key, words[0]):
                result[words[1]] = (int(words[2]) / 100, words[3].strip())
    return result


def table(run, labs, wider):
    kernel = counters(run + ".counters")
    operations = counters(run + ".status")["allocs"]
    rows = []
    for name in SHAPE + ROWS:
        values = [lab_value(lab, name) for lab in labs]
        if name not in kernel or None in values:
            continue
        theirs = kernel[name]
        tolerance, reason = wider.get(name, (TOLERANCE, None))
        miss = max(min(values) - theirs, theirs - max(values), 0)
        unit = kernel.get("sheaf_capacity", 1) if name in ("sheaf_refill", "sheaf_flush") else 1
        most = 0 if name in SHAPE else max(tolerance * theirs, FLOOR * operations, 2 * unit)
        rows.append({"row": name, "kernel": theirs, "lab": values[0], "least": min(values),
                     "most": max(values), "miss": miss, "tolerance": tolerance, "reason": reason,
                     "passed": miss <= most})
    return operations, rows


def show(title, operations, rows, only):
    print(f"{title}: {operations} operations")
    print(f"  {'':20}{'kernel':>9}{'lab':>9}{'all seeds':>16}{'kernel %':>10}{'lab %':>9}{'lab/kernel':>12}")
    for row in rows:
        theirs, ours = row["kernel"], row["lab"]
        text = f"  {row['row']:20}{theirs:>9}{ours:>9}"
        if row["row"] not in SHAPE:
            text += f"{row['least']:>9}-{row['most']:<6}"
            text += f"{100 * theirs / operations:>10.3f}{100 * ours / operations:>9.3f}"
            text += f"{ours / theirs:>12.3f}" if theirs else f"{'-' if ours else '1.000':>12}"
        if not row["passed"] and not only:
            text += "  FAILED"
        elif row["reason"]:
            text += f"  within {100 * row['tolerance']:.0f} %: {row['reason']}"
        print(text)


def freed(counts):
    """Frees of all kinds; only the change of slub/ counts those to remote sheaves by themselves."""
    return counts["free_fastpath"] + counts["free_slowpath"] + counts.get("free_remote", 0)


def conserved(run):
    """Checks of the kernel alone: nothing was lost, and every call was counted once.  name -> (is, should be)."""
    before, end, status = (counters(run + ending) for ending in (".counters", ".end", ".status"))
    allocs, frees, order = orders(run + ".order")
    checks = {
        "status": (status["status"], 0),
        "objects given twice, or changed while out": (status["broken"], 0),
        "allocations that failed": (status["failed"], 0),
        "records": (status["records"], allocs + frees),
        "records that make sense": (order, allocs + frees),
        "allocations": (status["allocs"], allocs),
        "frees, the end included": (status["frees"], allocs),
        "alloc_fastpath + alloc_slowpath": (
            before["alloc_fastpath"] + before["alloc_slowpath"], allocs),
        "free_fastpath + free_slowpath (+ free_remote)": (freed(before), frees),
        "the same at the end": (freed(end), allocs),
        "slabs": (end["slabs"], end["alloc_slab"] - end["free_slab"]),
    }
    return checks


def orders(path):
    """Allocations, frees, and records that make sense: an object is freed once, after its allocation."""
    out, count, good = set(), [0, 0], 0
    with open(path, "rb") as file:
        magic, version, cpus, _, objects, _ = struct.unpack("<8sIIIIQ", file.read(32))
        if magic != b"STKORDER" or version != 1:
            sys.exit(f"{path}: no order file")
        for thing, cpu, op, _ in struct.iter_unpack("<IHBB", file.read()):
            count[op] += 1
            good += thing < objects and cpu < cpus and (thing in out) == (op == 1)
            (out.discard if op else out.add)(thing)
    return count[0], count[1], good


def show_conserved(checks):
    """Only what is wrong; the number of what is right."""
    bad = {name: pair for name, pair in checks.items() if pair[0] != pair[1]}
    for name, (found, should) in bad.items():
        print(f"  FAILED: {name}: {found}, should be {should}")
    return len(checks) - len(bad), len(bad)


def bios(run, reads):
    """Checks, and a table of what each counter rose by."""
    names = [path[len(run + ".after-"):] for path in glob.glob(run + ".after-*")]
    rises = {}
    for name in names:
        before, after = (counters(f"{run}.{when}-{name}") for when in ("before", "after"))
        rises[name] = {row: after[row] - before[row] for row in ROWS if row in after}
    allocs = {name: rise["alloc_fastpath"] + rise["alloc_slowpath"] for name, rise in rises.items()}
    name = max(allocs, key=allocs.get)
    frees = rises[name]["free_fastpath"] + rises[name]["free_slowpath"]
    freeing = {cpu for row in ("free_fastpath", "free_slowpath")
               for cpu, count in per_cpu(f"{run}.after-{name}", row).items() if count > POOL}
    shape = counters(f"{run}.after-{name}")
    print(f"  {name}: " + ", ".join(f"{row} {shape[row]}" for row in SHAPE if row in shape))
    for row, rise in rises[name].items():
        print(f"  {row:20}{rise:>9}{100 * rise / reads:>10.3f} %")
    kept = allocs[name] - frees
    print(f"  bios that the caches of {len(freeing)} completing CPUs keep: {kept}")
    status = counters(run + ".status")
    return {
        "status": (status["status"], 0),
        "reads": (status["reads"], reads),
        "a bio a read, or a few more": (0 <= allocs[name] - reads <= POOL, True),
        "bios kept: no more than the caches hold": (0 <= kept <= POOL * len(freeing), True),
    }


def change(run, other):
    """A table of both, and checks."""
    before, after = counters(other + ".counters"), counters(run + ".counters")
    operations = counters(run + ".status")["allocs"]
    print(f"  {'':20}{'before':>9}{'after':>9}{'before %':>10}{'after %':>9}")
    for row in ROWS + ["free_remote", "barn_raise"]:
        if row in after:
            was, now = before.get(row, 0), after[row]
            print(f"  {row:20}{was:>9}{now:>9}{100 * was / operations:>10.3f}{100 * now / operations:>9.3f}")
    floor = FLOOR * operations
    return {
        "free_slowpath: a tenth of before at most": (
            after["free_slowpath"] <= max(before["free_slowpath"] / 10, floor), True),
        "sheaf_refill: no more than before": (
            after["sheaf_refill"] <= before["sheaf_refill"] + 2 * after["sheaf_capacity"] + floor, True),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--expected")
    parser.add_argument("--key", default="")
    parser.add_argument("--same")
    parser.add_argument("--before")
    parser.add_argument("--bios", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    title = options.key or options.run
    if options.bios:
        print(f"{title}: {options.bios} reads")
        passed, failed = show_conserved(bios(options.run, options.bios))
    elif options.before:
        print(f"{title}: the change")
        passed, failed = show_conserved(change(options.run, options.before))
    elif not options.lab:
        checks = conserved(options.run)
        if options.same:
            with open(options.run + ".order", "rb") as a, open(options.same + ".order", "rb") as b:
                checks["calls of " + options.same] = (a.read() == b.read(), True)
        print(f"{title}: every call counted once, nothing lost")
        passed, failed = show_conserved(checks)
    else:
        labs = []
        for path in options.lab:
            with open(path) as file:
                labs.append(json.load(file))
        wider = expected(options.expected, options.key) if options.expected else {}
        operations, rows = table(options.run, labs, wider)
        failed = sum(not row["passed"] for row in rows)
        passed = len(rows) - failed
        if options.json:
            print(json.dumps({"key": options.key, "operations": operations, "rows": rows}, indent=1))
            sys.exit(failed > 0)
        show(title, operations, rows, options.show)
        if options.show:
            sys.exit(0)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
