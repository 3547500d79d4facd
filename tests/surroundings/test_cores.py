#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""A core, the kernel's and gcore's, is at most twice as large as with glibc's malloc."""
import glob
import os
import resource
import shutil
import subprocess
import tempfile

from surroundings import BOTH, GIB, check, finish, program, run, served, skip

MOST = 4 * GIB  # what a core may have at all: a disk is not to be filled
tried = 0


def size_of(pattern):
    found = glob.glob(pattern)
    return sum(os.stat(path).st_size for path in found) if found else None


def gcore(stook, folder, *what):
    with subprocess.Popen(served(program("core", *what), stook), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        done = run(["gcore", "-o", os.path.join(folder, "g"), str(process.pid)],
                   limits=[(resource.RLIMIT_FSIZE, MOST)], cwd=folder)
        process.stdin.close()
        process.wait()
    return size_of(os.path.join(folder, "g*")), done


def bare(stook, folder):
    return gcore(stook, folder, "bare")


def kernel(stook, folder):
    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))

    done = run(served(program("core", "abort"), stook), cwd=folder, preexec_fn=prepare)
    return size_of(os.path.join(folder, "core*")), done


def can_dump():
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return pattern.startswith("core") and (hard == resource.RLIM_INFINITY or os.geteuid() == 0)


GCORE = shutil.which("gcore") and shutil.which("gdb")
for name, dump, can in (("gcore", gcore, GCORE), ("gcore without objects", bare, GCORE),
                        ("the kernel's", kernel, can_dump())):
    if not can:
        skip(f"{name}: not to be had here")
        continue
    sizes = {}
    for who, stook in BOTH:
        with tempfile.TemporaryDirectory() as folder:
            sizes[who], done = dump(stook, folder)
        if not sizes["glibc"]:
            break
    if not sizes["glibc"]:
        skip(f"{name}: none is written here: {done}")
        continue
    tried += 1
    print(name, sizes)
    check(sizes["stook"] and sizes["stook"] <= 2 * sizes["glibc"], f"{name} core: {sizes}; {done}")
finish(tried)
