#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Sandboxes: one that is entered after the start and ends a process at any call that glibc's malloc does
not make, and ones that refuse calls from before the start."""
import os

from surroundings import BOTH, BUILD, check, finish, program, run, served, skip

# The first line is malloc's; the second the program's own: its end, and its threads'.
ALLOWED = "mmap,munmap,mremap,mprotect,madvise,futex,brk," \
    "write,exit,exit_group,rt_sigreturn,rt_sigprocmask"
REFUSED = ("membarrier", "rseq", "membarrier,rseq", "memfd_create", "ftruncate", "mbind", "get_mempolicy",
           "set_mempolicy", "madvise", "mremap", "getrandom", "getcpu", "sched_getaffinity",
           "sched_setaffinity", "sched_yield", "sysinfo", "prctl", "fixed")
ALL = ",".join(name for name in REFUSED if "," not in name)


def ends_well(what, argv):
    done = run(argv)
    if done.status == 77:
        return False
    return check(done.status == 0, f"{what}: {done}") or True


# glibc's own reads /proc/sys/vm/overcommit_memory before it shrinks a heap.
if not ends_well("killed after the start, glibc",
                 served(program("sandbox", "kill", ALLOWED + ",getrandom,openat,read,close"), False)):
    skip("no filter can be installed here")
    finish(False)
for settings in ({}, {"STOOK_HARDEN": "full"}, {"STOOK_SAMPLE": "4K"}):
    ends_well(f"killed after the start, stook, {settings}", served(program("sandbox", "kill", ALLOWED), True, **settings))

for refused in (*REFUSED, ALL):
    for who, stook in BOTH if refused == ALL else BOTH[1:]:
        ends_well(f"refused: {refused}, {who}", program("sandbox", "refuse", refused) +
                  served(program("limits", "exercise"), stook))

# A sandbox around stook run --leaks; one that the program enters does not concern it.
STOOK = os.path.join(BUILD, "bin", "stook")
if os.path.exists(STOOK):
    leaks = [STOOK, "run", "--leaks", "--"]
    if run([*leaks, "true"]).status == 125:
        skip("ptrace is refused here")
    else:
        for refused, says in (("ptrace", "--leaks needs ptrace (Operation not permitted; "), ("process_vm_readv", "leaks were not searched for: ")):
            done = run(program("sandbox", "refuse", refused) + [*leaks, "true"])
            check(done.status == 125 and done.err.startswith("stook: run: " + says) and done.err.count("\n") == 1, f"--leaks without {refused}: {done}")
        done = run([*leaks, *program("sandbox", "refuse", "ptrace,process_vm_readv,prctl"), "ls"])
        check(done.status == 0 and "searched at its end" in done.err, f"--leaks of a sandbox: {done}")
finish()
