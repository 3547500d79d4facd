#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stook-bench programs: whole programs under each malloc at hand, in turns, in one run."""
import argparse
import os
import pathlib
import shutil
import sys
import tempfile

import catalogue
import machine
import mallocs
import measure
import report
import server
import servers
import suite

def command_line():
    parser = argparse.ArgumentParser(prog="stook-bench programs", description=__doc__.split(": ", 1)[1])
    mallocs.add_options(parser, "program", 120)
    parser.add_argument("--programs", metavar="LIST", help="only these")
    parser.add_argument("--repeats", type=int, default=7, metavar="N", help="counted rounds of runs (7)")
    parser.add_argument("--size", type=float, default=1.0, metavar="X",
                        help="of the work: 1 is about a second of each program")
    parser.add_argument("--quick", action="store_true", help="one round of a twentieth of the work")
    parser.add_argument("--no-pss", action="store_true", help="without the runs that sample memory over time")
    parser.add_argument("--sample-ms", type=float, default=10, metavar="MS", help="between two samples (10)")
    parser.add_argument("--list", action="store_true", help="names the programs and what is missing")
    parser.add_argument("--keep", metavar="DIR", help="makes the inputs in DIR and leaves them there")
    parser.add_argument("--litter", type=float, metavar="SHARE", help="run each program also in a littered heap, NAME~: its "
                        "own sizes allocated beforehand, and this share of them (0 to 1) freed at random")
    parser.add_argument("--suite", metavar="CHECKOUT", help="run the tests of a built checkout of mimalloc-bench instead; "
                        "--programs names some of them")
    parser.add_argument("--csv", metavar="FILE", help="also writes each run there, in the form of that suite")
    parser.add_argument("--read", metavar="FILE", help="run nothing: compare what such a file has")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.size = 1, options.size / 20
    if options.repeats < 1 or options.size <= 0 or options.sample_ms <= 0:
        parser.error("--repeats, --size and --sample-ms are above zero")
    if options.litter is not None and (options.suite or not 0 <= options.litter <= 1):
        parser.error("--litter is a share of 0 to 1, and not for --suite")
    options.programs = options.programs.split(",") if options.programs else None
    return options


def subjects(options):
    """All programs and servers that were asked for; those that are missing with the reason."""
    if options.suite:
        every = suite.tests(options.suite, options.programs)
        why = every[0].missing()
        return ([], {one.name: why for one in every}) if why else (every, {})
    every = [*catalogue.PROGRAMS, *servers.SERVERS]
    known = {one.name for one in every}
    for name in options.programs or []:
        if name not in known:
            sys.exit(f"stook-bench programs: no such program: {name} (--list names them)")
    asked = [one for one in every if not options.programs or one.name in options.programs]
    missing = {one.name: why for one in asked if (why := one.missing())}
    if options.litter is not None:
        missing |= {one.name: "servers are not littered" for one in asked if isinstance(one, type)}
    return [one for one in asked if one.name not in missing], missing


class Subject:
    """One program or server: its rounds."""
    compared = report.COMPARED

    def __init__(self, one, folder, options, cpu):
        self.one, self.options = one, options
        self.name, self.what, self.is_server = one.name, one.what, isinstance(one, type)
        folder.mkdir(exist_ok=True)
        if self.is_server:
            self.thing = one(folder)
        else:
            self.thing = one.make(folder, options.size)
        self.cpu = None if self.is_server or one.threads else cpu
        self.sums = {}
        if options.litter is not None:
            self.cost = folder / "litter"
            self.cost.mkdir(exist_ok=True)
            self.thing.env |= {"BENCH_LITTER": str(self.cost), "BENCH_LITTER_SHARE": str(options.litter)}
            measure.run(self.thing, mallocs.Malloc("", mallocs.RECORD), self.cpu, options.timeout)

    def run(self, malloc, seconds):
        """The figures of each row that the subject has in tables."""
        if self.is_server:
            return {self.name: server.run(self.thing, malloc, self.options.size)}
        figures = measure.run(self.thing, malloc, self.cpu, seconds)
        if malloc.name.endswith(report.LITTERED):
            mallocs.subtract(self.cost / "cost", figures)
        total = figures.pop("sum")
        if self.thing.checked and self.sums.setdefault("first", total) != total:
            raise measure.Failed("its output differs")
        return {self.name: figures}

    def sampled(self, malloc):
        pause = self.options.sample_ms / 1000
        if self.is_server:
            return server.run_sampled(self.thing, malloc, self.options.size, pause)
        return measure.run_sampled(self.thing, malloc, self.cpu, self.options.timeout, pause)


def one_run(subject, malloc, options, is_counted):
    """Figures by row."""
    machine.make_memory(options.memory)
    figures = subject.run(malloc, options.timeout)
    if is_counted and not options.no_pss and not options.suite:
        machine.make_memory(options.memory)
        figures[subject.name] |= subject.sampled(malloc)
    return figures


def rounds(subject, those, options):
    """For each row of the subject and each malloc its figures, a dictionary a round; and what failed."""
    taken, failed = measure.in_turns(those, options.repeats, lambda malloc, counts: one_run(subject, malloc, options, counts))
    rows = {}
    for name, runs in taken.items():
        for row, figures in ((row, figures) for one in runs for row, figures in one.items()):
            rows.setdefault(row, {}).setdefault(name, []).append(figures)
    return rows or {subject.name: {}}, failed


class Csv:
    """The file of --csv: what the table is of, and each run."""

    def __init__(self, options, those):
        self.file = open(options.csv, "w", encoding="utf-8") if options.csv else None
        self.more = not options.suite
        if self.file:
            machine.say_facts(self.file, *((f"malloc {one.name}", one.version()) for one in those), memory=options.memory)
            print(suite.HEADER, *(suite.MORE if self.more else ()), file=self.file)

    def write(self, rows, failed):
        if not self.file:
            return
        for row, runs in rows.items():
            for turn in zip(*([(name, one) for one in of_malloc] for name, of_malloc in runs.items() if name not in failed)):
                for name, figures in turn:
                    print(suite.line_of(row, name, figures, self.more), file=self.file)
            for name, why in failed.items():
                print(f"# failed: {row} {name}: {why}", file=self.file)
        self.file.flush()


def read_only(options):
    """The tables of a file; the form of the suite alone has no more than eight columns."""
    rows, names, compared = {}, {}, suite.Test.compared
    with open(options.read, encoding="utf-8") as lines:
        for row, malloc, figures in suite.read(lines):
            if (options.programs and row not in options.programs) or (
                    options.allocators and malloc not in options.allocators.split(",")):
                continue
            names[malloc] = None
            compared = report.COMPARED if "mean_pss_mib" in figures else compared
            rows.setdefault(row, {}).setdefault(malloc, []).append(figures)
    for runs in rows.values():  # a file may lack some runs
        most = max(map(len, runs.values()))
        runs |= {name: of_malloc + [{}] * (most - len(of_malloc)) for name, of_malloc in runs.items()}
    rows = {row: report.by_figure(runs, ()) for row, runs in rows.items()}
    for row, taken in rows.items():
        report.show_row(row, "", list(names), taken, {}, compared, options.json)
    if not options.json:
        report.summary(rows, list(names), compared)
    return 0


def measure_all(options, chosen, those, folder):
    """Runs the subjects; the figures by row, and how much failed."""
    names, csv = [malloc.name for malloc in those], Csv(options, those)
    cpu, every, failures = max(os.sched_getaffinity(0)), {}, 0
    for one in chosen:
        try:
            subject = one if options.suite else Subject(one, folder / one.name, options, cpu)
        except (measure.Failed, OSError, ValueError) as error:
            print(f"missing: {one.name}: its input cannot be made: {error}", file=sys.stderr)
            failures += 1
            continue
        rows, failed = rounds(subject, those, options)
        failures += len(failed)
        csv.write(rows, failed)
        for row, runs in rows.items():
            every[row] = report.by_figure(runs, failed)
            report.show_row(row, subject.what, names, every[row], failed, subject.compared, options.json)
    if not options.json:
        report.summary(every, names, suite.Test.compared if options.suite else report.COMPARED)
    return failures


def main():
    options = command_line()
    if options.read:
        return read_only(options)
    chosen, missing = subjects(options)
    if options.list:
        for one in [*catalogue.PROGRAMS, *servers.SERVERS]:
            print(f"{one.name:<16} {one.what}" + (f"  (missing: {missing[one.name]})" if one.name in missing else ""))
        return 0
    those = mallocs.find_all(options)
    if options.litter is not None:
        those += [one.littered() for one in those]
    for name, why in missing.items():
        print(f"missing: {name}: {why}", file=sys.stderr)
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="stook-bench-"))
    folder.mkdir(exist_ok=True)
    try:
        return 1 if measure_all(options, chosen, those, folder) else 0
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
