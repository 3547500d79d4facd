# SPDX-License-Identifier: MIT
"""stook-bench CASE --against LIBDIR: the same rows with this build and with another, in turns.

Neighbouring runs make a pair, so that the machine's pace is nearly the same for both, and the figure that counts is the
median of the pairs' ratios.  For a shared library this build's worker runs with the other library in LD_LIBRARY_PATH, so
the two sides differ in the library alone.  Statically linked and inlined code is part of the program, so the other
build's own worker runs it: an inlined fast path cannot be loaded with a library of another layout.
"""
import json
import os
import statistics
import subprocess
import sys

import runs
import tables

REPEATS = 15  # of the timed cases, whose runs take a tenth of a second
LEFT_OUT = {"reserve_mib", "objects", "clock_ns"}
HALVES = {"alloc_ns", "free_ns"}  # compared where a clock of their own has timed them
FIGURES = ("this", "against", "difference", "ratio", "ratio_min", "ratio_max", "ratio_of_least")


def open_libraries(folder):
    """Ends the program with a message where the folder holds no library of ours."""
    for path, what in ((folder, "no such folder"), (folder + "/libstook.so", "there is no libstook.so")):
        if not os.access(path, os.R_OK):
            print(f"stook-bench: --against {folder}: {what}", file=sys.stderr)
            sys.exit(2)
    return os.path.realpath(folder)


def loads(worker, libraries):
    """Whether the worker takes its libraries of ours from there.  The loader is asked: a missing file name would silently
    compare this build with itself."""
    done = subprocess.run([worker], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1", "LD_LIBRARY_PATH": libraries},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    ours = [line for line in done.stdout.splitlines() if line.startswith("\tlibstook")]
    return (done.returncode == 0 and ours and all(f"=> {libraries}/" in line for line in ours)
            and "not found" not in done.stdout)


def worker_there(record, here, libraries):
    """The other side's worker of a row, or None; the record then says why."""
    shared = record.allocator.linked == "shared"
    worker = here
    if not shared or record.allocator.name == "stook-inline":
        worker = f"{libraries}/../libexec/stook-bench/{record.allocator.name}.{record.allocator.linked}"
        if not os.access(worker, os.X_OK):
            record.missing = ("the other build: has no worker of its own for what is compiled in "
                              "(../libexec/stook-bench)")
            return None
    if shared and not loads(worker, libraries):
        record.missing = "the other build: loads nothing from there"
        return None
    return worker


def run_pair(options, case, record, libraries):
    """The next pair of runs of a row: which side is first alternates.  Returns how many runs failed."""
    here, missing = runs.worker_of(record.allocator)
    if not here:
        record.missing = f"this build: {missing}"
        return 0
    record.there = record.there or worker_there(record, here, libraries)
    if not record.there:
        return 0
    sides = [("this build", here, ()), ("the other build", record.there, (f"LD_LIBRARY_PATH={libraries}",))]
    figures = {}
    for side, worker, settings in sides[::-1] if len(record.pairs) % 2 else sides:
        figures[side], status = runs.run(options, case, worker, record, *settings)
        if figures[side] is None:
            record.missing = f"{side}: {'cannot run here' if status == runs.CANNOT else 'failed'}"
            return status != runs.CANNOT
    record.pairs.append(tuple(figures[side] for side, *_ in sides))
    return 0


def ratio(here, there):
    """Zero over zero is no change; a ratio to nothing is none."""
    return 1 if here == there else here / there if there > 0 else None


def compare(record, metric):
    pairs = [(here[metric], there[metric]) for here, there in record.pairs if metric in here and metric in there]
    ratios = [one for one in (ratio(*both) for both in pairs) if one is not None]
    here, there = zip(*pairs)
    return dict(zip(FIGURES, (
        statistics.median(here), statistics.median(there), statistics.median(one - other for one, other in pairs),
        statistics.median(ratios) if ratios else None, min(ratios, default=None), max(ratios, default=None),
        ratio(min(here), min(there)))))


def show_record(options, case, record):
    variant = record.variant
    name = f"{record.allocator.name} ({record.allocator.linked})"
    if record.missing:
        print(f"missing: {case.name}: {name}: {record.missing}" if options.json else
              f"  missing: {case.name}: {name}: {record.missing}", file=sys.stderr if options.json else sys.stdout)
        return
    halves = set() if case.kind in ("slub_bulk", "kmalloc", "handoff-rcu") else HALVES
    for metric in record.pairs[0][0]:
        if metric in LEFT_OUT | halves or not any(metric in there for _, there in record.pairs):
            continue
        figures = compare(record, metric)
        if options.json:
            print(json.dumps({
                "case": case.name, "allocator": record.allocator.name, "linked": record.allocator.linked,
                "object_size": record.size, "n": record.n, "mode": variant.mode or None, "order": variant.order or None,
                "free_order": variant.free_order or None, "align": variant.align, "raised": variant.raised,
                "metric": metric, "runs": len(record.pairs),
                **{key: tables.rounded(value, 4 if "ratio" in key else 3) for key, value in figures.items()}}))
        else:
            how = " ".join(word for word in (variant.mode, variant.order, variant.free_order,
                                             "kept" if variant.raised else "") if word)
            print(f"  {record.allocator.name:<12} {record.allocator.linked:<6} {how:<28} {metric:<18}",
                  *(tables.cell(value, 9, 3) for value in figures.values()), sep="")


def repeats_of(options, case):
    if options.repeats or options.quick:
        return options.repeats or 1
    # The others take seconds a run, and their figures are bytes, faults, or long rounds.
    return REPEATS if case.ms else max(case.repeats, 3)


def run_case(options, case, size, n, libraries):
    """Runs a case at one size and n, and prints it; returns how many runs failed."""
    found = runs.records(options, case, size, n)
    failures = 0
    for record in found:
        record.there, record.pairs = None, []
    for _ in range(repeats_of(options, case)):
        failures += sum(run_pair(options, case, record, libraries) for record in found if not record.missing)
    if found and not options.json:
        titles = "".join(f" {title:>9}" for title in ("this", "against", "diff", "ratio", "min", "max", "least"))
        print(f"{case.name}: {case.what}\n  ({size} bytes, n = {n}; against {libraries})\n"
              f"  {'allocator':<12} {'linked':<6} {'mode':<28} {'figure':<18}{titles}")
    for record in found:
        show_record(options, case, record)
    if found and not options.json:
        print()
    sys.stdout.flush()
    return failures
