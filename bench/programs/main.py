#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stook-bench programs: whole programs under each malloc at hand, in turns, in one run."""
import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

import catalogue
import compare
import mallocs
import measure
import servers


FIGURES = ("cpu_s", "user_s", "system_s", "wall_s", "peak_mib", "mean_pss_mib", "peak_pss_mib", "faults_minor",
           "faults_major", "requests_per_s", "p50_us", "p99_us", "p999_us")
# What is compared, and whether less is better.
COMPARED = {"cpu_s": True, "peak_mib": True, "mean_pss_mib": True, "requests_per_s": False, "p99_us": True}


def command_line():
    parser = argparse.ArgumentParser(prog="stook-bench programs", description=__doc__.split(": ", 1)[1])
    mallocs.add_options(parser, "program", 120)
    parser.add_argument("--programs", metavar="LIST", help="only these")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="counted rounds of runs (5)")
    parser.add_argument("--size", type=float, default=1.0, metavar="X",
                        help="of the work: 1 is about a second of each program")
    parser.add_argument("--quick", action="store_true", help="one round of a twentieth of the work")
    parser.add_argument("--no-pss", action="store_true", help="without the runs that sample memory over time")
    parser.add_argument("--sample-ms", type=float, default=10, metavar="MS", help="between two samples (10)")
    parser.add_argument("--list", action="store_true", help="names the programs and what is missing")
    parser.add_argument("--keep", metavar="DIR", help="makes the inputs in DIR and leaves them there")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.size = 1, options.size / 20
    if options.repeats < 1 or options.size <= 0 or options.sample_ms <= 0:
        parser.error("--repeats, --size and --sample-ms are above zero")
    options.programs = options.programs.split(",") if options.programs else None
    return options


def subjects(options):
    """All programs and servers that were asked for; those that are missing with the reason."""
    every = [*catalogue.PROGRAMS, *servers.SERVERS]
    known = {one.name for one in every}
    for name in options.programs or []:
        if name not in known:
            sys.exit(f"stook-bench programs: no such program: {name} (--list names them)")
    asked = [one for one in every if not options.programs or one.name in options.programs]
    missing = {one.name: why for one in asked if (why := one.missing())}
    return [one for one in asked if one.name not in missing], missing


class Subject:
    """One program or server: its rounds."""

    def __init__(self, one, folder, options, cpu):
        self.one, self.options = one, options
        self.is_server = isinstance(one, type)
        folder.mkdir(exist_ok=True)
        if self.is_server:
            self.thing = one(folder)
        else:
            self.thing = one.make(folder, options.size)
        self.cpu = None if self.is_server or one.threads else cpu
        self.sums = {}

    def run(self, malloc):
        if self.is_server:
            return servers.run(self.thing, malloc, self.options.size)
        figures = measure.run(self.thing, malloc, self.cpu, self.options.timeout)
        total = figures.pop("sum")
        if self.thing.checked and self.sums.setdefault("first", total) != total:
            raise measure.Failed("its output differs")
        return figures

    def sampled(self, malloc):
        pause = self.options.sample_ms / 1000
        if self.is_server:
            return servers.run_sampled(self.thing, malloc, self.options.size, pause)
        return measure.run_sampled(self.thing, malloc, self.cpu, self.options.timeout, pause)


def rounds(subject, those, options):
    """For each malloc its figures, a list a round; and what failed."""
    taken = {malloc.name: {key: [] for key in FIGURES} for malloc in those}
    failed = {}
    for turn in range(-1, options.repeats):  # the first warms up and is not counted
        for at in range(len(those)):
            malloc = those[(at + max(turn, 0)) % len(those)]
            if malloc.name in failed:
                continue
            try:
                figures = subject.run(malloc)
                if not options.no_pss and turn >= 0 and turn < 3:
                    figures |= subject.sampled(malloc)
            except (measure.Failed, OSError) as error:
                failed[malloc.name] = str(error)
                continue
            if turn >= 0:
                for key in FIGURES:
                    taken[malloc.name][key].append(figures.get(key))
    return {name: figures for name, figures in taken.items() if name not in failed}, failed


def records_of(one, those, taken, failed):
    """A record a malloc. Ratios of Stook's are to the best of the others, round by round."""
    made = []
    for malloc in those:
        record = {"case": "programs", "program": one.name, "allocator": malloc.name}
        if malloc.name in failed:
            made.append(record | {"failed": failed[malloc.name]})
            continue
        figures = taken[malloc.name]
        record |= {"runs": len(figures["cpu_s"])}
        record |= {key: compare.median(figures[key]) for key in FIGURES}
        record |= {"cpu_min": min(figures["cpu_s"]), "cpu_max": max(figures["cpu_s"])}
        if malloc.name == "stook":
            record["against_best"] = against_best(taken)
        made.append(record)
    return made


def against_best(taken):
    """For each compared figure the best other malloc, the median of the paired ratios to it, and the verdict."""
    found = {}
    for key, less in COMPARED.items():
        others = {name: middle for name, figures in taken.items()
                  if name != "stook" and (middle := compare.median(figures[key]))}
        if not others or compare.median(taken["stook"][key]) is None:
            continue
        best = (min if less else max)(others, key=others.get)
        ratios = compare.paired(taken["stook"][key], taken[best][key])
        found[key] = {"allocator": best, "ratio": compare.median(ratios),
                      "ratio_min": min(ratios), "ratio_max": max(ratios), "verdict": compare.verdict(ratios, less)}
    return found


def say(text):
    print(text, flush=True)


def cell(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def show(one, those, records, server):
    columns = [("cpu_s", "cpu s", 3), ("user_s", "user", 3), ("system_s", "system", 3), ("wall_s", "wall", 3),
               ("peak_mib", "peak MiB", 1), ("mean_pss_mib", "mean PSS", 1), ("faults_minor", "faults", 0)]
    if server:
        columns += [("requests_per_s", "requests/s", 0), ("p50_us", "p50 us", 0), ("p99_us", "p99", 0), ("p999_us", "p99.9", 0)]
    say(f"\n{one.name}: {one.what}")
    say(f"  {'':<12}" + "".join(f"{title:>11}" for _, title, _ in columns))
    for record in records:
        if "failed" in record:
            say(f"  {record['allocator']:<12} failed: {record['failed']}")
            continue
        say(f"  {record['allocator']:<12}" + "".join(f"{cell(record[key], digits):>11}" for key, _, digits in columns))
    for record in records:
        for key, found in record.get("against_best", {}).items():
            word = {"even": "within noise"}.get(found["verdict"], found["verdict"])
            say(f"  stook {key}: {found['ratio']:.3f} of {found['allocator']} "
                f"({found['ratio_min']:.3f} to {found['ratio_max']:.3f}): {word}")


def summary(every):
    """How often Stook was where, by compared figure."""
    say("\nstook beside the best other of each program, by pairs of runs:")
    for key in COMPARED:
        words = {"ahead": [], "even": [], "behind": []}
        for name, found in every.items():
            if key in found and found[key]["verdict"] in words:
                words[found[key]["verdict"]].append(name)
        if any(words.values()):
            say(f"  {key:<15} ahead {len(words['ahead'])}, within noise {len(words['even'])}, "
                f"behind {len(words['behind'])}" + (f": {', '.join(words['behind'])}" if words["behind"] else ""))


def main():
    options = command_line()
    chosen, missing = subjects(options)
    if options.list:
        for one in [*catalogue.PROGRAMS, *servers.SERVERS]:
            print(f"{one.name:<16} {one.what}" + (f"  (missing: {missing[one.name]})" if one.name in missing else ""))
        return 0
    those = mallocs.find_all(options.allocators)
    for name, why in missing.items():
        print(f"missing: {name}: {why}", file=sys.stderr)
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="stook-bench-"))
    folder.mkdir(exist_ok=True)
    cpu = max(os.sched_getaffinity(0))
    every, failures = {}, 0
    try:
        for one in chosen:
            try:
                subject = Subject(one, folder / one.name, options, cpu)
            except (measure.Failed, OSError, ValueError) as error:
                print(f"missing: {one.name}: its input cannot be made: {error}", file=sys.stderr)
                failures += 1
                continue
            taken, failed = rounds(subject, those, options)
            failures += len(failed)
            records = records_of(one, those, taken, failed)
            if options.json:
                for record in records:
                    say(json.dumps(record))
            else:
                show(one, those, records, subject.is_server)
            every |= {one.name: record["against_best"] for record in records if record.get("against_best")}
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if not options.json and every:
        summary(every)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
