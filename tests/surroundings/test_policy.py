#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""On a machine of several nodes a task's own memory policy holds for malloc's memory too."""
from surroundings import can_fake, check, faked, finish, program, run, served, skip

NODES = "/sys/devices/system/node/"
FILES = [NODES + name for name in ("possible", "online", "has_memory", "has_normal_memory")]
PREFERRED, BIND, INTERLEAVE = 1, 2, 3

if not can_fake(*FILES):
    skip("files of sysfs cannot be imitated here")
    finish(False)
tried = 0
for policy in (PREFERRED, BIND, INTERLEAVE):
    done = run(faked({path: "0-1" for path in FILES},
                     program("policy", policy) + served(program("policy"), True)))
    if done.status == 77:
        skip(f"policy {policy} cannot be set here")
        continue
    tried += 1
    figures = done.figures()
    check(done.status == 0 and figures.get("task") == policy, f"policy {policy}: {done}")
    for name, value in figures.items():
        check(not name.startswith("malloc") or value == figures["mapped"],
              f"policy {policy}: {name} has {value}, what is mapped {figures['mapped']}")
finish(tried)
