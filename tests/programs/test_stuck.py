#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
# labels: more
"""A process whose memory keeps its reader waiting for ever (prog_stuck): who looks into it alone says so and ends, and who looks
into all shows the others, each time."""
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PLACE = os.environ["STOOK_TEST_DIR"]


def start(name):
    process = subprocess.Popen([os.path.join(PLACE, name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline()


stuck, word = start("prog_stuck")
if word != "ready\n":
    print("the kernel has no userfaultfd for us")
    sys.exit(77)
others = [start("prog_stuck")[0] for _ in range(3)]  # of one user: they cost no more than two
seen, _ = start("prog_seen")
pids = [str(process.pid) for process in (stuck, *others, seen)]

alone = [subprocess.Popen([STOOK, *line.split(), pids[0], *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
         for line, more in (("caches", ()), ("whatis", ("0x1000",)), ("leaks", ()), ("stat", ()))]
listed = subprocess.Popen([STOOK, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
exporter = subprocess.Popen([STOOK, "export", "--listen", "127.0.0.1:0", *(word for pid in pids for word in ("--pid", pid))],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
address = re.search(r"http://[0-9.:]+", exporter.stdout.readline())[0]
refused = []


def profile():
    """Of the process that is stuck."""
    try:
        urllib.request.urlopen(f"{address}/debug/pprof/heap?pid={pids[0]}", timeout=100)
    except urllib.error.HTTPError as error:
        refused.append(error.code)


waits = threading.Thread(target=profile)
waits.start()
for _ in range(2):
    with urllib.request.urlopen(f"{address}/metrics", timeout=100) as answer:
        text = answer.read().decode()
    assert f'stook_process_info{{pid="{seen.pid}"' in text and "\nstook_export_processes 1\n" in text, text[-600:]
    assert "\nstook_export_late_processes 4\n" in text, text[-600:]
with urllib.request.urlopen(f"{address}/debug/pprof/heap?pid={seen.pid}", timeout=100) as answer:
    assert answer.read(2) == b"\x1f\x8b"
waits.join()
assert refused in ([500], [504]), refused
exporter.send_signal(signal.SIGTERM)
assert exporter.wait(100) == 0
out, said = listed.communicate(timeout=100)
assert listed.returncode == 0 and "left out" in said and re.search(rf"^ *{seen.pid} prog_seen", out, re.M), (out, said)
for process in alone:
    out, said = process.communicate(timeout=100)
    assert process.returncode == 1 and "given up" in said, (process.args, out, said)
for process in (stuck, *others, seen):
    process.communicate()
sys.exit(0)
