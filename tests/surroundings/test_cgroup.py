#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""In a control group with a limit of memory, a program that touches little of much finishes, as it does
with glibc's malloc."""
import os
import resource

from surroundings import BOTH, MIB, check, finish, program, run, served, skip

LIMIT = 300 * MIB


def group_folders():
    """Where a group can be made, and its file of the limit: version 2, else 1."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            with open(root + "/cgroup.subtree_control", encoding="ascii") as file:
                if "memory" in file.read().split():
                    yield root, "memory.max", "memory.swap.max"
        except OSError:
            pass
    yield "/sys/fs/cgroup/memory", "memory.limit_in_bytes", None


def make_group():
    for root, limit, swap in group_folders():
        folder = os.path.join(root, f"stook-test-{os.getpid()}")
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            with open(os.path.join(folder, limit), "w", encoding="ascii") as file:
                file.write(str(LIMIT))
            if swap and os.path.exists(os.path.join(folder, swap)):
                with open(os.path.join(folder, swap), "w", encoding="ascii") as file:
                    file.write("0")
            return folder
        except OSError:
            os.rmdir(folder)
    return None


group = make_group()
if not group:
    skip("no control group with a limit of memory can be made here")
    finish(False)


def enter():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as procs:
        procs.write(str(os.getpid()))


try:
    for arguments in ((8 * MIB, 500), (64 << 10, 4000), (16 * MIB, 200)):
        for who, stook in BOTH:
            done = run(served(program("sparse", *arguments), stook), preexec_fn=enter)
            check(done.status == 0, f"{who}, {arguments} in {LIMIT >> 20} MiB: {done}")
    for who, stook in BOTH:
        done = run(served(program("limits", "exercise"), stook), preexec_fn=enter)
        check(done.status == 0, f"{who}, exercise in {LIMIT >> 20} MiB: {done}")
finally:
    os.rmdir(group)
finish()
