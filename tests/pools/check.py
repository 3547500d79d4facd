#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAProxy and memcached with their pools on Stook: their own tests, and HAProxy under load and under signals.

    tests/pools/check.py [--build DIR] [--only REGEX] [--seconds 10]

Their own tests run on the unchanged programs first.  A test that fails there cannot be run here, and is left out; all
others must pass on Stook: as it comes, in locked mode (STOOK_MODE=locked), and with STOOK_DEBUG=FZPU, where no corruption
may be reported.  The last line is "N passed, N failed".
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import haproxy

HERE = pathlib.Path(__file__).resolve().parent
MODES = {"default": {}, "locked": {"STOOK_MODE": "locked"}, "FZPU": {"STOOK_DEBUG": "FZPU", "STOOK_ON_CORRUPTION": "abort"}}
DROP = """user nobody
  group nogroup
  chroot {root}
"""
failures = []
passed = 0


def expect(condition, problem):
    if not condition:
        raise haproxy.Wrong(problem)


def part(name, run, *arguments):
    global passed
    if not re.search(options.only, name):
        return
    begin = time.monotonic()
    try:
        said = run(*arguments) or "passed"
        passed += 1
    except (haproxy.Wrong, subprocess.SubprocessError, OSError) as problem:
        failures.append(name)
        said = f"FAILED: {problem}"
    print(f"{name}: {said} ({time.monotonic() - begin:.0f} s)", flush=True)


# ---- their own tests ----------------------------------------------------------------------------------------


def one_test(words, folder, environment):
    """Whether it passed, and the end of what it said."""
    try:
        run = subprocess.run(words, cwd=folder, env=os.environ | environment, stdin=subprocess.DEVNULL, timeout=120,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return False, "does not end"
    return run.returncode == 0, run.stdout.decode(errors="replace")[-2000:]


def own_tests(name, tests, words, jobs, here, unchanged=None, own=None):
    """The tests of `own` must pass; without it, those that do are the result.  `here` and `unchanged` are folder and environment."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = dict(zip(tests, pool.map(lambda test: one_test(words(test), *here), tests)))
    # One that failed is repeated alone.
    bad = [test for test in tests if not results[test][0] and not one_test(words(test), *here)[0]]
    (build / f"pools/{name}.log").write_text("\n".join(f"== {test}\n{results[test][1]}" for test in bad), encoding="utf-8")
    if own is None:
        return [test for test in tests if test not in bad]
    # A test that fails on the unchanged program now and then is no test of the pools.
    wrong = [test for test in bad if test in own and all(one_test(words(test), *unchanged)[0] for _ in range(10))]
    expect(len(own) > len(tests) / 2, f"only {len(own)} of {len(tests)} tests pass on the unchanged program")
    expect(not wrong, f"{len(wrong)} of {len(own)}: {' '.join(wrong)}")
    passed_here = len(set(own) - set(bad))
    return f"{passed_here} tests passed, {len(tests) - passed_here} left out"


def haproxy_tests():
    source = build / "pools/haproxy"
    tests = sorted(str(path.relative_to(source)) for path in source.glob("reg-tests/**/*.vtc")
                   if not re.search("^#REGTEST_TYPE=(broken|experimental)", path.read_text(encoding="utf-8"), re.M))

    def words(test):
        return ["varnishtest", "-k", "-t", "40", "-b", str(2 << 20), test]
    def here(program, **more):
        return source, {"HAPROXY_PROGRAM": str(source / program), "HAPROXY_ARGS": "-dM", "LC_ALL": "C", **more}
    unchanged, jobs = here("haproxy-own"), max(2, os.cpu_count())
    own = own_tests("haproxy-own", tests, words, jobs, unchanged)
    for mode, environment in MODES.items():
        part(f"haproxy's tests, {mode}", own_tests, f"haproxy-{mode}", tests, words, jobs,
             here("haproxy-stook", **environment), unchanged, own)


def memcached_tests():
    unchanged = build / "pools/memcached-own", {}
    tests = ["./testapp", "./sizes"] + sorted(
        f"t/{path.name}" for path in unchanged[0].glob("t/*.t") if not re.match(r"(whitespace|ssl_|binary-sasl)", path.name))

    def words(test):
        return [test] if test.startswith("./") else ["perl", "-I", "t/lib", test]
    jobs = 4 * os.cpu_count()  # they sleep most of the time
    own = own_tests("memcached-own", tests, words, jobs, unchanged)
    for mode, environment in MODES.items():
        part(f"memcached's tests, {mode}", own_tests, f"memcached-{mode}", tests, words, jobs,
             (build / "pools/memcached-stook", environment), unchanged, own)


# ---- HAProxy under load and signals ---------------------------------------------------------------------------


def workers(master):
    return [int(pid) for pid in pathlib.Path(f"/proc/{master}/task/{master}/children").read_text(encoding="ascii").split()]


def send(pid, number):
    """Processes that just ended get nothing."""
    try:
        os.kill(pid, number)
        return 1
    except ProcessLookupError:
        return 0


def storm(environment):
    """A master with workers without privileges, in a chroot; reloads, dumps, and ends of workers and clients under load."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = pathlib.Path(folder, "root")
        root.mkdir()
        drop = (DROP.format(root=root) if os.getuid() == 0 else "") + "  hard-stop-after 20s"
        proxy = haproxy.Proxy(build / "pools/haproxy", "haproxy-stook", f"{folder}/proxy", ["-dMno-merge"], drop, environment,
                              master=True)
        master = proxy.process.pid
        counts = {"reloads": 0, "dumps": 0, "workers killed": 0, "clients killed": 0}
        try:
            worker = workers(master)[-1]
            maps = pathlib.Path(f"/proc/{worker}/maps").read_text(encoding="utf-8")
            expect("libstook.so" in maps, "the worker has no libstook.so")
            if os.getuid() == 0:
                expect(os.stat(f"/proc/{worker}").st_uid != 0, "the worker is root")
                expect(os.readlink(f"/proc/{worker}/root") == str(root), "the worker is in no chroot")
            clients, end, step = [], time.monotonic() + options.seconds, 0
            while time.monotonic() < end:
                step += 1
                for port, more in (("keep", ()), ("close", ()), ("h2", ("-m", "10"))):
                    clients.append(proxy.load(port, 2000, 40, *more))
                for _ in range(20):  # a worker dumps its servers
                    for pid in workers(master):
                        counts["dumps"] += send(pid, signal.SIGHUP if step % 2 else signal.SIGQUIT)
                    time.sleep(0.02)
                clients.pop(0).kill()
                counts["clients killed"] += 1
                if step % 2 == 0:
                    counts["workers killed"] += sum(send(pid, signal.SIGKILL) for pid in workers(master)[:-1])
                os.kill(master, signal.SIGUSR2)
                counts["reloads"] += 1
                haproxy.wait_for("it serves behind a reload", proxy.serves)
            for client in clients:
                client.kill()
                client.communicate()
            # One quiet worker answers everything, and holds nothing of what was.
            os.kill(master, signal.SIGUSR2)
            haproxy.wait_for("it serves at the end", proxy.serves)
            haproxy.wait_for("one worker is left", lambda: len(workers(master)) == 1, 60)
            for port, more in (("keep", ()), ("close", ()), ("h2", ("-m", "10"))):
                done = haproxy.answered(proxy.load(port, 2000, 40, *more))
                expect(done == 2000, f"{port}: {done} of 2000 answered")
            haproxy.wait_for("sessions are freed", lambda: proxy.pools()["session"] <= 4)
            expect(proxy.pools()["buffer"] < 100, "buffers stay in use")
            # The end of the worker that serves is the master's.
            client = proxy.load("keep", 20000, 40)
            time.sleep(0.3)
            os.kill(workers(master)[-1], signal.SIGKILL)
            client.communicate()
            haproxy.wait_for("the master ends", lambda: proxy.process.poll() is not None)
        finally:
            status = proxy.end()
        reports = [line for line in proxy.said().splitlines() if line.startswith("stook: ")]
        expect(not reports, f"it reports: {reports[:3]}")
        expect(status == 137, f"the master ended with {status}")
        return ", ".join(f"{n} {what}" for what, n in counts.items())


def limits():
    """A limit of buffers: below it everything is answered, however often; at it the pool refuses.  HAProxy may hang then."""
    with tempfile.TemporaryDirectory() as folder:
        proxy = haproxy.Proxy(build / "pools/haproxy", "haproxy-stook", f"{folder}/many", ["-dMno-merge"], "tune.buffers.limit 400")
        try:
            for port in ("keep", "close", "keep"):
                done = haproxy.answered(proxy.load(port, 3000, 60))
                expect(done == 3000, f"{port}: {done} of 3000 answered")
        finally:
            proxy.end()
        proxy = haproxy.Proxy(build / "pools/haproxy", "haproxy-stook", f"{folder}/few", ["-dMno-merge"], "tune.buffers.limit 24")
        try:
            client = proxy.load("keep", 3000, 60)
            time.sleep(2)
            proxy.process.send_signal(signal.SIGQUIT)
            row = r"^buffer +\d+ +(\d+) .* (\d+) +\d+$"
            haproxy.wait_for("it shows its pools", lambda: re.search(row, proxy.said(), re.M))
            used, refused = re.search(row, proxy.said(), re.M).groups()
            expect(int(used) <= 24 and int(refused) > 0, f"{used} buffers, {refused} refused")
            client.kill()
            client.communicate()
        finally:
            proxy.process.kill()
            proxy.end()


def idle():
    """Behind a load of 1000 connections the pools hold some MiB; a server that is idle gives them back."""
    with tempfile.TemporaryDirectory() as folder:
        proxy = haproxy.Proxy(build / "pools/haproxy", "haproxy-stook", f"{folder}/proxy")

        def unused():
            time.sleep(1)  # a server that answers all the time is not idle
            held, used = re.search(r"^total: (\d+) bytes, (\d+) used", proxy.command("show pools"), re.M).groups()
            return int(held) - int(used)
        try:
            haproxy.answered(proxy.load("keep", 4000, 1000))
            held = unused()
            expect(held > 4 << 20, f"only {held} bytes are unused behind the load")
            haproxy.wait_for("unused memory goes back", lambda: unused() < held / 2)
        finally:
            proxy.end()
        return f"{held >> 10} KiB were unused"


def switches():
    """What -dM sets, each for itself: requests are answered, and nothing is reported."""
    for word in ("no-merge", "cold-first", "integrity", "no-global", "no-cache", "caller", "tag", "poison,integrity,tag,caller,no-merge"):
        with tempfile.TemporaryDirectory() as folder:
            proxy = haproxy.Proxy(build / "pools/haproxy", "haproxy-stook", f"{folder}/proxy", [f"-dM{word}"])
            try:
                done = haproxy.answered(proxy.load("h2", 2000, 20, "-m", "10"))
                expect(done == 2000, f"-dM{word}: {done} of 2000 answered")
            finally:
                proxy.end()
            expect(not re.search("^stook: ", proxy.said(), re.M), f"-dM{word}: {proxy.said()[-300:]}")
    for word, status in (("help", 0), ("wrong", 1)):
        said = subprocess.run([build / "pools/haproxy/haproxy-stook", f"-dM{word}"], capture_output=True, text=True, check=False)
        expect(said.returncode == status and ("no-merge" in said.stdout) == (status == 0), f"-dM{word}: {said}")


def bufsizes():
    """Buffers up to the largest object of a cache; a larger one is refused with a message."""
    info = subprocess.run([build / "bin/stook", "info", "--json"], capture_output=True, text=True, check=True)
    limit = json.loads(info.stdout)["limits"]["object_size"]
    with tempfile.TemporaryDirectory() as folder:
        for size in (8192, 200000, 300000, 1 << 20, 3 << 20, 8 << 20):
            if size + 4096 <= limit:  # HAProxy puts a header in front of some
                proxy = haproxy.Proxy(build / "pools/haproxy", "haproxy-stook", f"{folder}/{size}", (), f"tune.bufsize {size}")
                done = haproxy.answered(proxy.load("keep", 500, 10))
                proxy.end()
                expect(done == 500, f"tune.bufsize {size}: {done} of 500 answered")
                continue
            config = pathlib.Path(folder, "large.cfg")
            config.write_text(f"global\n tune.bufsize {size}\ndefaults\n mode http\nfrontend f\n bind 127.0.0.1:1\n", encoding="ascii")
            run = subprocess.run([build / "pools/haproxy/haproxy-stook", "-db", "-f", config], capture_output=True, text=True, check=False,
                                 timeout=30)
            expect(run.returncode == 1 and run.stderr, f"tune.bufsize {size}: {run}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
parser.add_argument("--only", default="")
parser.add_argument("--seconds", type=float, default=10)
options = parser.parse_args()
build = options.build.resolve()
subprocess.run([HERE / "build.sh", build], check=True)
part("haproxy -dM", switches)
part("haproxy, limits", limits)
part("haproxy, sizes of buffers", bufsizes)
part("haproxy, idle", idle)
for mode_, environment_ in MODES.items():
    part(f"haproxy, storm, {mode_}", storm, environment_)
if re.search(options.only, "haproxy's tests, default"):
    haproxy_tests()
if re.search(options.only, "memcached's tests, default"):
    memcached_tests()
print(f"{passed} passed, {len(failures)} failed")
sys.exit(bool(failures))
