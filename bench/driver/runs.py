# SPDX-License-Identifier: MIT
"""The records that a case makes, and one run of one worker for one of them."""
import os
import statistics
import subprocess
import sys

import cases

CANNOT = 77  # the status of a worker that cannot run a case, after it said why
# The workers lie in ../libexec/stook-bench, seen from the link that this program was started by.
WORKERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0]))), "libexec/stook-bench")


class Record:
    """One allocator's figures in one variant."""

    def __init__(self, allocator, variant, size, n):
        self.allocator, self.variant, self.size, self.n = allocator, variant, size, n
        self.missing = ""  # why it was not measured
        self.samples = {}  # what the runs reported, by metric
        self.values = {}  # the medians, and pair_min and pair_max

    def take(self, figures):
        for metric, value in figures.items():
            self.samples.setdefault(metric, []).append(value)

    def summarise(self):
        self.values = {metric: statistics.median(values) for metric, values in self.samples.items()}
        if "pair_ns" in self.samples:
            self.values.update(pair_min=min(self.samples["pair_ns"]), pair_max=max(self.samples["pair_ns"]))


def listed(wanted, value):
    """Whether the option leaves it; a choice that a record does not have cannot leave it out."""
    return not wanted or not value or value in wanted


def records(options, case, size, n):
    """The records that the options leave of a case at that size and n."""
    return [Record(allocator, variant, size, n) for allocator in cases.ALLOCATORS
            if case.kind in allocator.kinds and listed(options.allocators, allocator.name)
            and (not options.against or allocator.role == "stook")
            and (not options.litter or allocator.role in ("stook", "peer"))
            and (case.kind == "memory" or listed(options.linked, allocator.linked))
            for variant in cases.variants(case, allocator, options.quick)
            if listed(options.mode, variant.mode) and listed(options.order, variant.order)
            and listed(options.free_order, variant.free_order) and listed(options.align, variant.align)]


def worker_of(allocator):
    """The worker's path, or None and the reason why there is none."""
    path = f"{WORKERS}/{allocator.name}.{allocator.linked}"
    if os.access(path, os.X_OK):
        return path, ""
    try:  # the build leaves a note beside where the worker would be
        with open(path + ".missing", encoding="utf-8") as note:
            return None, note.read().strip()
    except OSError:
        return None, "not built"


def start(worker, case, arguments, settings=()):
    """What the worker reported, by metric, or None and its status."""
    words = [worker, case, *(f"{key}={value}" for key, value in arguments.items())]
    environment = {**os.environ, **dict(setting.split("=", 1) for setting in settings)}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return {key: float(value) for key, value in (pair.split("=") for pair in done.stdout.split())}, 0
    if done.returncode != CANNOT:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        print(f"stook-bench: {worker} {case} ended with {how}", file=sys.stderr)
    return None, done.returncode


def run(options, case, worker, record, *settings):
    """Runs the worker once for a record; `settings` are added to its environment."""
    variant = record.variant
    keeps = cases.KEEPS.get(record.allocator.name) if variant.raised else None
    arguments = {
        "object_size": record.size, "n": record.n, "align": variant.align,
        "threads": options.threads or case.threads, "mib": options.mib or case.mib,
        "rounds": options.rounds or variant.rounds or case.rounds, "ms": options.ms or case.ms,
        "settle": options.settle, "in_order": int(options.in_order),
        "mode": variant.mode, "order": variant.order, "free_order": variant.free_order,
    }
    if options.litter:
        arguments["litter"] = options.litter
    return start(worker, case.name, arguments, [setting for setting in (keeps, *settings) if setting])


def run_all(options, case, found):
    """All allocators, interleaved over the repeats: a disturbance meets all of them.  Returns how many runs failed."""
    repeats = options.repeats or (1 if options.quick else case.repeats)
    failures = 0
    for turn in range(repeats):
        first = turn * (len(found) // repeats + 1) % max(len(found), 1)
        for record in found[first:] + found[:first]:
            if record.missing:
                continue
            worker, record.missing = worker_of(record.allocator)
            if not worker:
                continue
            figures, status = run(options, case, worker, record)
            if figures is None:
                record.missing = "cannot run here" if status == CANNOT else "failed"
                failures += status != CANNOT
            else:
                record.take(figures)
    for record in found:
        record.summarise()
    return failures
