#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces of the programs of `stook-bench programs`, for stook plan --traces and stook lab trace.

record-programs.py [--size X] [--limit SIZE] DIR [NAME]...   into DIR/NAME.trace, the process of each program
                                                             that allocated the most

Nothing is installed: what is missing is named.  STOOK: the tool, if not build/bin/stook.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STOOK = pathlib.Path(os.environ.get("STOOK", ROOT / "build/bin/stook")).resolve()
os.environ.setdefault("STOOK_BENCH_LIBEXEC", str(ROOT / "build/libexec/stook-bench"))
sys.path[:0] = [str(ROOT / "bench/programs"), str(ROOT / "tools/compare")]
sys.dont_write_bytecode = True
import catalogue  # pylint: disable=wrong-import-position
import measure  # pylint: disable=wrong-import-position


def record(program, target, size, limit):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command = program.make(folder, size)
        if command.prepare:
            command.prepare()
        with open(command.stdin or os.devnull, "rb") as stdin:
            subprocess.run([STOOK, "run", "--trace", folder / "trace.%p", "--trace-limit", limit, "--",
                            *command.words], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           cwd=command.cwd, env=measure.environment(command), check=True)
        # The first process may have done nothing but start the others.
        largest = max(folder.glob("trace.*"), key=lambda path: path.stat().st_size)
        target.write_bytes(largest.read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=0.25, help="1: about a second of work")
    parser.add_argument("--limit", default="128M", help="of a trace")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True, parents=True)
    unknown = set(options.names) - {program.name for program in catalogue.PROGRAMS}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    status = 0
    for program in catalogue.PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        why = program.missing()
        target = options.folder / f"{program.name}.trace"
        if not why:
            try:
                record(program, target, options.size, options.limit)
            except subprocess.CalledProcessError as error:
                why = f"status {error.returncode}"
        print(f"{program.name}: {why or f'{target.stat().st_size >> 10} KiB'}", flush=True)
        status |= bool(why)
    return status


if __name__ == "__main__":
    sys.exit(main())
