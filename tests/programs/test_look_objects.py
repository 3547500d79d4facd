#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
"""stook whatis, walk, leaks and report, from outside of a process and on its core files: where each object is, and which
ones nothing points to.  prog_inspect and prog_leaks say what is true."""
import collections
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from tool import CLEAN, STOOK, TESTS, stook

LIVE, FREED = 2500, 1500
work = tempfile.TemporaryDirectory()
locked = os.environ.get("STOOK_MODE") == "locked"


def as_json(*arguments):
    return json.loads(stook(*arguments))


class Program:
    """Runs until end(); a kernel's core of it goes into its own folder."""

    def __init__(self, *command, **environment):
        self.folder = tempfile.mkdtemp(dir=work.name)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**CLEAN, **environment}, cwd=self.folder,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2))
        self.pid = str(self.process.pid)
        self.lines = []
        for line in self.process.stdout:
            if line == "ready\n":
                break
            self.lines.append(line.split())

    def gcore(self):
        """NULL: gdb is not there, or may not attach."""
        path = os.path.join(self.folder, "gcore")
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", path, self.pid], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return next(iter(glob.glob(path + ".*")), None)

    def end(self):
        self.process.kill()
        self.process.communicate()

    def die(self):
        """By a signal that leaves a core, where the machine permits that."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.communicate()
        return next(iter(glob.glob(os.path.join(self.folder, "core*"))), None)


# ---- where objects are ------------------------------------------------------------------------------


def inspect(where, places, freed, what):
    at = {name: int(address, 16) for name, address in places.items() if name != "ready"}
    asked = [at["live"], at["live"] + 7, at["main"], at["slab"], at["large"] + 70000, at["span"] + 4000000, at["stack"],
             at["buffer"], at["buffer"] + 2500000, at["spare"] + 2500000]
    said = [a for a in as_json("whatis", "--json", *where, *(hex(a) for a in asked))["addresses"]]
    assert [a["address"] for a in said] == asked
    live, within, main, slab, large, span, stack, buffer, behind, spare = said
    for one, start in ((live, at["live"]), (within, at["live"])):
        assert one["cache"] == "widgets" and one["state"] == "live" and one["object"] == start and one["bytes"] == 200, (what, one)
    assert main["cache"] == slab["cache"] == "widgets", (what, main, slab)
    assert main["state"] in ("cpu", "free", "held") and slab["state"] in ("free", "barn", "cpu", "held"), (what, main, slab)
    assert (large["kind"], large["object"], large["bytes"]) == ("large", at["large"], 311296 if what.startswith(("debug", "hardened")) else 307200), (what, large)
    assert (span["kind"], span["object"]) == ("large", at["span"]) and span["bytes"] >= 5 << 20, (what, span)
    assert stack["kind"] == "elsewhere", (what, stack)
    for one in (buffer, behind):
        assert one["cache"] == "buffers" and one["state"] == "live" and one["object"] == at["buffer"] and one["bytes"] == 3 << 20, (what, one)
    assert spare.get("state") != "live", (what, spare)  # its slab went back, unless the cache has debug flags
    assert [o["object"] for o in as_json("walk", "--json", *where, "buffers")["objects"] if o["state"] == "live"] == [at["buffer"]], what
    walked = as_json("walk", "--json", "--all", *where, "widgets")["objects"]
    states = collections.Counter(o["state"] for o in walked)
    users = {o["object"] for o in walked if o["state"] == "live"}
    assert states["live"] == LIVE == len(users) and not users & freed and at["live"] in users, (what, states)
    cache = next(c for c in as_json("caches", "--json", *where)["caches"] if c["name"] == "widgets")
    assert cache["active_objects"] == LIVE and cache["total_objects"] == len(walked), (what, cache, states)
    assert cache["sheaf_objects"] == states["cpu"] + states["barn"] + states["held"], (what, cache, states)
    assert (states["held"] > 0) == what.startswith("hardened"), (what, states)
    alone, after = stook("walk", "--free", *where, "widgets").split("\n\n")
    assert len(alone.splitlines()) == 1 + len(walked) - LIVE and after.startswith("next: stook whatis "), (what, alone[-300:], after)
    return live, slab


def run_inspect(what, lacks=False, **environment):
    program = Program(os.path.join(TESTS, "prog_inspect"), **environment)
    places = {line[0]: line[1] for line in program.lines if line[0] != "freed"}
    freed = {int(line[1], 16) for line in program.lines if line[0] == "freed"}
    assert len(freed) == FREED
    seen = [inspect([program.pid], places, freed, what)]
    cores = [program.gcore(), program.die()]
    for name, core in zip(("gcore's", "the kernel's"), cores):
        if not core:
            print(f"{what}: {name} core cannot be made here")
        elif lacks:
            assert "STOOK_CORE_DUMP=all" in stook("caches", "--core", core, status=1), name
        else:
            seen.append(inspect(["--core", core, "--exe", os.path.join(TESTS, "prog_inspect")], places, freed, f"{what}, {name} core"))
            wrong = stook("caches", "--core", core, "--exe", "/etc/passwd", status=1)
            assert "is not the program" in wrong or name == "gcore's", wrong
    return seen


run_inspect("plain", STOOK_CORE_DUMP="all")
run_inspect("without its data", lacks=True)
run_inspect("hardened", STOOK_HARDEN="quarantine", STOOK_CORE_DUMP="all")
if not locked:
    for live, slab in run_inspect("debug", STOOK_DEBUG="ZU", STOOK_CORE_DUMP="all"):
        assert any("main" in frame for frame in live["allocated"]["stack"]) and "freed" not in live, live
        assert any("main" in frame for frame in slab["freed"]["stack"]) and slab["state"] == "free", slab
    for live, slab in run_inspect("tags", STOOK_TAGS="1", STOOK_CORE_DUMP="all"):
        assert live["cache"] == "widgets", live

# A core that was cut short, or has wrong bytes, is read or refused; nothing crashes.
program = Program(os.path.join(TESTS, "prog_inspect"), STOOK_CORE_DUMP="all", STOOK_TAGS="1")
large = next(line[1] for line in program.lines if line[0] == "large")
core = program.die()
if core:
    with open(core, "rb") as file:
        whole = file.read()
    chance = random.Random(15)
    broken, ends = core + ".broken", collections.Counter()
    for turn in range(14):
        text = bytearray(whole if turn % 2 else whole[:len(whole) * turn // 14])
        # Where a core is not zeros: bytes of pointers and tables.
        for _ in range(3000 if turn % 2 else 0):
            at = chance.randrange(4096, len(text))
            if any(text[at - 8:at + 8]):
                text[at] = chance.randrange(256)
        with open(broken, "wb") as file:
            file.write(text)
        for command in (["caches", "--json"], ["whatis", large], ["walk", "--all", "widgets"], ["leaks", "--json"], ["report", "--html", broken + ".html"]):
            done = subprocess.run([STOOK, *command[:1], "--core", broken, *command[1:]], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, timeout=120, check=False)
            assert done.returncode in (0, 1) and (done.returncode == 0 or done.stderr.startswith("stook: ")), (turn, command, done)
            ends[done.returncode] += 1
    assert ends[1] > 0, ends

assert "no address" in stook("whatis", "1", "x", status=2) and "a process and a cache are needed" in stook("walk", "1", status=2)
assert "--core" in stook("caches", "--exe", "/bin/true", "1", status=2)
assert "no core file" in stook("caches", "--core", "/bin/true", status=1)

# ---- leaks ------------------------------------------------------------------------------------------


def found(report, *kinds):
    sums = collections.Counter()
    for group in report["groups"]:
        if group["kind"] in kinds:
            names = [group.get("function", "")] + [f["symbol"] for f in group["stack"]]
            where = next((n for n in names if n.startswith(("lose_", "keep_", "mask"))), "?")
            sums[group["kind"], where] += group["objects"]
    return dict(sums)


PLANTED = {("lost", "lose_point"): 3, ("lost", "lose_string"): 1, ("lost", "lose_chain"): 1, ("lost_behind", "lose_chain"): 1,
           ("lost", "lose_ring"): 1, ("lost_behind", "lose_ring"): 1, ("lost", "lose_pages"): 1}


def switches(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        text = file.read()
    return [re.search(rf"^{key}:\s+(\w+)", text, re.M)[1] for key in ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")]


def leaks(*arguments, cores=True, **environment):
    program = Program(STOOK, "run", "--", os.path.join(TESTS, "prog_leaks"), "wait", *arguments, STOOK_CORE_DUMP="all", **environment)
    assert not program.lines, program.lines
    while (before := switches(program.pid))[0] != "S":  # it is about to wait for its input
        time.sleep(0.01)
    where = [("live", as_json("leaks", "--json", "--wait", "0.2", program.pid))]
    assert switches(program.pid) == before, (before, switches(program.pid))  # it ran for none of this
    where += [("stopped", as_json("leaks", "--json", "--stop", program.pid))]
    with open(f"/proc/{program.pid}/status", encoding="utf-8") as file:
        assert "TracerPid:\t0\n" in file.read()  # it goes on
    if cores:
        core = program.gcore()
        where += [("core", as_json("leaks", "--json", "--core", core))] if core else []
        core = program.die()
        where += [("kernel's core", as_json("leaks", "--json", "--core", core))] if core else []
    else:
        program.end()
    return where


for how, report in leaks(STOOK_TAGS="1"):
    assert report["program"] == "prog_leaks" and report["live"] == (how in ("live", "stopped")), report
    assert found(report, "lost", "lost_behind") == PLANTED, (how, report)
    caches = {g["cache"] for g in report["groups"] if g["kind"] == "lost" and any("lose_point" in f["symbol"] for f in g["stack"])}
    assert caches == {"points"} or caches == set() and any(g.get("function") == "lose_point" for g in report["groups"]), report
    assert found(report, "possible").get(("possible", "keep_some")) == 1, (how, report)
# The only address of an object is in a thread's register: seen of a process that stands still, and in cores.
for how, report in leaks("clean", "threads", STOOK_TAGS="1"):
    lost = found(report, "lost", "lost_behind")
    assert lost == ({("lost", "mask"): 1} if how == "live" and os.uname().machine == "x86_64" else {}), (how, report)
if not locked:  # whole stacks, times, what was asked for
    for how, report in leaks(cores=False, STOOK_DEBUG="FZPU"):
        assert found(report, "lost", "lost_behind") == PLANTED, (how, report)
        string = next(g for g in report["groups"] if any(f["symbol"] == "lose_string" for f in g["stack"]))
        assert string["bytes"] == 100 and 0 < string["first_ns"] == string["last_ns"], string

# Tables of samples have the addresses of large objects, and do not keep them.
for how, report in leaks(cores=False, STOOK_SAMPLE="1K"):
    large = [(g["kind"], g["objects"]) for g in report["groups"] if g["bytes"] >= 300 << 10]
    assert large == [("lost", 1)] and report["lost"]["objects"] == 7, (how, report)

# A thread moves pointers all the time; what was allocated since a search began is all that points to a stack.
program = Program(STOOK, "run", "--", os.path.join(TESTS, "prog_leaks"), "busy", "wait", STOOK_TAGS="1")
for wait in ("0", "0.1", "0.2"):
    report = as_json("leaks", "--json", "--wait", wait, program.pid)
    assert report["agreed"] and 3 <= report["searches"] <= 40, report
    assert found(report, "lost", "lost_behind") == PLANTED, (wait, {key: report[key] for key in ("searches", "lost", "lost_behind")})
text = stook("leaks", program.pid)
assert re.search(r"^\d+ searches in \d+\.\d s, while the process ran: .*see --stop\)\n +objects", text, re.M), text
program.end()

# ---- the page ---------------------------------------------------------------------------------------

program = Program(STOOK, "run", "--", os.path.join(TESTS, "prog_leaks"), "wait", STOOK_TAGS="1")
page = os.path.join(work.name, "page.html")
stook("report", "--html", page, program.pid)
caches = as_json("caches", "--json", program.pid)
program.end()
with open(page, encoding="utf-8") as file:
    text = file.read()
for needed in ("<h1>prog_leaks</h1>", "Caches by bytes", "lose_pages", "300 KiB", "class=\"block"):
    assert needed in text, needed
nonce = re.search(r"script-src 'nonce-(\w{32})'", text)[1]
data = json.loads(re.search(r"<script id=\"flame-data\" type=\"application/json\">(.*?)</script>", text)[1])
assert data["value"] == sum(child["value"] for child in data["children"]) > 300000, data
text, scripts = re.subn(rf"<script( nonce=\"{nonce}\"| id=\"flame-data\").*?</script>", "", text, flags=re.S)
assert scripts == 2 and not re.search(r"<script|https?://|src=", text), "the page is not self-contained"
for tag in ("div", "table", "tr", "td", "svg", "g", "p", "span"):
    assert len(re.findall(rf"<{tag}[ >]", text)) == text.count(f"</{tag}>"), tag
pages = {name: int(n) for n, name in re.findall(r"title=\"(\d+) pages\">(\D*?) [\d.]+ [KMGB]", text)}
assert sum(n for name, n in pages.items() if name.endswith(" slab")) * 4096 == sum(c["resident_bytes"] for c in caches["caches"]), pages
assert pages["large object"] * 4096 == caches["large"]["resident_bytes"] + 2 * 4096, pages  # its edges: it is the first
assert pages.get("free, warm", 0) * 4096 + pages.get("free, kept by a CPU", 0) * 4096 == caches["arena"]["warm_bytes"], (pages, caches["arena"])
assert "--html FILE" in stook("report", "1", status=2)
print("objects, leaks and the page are right")
