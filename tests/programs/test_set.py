#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool malloc native
# modes: default locked
"""`stook set` changes a process that runs; and says so where the process does not take the message, or must not."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_set")


class Program:
    def __init__(self, command=(PROGRAM,), **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "STOOK_ADAPTIVE": "0", **environment})
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate()


def stook_set(*arguments, status=0, prefix=()):
    done = subprocess.run([*prefix, STOOK, "set", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=120, check=False)
    assert done.returncode == status, (arguments, done)
    return done.stdout if status == 0 else done.stderr


def contains(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


def words():
    with Program(STOOK_GUARD="1G") as program:
        pid = program.pid
        assert program.ask("busy") == "done"
        contains(stook_set(pid, "capacity", "widgets", "17"), "1 cache changed")
        assert program.ask("capacity") == "17"
        contains(stook_set(pid, "capacity", "widgets", "default"), "1 cache changed")
        assert program.ask("capacity") != "17"
        contains(stook_set(pid, "limit", "tenants", "64M"), "the limit is changed; the group has 0 bytes in use")
        assert program.ask("limit") == str(64 << 20)
        stook_set(pid, "limit", "tenants", "none")
        assert int(program.ask("limit")) >= 1 << 63
        assert program.ask("counted") == "0"
        contains(stook_set(pid, "stats", "on", "widgets"), "1 cache changed")
        while program.ask("counted") == "0":
            pass
        contains(stook_set(pid, "stats", "off"), "caches changed")
        assert program.ask("rest") == "done"
        before = program.ask("counted")
        assert program.ask("busy") == "done"
        contains(stook_set(pid, "shrink"), "bytes were given back")
        contains(stook_set(pid, "shrink", "widgets"), "bytes were given back")
        assert program.ask("counted") == before, "statistics were switched off"
        contains(stook_set(pid, "validate"), "no errors were found")
        contains(stook_set(pid, "sample", "512K"), "the sampling rate is changed")
        contains(stook_set(pid, "sample", "off"), "nothing is sampled")
        contains(stook_set(pid, "shrink", "wodgets", status=1), f"process {pid} refuses: there is no cache wodgets")
        contains(stook_set(pid, "limit", "tenant", "1M", status=1), "there is no group tenant")
        contains(stook_set(pid, "capacity", "widgets", "100000", status=1), "a capacity is at most 1022")
    with Program() as program:
        program.ask("busy")
        contains(stook_set(program.pid, "sample", "512K"), "the sampling rate is changed")


def debug_letters():
    """T and A of a cache that has debug flags: its calls are traced until they are not."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        with Program(("sh", "-c", f'exec "$0" 2>{trace}', PROGRAM), STOOK_DEBUG="F,widgets") as program:
            def traced(name="widgets"):
                with open(trace, encoding="utf-8") as file:
                    return sum(name in line for line in file)
            pid = program.pid
            program.ask("busy")
            assert traced() == 0
            contains(stook_set(pid, "debug", "+T", "widgets"), "1 cache changed")
            while traced() == 0:
                pass
            contains(stook_set(pid, "debug", "-T"), "1 cache changed")
            program.ask("rest")
            before = traced()
            program.ask("busy")
            contains(stook_set(pid, "validate", "widgets"), "no errors were found")
            program.ask("rest")
            assert traced() == before, (before, traced())
            program.ask("busy")
            contains(stook_set(pid, "debug", "+A", "malloc-128", status=1), "malloc-128: the cache was made without debug flags")
    with Program() as program:
        program.ask("busy")
        contains(stook_set(program.pid, "debug", "+TA", status=1), "no cache has debug flags")


def usage():
    contains(stook_set("1", status=2), "takes a process and a word")
    contains(stook_set("x", "shrink", status=2), "x is no process number")
    contains(stook_set("1", "grow", status=2), "there is no word grow")
    contains(stook_set("--wait", "x", "1", "shrink", status=2), "--wait takes seconds")
    contains(stook_set("--fast", "1", "shrink", status=2), "--fast is no option")
    for line in ("shrink a b", "stats", "stats maybe", "sample 0", "capacity widgets", "capacity widgets 0", "limit tenants",
                 "limit tenants x", "debug", "debug T", "debug +", "debug +Z", "debug -T a b", "validate " + 64 * "x"):
        contains(stook_set("1", *line.split(), status=2), f"{line.split()[0]} takes ")


def not_taken():
    """A process that allocates nothing, and one that is stopped; neither takes it later."""
    with Program() as program:
        pid = program.pid
        assert program.ask("rest") == "done"
        contains(stook_set("--wait", "0", pid, "capacity", "widgets", "5", status=1), "did not take the message",
                 "it is withdrawn")
        capacity = program.ask("capacity")
        assert capacity != "5"
        program.ask("busy")
        os.kill(int(pid), signal.SIGSTOP)
        contains(stook_set("--wait", "0", pid, "capacity", "widgets", "5", status=1), "since it is stopped")
        os.kill(int(pid), signal.SIGCONT)
        contains(stook_set(pid, "capacity", "widgets", "6"), "1 cache changed")
        assert program.ask("capacity") == "6"
    contains(stook_set(pid, "shrink", status=1), "there is no process")


def not_for_it():
    with subprocess.Popen(["sleep", "100"]) as other:
        contains(stook_set(str(other.pid), "shrink", status=1), "does not run on Stook")
        other.kill()
    with Program() as program:
        program.ask("busy")
        if program.ask("seccomp") == "done":
            contains(stook_set(program.pid, "shrink", status=1), "is under seccomp", "--force")
            contains(stook_set("--force", program.pid, "shrink"), "bytes were given back")


def children():
    """A message to the parent is not one to its child, and the other way round."""
    with Program() as program:
        program.ask("busy")
        child = program.ask("fork")
        stook_set(program.pid, "capacity", "widgets", "9")
        assert program.ask("capacity") == "9"
        stook_set(child, "capacity", "widgets", "8")
        assert program.ask("capacity") == "9"


def crowd():
    """Several senders at once wait for each other."""
    with Program() as program:
        program.ask("busy")
        said = []

        def send():
            for number in range(20):
                done = subprocess.run([STOOK, "set", program.pid, "capacity", "widgets", str(10 + number)],
                                      capture_output=True, text=True, timeout=120, check=False)
                said.append((done.returncode, done.stdout + done.stderr))

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == 60 * [(0, "1 cache changed\n")], said
        program.ask("rest")
        with subprocess.Popen([STOOK, "set", "--wait", "60", program.pid, "shrink"], stdout=subprocess.DEVNULL) as first:
            while "another stook set is sending" not in stook_set("--wait", "0", program.pid, "shrink", status=1):
                pass
            program.ask("busy")
            assert first.wait(timeout=120) == 0


def other_users():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("not root: other users are left out")
        return
    with Program() as program:
        program.ask("busy")
        as_other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            global STOOK
            own, STOOK = STOOK, shutil.copy(STOOK, folder)
            contains(stook_set(program.pid, "shrink", status=1, prefix=as_other), f"process {program.pid}", "is of root")
            raised = shutil.copy(PROGRAM, folder)
            os.chown(raised, 65533, 65533)
            os.chmod(raised, 0o4755)
            with Program((*as_other, raised)) as secure:
                secure.ask("busy")
                text = stook_set(secure.pid, "capacity", "widgets", "5", status=1)
                contains(text, "the process has raised privileges")
                assert secure.ask("capacity") != "5"
                contains(stook_set(secure.pid, "shrink", status=1, prefix=as_other), f"process {secure.pid}")
            STOOK = own


for test in (words, debug_letters, usage, not_taken, not_for_it, children, crowd, other_users):
    test()
    print(test.__name__)
sys.exit(0)
