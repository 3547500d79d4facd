#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# labels: more
"""In a control group with a limit of memory the kernel kills a program that touches too much, whatever malloc said.  So a
program must get along there whose needs change, from one size to another, between threads, or from malloc to memory
that it maps itself: Stook hands what is free to the next size, and gives it back when malloc_trim() or STOOK_RESERVE=0
ask for it.  The least limit under which the program gets to its end with glibc's malloc is enough with Stook."""
import signal

import control_group
from surroundings import MIB, check, finish, program, run, served, skip

BYTES = 48 * MIB  # a phase's
TRIES = 3  # with several threads the same limit kills one run and not the next
STEPS = [2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192]  # MiB beside them: addresses, the process, what is kept

# Threads, what Stook gets (STOOK_*), how many steps more than glibc it may need, and phases.
CASES = (
    (1, {"STOOK_RESERVE": "0"}, 0, (64, 300, 5000, 40000, MIB, 5 * MIB)),
    (1, {}, 0, (64, 300, 5000, 40000, MIB, 5 * MIB)),  # what is warm does not lie where spans can be had
    (4, {}, 0, (64, 300, 5000, 40000, MIB)),
    (1, {}, 0, (48, 3000, 96, 20000, 32, 100000)),
    (1, {}, 0, (64, "trim", "map", 5000, "trim", "map")),
    (4, {"STOOK_RESERVE": "0"}, 1, (300, "map", 5000, "map")),
    (1, {"STOOK_RESERVE": "0"}, 1, (MIB, "map", 5 * MIB, "map")),
)

group = control_group.make(BYTES)
if not group:
    skip("no control group with a limit of memory can be made here")
    finish(False)


def survives(step, stook, threads, settings, phases):
    group.limit(BYTES + STEPS[step] * MIB)
    done = run(served(program("phases", BYTES, threads, 0, *phases), stook, **settings), preexec_fn=group.enter)
    if done.status == 0:
        check(done.figures().get("refused") == 0, f"malloc refused: {done}")
    elif done.status != -signal.SIGKILL:
        check(False, f"{phases}, {STEPS[step]} MiB, stook {stook}: {done}")
    return done.status == 0


def least(*case):
    """The first step that is enough each time."""
    below, enough = -1, len(STEPS)
    while enough - below > 1:
        middle = (below + enough) // 2
        if all(survives(middle, *case) for _ in range(TRIES)):
            enough = middle
        else:
            below = middle
    return enough


known = {}
try:
    group.limit(BYTES // 2)  # the limit is one
    killed = run(served(program("phases", BYTES, 1, 0, 5000), True), preexec_fn=group.enter)
    check(killed.status == -signal.SIGKILL, f"half of what it needs: {killed}")
    for threads, settings, more, phases in CASES:
        if phases not in known:
            known[phases] = least(False, threads, {}, phases)
        glibc = known[phases]
        if not check(glibc < len(STEPS), f"glibc, {phases}: killed under the largest limit"):
            continue
        step = min(glibc + more, len(STEPS) - 1)
        good = survives(step, True, threads, settings, phases)
        print(f"{threads} threads, {phases} {settings}: glibc {STEPS[glibc]} MiB more, Stook {STEPS[step]}: {good}")
        check(good, f"Stook is killed under {STEPS[step]} MiB more: {threads} threads, {phases}, {settings}")
finally:
    group.remove()
finish()
