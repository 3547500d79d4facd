#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the comparisons of adapters share: the mallocs to preload, and a run of a command with its peak of memory."""
import glob
import os
import subprocess
import time

PEERS = (("jemalloc", "libjemalloc.so.2"), ("mimalloc", "libmimalloc.so.2*"), ("tcmalloc", "libtcmalloc_minimal.so.4"))


def mallocs(build):
    """(name, what to preload or None); those that are not installed are left out."""
    found = [("glibc", None)]
    for name, pattern in PEERS:
        paths = sorted(glob.glob(f"/usr/lib/*/{pattern}"))
        if paths:
            found.append((name, paths[0]))
    found.append(("stook-malloc", os.path.join(build, "lib", "libstook-malloc.so")))
    return found


def environment(preload, **more):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    if preload:
        env["LD_PRELOAD"] = os.path.abspath(preload)
    return {**env, **more}


def run(words, env):
    """Seconds, KiB at the peak, and the output of one run."""
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        begin = time.monotonic()
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
    if process.returncode:
        raise SystemExit(f"{words}: exit status {process.returncode}")
    return seconds, usage.ru_maxrss, out


def median(values):
    return sorted(values)[len(values) // 2]
