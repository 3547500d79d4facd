#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stook compare: one command under each malloc of this machine, and what differs from the first one.

The tool reads the options and gives them by place: tools/stook/compare.c.
"""
import datetime
import errno
import glob
import json
import os
import platform
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import time
import typing

import compare
import look
import measure
import picture
import server
import verdict

KNOWN = re.compile(r"lib(?:clang_rt\.)?(mimalloc|jemalloc|tcmalloc_minimal|snmalloc|rpmalloc|hoard|hardened_malloc|tbbmalloc_proxy|scudo)"
                   rf"(?:shim|wrap|_standalone-{platform.machine()})?\.so[.0-9]*$")
SHOWN = ("user_s", "system_s", "peak_pss_mib", "faults_minor", "faults_major")
FOLDERS = ("/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib/*", "/usr/lib/llvm-*/lib/clang/*/lib/linux")


class Options(typing.NamedTuple):
    ours: str
    mallocs: str
    rounds: str
    timeout: str
    server: str
    load: str
    percentile: str
    json: str
    svg: str


def fail(why, status=2):
    print(f"stook: compare: {why}", file=sys.stderr)
    sys.exit(status)


# ---- the mallocs ----

def installed(library):
    """Name and path of all that are found, the C library's first."""
    found = {"glibc": measure.C_LIBRARY} if os.confstr("CS_GNU_LIBC_VERSION") else {"libc": None}
    if library:
        found["stook"] = library
    known = measure.said("/sbin/ldconfig", "-p").splitlines()
    paths = [line.split(" => ")[1] for line in known if " => " in line and platform.machine().replace("_", "-") in line.split(" => ")[0]]
    for path in paths + sorted(path for folder in FOLDERS for path in glob.glob(folder + "/lib*.so*")):
        name = KNOWN.match(os.path.basename(path))
        if name:
            found.setdefault(name[1].split("_")[0], os.path.realpath(path))
    return found


def chosen(options):
    """The mallocs to compare, the one to compare with first."""
    found, mallocs, named = installed(options.ours), {}, []
    for word in (options.mallocs or "all").split(","):
        name, is_path, path = word.partition("=")
        if name == "all" and not is_path:
            mallocs |= {one: where for one, where in found.items() if one not in mallocs}
            continue
        named.append(name)
        if is_path:
            mallocs[name] = None if path == "-" else os.path.abspath(path)
        elif name in found:
            mallocs[name] = found[name]
        else:
            fail(f"--mallocs {word}: not found; this machine has {', '.join(found)}, others are given as NAME=PATH")
    usable = []
    for malloc in (measure.Malloc(name, path) for name, path in mallocs.items()):
        if malloc.preload and re.search("[ :]", malloc.preload):
            fail(f"{malloc.preload} cannot be preloaded: its path has a space or a colon")
        why = malloc.missing()
        if why and malloc.name not in named:
            print(f"stook: compare: {malloc.name} is left out: {why}", file=sys.stderr)
        elif why:
            fail(f"--mallocs {malloc.name}: {why}")
        else:
            usable.append(malloc)
    if len(usable) < 2:
        fail("one malloc alone cannot be compared: --mallocs names two or more")
    return usable


# ---- what is run ----

class Given(server.Server):
    """The user's server, or without an address the user's command."""

    def __init__(self, options, words):
        super().__init__(None)
        self.options, self.given, self.name = options, words, os.path.basename(words[0])
        host, _, port = options.server.rpartition(":")
        self.address = options.server if "/" in options.server else (host or "127.0.0.1", int(port or 0)) if (
            port.isdecimal()) else None
        if options.server and not self.address:
            fail(f"--server {options.server}: neither a port nor HOST:PORT nor the path of a socket")
        if options.server and server.can_connect(self.address):
            fail(f"--server {options.server}: another process accepts connections there")
        try:
            self.pattern = re.compile(options.percentile)
        except re.error as error:
            fail(f"--percentile {options.percentile}: {error}")
        if options.percentile and self.pattern.groups < 1:
            fail(f"--percentile {options.percentile}: it has no group: put the number into ( )")
        self.more = {}

    def command(self):
        stdin = "/dev/stdin" if stat.S_ISREG(os.fstat(0).st_mode) else None
        return measure.Command(self.given, stdin=stdin, env=self.more, clean=False)

    def ready(self):
        return server.can_connect(self.address)

    def load(self, size):
        try:
            done = subprocess.run(["/bin/sh", "-c", self.options.load], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False, timeout=float(self.options.timeout))
        except subprocess.TimeoutExpired as error:
            raise measure.Failed(f"the load did not end within {self.options.timeout} s") from error
        if done.returncode != 0:
            raise measure.Failed(f"the load ended with {done.returncode}: {done.stdout.strip()[-200:]}")
        if not self.options.percentile:
            return {}
        found = self.pattern.search(done.stdout)
        try:
            return {"percentile": float(found[1])}
        except (TypeError, ValueError) as error:
            raise measure.Failed(f"--percentile finds no number in the load's output: {done.stdout.strip()[-200:]}") from error

    def run_once(self, malloc, counts):
        """The figures of two runs: one that is timed, and one whose memory is read."""
        seconds, pause = float(self.options.timeout), 0.01
        if self.options.server:
            figures = server.run(self, malloc, 1)
            return figures | server.run_sampled(self, malloc, 1, pause) if counts else figures
        figures = measure.run(self.command(), malloc, None, seconds)
        return figures | measure.run_sampled(self.command(), malloc, None, seconds, pause) if counts else figures

    def look(self, malloc, stook):
        """What was mapped of its processes when they ended, and the peak of Stook's memory in bytes."""
        with tempfile.TemporaryFile() as maps, tempfile.TemporaryDirectory() as folder:
            if stook:
                self.more = {"STOOK_REPORT": "1,json", "STOOK_REPORT_FILE": folder + "/%p"}
            try:
                if self.options.server:
                    self.begin(malloc, maps.fileno())
                    try:
                        self.load(1)
                    finally:
                        self.end()
                else:
                    measure.Run(self.command(), malloc, look=maps.fileno()).wait(10 * float(self.options.timeout))
            finally:
                self.more = {}
            maps.seek(0)
            return look.processes(maps.read().decode(errors="replace")), look.peak_of_reports(folder)


def records(those, taken, failed, ratios, sure):
    for malloc in those:
        runs = taken.get(malloc.name, [])
        record = {"name": malloc.name, "path": malloc.preload, "version": measure.package(malloc.preload),
                  "failed": failed.get(malloc.name), "runs": len(runs)}
        record |= {key: compare.median([one.get(key) for one in runs]) for key in (*verdict.COMPARED, *SHOWN)}
        of_malloc = ratios.get(malloc.name)
        record["verdict"] = verdict.words(of_malloc, sure) if of_malloc else None
        record["against_base"] = {key: {"ratio": compare.median(of_key), "interval": compare.interval(of_key, sure),
                                        "verdict": compare.verdict(of_key, True, sure)} for key, of_key in (of_malloc or {}).items()}
        yield record


def as_it_is(options, those, processes):
    """The rows, and notes: if the command is linked with another malloc, the first row is that one, without a preload."""
    own = look.own_mallocs(processes)
    notes = [f"{exe} has a malloc of its own: its calls do not reach a preloaded one" if path == exe else
             f"{exe} is linked with {os.path.basename(path)}, which is its malloc where none is preloaded" for exe, path in own.items()]
    library = next((path for exe, path in own.items() if path != exe), None)
    if library and (options.mallocs or "all").split(",")[0] == "all":
        same = [malloc for malloc in those if malloc.preload == library]
        those = [measure.Malloc(same[0].name if same else os.path.basename(library), None), *(one for one in those if one not in same)]
    return those, notes


def looked_at(given, those, failed):
    """Notes on what the mallocs serve; those that did not take have failed."""
    notes, peak = [], None
    for malloc in those:
        if malloc.preload in (None, measure.C_LIBRARY):
            continue
        try:
            processes, peak_here = given.look(malloc, malloc.name == "stook")
        except (measure.Failed, OSError) as error:
            failed[malloc.name] = str(error)
            continue
        peak = peak or peak_here
        if not processes:
            notes.append(f"{malloc.name}: the processes could not be looked at (ptrace is not allowed here)")
            continue
        unserved = look.unserved(processes, malloc.preload)
        if len(unserved) == len({exe for exe, _ in processes}):
            failed[malloc.name] = "it did not take: " + "; ".join(unserved)
        else:
            notes += [f"{malloc.name}: {one}" for one in unserved]
    return notes, peak


class Others:
    """CPU time of processes that are not ours, and what a virtual machine's host took away."""

    def __init__(self):
        self.begin, self.used = time.monotonic(), self.so_far()

    @staticmethod
    def so_far():
        try:
            with open("/proc/stat", encoding="ascii") as file:
                user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        except (OSError, ValueError):
            return float("nan")
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])

    def notes(self):
        """That they disturbed the times, if they had more than a tenth of the machine."""
        used = (self.so_far() - self.used) / (time.monotonic() - self.begin)
        return [f"other processes used {used:.1f} of {os.cpu_count()} CPUs meanwhile: differences in time may be theirs"] if (
            used > os.cpu_count() / 10) else []


def main():
    options = Options(*sys.argv[1:10])
    given = Given(options, sys.argv[10:])
    for path in (options.json, options.svg):
        if path and path != "-" and not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
            fail(f"{path} cannot be written")
    those, failed = chosen(options), {}
    try:
        those, notes = as_it_is(options, those, given.look(measure.Malloc("", None), False)[0])
    except (measure.Failed, OSError) as error:
        fail(f"without a preload: {error}", 1)
    base = those[0].name
    more, stook_peak = looked_at(given, those, failed)
    notes += more
    if base in failed:
        fail(f"under {base}: {failed[base]}", 1)
    running = [malloc for malloc in those if malloc.name not in failed]
    rounds = int(options.rounds) or verdict.fewest_rounds((len(verdict.COMPARED) - (not options.percentile)) * max(1, len(running) - 1))
    print(f"stook: compare: {rounds} rounds of {', '.join(malloc.name for malloc in running)}", file=sys.stderr)
    others = Others()
    results, more = measure.in_turns(running, rounds, given.run_once)
    failed |= more
    notes += others.notes()
    if base in failed:
        fail(f"under {base}: {failed[base]}", 1)
    different, varies = verdict.differing(results, base)
    failed |= {name: "its output differs" for name in different if name not in failed}
    if varies:
        notes.append("the command's output is not the same in each run, so it was not compared")
    taken = {name: runs for name, runs in results.items() if name not in failed}
    notes += look.hints(given.given, stook_peak, compare.median([one["peak_mib"] for one in taken[base]]))
    ratios, sure = verdict.compared(taken, base)
    found = {"command": sys.argv[10:], "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
             "host": platform.node(), "kernel": platform.release(), "cpus": len(os.sched_getaffinity(0)), "base": base,
             "rounds": rounds, "verdict": verdict.headline(ratios, base, sure) if ratios else None, "notes": notes,
             "mallocs": list(records(those, taken, failed, ratios, sure))}
    report(options, found, taken, ratios, sure)
    return 1 if failed else 0


def report(options, found, taken, ratios, sure):
    to = sys.stderr if options.json == "-" else sys.stdout
    name = shlex.join(found["command"])
    print(f"{found['verdict'] or 'nothing was compared'}\n", *verdict.table(taken, ratios, found["base"], sure), "", sep="\n", file=to)
    for record in found["mallocs"]:
        if record["failed"] or record["verdict"]:
            print(f"{record['name']}: {record['failed'] or record['verdict']}", file=to)
    for note in found["notes"]:
        print(f"note: {note}", file=to)
    if options.json:
        with open(1 if options.json == "-" else options.json, "w", encoding="utf-8") as file:
            print(json.dumps(found, indent=1), file=file)
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(picture.draw(name, found["verdict"] or "", taken, {key: verdict.COMPARED[key][3] for key in verdict.COMPARED}))


if __name__ == "__main__":
    try:
        if not sys.stdout:
            raise BrokenPipeError
        result = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        result = 130
    except OSError as error:
        if error.errno not in (None, errno.ENOSPC, errno.EPIPE):
            raise
        print("stook: standard output cannot be written", file=sys.stderr)
        result = 1
    sys.stderr.flush()
    os._exit(result)  # what could not be written is not tried again
