#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""malloc in a handler on an alternate stack of 8 KiB (SIGSTKSZ of old) writes nothing below it."""
from surroundings import BOTH, check, finish, program, served, skip, works

STACK, FRAME_MOST = 8192, 4096  # the kernel's own frame: larger ones leave too little for any malloc

found = {who: works(f"a handler, {who}", served(program("altstack"), stook)).figures()
         for who, stook in BOTH}
print(found)
if found["glibc"]["frame"] > FRAME_MOST or found["glibc"]["used"] > STACK:
    skip(f"frames of this machine are too large: {found}")
    finish(False)
check(found["stook"].get("used", STACK + 1) <= STACK, f"{found}")
finish()
