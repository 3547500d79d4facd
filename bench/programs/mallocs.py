# SPDX-License-Identifier: MIT
"""The mallocs to preload."""
import dataclasses
import os
import sys
import typing

import measure


@dataclasses.dataclass(frozen=True)
class Malloc:
    name: str
    preload: typing.Optional[str]


def find(wanted):
    """Those that the build found or made, and those that are missing."""
    found, missing = [], {}
    for line in (measure.LIBEXEC / "mallocs").read_text(encoding="utf-8").splitlines():
        name, _, path = line.partition("=")
        if wanted and name not in wanted:
            continue
        if path == "-" or os.path.exists(path):
            found.append(Malloc(name, None if path == "-" else path))
        else:
            missing[name] = f"no {path}"
    return found, missing


def add_options(parser, what, seconds):
    """The options that all scripts have."""
    parser.add_argument("--json", action="store_true", help=f"one JSON object a {what} and malloc, instead of a table")
    parser.add_argument("--allocators", metavar="LIST", help="only these mallocs")
    parser.add_argument("--timeout", type=float, default=seconds, metavar="SECONDS", help=f"of one run ({seconds})")


def find_all(listed):
    """Those of --allocators; the missing ones are named on stderr, and without any the program ends."""
    found, missing = find(listed.split(",") if listed else None)
    for name, why in missing.items():
        print(f"missing: {name}: {why}", file=sys.stderr)
    if not found:
        sys.exit("stook-bench: no such malloc")
    return found
