#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook info: what it says is what the machine says, in both formats and under limits."""
import json
import os
import resource
import subprocess

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")


def info(environment=None, **how):
    done = subprocess.run([STOOK, "info", "--json"], check=True, stdout=subprocess.PIPE,
                          env={**os.environ, **(environment or {})}, **how)
    return json.loads(done.stdout)


def highest(path):
    with open(path, encoding="ascii") as file:
        return max(int(n) for part in file.read().strip().split(",") for n in part.split("-"))


plain = info()
assert plain["cpus"]["possible"] == highest("/sys/devices/system/cpu/possible") + 1
assert plain["cpus"]["allowed"] == len(os.sched_getaffinity(0))
assert plain["mode"] in ("rseq", "locked") and plain["mode_why"]
try:
    with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as cpu_max:
        quota, period = cpu_max.read().split()
except OSError:
    quota, period = "max", 1
assert plain["cpus"]["quota_percent"] == (None if quota == "max" else int(quota) * 100 // int(period))
assert plain["nodes"] and sum(node["cpus"] for node in plain["nodes"]) >= 1
assert plain["memory"]["total_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
if not plain["membarrier_rseq"]:
    assert plain["mode"] == "locked"
if plain["mode"] == "rseq":
    own = info({"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
    assert own["mode"] == "rseq" and own["mode_why"].startswith("own registration: ") and not own["rseq_registered"]

locked = info({"STOOK_MODE": "locked"})
assert locked["mode"] == "locked"
assert info({"STOOK_RESERVE": "3M"})["memory"]["warm_reserve_bytes"] == 3 << 20

one = min(os.sched_getaffinity(0))
assert info(preexec_fn=lambda: os.sched_setaffinity(0, {one}))["cpus"]["allowed"] == 1

if not any(key.endswith("SAN_OPTIONS") for key in os.environ):  # sanitizers need terabytes
    limit = 4 << 30
    small = info(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert small["memory"]["rlimit_as_bytes"] == limit
    assert small["memory"]["reserved_bytes"] <= limit // 2

text = subprocess.run([STOOK, "info"], check=True, stdout=subprocess.PIPE, text=True).stdout
lines = {line.split("  ")[0]: line for line in text.splitlines()}
for name in ("stook", "to preload", "system", "per-CPU mode", "rseq", "CPUs", "huge pages",
             "memory", "address space", "warm reserve", "limits"):
    assert name in lines, f"{name} is missing in\n{text}"
assert f"{plain['mode']}: {plain['mode_why']}" in lines["per-CPU mode"]
print(f"{len(lines)} lines")
