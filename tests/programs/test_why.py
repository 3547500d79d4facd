#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
"""stook why: of planted heaps it names the objects that keep the slabs, predicts what freeing them brings, and its lines add up to
what the kernel counts; what is not Stook's is named; core files; bad input.  test_why_long.py has all shapes, and servers."""
import html as html_module
import json
import os
import random
import re
import shutil
import subprocess
import sys

from holes import PROGRAM, SHAPES, WORK, adds_up, try_shape
from tool import CLEAN, STOOK, start, stook

for shape in ["malloc-tags", "typed-group", random.choice(sorted(SHAPES))]:
    seen = try_shape(shape)
    if shape == "typed-group":
        assert list(seen["groups"]) == ["tenant-7"] and seen["groups"]["tenant-7"] > 0.9 * seen["sparse"]["bytes"], seen["groups"]

# Text and page have the same verdict and the same lines, and what is half free is not called whole.
process = start("malloc", "5", program=PROGRAM)
text = stook("why", process.pid)
seen = json.loads(stook("why", "--json", process.pid))
page = os.path.join(WORK, "page.html")
stook("report", "--html", page, process.pid)
with open(page, encoding="utf-8") as file:
    html = file.read()
assert text.startswith(seen["verdict"] + "\nstook ") and html_module.escape(seen["verdict"], quote=False) in html, (text, seen["verdict"])
assert "No call site is known: start the process with STOOK_TAGS=1" in text, text
assert re.search(r"[\d.]+ [KM]iB are free objects in slabs", html) and ">sparse slab " in html and "fragmented" not in html
resident = text.split("\nresident\n")[1].split("\n\n")[0]
assert re.search(r"^ +[\d.]+[KMG]?  free objects of sparse slabs$", resident, re.M) and "in all" in resident, resident
assert sum(fill["slabs"] for fill in seen["fills"]) >= seen["sparse"]["slabs"] > 100
assert len(re.findall(r"^ *\d+ % and more ", text, re.M)) == 10, text
process.kill()
process.communicate()

# Objects in sheaves and in a quarantine are not in use.
for environment in ({}, {"STOOK_HARDEN": "quarantine"}):
    process = start("malloc", "5", program=PROGRAM, **environment)
    seen = json.loads(stook("why", "--json", process.pid))
    adds_up(seen, process.pid)
    addresses = stook("why", "--objects", process.pid).split()
    assert len(addresses) == seen["sparse"]["objects"] == len(set(addresses)), (environment, len(addresses), seen["sparse"])
    assert json.loads(stook("whatis", "--json", process.pid, addresses[0]))["addresses"][0]["state"] == "live"
    process.kill()
    process.communicate()

# Of a stack the innermost frame that is no wrapper of malloc is named.
process = start("malloc", "5", program=PROGRAM, STOOK_DEBUG="U")
whole, folded = (stook("why", *words, process.pid) for words in ((), ("--wrappers", "other,keep_*")))
assert "allocated in keep_row" in whole.split("\n")[0] and "allocated in keep_row" not in folded, (whole, folded)
assert re.search(r", allocated in \w+ at \S*prog_holes.c:\d+ ", folded.split("\n")[0]), folded
process.kill()
process.communicate()

# Memory of an interpreter that is not malloc's.
hog = "import sys; keep = [str(i) * 3 for i in range(300000)]; print('ready', flush=True); sys.stdin.read()"
for environment, kind in (({}, "outside"), ({"PYTHONMALLOC": "malloc"}, None)):
    process = subprocess.Popen([STOOK, "run", "--", sys.executable, "-c", hog], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**CLEAN, **environment})
    assert process.stdout.readline() == "ready\n"
    seen = json.loads(stook("why", "--json", process.pid))
    adds_up(seen, process.pid)
    assert seen["hint"] == "PYTHONMALLOC=malloc" and (kind is None) == (seen["kind"] != "outside"), seen["verdict"]
    assert kind is None or "most likely Python's pymalloc; PYTHONMALLOC=malloc has it use malloc" in seen["verdict"], seen["verdict"]
    process.kill()
    process.communicate()

# A core file has the slabs, and no more.
if shutil.which("gcore"):
    process = start("typed", "7", program=PROGRAM, STOOK_CORE_DUMP="all")
    live = json.loads(stook("why", "--json", process.pid))
    core = os.path.join(WORK, "core")
    for _ in range(10):  # until nothing moves any more: pages may still go back
        subprocess.run(["gcore", "-o", core, str(process.pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before, live = live, json.loads(stook("why", "--json", process.pid))
        if before["sparse"] == live["sparse"]:
            break
    for words in (["--core", f"{core}.{process.pid}"], [f"{core}.{process.pid}"]):
        dead = json.loads(stook("why", "--json", *words))
        assert dead["cache"] == live["cache"] == "session" and dead["sparse"]["objects"] == live["sparse"]["objects"], (live["verdict"], dead["verdict"])
        assert abs(dead["sparse"]["bytes"] - live["sparse"]["bytes"]) < live["sparse"]["bytes"] / 20, (live["sparse"], dead["sparse"])
        assert dead["resident"]["files"] == 0
    process.kill()
    process.communicate()

# Bad input.
for words, status, says in ((["why"], 2, "a process"), (["why", "1", "2"], 2, "a process"), (["why", "no-such-process"], 2, "no-such-process"),
                            (["why", "999999999"], 2, "999999999"), (["why", "--wrong", "1"], 2, "--wrong"), (["why", "--exe", "x", "1"], 2, "--exe"),
                            (["why", str(os.getpid())], 1, "does not run on Stook"), (["why", sys.executable], 1, "core"),
                            (["why", "--core", "/no/such/file"], 1, "/no/such/file")):
    said = stook(*words, status=status)
    assert says in said and said.startswith("stook: ") and said.count("\n") == 1, (words, said)
shutil.rmtree(WORK)
