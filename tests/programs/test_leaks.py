#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
"""stook run --leaks: what nothing points to is named with its cache and place, and nothing else is, of each process of the
tree and however it ends; the exit status says whether something is lost."""
import collections
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_leaks")
CLEAN = {key: value for key, value in os.environ.items()
         if not re.match(r"STOOK_(?!SOURCE_DIR|BUILD_DIR|TEST_DIR|MODE)|LD_PRELOAD", key)}
LOST = 23  # the exit status of a program that succeeded and lost objects


def run(options, *arguments, program=PROGRAM, preexec_fn=None, **environment):
    done = subprocess.run([STOOK, "run", *options, "--", program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env={**CLEAN, **environment}, preexec_fn=preexec_fn)
    return done


def leaks(*options, arguments=(), program=PROGRAM, **environment):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "leaks")
        done = run(["--leaks", "--report-format", "json", "--report-file", path, *options], *arguments, program=program, **environment)
        with open(path) as file:
            return json.load(file), done


def where(group):
    return next((f["symbol"] for f in group["stack"] if f["symbol"].startswith(("lose_", "keep_", "hold", "mask"))), group.get("function"))


def found(report, *kinds):
    sums = collections.Counter()
    for g in report["groups"]:
        if g["kind"] in kinds:
            sums[g["kind"], where(g) or "?", g["cache"]] += g["objects"]
    return {(*key, n) for key, n in sums.items()}


# malloc's cache of 100 bytes has 112, of 600 640, and so on: names are read, not written here.
def class_of(report, place):
    return next(g for g in report["groups"] if where(g) == place)["cache"]


refused = run(["--leaks"], "clean")
if refused.returncode == 125 and re.search(r"^stook: run: --leaks needs ptrace", refused.stderr, re.M):
    print(f"skipped: {refused.stderr}")
    sys.exit(77)

for options in ([], ["--debug", "U"], ["--debug", "FZPU"]):
    report, done = leaks(*options)
    assert done.returncode == LOST and done.stderr == "", done
    assert report["stook_leaks"] == 1 and report["program"] == "prog_leaks" and report["threads_stopped"] is True, report
    assert report["unread_bytes"] == 0, report
    lost = found(report, "lost", "lost_behind")
    assert {(kind, place, objects) for kind, place, _, objects in lost} == {
        ("lost", "lose_point", 3), ("lost", "lose_string", 1), ("lost", "lose_chain", 1), ("lost_behind", "lose_chain", 1),
        ("lost", "lose_ring", 1), ("lost_behind", "lose_ring", 1), ("lost", "lose_pages", 1)}, (options, report)
    assert {cache for _, place, cache, _ in lost if place == "lose_point"} == {"points"}, lost
    assert {cache for _, place, cache, _ in lost if place == "lose_pages"} == {None}, lost
    assert class_of(report, "lose_string").startswith("malloc-"), report
    assert sum(g["bytes"] for g in report["groups"] if where(g) == "lose_point") == 3 * 48, report
    possible = found(report, "possible")
    assert ("possible", "keep_some", 1) in {(k, p, n) for k, p, _, n in possible} and len(possible) == 1, possible
    assert report["lost"]["objects"] == 7 and report["lost_behind"]["objects"] == 2 and report["reachable"]["objects"] >= 3
    if "FZPU" in options:  # what was asked for is known
        assert [g["bytes"] for g in report["groups"] if where(g) == "lose_string"] == [100], report
    if options:  # whole stacks
        symbols = [f["symbol"] for g in report["groups"] if where(g) == "lose_string" for f in g["stack"]]
        assert symbols[:3] == ["lose_string", "plant", "main"], symbols

# What can be reached, too: a global's list of two, a thread-local variable's object.
report, _ = leaks("--leaks=all")
assert any(where(g) == "keep_some" and g["kind"] == "reachable" and g["objects"] >= 1 for g in report["groups"]), report

# Without leaks there are none, with a thread whose register has the only address of an object.
for arguments in (["clean"], ["clean", "threads"]):
    report, _ = leaks(arguments=arguments)
    assert report["threads_stopped"] is True, "other threads were not stopped"
    assert report["lost"] == report["lost_behind"] == {"objects": 0, "bytes": 0}, (arguments, report)
report, _ = leaks("--leaks=all", arguments=["clean", "threads"])
held = [g["kind"] for g in report["groups"] if g["cache"] == "hidden"]
assert held == ["reachable"], report

# The text names the same.
text = run(["--leaks"]).stderr
assert re.match(r"stook [\d.]+: process \d+ \(prog_leaks\), RSS .*\nsearched at its end\n +objects +bytes\n"
                r"lost +7 +\d+  nothing points to them\nlost behind +2 ", text), text
assert re.search(r"^lost: 3 objects, 144 bytes of cache points, such as 0x\w+\n  allocated in lose_point at ", text, re.M), text
assert "reachable:" not in text and "\npossible: 1 object, " in text, text


def lines(text):
    """{program: lost} of each report."""
    return re.findall(r"^stook [\d.]+: process \d+ \((\w+)\).*\n.*\n.*\nlost +(\d+) ", text, re.M)


# However it ends; its own status is kept where it is not 0.
for how, status in (("_exit", 0), ("abort", -signal.SIGABRT), ("exit-thread", 0), ("last-thread", 0)):
    for planted, lost in (([], "7"), (["clean"], "0")):
        done = run(["--leaks"], *planted, how, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        assert lines(done.stderr) == [("prog_leaks", lost)], (how, done)
        assert done.returncode == (status or (LOST if lost == "7" else 0)), (how, done)
done = run(["--leaks"], "-c", f"{PROGRAM}; exit 3", program="sh")
assert done.returncode == 3 and ("prog_leaks", "7") in lines(done.stderr), done
# One thread of several becomes another program, as which the process is searched.
done = run(["--leaks"], "exec-thread")
assert done.returncode == 0 and re.fullmatch(r"stook: run: process \d+ \(true\) has Stook, but has allocated nothing with it yet\n", done.stderr), done
# A signal for stook is one for the program.
with subprocess.Popen([STOOK, "run", "--leaks", "--", PROGRAM, "clean", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                      text=True, env=CLEAN) as process:
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    text = process.stderr.read()
assert process.returncode == -signal.SIGTERM and lines(text) == [("prog_leaks", "0")], (process.returncode, text)

# Children are searched, too, and are named if they lost something: forked ones, and programs.  One that has its parent's
# memory is not.
done = run(["--leaks"], "fork")
assert lines(done.stderr) == [("prog_leaks", "8"), ("prog_leaks", "7")] and done.returncode == LOST, done
text = run(["--leaks"], "-c", f"{PROGRAM}; {PROGRAM} clean; true", program="sh").stderr
assert lines(text)[0] == ("prog_leaks", "7") and lines(text)[-1][0] in ("sh", "dash", "bash") and len(lines(text)) == 2, text
with tempfile.TemporaryDirectory() as folder:
    done = run(["--leaks", "--report-format", "json", "--report-file", os.path.join(folder, "leaks.%p")], "clean", "fork")
    reports = [json.load(open(os.path.join(folder, name), encoding="utf-8")) for name in os.listdir(folder)]
    assert done.returncode == LOST and done.stderr == "" and sorted(r["lost"]["objects"] for r in reports) == [0, 1], (done, reports)

# What cannot be searched is said, and is no success.
done = run(["--leaks=some"])
assert done.returncode == 125 and "--leaks takes all or nothing, not some" in done.stderr, done

# Programs of every day, which lose nothing: nothing is named that they still use.
for command in (["ls", "-lR", "/etc/alternatives"], ["grep", "-c", "o", "/etc/passwd"],
                ["sed", "s/a/b/", "/etc/passwd"], ["awk", "BEGIN { for (i = 0; i < 999; i++) a[i] = i; print length(a) }"],
                ["python3", "-c", "import json; print(len(json.dumps(list(range(1000)))))"]):
    report, done = leaks(arguments=command[1:], program=command[0])
    assert done.returncode == 0, done
    assert report["lost"]["objects"] == 0, (command, [g for g in report["groups"] if g["kind"] == "lost"])
print("leaks are what nothing points to")
