#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""malloc and free read no clock, neither by the processor's counter, which a process may be denied, nor by a system call;
also where samples are taken as often as can be.  Whatever else reads one does not need the counter."""
import tempfile

from surroundings import check, finish, program, run, served, skip

KILLED = program("sandbox", "kill", "mmap,munmap,mremap,mprotect,madvise,futex,brk,write,exit,exit_group,"
                 "rt_sigreturn,rt_sigprocmask")
checked = False

with tempfile.TemporaryDirectory() as folder:
    PROFILE = {"STOOK_PROFILE": folder + "/profile", "STOOK_SAMPLE": "2K", "STOOK_REPORT": "1"}
    for denied, argv, settings in (
            ("counter", [], ({}, {"STOOK_SAMPLE": "2K"}, {"STOOK_GUARD": "2K"}, {"STOOK_GUARD": "512K"},
                                   {"STOOK_DEBUG": "FZPU"}, {"STOOK_HARDEN": "full"}, PROFILE,
                                   {"STOOK_TAGS": "1"}, {"STOOK_TRACE": folder + "/trace"})),
            ("vdso", KILLED, ({}, {"STOOK_SAMPLE": "2K"}))):
        for variables in settings:
            done = run(served(program("clock", denied) + argv, True, **variables))
            if done.status == 77:
                skip(f"{denied} cannot be denied here")
                break
            checked = check(done.status == 0, f"without {denied}, {variables}: {done}") or True
finish(checked)
