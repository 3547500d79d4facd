#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""Attaches to processes that allocate in several threads, make and destroy caches, fork, execute themselves and are
killed: stook never fails but for the reasons that it names, its sums are sums, and the processes live on.

test_look_storm.py [ATTACHES]"""
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_seen")
ATTACHES = int(sys.argv[1]) if len(sys.argv) > 1 else 250
AT_ONE_TIME = 2
REASONS = (r"there is no process \d+", r"process \d+ \(.*\) has ended", r"process \d+ \(.*\) has become another program",
           r"process \d+ \(.*\) ended, or became another program, just now", r"process \d+ \(.*\) does not run on Stook",
           r"process \d+ \(.*\) has Stook, but has allocated nothing with it yet",
           r"process \d+ \(.*\) changes faster than it can be read",
           r"the description of Stook in process \d+ \(.*\) cannot be read")
random.seed(20)
seen = collections.Counter()


def start():
    return subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def tell(process, line):
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass


def end(process):
    process.kill()
    process.stdin.close()
    status = process.wait()
    assert status == -signal.SIGKILL, f"the target ended by itself: {status}"


def check(count, what):
    assert count["total_objects"] == count["active_objects"] + count["sheaf_objects"] + count["slab_free_objects"], (what, count)
    assert count["resident_bytes"] == count["in_use_bytes"] + count["cached_bytes"] + count["wasted_bytes"], (what, count)
    for key, value in count.items():
        assert not isinstance(value, int) or value < 1 << 40, (what, key, value)


def look(process):
    return subprocess.Popen([STOOK, "caches", "--json", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def judge(reader):
    out, err = reader.communicate(timeout=120)
    if reader.returncode == 1:
        assert any(re.match(r"stook: \w+: " + reason, err) for reason in REASONS), err
        seen[re.sub(r"\d+|\(.*?\)", "N", err.strip())] += 1
        return
    assert reader.returncode == 0 and not err, (reader.returncode, err)
    found = json.loads(out)
    for cache in found["caches"]:
        check(cache, cache["name"])
        assert cache["name"] and cache["stride"] >= cache["object_size"] > 0, cache
    check(found["totals"], "totals")
    seen["seen"] += 1
    seen["read again"] += found["tries"] - 1
    seen["torn caches"] += found["torn_caches"]


processes = []
left = ATTACHES
while left > 0:
    while len(processes) < 3:
        processes.append(start())
        tell(processes[-1], random.choice(("busy 1", "busy 3", "fork 1000", "exec")))
    process = random.choice(processes)
    readers = [look(process) for _ in range(AT_ONE_TIME)]
    left -= AT_ONE_TIME
    what = random.randrange(12)
    if what < 2:
        tell(process, "exec")
    elif what < 4:
        tell(process, "fork 20")
    elif what < 5:
        processes.remove(process)
        end(process)
    elif what < 6:
        tell(process, "busy 1")
    for reader in readers:
        judge(reader)
for process in processes:
    assert process.poll() is None, "a target ended by itself"
    end(process)
print(dict(seen))
assert seen["seen"] > ATTACHES / 3, seen
assert seen["torn caches"] <= seen["seen"] / 1000, seen
