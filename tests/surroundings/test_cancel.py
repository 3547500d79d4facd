#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""No call of the malloc family, of a cache, nor fork() is a point of cancellation."""
from surroundings import check, finish, program, run, skip, works

works("calls with a pending cancel", program("cancel", "calls"), timeout=60)
done = run(program("cancel", "fork", 200), timeout=60)
if done.status == 77:
    skip("fork: no real-time threads here")
else:
    check(done.status == 0, f"fork with a pending cancel: {done}")
finish()
