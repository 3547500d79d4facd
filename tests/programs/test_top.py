#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""stook top and stook stat as people see them: top's screens in tmux, with digits blanked where they differ from run to run;
each key; a process that ends or becomes another program; the terminal afterwards."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tool import STOOK, do, start, stook

work = tempfile.TemporaryDirectory()


target = start()

# ---- stat ---------------------------------------------------------------------------------------------
once = stook("stat", str(target.pid), "widgets")
assert re.search(r"^cache widgets$", once, re.M) and re.search(r"^slabs made +\d+ +\d+$", once, re.M), once
counters = dict(re.findall(r"^(\w+) +(\d+)", once[once.index("counter  "):], re.M))
frees = sum(i % 10 != 0 and (i % 7 == 0 or i < 10000) for i in range(30000))
assert int(counters["alloc_fastpath"]) + int(counters["alloc_slowpath"]) == 27000, counters
assert int(counters["free_fastpath"]) + int(counters["free_slowpath"]) == frees, counters
assert "The other counters are off" in stook("stat", str(target.pid), "tiny")
lines = stook("stat", str(target.pid), "widgets", "0.05", "3").splitlines()
assert lines[0].startswith("---") and lines[1].split()[0] == "objects" and "alloc sheaf" in lines[1], lines
assert len(lines) == 5 and lines[2] == lines[3] == lines[4] and int(lines[2].split()[0]) == 27000 - frees, lines
assert {int(n) for n in lines[4].split()[5:]} == {0}, lines
assert len(lines[0]) == len(lines[1]) == len(lines[2]), lines

# ---- top without a terminal ----------------------------------------------------------------------------
built_without = "built without ncurses" in stook("top", str(target.pid), status=1)
if built_without or not shutil.which("tmux"):
    print("no ncurses, or no tmux: the screens were not looked at")
    target.kill()
    sys.exit(0 if built_without else 77)
assert "top needs a terminal" in stook("top", str(target.pid), status=1)
assert "--sort takes resident, in-use, cached, wasted, growth, rate, objects or name, not age" in stook("top", "-s", "age", status=2)


# ---- screens -------------------------------------------------------------------------------------------
class Screen:
    """A terminal of so many columns and lines in which `stook top` runs; its status is printed when it ends."""

    number = 0

    def __init__(self, columns, lines, *arguments):
        Screen.number += 1
        self.tmux = ["tmux", "-S", os.path.join(work.name, f"socket{Screen.number}"), "-f", "/dev/null"]
        command = f"{STOOK} top {' '.join(arguments)}; echo \"status $?\"; stty -a | grep -o ' -\\?echo\\b'; exec cat"
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(lines), command], check=True,
                       env={**os.environ, "LC_ALL": "C.UTF-8"})

    def text(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], check=True, stdout=subprocess.PIPE, text=True).stdout

    def wait(self, pattern, keys=()):
        """Sends keys and waits until the screen has the pattern."""
        if keys:
            subprocess.run([*self.tmux, "send-keys", *keys], check=True)
        for _ in range(600):
            text = self.text()
            if re.search(pattern, text, re.M):
                return text
            time.sleep(0.05)
        raise AssertionError(f"after {keys}, {pattern} is not on\n{text}")

    def end(self):
        subprocess.run([*self.tmux, "kill-server"], check=True)


def rows(text):
    found = re.findall(r"^([a-z(][^ ]*(?: \"\S+\")?) +(?:\d+|-) +(\d+) +\d+ +([\d.]+[KMG]?) +([\d.]+[KMG]?) +\d+% +([\d.]+[KMG]?) +([\d.]+[KMG]?) +.*$", text, re.M)
    return [(name, int(active), *map(size, sizes)) for name, active, *sizes in found]


def size(text):
    return float(text.rstrip("KMG")) * 1024 ** " KMG".index(text[-1] if text[-1] in "KMG" else " ")


def blank(text):
    """Numbers as #, one for each run of digits, and the spaces before them as one."""
    return re.sub(r"[ \[]*\|+-*#*\]", " METER", re.sub(r" *[-+]?\d[\d.:]*[KMG]?", " #", text))


screen = Screen(120, 24, "-d", "0.3", str(target.pid))
text = screen.wait("^widgets ")
lines = text.splitlines()
golden = f"""stook top - #  process # (prog_seen), Stook #, MODE mode, # of # CPUs used every # s
resident #: in use #, cached #, wasted #, warm #, RSS #
objects # in use, # in sheaves, # free in slabs
METER #%

CACHE SIZE OBJECTS SLABS RESIDENT IN USE USE CACHED WASTED GROWTH/s ALLOCS/s EVENTS/s"""
seen = [re.sub(r"  +", " ", blank(line)).strip() for line in lines[:6]]
seen[0] = re.sub(r"(rseq|locked) mode", "MODE mode", seen[0])
assert seen == [re.sub(r"  +", " ", line) for line in golden.splitlines()], (seen, golden)
foot = lines[-1] if lines[-1].strip() else next(line for line in reversed(lines) if line.strip())
assert foot.rstrip() == " hHelp   qQuit   bBytes  gGrowth rRate   fCached wWasted oObjects nName   IInvert \\Filter", foot
assert f"process {target.pid} (prog_seen)" in lines[0]
active = {name: n for name, n, *_ in rows(text)}
assert active["widgets"] == 27000 - frees and active["tiny"] == 30 and active["(large)"] == 13, active

for key, column, order in (("n", 0, False), ("w", 5, True), ("f", 4, True), ("u", 3, True), ("o", 1, True), ("b", 2, True)):
    for _ in range(100):
        found = rows(screen.wait("^widgets ", (key,)))
        if [row[column] for row in found] == sorted((row[column] for row in found), reverse=order):
            break
    assert len(found) >= 4 and [row[column] for row in found] == sorted((row[column] for row in found), reverse=order), (key, found)
first = found[0][0]
screen.wait(r"EVENTS/s\n(?!" + re.escape(first) + ")", ("I",))  # inverted: it is no longer the first
screen.wait(r"EVENTS/s\n" + re.escape(first), ("I",))
screen.wait("^stook-cache ", ("a",))
screen.wait(r"EVENTS/s\nwidgets .*\n\n", ("/", "w", "i", "d", "Enter"))
screen.wait("filter: wid$")
screen.wait("^nothing has that|nothing has that in its name", ("/", "z", "z", "Enter"))
screen.wait("^tiny ", ("/", "Escape"))
screen.wait("Any key goes back.", ("h",))
screen.wait("every 0.6 s", ("x", "-"))
screen.wait("every 0.3 s", ("+",))

# What it allocates shows as growth; it ends, and the screen says so.
do(target, "busy 1")
screen.wait(r"^widgets .* [1-9]\d* *$", ("r",))
target.kill()
target.wait()
screen.wait(rf"process {target.pid} \(prog_seen\) has ended")
screen.wait(r"^status 0\n +echo$", ("q",))
screen.end()

# ---- it becomes another process; the end by a signal ----------------------------------------------------
target = start()
screen = Screen(80, 12, "-d", "0.2", str(target.pid))
text = screen.wait("^widgets ")
assert max(map(len, text.splitlines())) <= 80 and "GROWTH/s" in text and "TOTAL" not in text, text
do(target, "exec", "ready\n")
screen.wait("^widgets ")
do(target, "report /dev/null")
pids = subprocess.run(["pgrep", "-f", f"{STOOK} top -d 0.2 {target.pid}$"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
for pid in pids:
    if open(f"/proc/{pid}/comm", encoding="utf-8").read() == "stook\n":
        os.kill(int(pid), signal.SIGTERM)
screen.wait(r"^status 0\n +echo$")
screen.end()

# ---- the host -------------------------------------------------------------------------------------------
target.kill()
target = start()
screen = Screen(120, 24, "-d", "0.3")
text = screen.wait(rf"^ *{target.pid} prog_seen ")
assert re.search(r"^ +PID PROCESS +RSS +OBJECTS +RESIDENT +IN USE +USE +CACHED +WASTED +WARM +GROWTH/s$", text, re.M), text
screen.wait(rf"GROWTH/s\n *{target.pid} prog_seen ", ("/", "p", "r", "o", "g", "_", "s", "Enter"))
screen.wait(rf"process {target.pid} \(prog_seen\)", ("Enter",))
screen.wait("^widgets ")
screen.wait(r"^ +PID PROCESS", ("Escape",))
screen.wait(r"^status 0\n +echo$", ("F10",))
screen.end()
target.kill()

# ---- -n ---------------------------------------------------------------------------------------------------
target = start()
screen = Screen(100, 20, "-n", "2", "-d", "0.1", str(target.pid))
screen.wait(r"^status 0\n +echo$")
screen.end()
target.kill()
