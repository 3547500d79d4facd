#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook lab trace: traces made here, of which it is known what every design does with them, and what the
replays count; where threads run; that the same trace prints the same bytes; what is refused."""
import json
import os
import struct
import tempfile

from tool import SANITIZED, TOPOLOGIES, stook
from trace_bytes import number

ALLOC, FREE, CPU, CACHE = 1, 2, 3, 4
HEADER, CHUNK = 4096, 65536
DESIGNS = ["cpu-partial", "upstream-first", "upstream-first+refill", "upstream", "stook"]
FOLDER = tempfile.TemporaryDirectory()


class Trace:
    """Chunks of threads; each event `step` ns after the one before."""

    def __init__(self, *caches, threads=2):
        self.now, self.step, self.chunks, self.open = 100, 10, [], {}
        self.cpu = [0] * threads
        for i, (name, size) in enumerate(caches, 1):
            name = name.encode()
            self.put(0, bytes([CACHE]) + number(i) + number(size) + number(size) + number(16) +
                     number(len(name)) + name)

    def put(self, thread, record, address=None):
        chunk = self.open.get(thread)
        if not chunk or len(chunk["records"]) > CHUNK - 200:
            chunk = {"thread": thread, "records": bytearray(), "begin": self.now, "time": self.now,
                     "at": 0, "cpu": self.cpu[thread]}
            self.open[thread] = chunk
            self.chunks.append(chunk)
        if address is not None:
            delta = address // 8 - chunk["at"]
            record = record[:1] + number(self.now - chunk["time"]) + \
                number(2 * delta if delta >= 0 else -2 * delta - 1) + record[1:]
            chunk["time"], chunk["at"] = self.now, address // 8
        chunk["records"] += record

    def alloc(self, thread, address, cache=1, size=0):
        self.now += self.step
        self.put(thread, bytes([ALLOC]) + number(cache) + (number(size) if cache == 0 else b""),
                 address)

    def free(self, thread, address):
        self.now += self.step
        self.put(thread, bytes([FREE]), address)

    def move(self, thread, cpu):
        self.cpu[thread] = cpu
        self.put(thread, bytes([CPU]) + number(cpu))

    def bytes(self, lost=0, ended=1, version=1):
        out = struct.pack("<8sIIIIQQQII64s", b"STOOKTRC", version, HEADER, CHUNK, 2, 0,
                          len(self.chunks), lost, 7, ended, b"made\x01")
        out += bytes(HEADER - len(out))
        for c in self.chunks:
            head = struct.pack("<IIQQII", c["thread"] + 1, len(c["records"]), c["begin"], 0,
                               c["cpu"], 0)
            out += head + c["records"] + bytes(CHUNK - len(head) - len(c["records"]))
        return out

    def write(self, name, **how):
        return write(name, self.bytes(**how))


def write(name, content):
    path = os.path.join(FOLDER.name, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def lab(*arguments, **how):
    return stook("lab", "trace", *arguments, **how)


def run(*arguments):
    """The trace, and the runs by design; of one machine."""
    result = json.loads(lab(*arguments, "--json"))
    return result["trace"], {run["design"]: run for run in result["runs"]}


def machine(name):
    return os.path.join(TOPOLOGIES, name + ".topo")


N = 1000
ONE, TWO = ("--topology", "node:1 core:4"), ("--topology", machine("two-sockets"))

# One thread, one object at a time: after the first, nobody leaves the fast path.
pairs = Trace(("malloc-64", 64), threads=1)
for k in range(N):
    pairs.alloc(0, 4096)
    pairs.free(0, 4096)
PAIRS = pairs.write("pairs")
trace, runs = run(PAIRS, *ONE)
assert list(runs) == DESIGNS, list(runs)
assert (trace["allocs"], trace["frees"], trace["threads"], trace["cpus"]) == (N, N, 1, 1), trace
assert trace["program"] == "made\x01" and trace["pid"] == 7 and trace["ended"], trace
assert (trace["live_peak"], trace["live_end"], trace["live_objects_end"]) == (64, 0, 0), trace
assert trace["remote_frees"] == trace["moves"] == trace["lost"] == 0, trace
assert trace["nanoseconds"] == 10 * (2 * N - 1), trace
for name, r in runs.items():
    assert (r["allocs"], r["frees"], r["cpus"], r["nodes"]) == (N, N, 4, 1), (name, r)
    cache, = r["caches"]
    # The library's first refill brings a sheaf's capacity, in whole slabs.
    slabs = cache["sheaf_capacity"] // cache["objs_per_slab"] if name == "stook" else 1
    assert (r["alloc_outside"], r["free_outside"], r["slabs_allocated"]) == (1, 0, slabs), (name, r)
    assert r["barn_locks"]["near"] == r["barn_locks"]["far"] == 0, (name, r)
    assert (cache["name"], cache["size"], cache["allocs"]) == ("malloc-64", 64, N), cache
    assert (cache["live_peak"], cache["live_end"], cache["outside"]) == (64, 0, 1), cache
    slab = 4096 << cache["order"]
    assert cache["objs_per_slab"] == slab // 64 and cache["slab_size"] == 64, cache
    assert r["slab_bytes_peak"] == r["slab_bytes_end"] == r["slab_bytes_mean"] == slab * slabs, (name, r)
    assert (cache["sheaf_capacity"] > 0) == (r["sheaf_bytes"] > 0) == (name != "cpu-partial"), r

# What one thread allocates another frees.  Linux frees what is another node's to its slab; with the CPU's
# own slabs alone, all that another CPU frees.
handed = Trace(("malloc-64", 64))
for k in range(N):
    handed.alloc(0, 4096 + 64 * k)
    handed.free(1, 4096 + 64 * k)
HANDED = handed.write("handed")
trace, runs = run(HANDED, *TWO)
assert trace["remote_frees"] == N and trace["live_peak"] == 64, trace
assert runs["cpu-partial"]["free_outside"] == N, runs["cpu-partial"]
for name in DESIGNS[1:4]:
    assert runs[name]["free_outside"] == N, runs[name]
assert runs["stook"]["free_outside"] <= N / 20, runs["stook"]
# On one node the sheaves take them.
trace, runs = run(HANDED, *ONE)
assert runs["cpu-partial"]["free_outside"] == N, runs["cpu-partial"]
for name in DESIGNS[1:]:
    assert runs[name]["free_outside"] <= N / 20, runs[name]
# By CPUs: both were recorded on CPU 0, so nothing is another's.
trace, runs = run(HANDED, *TWO, "--map", "cpu")
for name, r in runs.items():
    assert r["free_outside"] == 0 and r["alloc_outside"] == 1, (name, r)

# A third thread is on the first one's node again.
third = Trace(("malloc-64", 64), threads=3)
third.free(1, 8)
for k in range(N):
    third.alloc(0, 4096 + 64 * k)
    third.free(2, 4096 + 64 * k)
trace, runs = run(third.write("third"), *TWO)
assert trace["unknown_frees"] == 1 and runs["upstream"]["frees"] == N, trace
assert runs["upstream"]["free_outside"] <= N / 20, runs["upstream"]
assert runs["cpu-partial"]["free_outside"] == N, runs["cpu-partial"]

# A thread that changes its CPU stays on its node; by CPUs it goes where the recorded one is.
moving = Trace(("malloc-64", 64), threads=1)
for k in range(N):
    moving.move(0, 0)
    moving.alloc(0, 4096)
    moving.move(0, 16)
    moving.free(0, 4096)
MOVING = moving.write("moving")
trace, runs = run(MOVING, *TWO)
assert trace["moves"] == 2 * N - 1 and trace["cpus"] == 2, trace
assert runs["cpu-partial"]["free_outside"] == N, runs["cpu-partial"]
assert runs["upstream"]["free_outside"] <= N / 20, runs["upstream"]
trace, runs = run(MOVING, *TWO, "--map", "cpu")
assert runs["cpu-partial"]["free_outside"] == runs["upstream"]["free_outside"] == N, runs
# A machine with one CPU has no other.
trace, runs = run(MOVING, "--topology", "node:1 core:1")
assert all(r["alloc_outside"] == 1 and r["free_outside"] == 0 for r in runs.values()), runs

# Memory: at most, at the end, and by cache.  Large objects are counted only.
memory = Trace(("malloc-64", 64), ("point", 64), ("malloc-1024", 1024), threads=1)
for k in range(500):
    memory.alloc(0, 1 << 20 | 1024 * k, cache=3)
for k in range(100):
    memory.alloc(0, 1 << 24 | 64 * k, cache=1)
    memory.alloc(0, 2 << 24 | 64 * k, cache=2)
memory.alloc(0, 1 << 30, cache=0, size=1 << 20)
memory.alloc(0, 2 << 30, cache=0, size=1 << 21)
memory.free(0, 1 << 30)
for k in range(400):
    memory.free(0, 1 << 20 | 1024 * k)
MEMORY = memory.write("memory", lost=5, ended=0)
trace, runs = run(MEMORY, *ONE)
assert trace["live_peak"] == 500 * 1024 + 200 * 64 and trace["live_objects_end"] == 300, trace
assert trace["live_end"] == 100 * 1024 + 200 * 64 and trace["lost"] == 5, trace
assert (trace["large"], trace["large_bytes"]) == (2, 3 << 20) and not trace["ended"], trace
assert (trace["large_bytes_peak"], trace["large_bytes_end"]) == (3 << 20, 2 << 20), trace
for name, r in runs.items():
    assert r["allocs"] == 700 and r["frees"] == 400, (name, r)
    assert r["slab_bytes_peak"] >= trace["live_peak"] and r["slab_bytes_end"] >= trace["live_end"]
    assert r["slab_bytes_peak"] >= r["slab_bytes_end"] and \
        r["slab_bytes_peak"] >= r["slab_bytes_mean"] >= trace["live_mean"], (name, r)
    assert sum(c["slab_bytes_end"] for c in r["caches"]) == r["slab_bytes_end"], (name, r)
    assert sum(c["slabs_allocated"] for c in r["caches"]) == r["slabs_allocated"], (name, r)
    assert [c["live_peak"] for c in r["caches"]] == [6400, 6400, 512000], (name, r)
    assert [c["live_end"] for c in r["caches"]] == [6400, 6400, 102400], (name, r)
# malloc's classes have smaller slabs than caches of one type, as in the library.
small, typed, _ = runs["stook"]["caches"]
assert small["objs_per_slab"] < typed["objs_per_slab"], (small, typed)
small, typed, _ = runs["upstream"]["caches"]
assert small["objs_per_slab"] == typed["objs_per_slab"] == 64, (small, typed)
# Slabs and sheaves as they are asked for.
trace, runs = run(MEMORY, *ONE, "--order", 1, "--capacity", 6, "--design", "stook,upstream")
assert list(runs) == ["upstream", "stook"], list(runs)
for name, r in runs.items():
    for c in r["caches"]:
        assert (c["order"], c["objs_per_slab"]) == (1, 8192 // c["size"]), (name, c)
        assert c["sheaf_capacity"] == 6, (name, c)

# Frees that are not there: an address comes again.
lost = Trace(("malloc-64", 64))
for k in range(N):
    lost.alloc(k % 2, 4096)
lost.free(0, 4096)
lost.free(0, 4096)
lost.free(1, 8192)
trace, runs = run(lost.write("lost"), *ONE)
assert trace["missing_frees"] == N - 1 and trace["unknown_frees"] == 2, trace
assert trace["live_end"] == 0 and trace["live_peak"] == 64 and trace["frees"] == 3, trace
for name, r in runs.items():
    assert r["allocs"] == r["frees"] == N, (name, r)

# The model of time: each call has its own work; a line from afar is waited for; costs are as said.
trace, runs = run(PAIRS, *ONE, "--time", "--design", "upstream,stook" if SANITIZED else "all")
for name, r in runs.items():
    spent = r["nanoseconds"]
    assert 2 * N * 5 <= spent["calls and sections"] <= 2 * N * 5 + 2000, (name, spent)
    assert spent["waiting for barns"] == spent["waiting for list locks"] == 0, (name, spent)
    assert spent["lines of objects"] == 0, (name, spent)
costs = write("costs", b"local 100\n")
trace, runs = run(PAIRS, *ONE, "--costs", costs, "--design", "stook")
assert 2 * N * 100 <= runs["stook"]["nanoseconds"]["calls and sections"] <= 2 * N * 100 + 2000, runs
trace, runs = run(HANDED, *TWO, "--time", "--design", "cpu-partial")
assert runs["cpu-partial"]["nanoseconds"]["lines of objects"] > 180 * N, runs
assert "nanoseconds" not in run(PAIRS, *ONE)[1]["stook"]
# Many threads that allocate at one time in one place wait for each other's lock, but where sheaves are filled.
crowd = Trace(("malloc-64", 64), threads=8)
crowd.step = 1
for k in range(N):
    for thread in range(8):
        crowd.alloc(thread, 4096 + 64 * (8 * k + thread))
    crowd.now += 500
CROWD = (crowd.write("crowd"), "--topology", "node:1 core:8")
trace, runs = run(*CROWD, "--time", "--design", "upstream-first,upstream,stook")
assert runs["upstream-first"]["nanoseconds"]["waiting for list locks"] > 100 * N, runs
for name in ("upstream", "stook"):
    wait = runs[name]["nanoseconds"]["waiting for list locks"]
    assert wait < runs["upstream-first"]["nanoseconds"]["waiting for list locks"] / 4, (name, wait)
# What was recorded far apart nobody waits for, but where it is put together.
apart = Trace(("malloc-64", 64), threads=8)
apart.step = 1000
for k in range(8 * N):
    apart.alloc(k % 8, 4096 + 64 * k)
APART = (apart.write("apart"), "--topology", "node:1 core:8", "--design", "upstream-first")
assert run(*APART, "--time")[1]["upstream-first"]["nanoseconds"]["waiting for list locks"] == 0
close = run(*APART, "--gap", 5)[1]["upstream-first"]["nanoseconds"]["waiting for list locks"]
assert close > 100 * N, close

# The same bytes each time, whatever the environment says; a line for each machine and design.
some = ["upstream", "stook"] if SANITIZED else DESIGNS
options = (HANDED, *TWO, "--topology", machine("ublk"), "--time", "--design", ",".join(some))
text, first = lab(*options), lab(*options, "--json")
assert first == lab(*options, "--json", STOOK_HARDEN="order", STOOK_MODE="locked",
                    STOOK_TOPOLOGY="node:1 core:1", STOOK_STATS="slow",
                    STOOK_CACHED_MAX="1M", STOOK_TAGS="1")
result = json.loads(first)
assert [(run["topology"], run["design"]) for run in result["runs"]] == \
    [(machine(m), d) for m in ("two-sockets", "ublk") for d in some]
lines = [line.split() for line in text.splitlines()][-len(result["runs"]):]
for line, r in zip(lines, result["runs"]):
    assert line[0] == os.path.basename(r["topology"])[:-len(".topo")] and line[1] == r["design"]
    assert abs(float(line[2]) - 100 * r["alloc_outside"] / N) <= 0.005, (line, r)
    assert abs(float(line[3]) - 100 * r["free_outside"] / N) <= 0.005, (line, r)
    assert int(line[4]) == r["slabs_allocated"] and len(line) == 16, (line, r)
    for at, distance in ((10, "own"), (11, "near"), (12, "far")):
        locks = r["barn_locks"][distance] + r["list_locks"][distance]
        assert abs(float(line[at]) - 1000 * locks / (2 * N)) <= 0.05, (line, r)
assert f"events           {2 * N}: {N} allocations, {N} frees, 100.0 %" in text, text
assert "program          made?, process 7; " in text, text
assert "which had not ended" in lab(MEMORY, *ONE, "--design", "stook")
default = lab(HANDED, "--design", "stook").splitlines()[-1].split()
assert default[:2] == ["ublk", "stook"] and default[:13] == lines[-1][:13], default

# A trace without events, and one of nothing but large objects.
empty = write("empty", Trace(threads=1).bytes())
assert lab(empty, *ONE).splitlines()[-1].split()[:3] == ["node:1", "core:4", "stook"]
assert all(r["allocs"] == 0 for r in run(empty)[1].values())

# What is refused, and that it is said why.
cut = pairs.bytes()[:HEADER + 100]
unknown = Trace(threads=1)
unknown.alloc(0, 64)
for arguments, status, why in (
        ((), 2, "a file is needed"), ((PAIRS, HANDED), 2, "one trace at a time"),
        ((PAIRS, "--design", "magic"), 2, "there are cpu-partial, upstream-first"),
        ((PAIRS, "--map", "node"), 2, "--map takes thread or cpu, not node"),
        ((PAIRS, "--capacity", "0"), 2, "a number from 1"),
        ((PAIRS, "--topology", "node:x"), 2, "topology: line 1"),
        ((PAIRS, "--costs", MEMORY), 2, "a cost's name and a number"),
        ((PAIRS, "--gap", "-1"), 2, "a number from 0 to 1000000000"),
        ((PAIRS, "--order", "9"), 2, "a number from 0 to 8"),
        ((os.path.join(FOLDER.name, "none"),), 1, "No such file"),
        ((costs,), 1, "this is no trace"),
        ((write("cut", cut),), 1, "offset 4096: the file ends within a chunk"),
        ((write("new", pairs.bytes(version=9)),), 1, "a trace of version 9"),
        ((unknown.write("unknown"),), 1, "nothing describes cache 1"),
        ((PAIRS, "--order", "0", "--design", "upstream"), 0, None),
        ((MEMORY, "--order", "0", "--design", "cpu-partial"), 0, None)):
    said = lab(*arguments, status=status)
    assert why is None or why in said, (arguments, said)
print("ok")
