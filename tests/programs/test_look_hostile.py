#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: more
"""Processes that write wrong offsets, sizes, counts and shifts into their description of Stook, each entry of it in turn: every
command that looks at them ends by itself, within bounded memory, and the exporter answers."""
import os
import re
import resource
import subprocess
import sys
import tempfile
import urllib.request

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_hostile")
MEMORY = 1 << 30
COMMANDS = [["caches", "PID"], ["walk", "PID", "widgets"], ["whatis", "PID", "200000001000"], ["leaks", "--stop", "PID"],
            ["stat", "PID"], ["caches", "--json", "PID"], ["report", "--html", "FILE", "PID"], ["walk", "--all", "PID", "widgets"],
            ["why", "PID"], ["why", "--objects", "PID"]]
work = tempfile.TemporaryDirectory()
damaged = 0


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def stook(arguments, what):
    done = subprocess.run([STOOK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False,
                          preexec_fn=limit)
    assert 0 <= done.returncode <= 2, (what, arguments, done.returncode, done.stderr)
    assert b"out of memory" not in done.stderr, (what, arguments, done.stderr)
    return done


program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for number, value in enumerate(["0", "1", "0x7fffffff", "0xffffffff", "random"]):
    program.stdin.write(value + "\n")
    program.stdin.flush()
    children = []
    while (line := program.stdout.readline()) != "\n":
        assert line, "the program has ended"
        children.append(line.split())
    said = stook(["list"], value).stderr.decode()
    damaged += sum(f"process {pid} (" in said for _, pid in children)
    for i, (name, pid) in enumerate(children):
        if i % 10 != number:
            continue
        arguments = [{"PID": pid, "FILE": os.path.join(work.name, "page")}.get(word, word)
                     for word in COMMANDS[i // 10 % len(COMMANDS)]]
        stook(arguments, (name, value))
    if number == 2:
        exporter = subprocess.Popen([STOOK, "export", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, preexec_fn=limit)
        address = re.search(r"http://[0-9.]+:[0-9]+", line := exporter.stdout.readline())
        if address:  # it is built with a server
            with urllib.request.urlopen(address[0] + "/metrics", timeout=300) as answer:
                assert b"stook_export_processes" in answer.read(), line
        exporter.kill()
        exporter.wait()
    program.stdin.write("\n")
    program.stdin.flush()
program.stdin.close()
assert program.wait() == 0
assert damaged > 100, damaged
print(f"{damaged} descriptions were damaged")
sys.exit(0)
