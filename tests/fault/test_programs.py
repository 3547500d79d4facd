#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: native preload
"""The n-th system call of the library fails in real programs under LD_PRELOAD, from their start on, for every n:
they do what they do without, or end with a message; they are never ended by a fault, and nothing is reported as
a corruption.  `make check` runs two programs; test_programs_long.py all, in all modes, and three calls in a row."""
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["STOOK_BUILD_DIR"]
PRELOAD = f"{os.environ['STOOK_TEST_DIR']}/plug_faults.so {BUILD}/lib/libstook-malloc.so"
MODES = ({}, {"STOOK_DEBUG": "FZPU"}, {"STOOK_HARDEN": "full"}, {"STOOK_GUARD": "4K"})
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"
PROGRAMS = (  # and what they read
    (["true"], ""),
    (["sort", "-n"], "".join(f"{i * 7919 % 10007}\n" for i in range(10007))),
    ([PYTHON, "-c", "pass"], ""),
    (["sqlite3", ":memory:"], "create table t(a); insert into t values (1), (2); select sum(a) from t;\n"),
    (["perl", "-e", "my %h = map { $_ => 'x' x $_ } 1..300; print scalar(keys %h), \"\\n\";"], ""),
)
# What a program says that has no memory; Python and perl end by abort() or exit().
REFUSED = ("stook: no ", "emory", "annot allocate")


def run(argv, said, settings, at, length, file):
    names = dict(os.environ, LD_PRELOAD=PRELOAD, STOOK_TEST_FAULT=f"{at},{length}", STOOK_TEST_FAULT_FILE=file,
                 LC_ALL="C.UTF-8", **settings)
    return subprocess.run(argv, input=said, env=names, capture_output=True, text=True, timeout=120)


def fails_in_turn(argv, said, settings, length, directory):
    """How many calls there were, and how often the program ended early."""
    want = subprocess.run(argv, input=said, capture_output=True, text=True, check=True).stdout
    at, refused = 1, 0
    while True:
        file = f"{directory}/hit"
        done = run(argv, said, settings, at, length, file)
        what = f"{argv[0]} {settings}, calls {at} to {at + length - 1}: status {done.returncode}: {done.stderr[:2000]}"
        if "stook: BUG" in done.stderr:
            sys.exit(f"a corruption is reported: {what}")
        if done.returncode == 0 and done.stdout != want:
            sys.exit(f"other output: {what}")
        if done.returncode != 0:
            if done.returncode < 0 and done.returncode != -6 or not any(s in done.stderr for s in REFUSED):
                sys.exit(what)
            refused += 1
        if not os.path.exists(file):
            if done.returncode != 0:
                sys.exit(f"it fails without a fault: {what}")
            return at - 1, refused
        os.unlink(file)
        at += length


def main(programs, modes, lengths):
    with tempfile.TemporaryDirectory() as directory:
        for argv, said in programs:
            if not shutil.which(argv[0]):
                print(f"{argv[0]} is not installed")
                continue
            for settings in modes:
                for length in lengths:
                    calls, refused = fails_in_turn(argv, said, settings, length, directory)
                    print(f"{argv[0]} {settings}: {calls} calls, {length} in a row; refused {refused} times", flush=True)
                    if calls < 10 or refused * 2 > calls:
                        sys.exit("the library makes that many calls at least, and survives most of them")


if __name__ == "__main__":
    main(PROGRAMS[:2], MODES[:1], (1,))
