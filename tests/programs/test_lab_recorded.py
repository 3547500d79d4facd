#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""A program recorded by stook run --trace and replayed by stook lab trace: all that it did is there, in order
and under every design, and what the lab has live at the end is what the program had."""
import json
import os
import subprocess
import tempfile

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
FOLDER = tempfile.TemporaryDirectory()


def stook(*arguments):
    return subprocess.run([STOOK, *arguments], stdout=subprocess.PIPE, check=True).stdout


# Threads that give each other what they have allocated.
program = """
import queue, threading
ways = [queue.Queue(100) for _ in range(4)]
def work(i):
    for n in range(300):
        ways[i].put([str(k) * 20 for k in range(n, n + 20)])
        ways[(i + 1) % 4].get()
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
for name, command in (("sort", ("sort", "/etc/passwd")),
                      ("python", ("env", "PYTHONMALLOC=malloc", "python3", "-S", "-c", program))):
    path = os.path.join(FOLDER.name, name)
    stook("run", "--trace", path, "--", *command)
    result = json.loads(stook("lab", "trace", path, "--json", "--topology", "node:2 core:2"))
    trace, runs = result["trace"], result["runs"]
    assert trace["program"].startswith(name) and trace["ended"], trace
    # A handler or a thread that ends late may be missed, so they are few, not none.
    assert trace["allocs"] > 10 and trace["lost"] == 0 and trace["chunks_missing"] == 0, trace
    assert trace["unknown_frees"] + trace["missing_frees"] <= trace["allocs"] / 100, trace
    if name == "python":
        assert trace["threads"] >= 4 and trace["remote_frees"] > 1000, trace
    assert len(runs) == 5
    for run in runs:
        assert run["allocs"] + trace["large"] == trace["allocs"], (trace, run)
        assert run["allocs"] - run["frees"] == trace["live_objects_end"], (trace, run)
        assert sum(c["live_end"] for c in run["caches"]) == trace["live_end"], (trace, run)
        assert run["slab_bytes_peak"] >= trace["live_peak"], (trace, run)
print("ok")
