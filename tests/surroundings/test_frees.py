#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""A wrong free ends the process with a report: a second free, at once or long after, with or without
a trim; a pointer into an object; and whatever is no object at all, the library's own memory included."""
import signal

from surroundings import check, finish, program, run, served, works

cases = works("cases", served(program("frees"), False)).figures()["cases"]
check(cases >= 20, f"only {cases} cases")
for number in range(cases):
    done = run(served(program("frees", number), True))
    check(done.status == -signal.SIGABRT and "stook: " in done.err, f"not seen: {done}")

done = works("probes", served(program("frees", "probe"), True))
print(done.out)
check(done.figures().get("probes", 0) >= 500, f"probes: {done}")
check(done.figures().get("accepted") == 0, f"free() of what is no object: {done}")
finish()
