#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
# timeout: 600
"""The sampling guard in other people's programs: a sandbox, limits, handlers on small stacks, forks; and a
bug that is planted into a real program is found within some runs."""
import resource
import sys

from surroundings import MIB, can_trace, check, finish, program, run, served, skip, traced, works

ALLOWED = "mmap,munmap,mremap,mprotect,madvise,futex,brk,getrandom,clock_gettime," \
    "write,exit,exit_group,rt_sigreturn,rt_sigprocmask"
OWN = ",rt_sigaction,gettid"
RUNS = 100

# PYTHONMALLOC=malloc: all of Python's objects are malloc's.  One buffer in eight is read after it is freed.
PLANTED = r"""
import ctypes, json, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.memset.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
table = [{"name": "x" * (i % 60), "values": list(range(i % 20)), "id": i} for i in range(300)]
kept = []
for turn in range(int(sys.argv[2])):
    for row in json.loads(json.dumps(table)):
        p = libc.malloc(100 + row["id"])
        kept.append(p)
        if len(kept) > 500:
            q = kept.pop(turn * 31 % 500)
            libc.free(q)
            if sys.argv[1] == "bug" and row["id"] % 8 == 0:
                ctypes.string_at(q, 1)
print("done")
"""


def guarded(argv, **variables):
    variables.setdefault("STOOK_GUARD", "1")
    return served(argv, True, **variables)


def ends_well(what, argv, **how):
    done = run(argv, **how)
    if done.status == 77:
        skip(what)
        return
    check(done.status == 0 and "stook" not in done.err, f"{what}: {done}")


def surroundings():
    ends_well("a sandbox that allows what it needs",
              guarded(program("sandbox", "kill", ALLOWED + OWN)))
    for refused in ("rt_sigaction", "gettid", "madvise", "clock_gettime", "getrandom"):
        ends_well(f"refused: {refused}", program("sandbox", "refuse", refused) +
                  guarded(program("limits", "exercise")))
    ends_well("a limit of address space", guarded(program("limits", "exercise")),
              limits=[(resource.RLIMIT_AS, 512 * MIB)])
    works("handlers on a stack of 8 KiB", guarded(program("altstack")))


def planted():
    """How many runs there were until the report, and its text."""
    for turn in range(1, RUNS + 1):
        done = run(guarded([sys.executable, "-c", PLANTED, "bug", "40"], STOOK_GUARD="16K",
                           PYTHONMALLOC="malloc"))
        if done.status != 0:
            return turn, done
    return RUNS, done


def off():
    """No handler is installed where no setting asks for it."""
    if not can_trace():
        skip("strace")
        return
    for setting, wanted in ({}, False), ({"STOOK_GUARD": "1"}, True):
        done = run(traced("rt_sigaction", served(program("limits", "exercise"), True, **setting), "/dev/stdout"))
        check(("rt_sigaction(SIGSEGV, {sa_handler=0x" in done.out) == wanted, f"{setting}: {done}")



surroundings()
off()
works("the same without the bug",
      guarded([sys.executable, "-c", PLANTED, "none", "40"], STOOK_GUARD="16K", PYTHONMALLOC="malloc"))
turns, found = planted()
print(f"found in run {turns}")
check(found.status == -11 and "use after free: read" in found.err and "Freed" in found.err and
      "Allocated" in found.err, f"the planted bug: {found}")
finish()
