#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""fork() from each scheduling class, beside a thread that gives pages back on the same CPU: it comes back,
and does not spin for a thread that cannot run."""
from surroundings import check, finish, program, run, served, skip

FORKS = 60
YIELDS_MOST = 20  # a fork; a spin makes thousands
FEWER = {"idle": 2}  # its turn comes rarely: a 300th of a CPU beside a busy thread

for name in ("other", "batch", "idle", "fifo", "rr", "deadline"):
    forks = FEWER.get(name, FORKS)
    done = run(served(program("fork", name, forks), True), timeout=200)
    if done.status == 77:
        skip(f"{name}: not to be had here")
        continue
    check(done.status == 0, f"fork of {name}: {done}")
    yields = done.figures().get("yields", 1 << 30)
    print(name, yields, "yields")
    check(yields <= YIELDS_MOST * forks, f"fork of {name}: {yields} yields in {forks} forks")

finish()
