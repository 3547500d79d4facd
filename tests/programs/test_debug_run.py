#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""stook run --debug: what a program does wrong with malloc is reported, and it runs to its end; as lines of JSON
with STOOK_REPORT=json; STOOK_ON_CORRUPTION says whether it goes on."""
import json
import os
import re
import signal
import subprocess
import tempfile

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
WRONG = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_wrong")
CLEAN = {key: value for key, value in os.environ.items()
         if not re.match(r"STOOK_(?!SOURCE_DIR|BUILD_DIR|TEST_DIR|MODE)|LD_PRELOAD", key)}


def run(*options, status=0, **environment):
    done = subprocess.run([STOOK, "run", *options, "--", WRONG], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env={**CLEAN, **environment})
    assert done.returncode == status, (options, done)
    assert (done.stdout == "at the end\n") == (status == 0), done
    return done.stderr


def bugs(text):
    return [re.sub(r"0x[0-9a-f]{6,}", "P", line)[len("stook: BUG"):]
            for line in text.splitlines() if line.startswith("stook: BUG")]


# Each fault, where it was found and who had allocated and freed the object.
text = run("--debug", "FZPU")
found = bugs(text)
assert len(found) == 6, text
assert re.match(r" malloc-32: right red zone overwritten: byte P is 0x01 instead of 0xcc, 0 behind the 18 bytes of "
                r"object P$", found[0]), found
assert re.match(r" malloc-32: bad free: pointer P is freed twice; it lies 0 bytes into object ", found[1]), found
assert re.match(r" malloc-32: bad free: pointer P is freed twice; ", found[2]), found
assert re.match(r": free: pointer P is not of this malloc ", found[3]), found
assert re.match(r" malloc-\d+: bad free: pointer P is not the start of an object; it lies 16 bytes", found[4]), found
assert re.match(r": realloc: pointer P is not of this malloc ", found[5]), found
reports = text.split("stook: BUG")[1:]
for report in reports[:3]:
    assert re.search(r"^Allocated in grow\+0x\w+ age=\d+ms cpu=\d+ pid=\d+\n grow\+0x\w+ \[prog_wrong\+0x\w+\]\n "
                     r"main\+0x", report, re.M), report
    assert re.search(r"^Found in drop\+0x\w+ pid=\d+\n drop\+", report, re.M), report
    assert re.search(r"^Slab 0x\w+ objects=\d+ used=\d+ fp=0x\w+ flags=0x\w+\nObject 0x\w+ @offset=\d+ index=\d+ size=32 "
                     r"requested=18$", report, re.M), report
freed, found = (re.search(rf"^{what} in drop\+0x\w+ .*pid=(\d+)\n drop\+0x\w+ .*\n (\w+)", reports[2], re.M).groups()
                for what in ("Freed", "Found"))
assert freed[0] != found[0] and (freed[1], found[1]) == ("drop_elsewhere", "main"), (freed, found)
assert re.search(r"^Redzone  0x\w+:\[01\]cc cc ", reports[0], re.M), reports[0]
assert [report.splitlines()[-1] for report in reports] == \
    [re.sub("P", re.search(r"overwritten: byte (0x\w+)", reports[0])[1], "FIX malloc-32: restoring P-P=0xcc")] + \
    2 * ["FIX malloc-32: the call is refused"] + ["FIX: the call is refused"] + \
    ["FIX malloc-112: the call is refused", "FIX: the call is refused"], text

# The same for programs.
lines = [json.loads(line) for line in run("--debug", "FZPU", STOOK_REPORT="json").splitlines()]
assert [line["what"] for line in lines] == ["right_zone", "double_free", "double_free", "foreign", "interior", "foreign"]
assert [line["report"] for line in lines] == [1, 2, 3, 4, 5, 6]
assert lines[0]["done"] == "restored" and lines[0]["requested"] == 18 and lines[0]["cache"] == "malloc-32"
assert [frame["symbol"] for frame in lines[2]["freed"]["stack"][:2]] == ["drop", "drop_elsewhere"]
assert lines[2]["freed"]["thread"] != lines[2]["found"]["thread"] == lines[2]["process"]
assert lines[5]["call"] == "realloc" and all(line["process"] == lines[0]["process"] for line in lines)
zone = [piece for piece in lines[0]["bytes"] if piece["name"] == "Redzone"][-1]
assert zone["hex"].startswith("01cc") and zone["start"] == lines[0]["at"], zone

# Both forms are appended to a file, too, also before an abort; a path that cannot be is no reason to stop.
with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "reports")
    text = run("--debug", "FZPU", STOOK_ON_CORRUPTION=file)
    assert text == open(file, encoding="utf-8").read() and len(bugs(text)) == 6, text
    last = run("--debug", "ZP", status=-signal.SIGABRT, STOOK_ON_CORRUPTION=f"abort,{file}", STOOK_REPORT="json")
    assert last and text + last == open(file, encoding="utf-8").read(), last
    assert len(bugs(run("--debug", "FZPU", STOOK_ON_CORRUPTION=folder))) == 6
    assert "stook: STOOK_ON_CORRUPTION=" in run("--debug", "FZPU", STOOK_ON_CORRUPTION="/" + 4096 * "x")

# A name, and who goes on: without flags the program ends at the first fault that malloc finds.
assert not [bug for bug in bugs(run("--debug", "Z,malloc-16;-", status=-signal.SIGABRT)) if "red zone" in bug]
assert len(bugs(run(status=-signal.SIGABRT))) == 1
assert len(bugs(run("--debug", "ZP", status=-signal.SIGABRT, STOOK_ON_CORRUPTION="abort"))) == 1
text = run(STOOK_ON_CORRUPTION="continue")
assert 3 <= len(bugs(text)) <= 5 and "FIX" in text, text

# What is wrong in the flags is named, by the tool and by the library.
for flags in ("Q", "FZ,", "F-"):
    assert f"--debug takes letters of FZPUTAO, or -; " in run("--debug", flags, status=125), flags
text = run(status=-signal.SIGABRT, STOOK_DEBUG="Q", STOOK_ON_CORRUPTION="perhaps")
assert "stook: STOOK_DEBUG=Q is ignored: it takes letters of FZPUTAO" in text, text
assert "stook: STOOK_ON_CORRUPTION=perhaps is ignored: it takes [WORD,]FILE or WORD; WORD: flags, abort or continue" in text, text
