#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool malloc preload native
"""Every file that the library and stook run write by a name from outside: a symbolic link is refused with a line that says so, and
what it leads to is as it was; a FIFO without a reader is not waited for; the process's own descriptors are written to.  And every file
that stook reads by a name from outside: a FIFO is none."""
import os
import subprocess
import sys
import tempfile

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
LIBRARY = os.path.join(os.environ["STOOK_BUILD_DIR"], "lib/libstook-malloc.so")
WRONG = [os.path.join(os.environ["STOOK_TEST_DIR"], "prog_wrong")]
LINK, READER = "it is a symbolic link, which is not followed", "no process has the FIFO open for reading"
TRUE = ["/bin/true"]


def run(command, **settings):
    return subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=100)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)

    def untouched(done, why, status=0):
        with open("victim", encoding="utf-8") as file:
            assert file.read() == "keep\n" and os.path.islink("link"), done
        assert why in done.stderr and done.returncode == status, done

    with open("victim", "w", encoding="utf-8") as file:
        file.write("keep\n")
    os.symlink("victim", "link")
    os.mkfifo("fifo")
    for name, more in (("STOOK_PROFILE", {}), ("STOOK_REPORT_FILE", {"STOOK_REPORT": "1"}), ("STOOK_TRACE", {})):
        untouched(run(TRUE, LD_PRELOAD=LIBRARY, **{name: "link"}, **more), LINK)
        untouched(run(TRUE, LD_PRELOAD=LIBRARY, **{name: "fifo"}, **more), READER if name != "STOOK_TRACE" else "File exists")
        made = run(TRUE, LD_PRELOAD=LIBRARY, **{name: f"made.{name}"}, **more)
        assert os.path.getsize(f"made.{name}") > 100 and not made.stderr, (name, made)
        if name != "STOOK_TRACE":
            for own in ("/dev/stderr", "/proc/self/fd/2"):
                said = run(TRUE, LD_PRELOAD=LIBRARY, **{name: own}, **more)
                assert len(said.stderr) > 100 and not said.stdout, (name, said)
            assert len(run(TRUE, LD_PRELOAD=LIBRARY, **{name: "/dev/stdout"}, **more).stdout) > 100, name
    untouched(run([STOOK, "run", "--report-file", "link", "--", *TRUE]), LINK, 125)
    untouched(run([STOOK, "run", "--leaks", "--report-file", "link", "--", *TRUE]), LINK, 125)
    untouched(run([STOOK, "run", "--trace", "link", "--", *TRUE]), LINK, 125)
    untouched(run([STOOK, "profile", "--save", "link", "--", *TRUE]), LINK, 125)
    # A report of a corruption is on standard error in any case.
    for name in ("link", "fifo"):
        wrong = run(WRONG, LD_PRELOAD=LIBRARY, STOOK_ON_CORRUPTION=f"flags,{name}")
        assert "stook: BUG" in wrong.stderr, wrong
        untouched(wrong, "", wrong.returncode)
    wrong = run(WRONG, LD_PRELOAD=LIBRARY, STOOK_ON_CORRUPTION="flags,reports")
    with open("reports", encoding="utf-8") as file:
        assert "stook: BUG" in file.read(), wrong

    # Nor does a name of a FIFO keep a reader waiting.
    for line in ("caches --core fifo", "info --core fifo", "profile fifo", "profile victim fifo", "lab trace fifo", "lab order fifo", "lab ublk --topology fifo",
                 "lab ublk --costs fifo", "plan --slabinfo fifo", "plan --traces fifo", "plan --traces victim --classes fifo", "run -- ./fifo"):
        done = run([STOOK, *line.split()])
        assert done.returncode not in (0, None) and "stook: " in done.stderr, (line, done)
    assert "STOOK_TOPOLOGY=fifo is ignored" in run([STOOK, "run", *TRUE], STOOK_TOPOLOGY="fifo", STOOK_REPORT="1").stderr
    os.chdir("/")
sys.exit(0)
