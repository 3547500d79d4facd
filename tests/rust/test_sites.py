#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# timeout: 600
"""Profiles name the functions of a Rust program that allocate, for each way that the crate has, and none of the crate's."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, build = pathlib.Path(os.environ["STOOK_SOURCE_DIR"]), os.environ["STOOK_BUILD_DIR"]
script = f". {source}/tests/rust/lib_cargo.sh; need_crates; export STOOK_LIB_DIR={build}/lib; " \
    "cargo build --locked --offline --release --example sites || fail 'does not build'"
said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
if said.returncode:
    print(said.stdout, said.stderr, sep="")
    sys.exit(said.returncode)

example = (source / "bindings/rust/stook/examples/sites.rs").read_text()
many = int(re.search(r"MANY: u64 = (\d+)", example)[1])
ways = set(re.findall(r"\bsite_\w+", example))
assert len(ways) == 12, ways

with tempfile.TemporaryDirectory() as folder:
    profile = f"{folder}/profile"
    subprocess.run([f"{build}/rust/release/examples/sites"], check=True,
                   env=dict(os.environ, STOOK_TAGS="1", STOOK_PROFILE=profile))
    shown = subprocess.run([f"{build}/bin/stook", "profile", "--json", "--top", "0", profile],
                           capture_output=True, text=True, check=True).stdout

live, others, lines = dict.fromkeys(ways, 0), [], []
for site in json.loads(shown)["sites"]:
    outermost = site["frames"][-1]["function"] if site["frames"] else None
    objects = site["counts"]["live_objects"]
    if outermost in live:
        live[outermost] = max(live[outermost], objects)
        if objects >= many:
            lines.append(site["frames"][0])
    elif objects >= many:
        others.append((outermost, objects))
missing = {way: n for way, n in live.items() if n < many}
if missing or others:
    print(shown)
    sys.exit(f"live objects by function: {live}\nmissing {missing}, not the program's {others}")
# With libdw and debugging information: the line of the program, not that of an inlined function of a library.
wrong = [frame for frame in lines if frame.get("file") and not frame["file"].endswith("examples/sites.rs")]
if wrong:
    sys.exit(f"lines that are not the program's: {wrong}")
print("\n".join(f"{way}: {n} objects" for way, n in sorted(live.items())))
