# SPDX-License-Identifier: MIT
"""The mallocs to preload."""
import os
import pathlib
import re
import sys

import machine
import measure
import report

LITTER, RECORD = (str(measure.LIBEXEC / f"libstook-bench-{name}.so") for name in ("litter", "record"))
SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Malloc(measure.Malloc):
    def littered(self):
        return Malloc(self.name + report.LITTERED, f"{LITTER}:{self.preload}" if self.preload else LITTER)

    def version(self):
        if self.name == "stook":
            return f"{measure.said('git', '-C', str(SOURCE), 'describe', '--always', '--dirty')} {os.path.realpath(self.preload)}"
        crate = re.search(rf"^{self.name} = .*# (.*)", (SOURCE / "bench/peers/Cargo.toml").read_text(encoding="utf-8"), re.M)
        if crate:
            return crate[1]
        return measure.package(self.preload)


def subtract(path, figures):
    """Takes what littering took, as each process wrote it there, from a run's figures."""
    for line in path.read_text(encoding="ascii").splitlines() if path.exists() else ():
        for key, microseconds in zip(("user_s", "system_s"), line.split()):
            figures[key] -= int(microseconds) / 1e6
            figures["cpu_s"] -= int(microseconds) / 1e6
    path.unlink(missing_ok=True)


def add_options(parser, what, seconds):
    """The options that all scripts have."""
    parser.add_argument("--json", action="store_true", help=f"one JSON object a {what} and malloc, instead of a table")
    parser.add_argument("--allocators", metavar="LIST", help="only these mallocs")
    parser.add_argument("--malloc", metavar="NAME=PATH", action="append", default=[],
                        help="also a malloc that the build did not find; may be given several times")
    parser.add_argument("--timeout", type=float, default=seconds, metavar="SECONDS", help=f"of one run ({seconds})")
    parser.add_argument("--memory", choices=("cold", "warm"), help="before each run: wait until a virtual machine's host "
                        f"has taken free memory back ({machine.COLD_SECONDS} s), or touch a GiB that the run is about to use")
    machine.add_options(parser)


def find_all(options):
    """Those of --allocators; the missing ones are named on stderr, and without any the program ends."""
    machine.set_thp(options.thp)
    listed = options.allocators.split(",") if options.allocators else None
    found = []
    for line in (measure.LIBEXEC / "mallocs").read_text(encoding="utf-8").splitlines() + options.malloc:
        name, _, path = line.partition("=")
        malloc = Malloc(name, None if path == "-" else path)
        if listed and name not in listed:
            continue
        why = malloc.missing()
        if why:
            print(f"missing: {name}: {why}", file=sys.stderr)
        else:
            found.append(malloc)
    if not found:
        sys.exit("stook-bench: no such malloc")
    versions = [(f"malloc {malloc.name}", malloc.version()) for malloc in found]
    machine.say_facts(sys.stderr if options.json else sys.stdout, *versions, memory=options.memory)
    return found
