#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stook-bench long: memory over live bytes of programs that live long, under each malloc at hand."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import burst
import machine
import mallocs
import measure
import timeline

LONG = str(measure.LIBEXEC / "stook-bench-long")
HEAP_MIB = 16 << 10
CASES = ["drift", "mixed", "prefork", "heap", "burst", "trace"]
BURST = {burst.Redis: 300000, burst.Python: 300000}  # keys and dictionaries


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as info:
        return next(int(line.split()[1]) >> 10 for line in info if line.startswith("MemAvailable:"))


def command_line():
    parser = argparse.ArgumentParser(prog="stook-bench long", description=__doc__.split(": ", 1)[1])
    mallocs.add_options(parser, "case", 900)
    parser.add_argument("--case", metavar="LIST", help="of drift, mixed, prefork, heap, burst, trace: only these")
    parser.add_argument("--mib", type=int, default=200, metavar="N", help="live (200)")
    parser.add_argument("--hours", type=int, default=24, metavar="N", help="of drift and mixed (24)")
    parser.add_argument("--children", type=int, default=4, metavar="N", help="of prefork (4)")
    parser.add_argument("--after", type=int, default=10, metavar="SECONDS", help="from the work's end to the last reading (10)")
    parser.add_argument("--seconds", type=int, default=300, metavar="N", help="of burst: after the last free (300)")
    parser.add_argument("--trace", action="append", default=[], metavar="FILE",
                        help="plays a trace that stook run --trace wrote; may be given several times")
    parser.add_argument("--times", type=int, default=3, metavar="N", help="how often a trace is played (3)")
    parser.add_argument("--svg", metavar="FILE", help="also a picture: each malloc's memory over time")
    options = parser.parse_args()
    if options.after < 0 or min(options.mib, options.hours, options.children, options.times) < 1:
        parser.error("numbers are above zero")
    return options


def cases(options):
    """(name, words) of what was asked for; what cannot run here is named."""
    wanted = options.case.split(",") if options.case else CASES
    unknown = set(wanted) - set(CASES)
    if unknown:
        sys.exit(f"stook-bench long: no such case: {', '.join(sorted(unknown))}")
    made = []
    if "drift" in wanted:
        made.append(("drift", ["drift", options.mib, options.hours, options.after]))
    if "mixed" in wanted:
        made.append(("mixed", ["mixed", options.mib, options.hours, options.after]))
    if "prefork" in wanted:
        made.append(("prefork", ["prefork", options.mib, options.children, 0]))
    if "heap" in wanted:
        if available_mib() > HEAP_MIB * 3 // 2:
            made.append(("heap", ["mixed", HEAP_MIB, 3, options.after]))
        else:
            print(f"missing: heap: {available_mib()} MiB are free, it needs {HEAP_MIB * 3 // 2}", file=sys.stderr)
    if "trace" in wanted:
        made += [(f"trace {pathlib.Path(file).name}", ["trace", os.path.abspath(file), options.times, options.after])
                 for file in options.trace]
    return made


def run(words, malloc, timeout):
    """What it printed: lists of numbers by the first word."""
    reader, writer = os.pipe()
    one = measure.Run(measure.Command([LONG, *map(str, words)]), malloc, writer)
    os.close(writer)
    with open(reader, encoding="ascii") as lines:
        one.wait_for_success(timeout)  # it says less than a pipe holds
        said = [line.split() for line in lines]
    found = {}
    for key, *numbers in said:
        found.setdefault(key, []).append([int(number) for number in numbers])
    return found


def figures(found):
    record = {"hours": [round(resident / live, 4) for _, live, resident in found.get("hour", []) if live],
              "worst": None, "end": None, "after_mib": None, "after_live_mib": None, "huge_share": None,
              "child_private_mib": None}
    if record["hours"]:
        record["worst"], record["end"] = max(record["hours"]), record["hours"][-1]
    for live, resident in found.get("after", []):
        record["after_live_mib"], record["after_mib"] = live / 2**20, resident / 2**20
    for huge, anonymous in found.get("huge", []):
        record["huge_share"] = huge / anonymous if anonymous else None
    if "child" in found:
        record["child_private_mib"] = statistics.mean(private for private, _ in found["child"]) / 2**20
    return record


def cell(value, digits):
    return f"{'-':>13}" if value is None else f"{value:>13.{digits}f}"


def show(record):
    print(f"  {record['allocator']:<12}" + cell(record["worst"], 3) + cell(record["end"], 3) +
          cell(record["after_mib"], 1) + cell(record["after_live_mib"], 1) + cell(record["huge_share"], 2) +
          cell(record["child_private_mib"], 2), flush=True)


def bursts(options, those):
    """The table or records of burst; how many mallocs failed, and the records."""
    failures, made = 0, []
    for subject, size in BURST.items():
        if why := subject.missing():
            print(f"missing: burst {subject.name}: {why}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="stook-bench-") as folder:
            records = burst.run(subject, folder, those, size * options.mib // 200,
                                [at for at in burst.AT if at <= options.seconds])
        failures += len(those) - len(records)
        made += records
        if not options.json and records:
            print(f"\nburst {subject.name}: MiB when full, and seconds after the last free\n  {'':<12}{'full':>8}" +
                  "".join(f"{at:>8}" for at in records[0]["seconds"]))
        for record in records:
            print(json.dumps(record) if options.json else f"  {record['allocator']:<12}{record['full_mib']:>8.1f}" +
                  "".join(f"{mib:>8.1f}" for mib in record["resident_mib"]), flush=True)
    return failures, made


def main():
    options = command_line()
    those = mallocs.find_all(options)
    failures, made = bursts(options, those) if options.case is None or "burst" in options.case.split(",") else (0, [])
    for name, words in cases(options):
        if not options.json:
            print(f"\n{name}\n  {'':<12}" + "".join(f"{title:>13}" for title in (
                "worst", "end", "after MiB", "live then", "huge pages", "child MiB")))
        for malloc in those:
            try:
                machine.make_memory(options.memory)
                record = {"case": "long", "program": name, "allocator": malloc.name,
                          **figures(run(words, malloc, options.timeout))}
            except (measure.Failed, OSError) as error:
                failures += 1
                print(f"failed: {name}: {malloc.name}: {error}", file=sys.stderr)
                continue
            made.append(record)
            if options.json:
                print(json.dumps(record), flush=True)
            else:
                show(record)
    if options.svg:
        pathlib.Path(options.svg).write_text(timeline.draw(made), encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
