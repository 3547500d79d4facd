#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""In a control group with a limit of memory, a program that touches little of much finishes, as it does
with glibc's malloc."""
import control_group
from surroundings import BOTH, MIB, check, finish, program, run, served, skip

LIMIT = 300 * MIB

group = control_group.make(LIMIT)
if not group:
    skip("no control group with a limit of memory can be made here")
    finish(False)

try:
    for arguments in ((8 * MIB, 500), (64 << 10, 4000), (16 * MIB, 200)):
        for who, stook in BOTH:
            done = run(served(program("sparse", *arguments), stook), preexec_fn=group.enter)
            check(done.status == 0, f"{who}, {arguments} in {LIMIT >> 20} MiB: {done}")
    for who, stook in BOTH:
        done = run(served(program("limits", "exercise"), stook), preexec_fn=group.enter)
        check(done.status == 0, f"{who}, exercise in {LIMIT >> 20} MiB: {done}")
finally:
    group.remove()
finish()
