#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool rseq
# modes: default locked
"""The commands of tools/gdb/stook-gdb.py, on a live process and on its core: where each object is."""
import os
import re
import subprocess
import tempfile

SCRIPT = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tools/gdb/stook-gdb.py")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_inspect")
LIVE, FREED = 2500, 1500


def gdb(where, *commands):
    arguments = ["gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", *where, "-x", SCRIPT]
    for command in commands:
        arguments += ["-ex", command]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=250, check=False)
    return done.stdout, done.stderr


def row_of(text, name):
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    head = next(row for row in rows if row[0] == "cache")
    return dict(zip(head, next(row for row in rows if row[0] == name)))


def examine(where, places, freed):
    what = ["live", "main", "slab", "large", "span", "stack"]
    asked = [f"stook whatis {places[name]}" for name in what]
    asked += [f"stook whatis {places['live']}+7", f"stook whatis {places['large']}+70000", f"stook whatis {places['span']}+4000000"]
    out, err = gdb(where, "stook caches", "stook sheaves widgets", *asked, "stook whatis", "stook slabs nothing")
    row = row_of(out, "widgets")
    assert int(row["in use"]) == LIVE, row
    assert int(row["objects"]) == LIVE + int(row["in sheaves"]) + int(row["free"]), row
    assert row["size"] == "200", row
    said = {}
    for line in out.splitlines():
        found = re.match(r"(0x[0-9a-f]+) (is .*)", line)
        if found:
            said[int(found[1], 16)] = found[2]

    def says(address, pattern):
        assert re.search(pattern, said[address]), (pattern, said[address])

    at = {name: int(places[name], 16) for name in what}
    says(at["live"], r"^is object \d+ \(200 bytes from .*\) of cache widgets, slab .*: in use$")
    says(at["live"] + 7, r"^is 7 bytes into object \d+ .*: in use$")
    says(at["main"], r": CPU \d+, main$")
    says(at["slab"], r": (free, in its slab|barn of node 0|CPU \d+, spare)$")
    says(at["large"], r"^is 0 bytes into the large object at .*, of 307200 bytes$")
    says(at["large"] + 70000, r"^is 70000 bytes into the large object")
    says(at["span"], r"^is 0 bytes into the large object at .*, of 6291456 bytes$")
    says(at["span"] + 4000000, r"^is 4000000 bytes into the large object")
    says(at["stack"], "^is not of Stook$")
    assert "which address?" in err and "there is no cache nothing" in err, err

    objects, _ = gdb(where, "stook objects widgets", "stook slabs widgets")
    live = {int(line, 16) for line in objects.splitlines() if re.fullmatch("0x[0-9a-f]+", line)}
    assert len(live) == LIVE and at["live"] in live and not live & freed, (len(live), len(live & freed))
    slabs = [line.split() for line in objects.splitlines() if re.match("0x[0-9a-f]+ +(full|partial|empty) ", line)]
    assert len(slabs) == int(row["slabs"]) and sum(int(s[6]) for s in slabs) == LIVE + int(row["in sheaves"]), slabs


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


def end(process):
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()


with tempfile.TemporaryDirectory() as folder:
    process, places, freed = start(os.environ)
    live, core = ["-p", str(process.pid)], os.path.join(folder, "core")
    out, err = gdb(live, "stook caches", "set dump-excluded-mappings on", f"gcore {core}.all", "set dump-excluded-mappings off",
                   f"gcore {core}.objects")
    if "widgets" not in out and ("not permitted" in err or "ptrace" in err):
        print(f"skipped: gdb may not attach: {err}")
        end(process)
        raise SystemExit(77)
    examine(live, places, freed)
    end(process)
    examine([PROGRAM, f"{core}.all"], places, freed)
    out, err = gdb([PROGRAM, f"{core}.objects"], "stook caches")
    assert "STOOK_CORE_DUMP=all" in err and "widgets" not in out, (out, err)

    process, places, freed = start({**os.environ, "STOOK_CORE_DUMP": "all"})
    gdb(["-p", str(process.pid)], f"gcore {core}.set")
    end(process)
    examine([PROGRAM, f"{core}.set"], places, freed)
    out, err = gdb([], "stook caches")
    assert "no libstook" in err, (out, err)

    # With STOOK_DEBUG=U: who allocated the object, and who freed it.
    process, places, freed = start({**os.environ, "STOOK_DEBUG": "ZU", "STOOK_CORE_DUMP": "all"})
    live = ["-p", str(process.pid)]
    whole = [gdb(live, f"stook whatis {places[name]}", f"gcore {core}.debug")[0] for name in ("live", "slab")]
    end(process)
    whole += [gdb([PROGRAM, f"{core}.debug"], f"stook whatis {places[name]}")[0] for name in ("live", "slab")]
    for out in whole:
        assert re.search(r" of cache widgets, .*: (in use|free, in its slab)\n  allocated by thread %d on CPU \d+, .*\n"
                         r"    0x\w+ main \+ \d+ in section .text" % process.pid, out), out
    for out in whole[1::2]:
        assert re.search(r": free, in its slab\n(.*\n)+  freed by thread %d on CPU .*\n    0x\w+ main \+ " % process.pid, out), out
    for out in whole[::2]:
        assert ": in use\n" in out and "freed by" not in out, out

    # Objects that a quarantine holds are free, and gdb says where they are.
    process, places, freed = start({**os.environ, "STOOK_HARDEN": "quarantine"})
    out, _ = gdb(["-p", str(process.pid)], "stook caches", "stook sheaves widgets", "stook objects widgets", f"stook whatis {min(freed)}")
    end(process)
    live = {int(line, 16) for line in out.splitlines() if re.fullmatch("0x[0-9a-f]+", line)}
    assert int(row_of(out, "widgets")["in use"]) == LIVE == len(live) and not live & freed, out
    assert re.search(r"^quarantine of CPU \d+ ", out, re.M) and re.search(r"is object \d+ .*: (quarantine of|CPU|barn of|free)", out), out
print("objects are where gdb says")
