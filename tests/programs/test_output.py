#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""Every command of stook fails where its standard output cannot be written, with one message; and the next file that a command
opens does not take the place of a closed standard output.  What stook whatis makes of digits."""
import json
import os
import re
import subprocess
import sys
import tempfile

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_seen")
MESSAGE = "standard output cannot be written\n"

target = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert target.stdout.readline() == "ready\n"
PID = str(target.pid)


def stook(*arguments, **how):
    return subprocess.run([STOOK, *arguments], stderr=subprocess.PIPE, text=True, check=False, timeout=200, **how)


address = int(json.loads(stook("walk", "--json", PID, "widgets", stdout=subprocess.PIPE).stdout)["objects"][0]["object"])
folder = tempfile.TemporaryDirectory()
with open(f"{folder.name}/profile", "w", encoding="utf-8") as file:
    json.dump({"stook_profile": 2, "program": "p", "pid": 1, "mappings": [],
               "sites": [{"file": "a.c", "function": "f", "line": 1, "live_objects": 1, "live_bytes": 64}]}, file)
COMMANDS = {
    "run": [],  # it becomes the program
    "top": [],  # it needs a terminal
    "info": ["", "--json", "--settings"],
    "lab": ["ublk --operations 1000", "ublk --operations 1000 --json", "ublk --operations 1000 --time", "--help"],
    "plan": ["--size 100", "--size 100 --json"],
    "profile": [f"{folder.name}/profile", f"--pprof - {folder.name}/profile", f"--collapsed - {folder.name}/profile"],
    "list": ["", "--json"],
    "caches": [PID, f"--json {PID}"],
    "stat": [PID, f"{PID} widgets", f"{PID} 1 1"],
    "whatis": [f"{PID} {address:#x}", f"--json {PID} {address}"],
    "walk": [f"{PID} widgets", f"--json {PID} widgets"],
    "leaks": [PID, f"--json {PID}"],
    "why": [PID, f"--json {PID}", f"--objects {PID}"],
    "report": [f"--html /dev/stdout {PID}"],
    "export": [f"--listen 127.0.0.1:0 --pid {PID}"],
    "compare": ["-n 1 --mallocs glibc,copy=- -- true", "-n 1 --json - --mallocs glibc,copy=- -- true"],
    "help": ["", *"run info lab plan profile list caches stat top whatis walk leaks why report export compare".split()],
}
overview = stook("help", stdout=subprocess.PIPE).stdout
assert set(re.findall(r"^  (\w+) ", overview, re.M)) == set(COMMANDS), "a command is not tested here, or is gone"
lines = [f"{command} {rest}".split() for command, more in COMMANDS.items() for rest in more] + [["--version"], ["--help"]]
lines += [[command, "--help"] for command in COMMANDS if command != "help"]
for line in lines:
    with open("/dev/full", "wb") as full:
        done = stook(*line, stdout=full)
    assert done.returncode == 1 and (done.stderr.endswith(MESSAGE) or "/dev/stdout" in done.stderr), (line, done)
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', STOOK, *line], stderr=subprocess.PIPE, text=True, check=False, timeout=200)
    assert done.returncode == 1 and (done.stderr.endswith(MESSAGE) or "/dev/stdout" in done.stderr), (line, done)

done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', STOOK, "profile", "--pprof", f"{folder.name}/pprof", f"{folder.name}/profile"],
                      stderr=subprocess.PIPE, text=True, check=False)
with open(f"{folder.name}/pprof", "rb") as file:
    assert file.read(2) == b"\x1f\x8b" and done.returncode == 0, done
done = subprocess.run(["sh", "-c", 'exec "$0" run -- sh -c "test -e /proc/\\$\\$/fd/1 || echo closed >&2" >&-', STOOK], stderr=subprocess.PIPE,
                      text=True, check=False)
assert done.stderr == "closed\n", ("the program finds what it had", done)

# ---- addresses --------------------------------------------------------------------------------------------


def whatis(*texts):
    return [line for line in stook("whatis", PID, *texts, stdout=subprocess.PIPE).stdout.splitlines() if line.startswith("0x")]


[plain] = whatis(hex(address))
assert plain.startswith(f"{address:#x} is object "), plain
assert whatis(f"{address:x}") == [plain] or f"{address:x}".isdigit(), plain
[digits] = whatis(str(address))
assert digits == plain.replace(" is ", f" ({address}, read as decimal) is ", 1), (digits, plain)
none = whatis("12345")
assert none == ["0x12345 (12345, read as hexadecimal) is not of Stook", "0x3039 (12345, read as decimal) is not of Stook"], none
for wrong in ("", "0x", "0y1", "-1", "12 ", "g", "1" * 30):
    assert stook("whatis", PID, wrong, stdout=subprocess.PIPE).returncode == 2, wrong
[answer] = json.loads(stook("whatis", "--json", PID, str(address), stdout=subprocess.PIPE).stdout)["addresses"]
assert answer["address"] == address and answer["read_as"] == "decimal" and answer["kind"] == "object", answer
target.communicate()
sys.exit(0)
