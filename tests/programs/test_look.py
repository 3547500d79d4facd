#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
"""(preload: not where a sanitizer makes every cache a debug cache.)  What `stook caches` reads from outside of a process: at rest the sums of its own report, exactly; under load sums that
differ from the truth by less than what the threads do meanwhile; and nothing that stops the process."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from tool import PROGRAM, stook

work = tempfile.TemporaryDirectory()
REPORT = os.path.join(work.name, "report.json")
# Of the report and of what stook caches says: what both have.
SAME = ("internal object_size align stride order objects_per_slab sheaf_capacity active_objects total_objects sheaf_objects "
        "slab_free_objects slabs sheaves barns resident_bytes in_use_bytes cached_bytes wasted_bytes peak_bytes counters").split()


class Program:
    def __init__(self, **environment):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def do(self, line, answer="done\n"):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == answer, line

    def end(self):
        self.process.kill()
        self.process.communicate()


def compare(program, what):
    program.do(f"report {REPORT}")
    with open(REPORT, encoding="utf-8") as file:
        own = json.load(file)
    seen = json.loads(stook("caches", "--json", program.pid))
    assert seen["tries"] == 1 and seen["torn_caches"] == 0, (what, seen["tries"])
    for key in ("stook", "pid", "program", "mode", "mode_why", "membarriers", "cpus_possible", "cpus_used", "nodes", "slot_bytes"):
        assert seen[key] == own[key], (what, key, seen[key], own[key])
    assert [c["name"] for c in seen["caches"]] == [c["name"] for c in own["caches"]], what
    wrong = []
    for mine, theirs in zip(seen["caches"], own["caches"]):
        wrong += [(what, mine["name"], key, mine.get(key), theirs.get(key)) for key in SAME if mine.get(key) != theirs.get(key)]
    for key in theirs:
        if key in seen["totals"] and seen["totals"][key] != own["totals"][key]:
            wrong.append((what, "totals", key, seen["totals"][key], own["totals"][key]))
    for key in seen["arena"]:
        if seen["arena"][key] != own["arena"][key]:
            wrong.append((what, "arena", key, seen["arena"][key], own["arena"][key]))
    if seen["large"] != own["large"]:
        wrong.append((what, seen["large"], own["large"]))
    assert not wrong, "\n".join(map(str, wrong))
    widgets = next(c for c in seen["caches"] if c["name"] == "widgets")
    assert widgets["counters"]["alloc_slowpath"] > 0 and widgets["slabs_partial"] > 0, widgets
    held = widgets["sheaf_objects"] - sum(c["objects"] for c in widgets["cpus"]) - sum(n["barn_objects"] for n in widgets["nodes"])
    assert held > 0 if what.startswith("hardened") else held == 0, (what, held)  # by a quarantine


def switches(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        text = file.read()
    return {key: re.search(rf"^{key}:\s+(.*)$", text, re.M)[1] for key in ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "TracerPid")}


locked = os.environ.get("STOOK_MODE") == "locked"
settings = [("the machine", {})]
if not locked:
    settings += [("four nodes", {"STOOK_TOPOLOGY": "node:4 core:2", "LD_LIBRARY_PATH": os.environ["STOOK_BUILD_DIR"] + "/lib/stook/sim"}),
                 ("debug", {"STOOK_DEBUG": "FZPU"}), ("hardened", {"STOOK_HARDEN": "full"}), ("locked", {"STOOK_MODE": "locked"}), ("counted", {"STOOK_STATS": "1"})]
for what, environment in settings:
    program = Program(**environment)
    for _ in range(10):  # but another process may have stopped it, by a signal
        while (before := switches(program.pid))["State"][0] != "S":  # it is about to wait for a line
            time.sleep(0.01)
        for _ in range(10):
            stook("caches", program.pid)
        if before == (after := switches(program.pid)):
            break
    assert before == after and after["TracerPid"] == "0", (before, after)
    compare(program, what)
    program.do("fork 3")
    compare(program, what + ", after forks")
    program.end()

# Under load: the threads have each at most 400 objects more than there were at rest (ROUND of prog_seen.c).  A CPU whose slot
# is open to no reader at the moment has up to two sheaves that a snapshot does not see.
THREADS, ROUND = 3, 400
program = Program()
rest = next(c for c in json.loads(stook("caches", "--json", program.pid))["caches"] if c["name"] == "widgets")
program.do(f"busy {THREADS}")
errors = []
for _ in range(20):
    seen = json.loads(stook("caches", "--json", program.pid))
    widgets = next(c for c in seen["caches"] if c["name"] == "widgets")
    unseen = 2 * widgets["sheaf_capacity"] * seen["cpus_used"]
    more = widgets["active_objects"] - rest["active_objects"]
    assert widgets["total_objects"] == widgets["active_objects"] + widgets["sheaf_objects"] + widgets["slab_free_objects"], widgets
    if not -unseen <= more <= THREADS * ROUND + unseen:
        errors.append(more)
assert not errors, (errors, unseen)
assert 'State:\tT' not in open(f"/proc/{program.pid}/status", encoding="utf-8").read()
program.end()
