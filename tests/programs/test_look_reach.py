#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""Which processes stook can look into, and what it says of the others: stripped libraries and static programs, containers,
other users, processes that are not on Stook; `stook list`; STOOK_VIEW."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tool import BUILD, PROGRAM, STOOK, stook

CC = os.environ.get("CC", "cc")
work = tempfile.TemporaryDirectory()
os.chmod(work.name, 0o755)
running = []


def start(*command, ready=True, **environment):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    running.append(process)
    if ready:
        assert process.stdout.readline() == "ready\n", command
    return process


def caches(pid, **how):
    return {c["name"]: c for c in json.loads(stook("caches", "--json", str(pid), **how))["caches"]}


def says(pattern, *arguments, status=1, **how):
    said = stook(*arguments, status=status, **how)
    assert re.search(pattern, said), (pattern, said)


def process_space(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None  # it has ended


# ---- what cannot be looked into ---------------------------------------------------------------------
plain = start("sleep", "100", ready=False, LD_PRELOAD="")
says(r"^stook: caches: process \d+ \(sleep\) does not run on Stook", "caches", str(plain.pid))
says(r"^stook: caches: there is no process 4194303$", "caches", "4194303")
says(r"^stook: caches: x is no process number, and no process has that name$", "caches", "x", status=2)
says(r"^stook: caches: a process is needed", "caches", status=2)
says(r"^stook: stat: no is no number of seconds$", "stat", "1", "widgets", "no", status=2)

# ---- the same program, by a stripped library, static, static without what is not needed ---------------
usual = start(PROGRAM)
expected = caches(usual.pid)
says(r"has no cache nothing; stook caches \d+ lists them", "caches", str(usual.pid), "nothing")

stripped = os.path.join(work.name, "lib")
os.mkdir(stripped)
for name in os.listdir(os.path.join(BUILD, "lib")):
    if re.match(r"libstook(-malloc)?\.so", name):
        shutil.copy(os.path.join(BUILD, "lib", name), stripped)
        subprocess.run(["strip", "--strip-all", os.path.join(stripped, name)], check=True)
bare = os.path.join(work.name, "bare")
shutil.copy(PROGRAM, bare)
subprocess.run(["patchelf", "--remove-rpath", bare], check=False) if shutil.which("patchelf") else None
static = os.path.join(work.name, "static")
source = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/programs/prog_seen.c")
include = os.path.join(os.environ["STOOK_SOURCE_DIR"], "include")
for path, libraries in ((static, ["libstook.a"]), (static + "-malloc", ["libstook-malloc.a"])):
    subprocess.run([CC, "-O1", "-D_GNU_SOURCE", "-I", include, "-static", "-Wl,--gc-sections", "-Wl,--strip-all", "-w", source,
                    *(os.path.join(BUILD, "lib", name) for name in libraries), "-pthread", "-o", path], check=True)
others = [start(PROGRAM, LD_LIBRARY_PATH=stripped, LD_PRELOAD=os.path.join(stripped, "libstook-malloc.so")), start(static), start(static + "-malloc")]
with open(f"/proc/{others[0].pid}/maps", encoding="utf-8") as file:
    assert stripped in file.read()
for process in others:
    found = caches(process.pid)
    for name in ("widgets", "gadgets \"é€\"", "tiny"):
        for key in ("active_objects", "object_size", "stride", "objects_per_slab"):
            assert found[name][key] == expected[name][key], (process.args, name, key)

# ---- a library whose file is gone: it was replaced by a newer one --------------------------------------
gone = start(PROGRAM, LD_LIBRARY_PATH=stripped, LD_PRELOAD=os.path.join(stripped, "libstook-malloc.so"))
shutil.rmtree(stripped)
assert caches(gone.pid)["widgets"]["active_objects"] == expected["widgets"]["active_objects"]

# ---- stook list --------------------------------------------------------------------------------------
listed = {row["pid"]: row for row in json.loads(stook("list", "--json"))}
assert plain.pid not in listed
for process in (usual, *others):
    assert listed[process.pid]["program"].startswith(("prog_seen", "static")), listed[process.pid]
    assert listed[process.pid]["active_objects"] > 15000 and listed[process.pid]["mode"] in ("rseq", "locked")
    assert listed[process.pid]["mode_why"]
table = stook("list").splitlines()
assert table[0].split() == "PID NAME RSS RESIDENT IN USE CACHED WASTED WARM OBJECTS CACHES VERSION MODE".split()
row = next(line for line in table if line.split()[:1] == [str(usual.pid)])
assert re.fullmatch(r" *\d+ prog_seen( +\d[\d.]*[KMG]?){6} +\d+ +\d+  \d+\.\d+\.\d+ +(rseq|locked): \w.+", row), row

# ---- a container: by the host's number from outside, by its own from inside -----------------------------
inside = ["unshare", "--pid", "--fork", "--mount-proc"]
if subprocess.run([*inside, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
    script = f'{PROGRAM} <"$0" & sleep 1; echo $!; {STOOK} list --json; {STOOK} caches $! widgets; echo ready; cat >/dev/null; exit 0'
    fifo = os.path.join(work.name, "fifo")
    os.mkfifo(fifo)
    box = subprocess.Popen([*inside, "sh", "-c", script, fifo], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running.append(box)
    with open(fifo, "w", encoding="utf-8"):
        said = ""
        while not said.endswith("ready\n") or "cache widgets" not in said:
            line = box.stdout.readline()
            assert line, said
            said += line
        number = int(re.search(r"^(\d+)$", said, re.M)[1])
        assert f'"pid": {number}, "program": "prog_seen"' in said and "cache widgets" in said, said
        space = os.readlink(f"/proc/{box.pid}/ns/pid_for_children")  # other tests' processes are on this host, too
        rows = [r for r in json.loads(stook("list", "--json")) if process_space(r["pid"]) == space]
        assert len(rows) == 1 and rows[0]["pid"] != number, rows
        assert caches(rows[0]["pid"])["widgets"]["active_objects"] == expected["widgets"]["active_objects"]
else:
    print("no namespaces here: no container was tried")

# ---- another user; STOOK_VIEW --------------------------------------------------------------------------
if os.getuid() == 0 and shutil.which("setpriv"):
    copy = os.path.join(work.name, "stook")
    shutil.copy(STOOK, copy)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run([*nobody, copy, "caches", str(usual.pid)], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and re.match(r"stook: caches: process \d+ \(prog_seen\) is of root: run stook as that user, or with CAP_SYS_PTRACE", done.stderr), done
    done = subprocess.run([*nobody, copy, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 and re.search(r"did not let stook look into \d+ other process", done.stderr), done
if shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
    for value, expected_calls in (("1", True), ("0", False)):
        log = os.path.join(work.name, "calls")
        traced = start("strace", "-f", "-e", "trace=prctl", "-o", log, PROGRAM, STOOK_VIEW=value)
        traced.stdin.write("fork 1\n")
        traced.stdin.close()
        traced.wait()
        with open(log, encoding="utf-8") as file:
            callers = set(re.findall(r"^(\d+) +prctl\(PR_SET_PTRACER, PR_SET_PTRACER_ANY", file.read(), re.M))
        assert len(callers) == (2 if expected_calls else 0), (value, callers)  # the child, too

# ---- memory that was never touched ----------------------------------------------------------------------
# The process's page tables stay as they are: no page is read that is not there.
SPARSE = ("import ctypes, sys; m = ctypes.CDLL(None).malloc; m.restype = ctypes.c_void_p; m.argtypes = [ctypes.c_size_t]\n"
          "p = [m(1 << 30) for _ in range(4)]; print('ready', flush=True); sys.stdin.read()")
sparse = start(STOOK, "run", "--", sys.executable, "-c", SPARSE)


def tables(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return re.findall(r"^(?:VmPTE|RssAnon).*$", file.read(), re.M)


was = tables(sparse.pid)
for arguments in (["leaks", "--stop"], ["leaks", "--wait", "0"], ["caches"], ["report", "--html", os.path.join(work.name, "page")]):
    stook(*arguments, str(sparse.pid))
stook("walk", "--all", str(sparse.pid), "(large)")
assert len(was) == 2 and tables(sparse.pid) == was, (was, tables(sparse.pid))

for process in running:
    process.kill()
