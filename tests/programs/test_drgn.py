#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool rseq
"""The helpers of tools/drgn/stook_drgn.py, on a live process and on its core: where each object is."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tools/drgn/stook_drgn.py")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_inspect")
LIVE, FREED = 2500, 1500
DRGN = shutil.which("drgn")
if not DRGN:
    print("skipped: drgn is not installed")
    sys.exit(77)


def drgn(where, *arguments, status=0, script=SCRIPT):
    done = subprocess.run([DRGN, "-q", *where, script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=250,
                          check=False, env={key: value for key, value in os.environ.items() if not key.startswith(("LD_", "STOOK_"))})
    assert done.returncode == status, (arguments, done)
    return done.stdout if status == 0 else done.stderr


DRIVER = """
import sys
sys.path.insert(0, %r)
from stook_drgn import *
stook_caches(prog)
print("==")
for address in sys.argv[1:]:
    stook_whatis(prog, address)
print("==")
stook_objects(prog, "widgets")
print("==")
stook_slabs(prog, "widgets")
print("==")
stook_sheaves(prog, "widgets")
""" % os.path.dirname(SCRIPT)


def row_of(text, name):
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    head = next(row for row in rows if row[0] == "cache")
    return dict(zip(head, next(row for row in rows if row[0] == name)))


def examine(where, places, freed, debug=False):
    at = {name: int(places[name], 16) for name in ("live", "main", "slab", "large", "span", "stack")}
    asked = {at["live"]: r"^is object \d+ \(200 bytes from .*\) of cache widgets, slab .*: in use$", at["live"] + 7: r"^is 7 bytes into object \d+ .*: in use$",
             at["main"]: r": (CPU \d+, main|free, in its slab)$", at["slab"]: r": (free, in its slab|barn of node 0|CPU \d+, spare)$",
             at["large"]: r"^is 0 bytes into the large object at .*, of (307200|311296) bytes$", at["large"] + 70000: "^is 70000 bytes into the large object",
             at["span"]: r"^is 0 bytes into the large object at .*, of 6291456 bytes$", at["span"] + 4000000: "^is 4000000 bytes into", at["stack"]: "^is not of Stook$"}
    caches, text, objects, slabs, sheaves = drgn(where, *map(hex, asked), script=driver).split("==\n")
    row = row_of(caches, "widgets")
    assert int(row["in use"]) == LIVE and row["size"] == "200", row
    assert int(row["objects"]) == LIVE + int(row["in sheaves"]) + int(row["free"]), row
    said = {int(found[0], 16): found[1] for found in re.findall(r"^(0x[0-9a-f]+) (is .*)$", text, re.M)}
    for address, pattern in asked.items():
        assert re.search(pattern, said[address]), (pattern, said[address])
    live = {int(line, 16) for line in objects.splitlines()}
    assert len(live) == LIVE and at["live"] in live and not live & freed, (len(live), len(live & freed))
    slabs = [line.split() for line in slabs.splitlines()[1:]]
    assert len(slabs) == int(row["slabs"]) and sum(int(s[6]) for s in slabs) == LIVE + int(row["in sheaves"]), slabs
    sheaves = [line.split() for line in sheaves.splitlines()[1:]]
    assert sum(int(s[-1]) for s in sheaves) == int(row["in sheaves"]), sheaves
    if debug:
        assert re.search(r": free, in its slab\n(    .*\n|  allocated .*\n)*  freed by thread \d+ on CPU .*\n    0x\w+ main \+ \d+", text), text
        assert re.search(r": in use\n  allocated by thread \d+ on CPU .*\n    0x\w+ main \+ \d+", text), text


def start(environment):
    process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    places, freed = {}, set()
    for line in process.stdout:
        if line == "ready\n":
            break
        name, address = line.split()
        if name == "freed":
            freed.add(int(address, 16))
        else:
            places[name] = address
    assert len(freed) == FREED
    return process, places, freed


with tempfile.TemporaryDirectory() as folder:
    driver = f"{folder}/driver.py"
    with open(driver, "w", encoding="utf-8") as file:
        file.write(DRIVER)
    plain = subprocess.Popen(["sleep", "100"], env={"PATH": os.environ["PATH"]})
    assert "no libstook" in drgn(["-p", str(plain.pid)], "caches", status=1)
    plain.kill()
    for debug in (False, True):
        process, places, freed = start({**os.environ, "STOOK_CORE_DUMP": "all", **({"STOOK_DEBUG": "ZU"} if debug else {})})
        where = ["-p", str(process.pid)]
        examine(where, places, freed, debug)
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", f"{folder}/core", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        assert "there is no cache nothing" in drgn(where, "slabs", "nothing", status=1)
        process.kill()
        process.communicate()
        core = f"{folder}/core.{process.pid}"
        if os.path.exists(core):
            examine(["-c", core], places, freed, debug)
            assert drgn(["-c", core], "whatis", places["live"]).startswith(f"{places['live']} is object ")
        else:
            print("gcore made no core")
print("objects are where drgn says")
