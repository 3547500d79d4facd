#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Call stacks are recorded, as often as can be, on stacks that nobody promised to be readable beyond."""
from surroundings import check, finish, program, served, works

# Without, for what is the program's own fault; then by each of those that walk stacks.
for stook, settings in ((False, {}), (True, {"STOOK_SAMPLE": "2K"}), (True, {"STOOK_GUARD": "2K"}),
                        (True, {"STOOK_DEBUG": "U"})):
    found = works(f"stacks, {settings}", served(program("stacks"), stook, **settings)).figures()
    check(len(found) == 9 and not any(found.values()), f"{settings}: {found}")
finish()
