#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook plan --traces: traces made here, whose pages and slabs were worked out by hand; a recorded one, whose bytes
are counted here once more; what a search finds and what it must not; what is refused."""
import json
import os
import struct
import subprocess
import tempfile

from trace_bytes import number, number_at

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
BASH = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/data/bash.trace")
ALLOC, FREE, CACHE, ASKED = 1, 2, 4, 5
FOLDER = tempfile.TemporaryDirectory()


def plan(*arguments, status=0):
    done = subprocess.run([STOOK, "plan", "--traces", *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}: {done.stderr}"
    assert status == 0 or done.stdout == "", (arguments, done.stdout)
    return done.stdout if status == 0 else done.stderr


class Trace:
    """One thread, one chunk as long as it needs to be; each object 64 KiB behind the one before."""

    def __init__(self, *caches):
        self.records, self.at, self.objects = bytearray(), 0, 0
        for i, (name, size) in enumerate(caches or [("malloc-112", 112)], 1):
            self.records += bytes([CACHE]) + number(i) + number(size) * 2 + number(16) + \
                number(len(name)) + name.encode()

    def event(self, kind, address, rest=b""):
        delta = address // 8 - self.at
        self.at = address // 8
        self.records += bytes([kind]) + number(1) + number(2 * delta if delta >= 0 else -2 * delta - 1) + rest

    def alloc(self, cache=1, asked=0, align=0, n=1):
        for _ in range(n):
            self.objects += 1
            rest = number(cache)
            if asked:
                rest += number(2 * asked + (align > 0)) + (number(align.bit_length() - 1) if align else b"")
            self.event(ASKED if asked else ALLOC, self.objects << 16, rest)
        return self

    def free(self, *objects):
        for k in objects:
            self.event(FREE, k << 16)
        return self

    def write(self, name):
        chunk = 32 + len(self.records) + 8 - len(self.records) % 8
        out = struct.pack("<8sIIIIQQQII64s", b"STOOKTRC", 2, 4096, chunk, 1, 0, 1, 0, 7, 1, b"made\x01\"")
        out += bytes(4096 - len(out)) + struct.pack("<IIQQII", 1, len(self.records), 0, 0, 0, 0) + self.records
        path = os.path.join(FOLDER.name, name)
        with open(path, "wb") as file:
            file.write(out + bytes(chunk - 32 - len(self.records)))
        return path


def run(*arguments):
    result = json.loads(plan(*arguments, "--json"))
    return result, result["traces"][0]["before"]


def expect(got, **figures):
    for key, value in figures.items():
        assert got[key] == value, (key, value, got)


# 112 bytes: slabs of two pages with 73 objects.  Each of two refills brings one, rather than divide a second.
KEPT = Trace().alloc(asked=100, n=100).write("kept")
result, kept = run(KEPT)
expect(result["traces"][0], allocs=100, classed=0, large=0, program="made\x01\"", file=KEPT)
expect(kept, requested=10000, rounding=1200, free=3 * 4096 - 11200, slabs_made=2, slabs_unmade=0,
       objects_through_slabs=146, sheaves=46 * 112)
assert kept["peak"] == 3 * 4096 + kept["meta"] and kept["cost"] == kept["peak"] + 146 + 2 * 64, kept
assert [(c["size"], c["requested"]) for c in result["traces"][0]["at_peak"]] == [(112, 10000)]
classes = {c["size"]: (c["order"], c["capacity"]) for c in result["classes_before"]}
assert classes[112] == (1, 134), classes

# Another table: 128 bytes, 32 objects a page; its own order and capacity.
others = [c for c in sorted(classes) if c != 112]
result, other = run(KEPT, "--classes", ",".join(map(str, others)))
expect(other, requested=10000, rounding=2800, free=4 * 4096 - 12800)
table = os.path.join(FOLDER.name, "table")
with open(table, "w", encoding="ascii") as file:
    file.write("\n".join(f"{c}:3:20" if c == 128 else str(c) for c in others) + "\n")
result, other = run(KEPT, "--classes", table)
assert {"size": 128, "order": 3, "capacity": 20} in result["classes_before"]
expect(other, rounding=2800, free=4 * 4096 - 12800, slabs_made=1)

# What was not told counts as its class; alignments; objects of other caches and beyond the classes.
result, mixed = run(Trace(("malloc-112", 112), ("nodes", 200), ("malloc-32768", 32768))
                    .alloc(n=3).alloc(asked=100, align=64).alloc(2).alloc(3, asked=32768 - 8, align=4096)
                    .alloc(3, asked=40000).write("mixed"))
expect(result["traces"][0], allocs=5, classed=3, large=2)
assert [(c["size"], c["requested"]) for c in result["traces"][0]["at_peak"]] == \
    [(112, 336), (128, 128), (32768, 32768)], result

# Everything goes and comes again: pages stay, and the peak.
twice = Trace().alloc(asked=100, n=100).free(*range(1, 101)).alloc(asked=100, n=100)
result, again = run(twice.write("twice"))
expect(again, requested=10000, rounding=1200, free=kept["free"])
# A slab that is unmade gives its pages back: a thousand objects went before the last ten came.
gone = Trace(("malloc-1024", 1024)).alloc(asked=1024, n=1000).free(*range(1, 1001)).alloc(asked=1024, n=10)
result, some = run(gone.write("gone"))
expect(some, requested=1024000, rounding=0, free=4 * 1024) # the last refill's
assert some["slabs_unmade"] > 20, some

# A freed address that comes again unseen, and a free of what is not known.
result, unseen = run(Trace().alloc(asked=100).free(77).write("unseen"))
expect(unseen, requested=100)

# ---- a recorded trace: what it asked for, counted here ---------------------------------------------


def most_requested(path):
    """The most bytes that were out at one time, and how many objects were allocated."""
    with open(path, "rb") as file:
        data = file.read()
    at, used = 4096 + 32, struct.unpack_from("<I", data, 4096 + 4)[0]
    end, out, live, most, allocs = at + used, {}, 0, 0, 0
    address = struct.unpack_from("<Q", data, 4096 + 16)[0]
    while at < end:
        kind, at = data[at], at + 1
        if kind == CACHE:
            for _ in range(4):
                _, at = number_at(data, at)
            length, at = number_at(data, at)
            at += length
            continue
        first, at = number_at(data, at)
        if kind == 3:
            continue
        zigzag, at = number_at(data, at)
        address += zigzag >> 1 ^ -(zigzag & 1)
        if kind == FREE:
            live -= out.pop(address)
            continue
        assert kind == ASKED, (kind, first)
        _, at = number_at(data, at)
        twice_asked, at = number_at(data, at)
        assert twice_asked % 2 == 0
        out[address] = twice_asked // 2
        live, allocs = live + twice_asked // 2, allocs + 1
        most = max(most, live)
    return most, allocs


most, allocs = most_requested(BASH)
result, bash = run(BASH)
expect(result["traces"][0], allocs=allocs, classed=0, program="bash")
# Each class at its own time within a 128th of the trace.
assert 0.99 * most < bash["requested"] < 1.01 * most, (most, bash)
by_class = result["traces"][0]["at_peak"]
for key in "requested", "rounding", "free", "meta", "sheaves":
    assert sum(c[key] for c in by_class) == bash[key], key
assert bash["peak"] == sum(bash[key] for key in ("requested", "rounding", "free", "meta"))
assert bash["slabs_made"] == 27 and bash["slabs_unmade"] == 0, bash
expect(run(BASH)[1], **bash) # the same each time
text = plan(BASH)
assert f"{len(classes)} classes" in text and "bash" in text and "16:0:134,32:0:134" in text, text

# ---- what is refused -------------------------------------------------------------------------------

junk = os.path.join(FOLDER.name, "junk")
with open(junk, "w", encoding="ascii") as file:
    file.write("hello\n" * 1000)
powers = ",".join(str(2 ** k) for k in range(4, 16))
for arguments, status, why in (
        ((), 2, "a file is needed"),
        (("/nowhere",), 1, "/nowhere: No such file"),
        ((junk,), 1, "this is no trace"),
        ((KEPT, junk), 1, "this is no trace"),
        ((Trace(("nodes", 200)).alloc(1).write("typed"),), 1, "no size class of malloc has an object"),
        ((KEPT, "--size", 64), 2, "--size cannot be combined with --traces"),
        ((KEPT, "--classes", "16,32"), 2, "32768"),
        ((KEPT, "--classes", powers), 2, "12.5 %"),
        ((KEPT, "--classes", "16,24,32"), 2, "multiples of 16"),
        ((KEPT, "--classes", "16:x"), 2, "No such file"),
        ((KEPT, "--classes", "16:99"), 2, "16:99 is not SIZE"),
        ((KEPT, "--classes", "16:0:0"), 2, "16:0:0 is not SIZE"),
        ((KEPT, "--classes", ",".join(map(str, sorted(classes))) + ":2"), 2, "32768 bytes an object cannot be"),
        ((KEPT, "--slabinfo"), 2, "cannot be combined")):
    said = plan(*arguments, status=status)
    assert why in said, (arguments, said)
done = subprocess.run([STOOK, "plan", "--size", "64", "--classes", "16"], stderr=subprocess.PIPE, text=True, check=False)
assert done.returncode == 2 and "--classes needs --traces" in done.stderr, done.stderr
