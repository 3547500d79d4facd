#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook lab order: the order of calls that a run wrote gives the run's counters again, of each CPU, under every
design; orders made here do what is known of them; and files that no run could have written are refused."""
import os
import random
import struct
import subprocess
import tempfile

from tool import STOOK, TOPOLOGIES, lab, lab_json as run

FOLDER = tempfile.TemporaryDirectory()
DESIGNS = (("stook",), ("cpu-partial",), ("upstream-first",), ("upstream-first", "--refill"), ("upstream",))
ALLOC, FREE = 0, 1
NOWAIT, FAILED = 1, 2
ONE, TWO = ("--topology", "node:1 core:4"), ("--topology", f"{TOPOLOGIES}/two-sockets.topo")


def path(name):
    return os.path.join(FOLDER.name, name)


def write(name, records, cpus=4, size=64, objects=1000, version=1, magic=b"STKORDER", count=None):
    with open(path(name), "wb") as file:
        file.write(struct.pack("<8sIIIIQ", magic, version, cpus, size, objects,
                               len(records) if count is None else count))
        for cpu, op, number, *flags in records:
            file.write(struct.pack("<IHBB", number, cpu, op, flags[0] if flags else 0))
    return path(name)


def read(name):
    """The header's fields behind the magic number and the version, and the records."""
    with open(name, "rb") as file:
        content = file.read()
    magic, version, cpus, size, objects, count = struct.unpack_from("<8sIIIIQ", content)
    assert magic == b"STKORDER" and version == 1 and len(content) == 32 + 8 * count
    records = [(cpu, op, number, flags)
               for number, cpu, op, flags in struct.iter_unpack("<IHBB", content[32:])]
    return (cpus, size, objects), records


# The round trip: a run, the order that it wrote, and the replay's counters are the run's.
RUNS = (("ublk", ()), ("ublk", ("--pairing", "cross-node")), ("local", TWO), ("fork-exec", ("--seed", 5)),
        ("random-walk", ("--seed", 7, "--topology", f"{TOPOLOGIES}/gaps.topo")),
        ("producer-consumer", ("--size", 1000, "--order", "auto")))
ORDER = path("order")
for d, design in enumerate(DESIGNS):
    for scenario, options in RUNS:
        options = (*options, "--design", *design)
        made = run(scenario, "--operations", "6k", *options, "--order-out", ORDER)
        kept = [option for option in options if option not in ("--pairing", "cross-node")]
        again = run("order", ORDER, *kept)
        assert again["per_cpu"] == made["per_cpu"], (design, scenario)
        assert again["left"] == 0 and again["before"] == again["after"], (design, scenario)
        assert again["allocs"] == again["frees"] == 6000, again["allocs"]
        for key in ("slab_size", "order", "objs_per_slab", "sheaf_capacity", "object_size", "cpus"):
            assert again[key] == made[key], (design, scenario, key)
# A replay of the other designs' order counts the same calls on the same CPUs.
for design in DESIGNS:
    other = run("order", ORDER, "--order", "auto", "--design", *design)
    for c, was in zip(other["per_cpu"], made["per_cpu"], strict=True):
        assert (c["cpu"], c["allocs"], c["frees"]) == (was["cpu"], was["allocs"], was["frees"])
    assert lab("order", ORDER, "--design", *design) == lab("order", ORDER, "--design", *design)

# What is written: every call, flags of a pool's, numbers that are reused; a run with clocks can be recorded too.
made = run("ublk", "--operations", "4k", "--kept", 0, "--order-out", ORDER)
(cpus, size, objects), records = read(ORDER)
assert (cpus, size) == (64, 320) and objects <= 16 * 128 and len(records) == 8000
out = set()
for cpu, op, number, flags in records:
    assert number < objects and flags == (NOWAIT if op == ALLOC else 0) and cpu % 2 == (op == ALLOC)
    if op == ALLOC:
        # The lowest number that is free: all below it are out.
        assert number not in out and out.issuperset(range(number))
        out.add(number)
    else:
        out.remove(number)
assert not out
lab("ublk", "--operations", "4k", "--time", "--order-out", ORDER)
assert len(read(ORDER)[1]) == 8000 and run("order", ORDER)["left"] == 0

# Orders of which it is known what happens.  One CPU: ten objects out, seven of them back.
known = [(2, ALLOC, k) for k in range(10)] + [(2, FREE, k) for k in range(7)]
known = write("known", known, objects=10, size=60)
for design in DESIGNS:
    result = run("order", known, "--design", *design, *ONE)
    assert (result["records"], result["allocs"], result["frees"], result["left"]) == (17, 10, 7, 3)
    assert (result["before"]["allocs"], result["before"]["frees"]) == (10, 7), result["before"]
    assert (result["after"]["allocs"], result["after"]["frees"]) == (10, 10), result["after"]
    assert result["slabs_before"] >= 1 and result["object_size"] == 64  # whole lines
    c, = [c for c in result["per_cpu"] if c["allocs"]]
    assert (c["cpu"], c["frees"]) == (2, 7) and result["per_cpu"][0]["frees"] == 3
    text = lab("order", known, "--design", *design, *ONE)
    assert "after CPU 0 had freed the 3 objects that were left" in text and "allocs:10 C2=10" in text
# A free on another node touches the slab under Linux's designs.
far = [record for k in range(60) for record in ((0, ALLOC, 0), (5, FREE, 0))]
far = write("far", far, cpus=8)
for design in DESIGNS[1:]:
    result = run("order", far, "--design", *design, "--topology", "node:2 core:4")
    assert result["before"]["free_outside"] == result["before"]["free_slowpath"] == 60, (design, result["before"])
assert run("order", far, "--design", "stook", "--topology", "node:2 core:4")["before"]["free_outside"] <= 2
# Sheaves of first upstream are filled only for calls that may wait; allocations that failed are left out.
for flags, slow in ((0, 0), (NOWAIT, 60)):
    some = write("some", [(0, ALLOC, k, flags) for k in range(60)] + [(0, ALLOC, 60, FAILED), (0, ALLOC, 60)])
    result = run("order", some, "--design", "upstream-first", *ONE)
    assert (result["failed"], result["left"], result["allocs"]) == (1, 61, 61), result
    assert result["before"]["alloc_slowpath"] == slow, (flags, result["before"])
assert "1 allocations that had failed" in lab("order", some, *ONE)
# Size, order and capacity as they are asked for; an order of no calls.
result = run("order", known, "--design", "upstream", "--size", 100, "--align", 8, "--order", 1,
             "--capacity", 5, *ONE)
assert (result["slab_size"], result["order"], result["sheaf_capacity"]) == (104, 1, 5), result
assert run("order", write("none", [], objects=0), *ONE)["allocs"] == 0

# What is refused, and that it is said why.
one = [(0, ALLOC, 0)]
content = open(known, "rb").read()
for name, cut in (("short", content[:20]), ("empty", b""), ("cut", content[:-3]), ("less", content[:-8]),
                  ("more", content + b"\0" * 8)):
    with open(path(name), "wb") as file:
        file.write(cut)
for arguments, status, why in (
        ((), 2, "a file is needed"), ((known, far), 2, "one file at a time"),
        ((path("nothing"),), 1, "No such file"), ((FOLDER.name,), 1, "Is a directory"),
        ((path("short"),), 1, "this is no order file"), ((path("empty"),), 1, "this is no order file"),
        ((path("cut"),), 1, "the header says 17 records, but 133 bytes of records follow"),
        ((path("less"),), 1, "the header says 17 records"), ((path("more"),), 1, "the header says 17 records"),
        ((write("a", one, magic=b"STKORDEX"),), 1, "this is no order file"),
        ((write("b", one, version=2),), 1, "an order of version 2"),
        ((write("c", one, cpus=0),), 1, "0 CPUs"), ((write("d", one, cpus=1 << 20),), 1, "1048576 CPUs"),
        ((write("e", one, size=0),), 1, "objects of 0 bytes"),
        ((write("f", one, size=1 << 30),), 1, "objects of 1073741824 bytes"),
        ((write("g", one, objects=0xffffffff),), 1, "4294967295 objects"),
        ((write("h", one, count=1 << 61),), 1, "records, but"),
        ((write("i", [(0, 2, 0)]),), 1, "record 0: neither an allocation nor a free"),
        ((write("j", one + [(0, FREE, 0, 1)]),), 1, "record 1: flags"),
        ((write("k", [(0, ALLOC, 0, 4)]),), 1, "record 0: flags"),
        ((write("l", [(4, ALLOC, 0)]),), 1, "record 0: a CPU beyond"),
        ((write("m", [(0, ALLOC, 5)], objects=5),), 1, "record 0: an object beyond"),
        ((write("n", one + one),), 1, "record 1: an object is allocated that is allocated already"),
        ((write("o", one + 2 * [(0, FREE, 0)]),), 1, "record 2: an object is freed that is not allocated"),
        ((write("p", [(0, ALLOC, 0, FAILED), (0, FREE, 0)]),), 1, "record 1: an object is freed"),
        ((write("q", [(63, ALLOC, 0)], cpus=64), *ONE), 2, "record 0: the topology has no CPU 63"),
        ((known, "--design", "magic"), 2, "there is no such design"), ((known, "--depth", 3), 2, "--depth"),
        ((known, "--refill"), 2, "--refill needs --design upstream-first"),
        ((known, "--topology", "node:x"), 2, "topology: line 1"), ((known, "--size", 4), 2, "a number from 8")):
    said = lab("order", *arguments, status=status)
    assert why in said, (arguments, said)
for arguments in (("ublk", "--threads"), ("hotplug",), ("sweep", "ublk")):
    assert "--order-out excludes" in lab(*arguments, "--order-out", path("x"), status=2)
assert "cannot be written" in lab("ublk", "--operations", "1k", "--order-out", path("no/where"), status=1)
if os.path.exists("/dev/full"):
    assert "cannot be written" in lab("local", "--operations", "9k", "--order-out", "/dev/full", status=1)

# Bytes that are drawn: whatever a file says, it is replayed or refused, and nothing else happens.
draw = random.Random(1)
done = 0
for k in range(60):
    bad = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        bad[draw.randrange(len(bad))] = draw.choice((0, 1, 2, 255, draw.randrange(256)))
    with open(path("drawn"), "wb") as file:
        file.write(bad[:draw.choice((len(bad), len(bad), draw.randrange(len(bad))))])
    code = subprocess.run([STOOK, "lab", "order", path("drawn"), "--design", DESIGNS[k % 5][0], *ONE],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    assert code in (0, 1, 2), (k, code, bytes(bad))
    done += code == 0
assert 0 < done < 60, done
print("ok")
