#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# timeout: 600
"""stook compare: a malloc that takes twice the memory, one that uses twice the CPU time and one that is the C library's; what fails
or differs under one malloc alone; mallocs that did not take; servers; wrong options. No time is judged but the planted one."""
import ctypes
import errno
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from tool import CLEAN, SANITIZED, SOURCE, STOOK, TESTS

sys.path.insert(0, os.path.join(SOURCE, "tools/compare"))
import look

if SANITIZED:
    sys.exit(77)
GROWS = os.path.join(TESTS, "prog_grows")
work = tempfile.mkdtemp()
PLANTED = {name: f"{work}/lib{name}.so" for name in ("memory", "cpu", "copy")}
for path in PLANTED.values():
    shutil.copy(os.path.join(TESTS, "plug_twice.so"), path)


def run(*arguments, status=0, before=None, **environment):
    """Standard output, and standard error."""
    done = subprocess.run([STOOK, "compare", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=550, check=False, env={**CLEAN, **environment}, preexec_fn=before)
    assert done.returncode == status, (arguments, done)
    return done.stdout, done.stderr


def compare(*arguments, names=(), **how):
    """The record of each malloc, and the whole."""
    those = ",".join(["glibc", *(f"{name}={PLANTED[name]}" if name in PLANTED else name for name in names)])
    whole = json.loads(run("--mallocs", those, "--json", "-", *arguments, **how)[0])
    return {one["name"]: one for one in whole["mallocs"]}, whole


def notes(whole):
    """Without the one that other tests run beside this one."""
    return [note for note in whole["notes"] if not note.startswith("other processes used ")]


# What is planted is found, and nothing else about memory.
picture = f"{work}/picture.svg"
found, whole = compare("--svg", picture, "--", GROWS, names=("memory", "cpu", "copy"))
assert 1.8 < found["memory"]["against_base"]["peak_mib"]["ratio"] < 2.2, found["memory"]
assert re.search(r"(\d+ % more|times the) peak memory", found["memory"]["verdict"]), found["memory"]
assert found["cpu"]["against_base"]["cpu_s"]["verdict"] == "behind", found["cpu"]
assert re.search(r"(\d+ % more|times the) CPU", found["cpu"]["verdict"]), found["cpu"]
for name in ("cpu", "copy"):
    assert found[name]["against_base"]["peak_mib"]["verdict"] == "even" and "peak memory" not in found[name]["verdict"], found[name]
assert whole["command"] == [GROWS] and whole["base"] == "glibc" and not notes(whole), whole
assert {one["runs"] for one in found.values()} == {whole["rounds"]}, whole
assert all(one["faults_minor"] > 0 and one["peak_mib"] > 30 for one in found.values()), found
labels = [one.text for one in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
assert {"glibc", "memory", "cpu", "copy", "CPU s", "peak MiB"} <= set(labels), labels

# A machine that is busy with other work is said to be.
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
_, whole = compare("-n", "2", "--", GROWS, names=("copy",))
for one in busy:
    one.kill()
    one.wait()
assert len(whole["notes"]) == len(notes(whole)) + 1 or len(busy) * 10 < os.cpu_count(), whole

# Where ptrace is refused, as in a container, it measures all the same, and says what it did not see.
if platform.machine() == "x86_64":
    def refuse_ptrace():
        steps = ((0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7fff0000))
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        rule = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, rule, 0, 0) == 0
    libc = ctypes.CDLL(None)
    found, whole = compare("-n", "1", "--", GROWS, names=("copy",), before=refuse_ptrace)
    assert found["copy"]["failed"] is None and "copy: the processes could not be looked at (ptrace is not allowed here)" in whole["notes"], whole

# Under one malloc the command fails, or prints something else; the others are compared.
for word, why in (("fails", "ended with 3"), ("says", "its output differs")):
    found, _ = compare("-n", "1", "--", GROWS, word, names=("copy", "cpu"), status=1)
    assert why in found["copy"]["failed"] and not found["copy"]["verdict"], found["copy"]
    assert found["cpu"]["failed"] is None and found["cpu"]["verdict"] == "too few rounds to tell", found["cpu"]
_, whole = compare("-n", "2", "--", "sh", "-c", "echo $$", names=("copy",))
assert ["not the same in each run" in note for note in notes(whole)] == [True], whole
assert "ended with 1" in run("--mallocs", "glibc,stook", "-n", "1", "--", "false", status=1)[1]

# Mallocs that did not take: static, without LD_PRELOAD, one process of two; a malloc of the program's own; little from malloc.
with open(f"{work}/main.c", "w", encoding="ascii") as file:
    file.write('#include <stdlib.h>\n#ifdef OWN\nstatic char all[1 << 20]; static size_t n;\nvoid *malloc(size_t s)'
               '{ void *p = all + n; n += (s + 15) & ~15ul; return p; }\nvoid free(void *p) {}\n#endif\n'
               '#include <string.h>\n#include <sys/mman.h>\nint main(void) { char *p = mmap(0, 64 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);'
               ' memset(p, 1, 64 << 20); free(malloc(1)); return 0; }\n')
for name, flags in (("fixed", ["-static"]), ("own", ["-DOWN", "-rdynamic"]), ("maps", [])):
    subprocess.run([os.environ["CC"], "-o", f"{work}/{name}", f"{work}/main.c", *flags, "-fno-builtin"], check=True)
found, _ = compare("-n", "1", "--", f"{work}/fixed", names=("copy",), status=1)
assert "linked statically" in found["copy"]["failed"], found
found, _ = compare("-n", "1", "--", "env", "-u", "LD_PRELOAD", "sleep", "0", names=("copy",), status=1)
assert "without LD_PRELOAD" in found["copy"]["failed"], found
_, whole = compare("-n", "1", "--", "sh", "-c", f"{work}/fixed; true", names=("copy",))
assert [note for note in whole["notes"] if re.match(f"copy: {work}/fixed is linked statically", note)], whole
_, whole = compare("-n", "1", "--", f"{work}/own", names=("copy",))
assert [note for note in whole["notes"] if "has a malloc of its own" in note], whole

# A program that is linked with another malloc: the first row is what it has of itself, and glibc's row is the C library's all the same.
# The malloc is the first in the loader's order, so that one behind the C library is none.
GROWN = f"{SOURCE}/tests/programs/prog_grows.c"
for name, flags in (("linked", [PLANTED["memory"]]), ("behind", ["-lc", PLANTED["memory"]])):
    subprocess.run([os.environ["CC"], "-o", f"{work}/{name}", GROWN, "-fno-builtin", "-Wl,--no-as-needed", *flags], check=True)
whole = json.loads(run("-n", "1", "--mallocs", "all", "--json", "-", "--", f"{work}/linked")[0])
found = {one["name"]: one for one in whole["mallocs"]}
assert whole["base"] == "libmemory.so" and found["glibc"]["against_base"]["peak_mib"]["ratio"] < 0.6, whole
assert [note for note in whole["notes"] if f"{work}/linked is linked with libmemory.so" in note], whole
found, whole = compare("-n", "1", "--", f"{work}/behind", names=("memory",))
assert found["memory"]["against_base"]["peak_mib"]["ratio"] > 1.7 and not notes(whole), whole
# Debian's redis is linked with this one, which is also a row to preload: it stands there once.
if subprocess.run([os.environ["CC"], "-o", f"{work}/jemalloc", GROWN, "-fno-builtin", "-Wl,--no-as-needed", "-ljemalloc"],
                  stderr=subprocess.DEVNULL, check=False).returncode == 0:
    whole = json.loads(run("-n", "1", "--json", "-", "--", f"{work}/jemalloc")[0])
    assert [one["path"] for one in whole["mallocs"] if "jemalloc" in one["name"]] == [None] and whole["base"] == "jemalloc", whole
_, whole = compare("-n", "1", "--", f"{work}/maps", names=("stook",))
assert [note for note in whole["notes"] if "are from malloc" in note], whole
shutil.copy("/bin/true", f"{work}/raised")
os.chmod(f"{work}/raised", 0o4755)
assert not look.gains(f"{work}/raised")  # our own user's
if os.geteuid() == 0:
    os.chown(f"{work}/raised", 65534, 65534)
    os.chmod(f"{work}/raised", 0o4755)
    found, _ = compare("-n", "1", "--", f"{work}/raised", names=("copy",), status=1)
    assert "gains privileges" in found["copy"]["failed"], found

# A server: it is started and stopped in each run, and a number of the load's output is compared.
with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    port = one.getsockname()[1]
SERVER = ["--server", str(port), "--load", "echo p99 = 1.5 ms", "--percentile", r"p99 = ([0-9.]+)"]
COMMAND = ["--", sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
found, _ = compare("-n", "2", *SERVER, *COMMAND, names=("copy",))
assert [one["percentile"] for one in found.values()] == [1.5, 1.5], found
for wrong, why in ((["--load", "exit 3"], "the load ended with 3"), (["--percentile", "(nothing)"], "finds no number")):
    assert why in run("--mallocs", "glibc,stook", "-n", "1", *SERVER, *wrong, *COMMAND, status=1)[1], why
with socket.create_server(("127.0.0.1", port)):
    assert "another process accepts" in run(*SERVER, *COMMAND, status=2)[1]

# Wrong input.
for arguments, status, why in (
        ((), 2, "a command is needed"), (("--", "/nowhere/none"), 127, "there is no such program"), (("--", "/etc/passwd"), 126, "denied"),
        (("--mallocs", "none", "--", "true"), 2, "this machine has glibc"), (("--mallocs", "glibc", "--", "true"), 2, "one malloc alone"),
        (("--mallocs", "glibc,x=/nowhere/x.so", "--", "true"), 2, "no /nowhere/x.so"),
        (("--mallocs", "glibc,x=/etc/passwd", "--", "true"), 2, "does not load"), (("-n", "0", "--", "true"), 2, "a number from 1"),
        (("--server", "80", "--", "true"), 2, "go together"), (("--percentile", "(1)", "--", "true"), 2, "of the output of --load"),
        (("--server", "x", "--load", "true", "--", "true"), 2, "neither a port"), (("--json", "/nowhere/x", "--", "true"), 2, "cannot be written"),
        (("--server", "1", "--load", "true", "--percentile", "(", "--", "true"), 2, "--percentile ("),
        (("--server", "1", "--load", "true", "--percentile", "p", "--", "true"), 2, "it has no group")):
    assert why in run(*arguments, status=status)[1], (arguments, why)
assert "python3 cannot be executed" in run("--", "/bin/true", status=1, PATH="/nowhere")[1]
shutil.rmtree(work)
