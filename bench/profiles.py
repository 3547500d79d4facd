#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sampled profiles against exact ones, of real programs: is every call site right?

profiles.py [--runs N] [--every BYTES] [--share PERCENT] LIBRARY [PROGRAM]...

Runs each program once with its allocations counted by call site (STOOK_TAGS), and N times with samples (STOOK_SAMPLE).  All
write a profile at the same point, where most of their memory is in use.  For each call site with at least so many percent
of the bytes, in use or allocated in all, prints what the exact profile has, the mean of the sampled ones with the interval
that must hold the exact one, and how many standard errors lie between.  The interval is four of them on either side.  By
chance some figure lies outside in one of 50 calls, so the program is compared again.  Fails if a site or the sum of all, in
use or allocated, lies outside both times, or if two exact profiles differ: then the program itself allocates otherwise from
run to run.  Behind it come the least CPU times: without either, with samples, exact, in runs without a profile.
The exact profile counts malloc's marks of 1 or 2 bytes, samples do not: 12 % of an object of 16 bytes, 4 % of all of redis.

Programs: python (documents of JSON), redis (keys of several types), ld (libc.a), gcc (cc1 on a large file), clang (the same).
"""
import argparse
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PYTHON = r"""
import json, os, random, signal
random.seed(7)
kept = []
for i in range(60000):
    record = {"id": i, "name": "n%d" % i, "tags": [str(i), str(i * 3)], "value": i / 3}
    text = json.dumps(record)
    back = json.loads(text)
    if i % 2:
        kept.append(back)
    if i % 7 == 0:
        kept.append(text * (i % 40))
if "STOOK_PROFILE" in os.environ:
    os.kill(os.getpid(), signal.SIGUSR2)
"""

FUNCTION = "struct s%d { int a[%d]; struct s%d *next; char name[%d]; };\n" \
       "static int f%d(struct s%d *p, int n)\n{\n    int sum = %d;\n    for (int i = 0; i < n; i++)\n" \
       "        sum += p->a[i %% %d] * i + (p->next ? p->next->a[0] : i);\n    return sum;\n}\n"


ERRORS = 4


def find(name):
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")


def start(env, folder, *words, **more):
    subprocess.run(["setarch", "-R", *words], check=True, env=env, cwd=folder, stdout=subprocess.DEVNULL, **more)


def asked(question):
    """Of gcc: a path."""
    return os.path.realpath(subprocess.check_output(["gcc", question], text=True).strip())


def run_python(env, folder):
    """Modules come from nowhere but its library, and their bytecode is that of an earlier run: compiling them is 12 % of
    what it allocates."""
    start(env | {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}, folder,
          os.path.realpath(find("python3")), "-c", PYTHON)


def large_source(folder):
    source = folder / "large.c"
    source.write_text("".join(FUNCTION % (i, 4 + i % 9, i, 8 + i % 50, i, i, i, 4 + i % 9) for i in range(2500)))
    return str(source)


def run_gcc(env, folder):
    """cc1 itself: the driver would write the profile.  It is written at the end, so `allocated' counts."""
    start(env, folder, asked("-print-prog-name=cc1"), "-quiet", "-O1", "-o", os.devnull, large_source(folder))


def run_clang(env, folder):
    """The compiler itself, which leaves what it has in use to its end."""
    start(env, folder, os.path.realpath(find("clang-16")), "-cc1", "-disable-free", "-O1", "-emit-obj", "-o", os.devnull,
          large_source(folder))


def redis_command(*words):
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(w).encode() for w in words))


def run_redis(env, folder):
    path = folder / "redis.sock"
    path.unlink(missing_ok=True)
    server = subprocess.Popen(
        ["setarch", "-R", find("redis-server"), "--port", "0", "--unixsocket", str(path), "--save", "",
         "--appendonly", "no"], env=env, stdout=subprocess.DEVNULL, cwd=folder)
    try:
        with socket.socket(socket.AF_UNIX) as talk:
            while talk.connect_ex(str(path)) != 0 and server.poll() is None:
                time.sleep(0.02)
            talk.settimeout(900)
            sent = 0
            for block in range(60):
                batch = b""
                for i in range(block * 1000, block * 1000 + 1000):
                    batch += redis_command("SET", f"key:{i}", "v" * (i % 300))
                    batch += redis_command("HSET", f"hash:{i % 500}", f"field{i}", "x" * (i % 90))
                    batch += redis_command("RPUSH", f"list:{i % 300}", f"element-{i}")
                    batch += redis_command("ZADD", f"set:{i % 100}", i, f"member-{i}")
                    batch += redis_command("SET", f"key:{i // 2}", "w" * (i % 200))
                    sent += 5
                talk.sendall(batch)
                got = 0
                while got < 5000:
                    answer = talk.recv(1 << 20)
                    if not answer:
                        raise RuntimeError("redis-server ended")
                    got += answer.count(b"\n")
        if "STOOK_PROFILE" in env:
            os.kill(server.pid, signal.SIGUSR2)
            time.sleep(0.5)
    finally:
        server.terminate()
        server.wait()


def run_ld(env, folder):
    """The linker has what it read in use when it ends."""
    linker = find(subprocess.check_output(["gcc", "-print-prog-name=ld"], text=True).strip())
    start(env, folder, os.path.realpath(linker), "-r", "-o", os.devnull, "--whole-archive", asked("-print-file-name=libc.a"),
          stderr=subprocess.DEVNULL)


PROGRAMS = {"ld": (run_ld, ""), "python": (run_python, ".1"), "redis": (run_redis, ".1"), "gcc": (run_gcc, ""), "clang": (run_clang, "")}


def sites(path, sampled):
    """{place: [live bytes, total bytes]}: places are those of files, as linked."""
    document = json.loads(path.read_text())
    maps = document["mappings"]
    sums = {}
    for site in document["samples" if sampled else "sites"]:
        address = site.get("address", 0)
        place = next((f"{m['path'].rsplit('/', 1)[-1]}+{address - m['start'] + m['offset']:#x}"
                      for m in maps if m["start"] <= address < m["end"]), hex(address))
        one = sums.setdefault(place, [0, 0])
        one[0] += site["live_bytes"]
        one[1] += site["total_bytes"]
    return sums, document


def launch(name, library, folder, settings):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("STOOK_", "PYTHON"))}
    PROGRAMS[name][0](env | {"LD_PRELOAD": str(library)} | settings, folder)


def cpu_time(name, library, folder, settings):
    """Of a run that writes no profile; s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    launch(name, library, folder, settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def profile(name, library, folder, every):
    """Exact where every is 0."""
    out = folder / "profile.json"
    for old in folder.glob("profile.json*"):
        old.unlink()
    launch(name, library, folder, {"STOOK_PROFILE": f"USR2,{out}", "STOOK_SAMPLE": str(every),
                                   "STOOK_TAGS": str(int(every == 0))})
    return sites(pathlib.Path(f"{out}{PROGRAMS[name][1]}"), every > 0)


def compare(name, library, options):
    """What lies outside."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cpu_time(name, library, folder, {})  # what a first run leaves behind, all others find
        exact = profile(name, library, folder, 0)[0]
        modes = {"off": {"STOOK_SAMPLE": "0"}, "sampled": {"STOOK_SAMPLE": str(options.every)},
                 "exact": {"STOOK_SAMPLE": "0", "STOOK_TAGS": "1"}}
        times = {mode: [] for mode in modes}
        runs, stood, samples = [], 0, 0
        for i in range(options.runs):
            run, document = profile(name, library, folder, options.every)
            runs.append(run)
            stood += sum(site["total_bytes"] for site in document["samples"])
            samples += sum(site["samples"] for site in document["samples"])
            for mode, settings in modes.items():  # in turns: what else the machine does meets all alike
                if mode != "exact" or i < 3:
                    times[mode].append(cpu_time(name, library, folder, settings))
        again = profile(name, library, folder, 0)[0]
    each = stood / max(samples, 1)
    wrong = set()
    for which, what in ((0, "in use"), (1, "allocated")):
        whole, other = (sum(site[which] for site in one.values()) for one in (exact, again))
        if whole < (1 << 20 if which else 4 << 20):  # next to nothing is in use: a handful of samples
            continue
        if abs(whole - other) > whole * .03:  # redis differs by a hundredth: when its timers come
            wrong.add(what)
            print(f"\n{name}, {what}: two exact profiles differ: {whole / 1e6:.1f} and {other / 1e6:.1f} MB   UNSTEADY")
        print(f"\n{name}, {what}: {whole / 1e6:.1f} MB by {len(exact)} sites; {options.runs} runs, a sample each "
              f"{options.every} bytes")
        print(f"{'exact MB':>10} {'sampled':>9} {'interval':>19} {'off':>7} {'errors':>7} {'one run':>8}  site")
        ours = [sum(site[which] for site in run.values()) for run in runs]
        rows = [("all", whole, ours)]
        for place, counts in sorted(exact.items(), key=lambda item: -item[1][which]):
            if counts[which] >= whole * options.share / 100:
                rows.append((place, counts[which], [run.get(place, (0, 0))[which] for run in runs]))
        for place, wanted, values in rows:
            mean = statistics.mean(values)
            # Of a site with a sample in some of the runs only, its own spread says too little.
            spread = max(statistics.stdev(values), math.sqrt(wanted * each))
            error = spread / math.sqrt(len(values))
            off = (mean - wanted) / error if error > 0 else math.inf * (mean != wanted)
            # What cannot be told from rounding is no error.
            if bad := abs(off) > ERRORS and abs(mean - wanted) > wanted / 1000:
                wrong.add((what, place))
            print(f"{wanted / 1e6:10.2f} {mean / 1e6:9.2f} {max(mean - ERRORS * error, 0) / 1e6:9.2f}-"
                  f"{(mean + ERRORS * error) / 1e6:<9.2f} {100 * (mean / wanted - 1):6.1f}% {off:7.1f} "
                  f"{100 * spread / wanted:7.1f}%  {place}{'   WRONG' if bad else ''}")
    off = min(times["off"])
    print(f"\n{name}, CPU time: {off:.3f} s without, {min(times['sampled']) / off - 1:+.2%} with samples, "
          f"{min(times['exact']) / off - 1:+.1%} exact; {samples / options.runs:.0f} samples a run")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--every", type=int, default=512 << 10)
    parser.add_argument("--share", type=float, default=1)
    parser.add_argument("malloc", metavar="LIBRARY", type=pathlib.Path)
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    failed = False
    for name in options.program or PROGRAMS:
        wrong = compare(name, options.malloc.resolve(), options)
        if wrong:
            print(f"\n{name}: compared again, with other samples")
            wrong &= compare(name, options.malloc.resolve(), options)
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
