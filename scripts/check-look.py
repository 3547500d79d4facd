#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `stook top` at 2 Hz costs the process that it looks into, and whether its sums are the process's own.

    scripts/check-look.py [--build DIR] [--seconds 60] [--slice 2] [--programs redis,postgresql,python,example]

Each program runs on Stook under load.  `stook top -d 0.5` on a pseudo-terminal looks into it in every other slice of
time; in the slices between, the reader is stopped.  Compared are CPU time, context switches and page faults of the
target by request.  Then gdb stops the idle target between a snapshot and the target's own report: both must be equal.
strace counts the reader's system calls: none may stop, signal or write to a process.

The exit status is 1 if sums differ, if the reader made such a call, or if switches show that the target was stopped.
"""
import argparse
import glob
import json
import os
import pathlib
import pty
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from servers import ROOT, Example, Missing, Postgres, Python, Redis

LINE = 64
LINE_NS = 100  # what it takes to have a line back that another CPU has read, on the safe side
FORBIDDEN = ("ptrace", "kill", "tgkill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "process_vm_writev",
             "process_madvise", "kcmp", "sched_setaffinity", "sched_setscheduler", "setpriority")


# ---- what a process did ---------------------------------------------------------------------------------


def cpu_ns(pid):
    """Of all its threads, also those that ended: the kernel's clock of it, in nanoseconds."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def switches(pid):
    found = [0, 0]
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8")
        except OSError:
            continue
        assert re.search(r"^TracerPid:\t0$", text, re.M), "it is traced"
        assert not re.search(r"^State:\t[tT]", text, re.M), "it is stopped"
        for i, key in enumerate(("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")):
            found[i] += int(re.search(rf"^{key}:\s+(\d+)", text, re.M)[1])
    return found


def faults(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[7])


def state(target):
    return [target.requests(), cpu_ns(target.pid), *switches(target.pid), faults(target.pid)]


class Top:
    """stook top on a terminal; it stands still unless it is let go."""

    def __init__(self, stook, pid, before=()):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([*before, stook, "top", "-d", "0.5", str(pid)], stdin=slave, stdout=slave,
                                        env={**os.environ, "TERM": "xterm", "LINES": "40", "COLUMNS": "120"})
        os.close(slave)
        self.seen = 0
        threading.Thread(target=self.drain, daemon=True).start()
        while self.seen == 0 and self.process.poll() is None:
            time.sleep(0.05)

    def drain(self):
        try:
            while text := os.read(self.master, 65536):
                self.seen += len(text)
        except OSError:
            pass

    def go(self, on):
        os.kill(self.process.pid, signal.SIGCONT if on else signal.SIGSTOP)

    def end(self):
        self.go(True)
        os.write(self.master, b"q")
        assert self.process.wait(20) == 0
        os.close(self.master)


# ---- the parts -------------------------------------------------------------------------------------------


def interval(ratios):
    """The median of ratios and where 95 % of the medians of drawings from them lie."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[50], medians[-51]


def slices(target, top, seconds, length):
    """Deltas of state() by slice, pairs of (with, without) in changing order."""
    pairs = []
    order = (True, False)
    for _ in range(max(3, int(seconds / length))):
        pair = {}
        for on in order:
            top.go(on)
            time.sleep(0.05)
            before = state(target)
            time.sleep(length)
            pair[on] = [b - a for a, b in zip(before, state(target))]
        pairs.append(pair)
        order = order[::-1]
    return pairs


def runs(target, build, stook, seconds, length):
    """The same of a program that ends: whole runs."""
    requests, took = 200000, 0.0
    while took < length:
        requests = int(requests * (1.2 * length / took if took > 0.1 else 8))
        begin = time.monotonic()
        assert target.run(build, requests).wait() == 0
        took = time.monotonic() - begin
    pairs, order = [], (True, False)
    for _ in range(max(3, int(seconds / length))):
        pair = {}
        for on in order:
            process = target.run(build, requests)
            top = Top(stook, process.pid) if on else None
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = status
            assert status == 0
            if top:
                os.write(top.master, b"q")
                top.process.wait(20)
                os.close(top.master)
            pair[on] = [requests, int((used.ru_utime + used.ru_stime) * 1e9), used.ru_nvcsw, used.ru_nivcsw, used.ru_minflt]
        pairs.append(pair)
        order = order[::-1]
    return pairs


def calls(stook, pid, folder, seconds):
    """{system call: how often} of the reader in so many seconds, the bytes it read of the target, and where."""
    log = f"{folder}/calls"
    top = Top(stook, pid, ["strace", "-f", "-s", "0", "-e", "abbrev=none", "-o", log])
    time.sleep(seconds)
    os.write(top.master, b"q")
    top.process.wait(20)
    os.close(top.master)
    counts, read, places = {}, 0, set()
    for line in pathlib.Path(log).read_text(encoding="utf-8", errors="replace").splitlines():
        found = re.match(r"\d+ +(\w+)\(.*?(?:= (-?\d+)[^=]*)?$", line)
        if not found:
            continue
        counts[found[1]] = counts.get(found[1], 0) + 1
        if found[1] == "process_vm_readv":
            read += max(0, int(found[2] or 0))
            places |= {(int(at, 16), int(size)) for at, size in re.findall(r"iov_base=(0x[0-9a-f]+), iov_len=(\d+)", line)}
    return counts, read, places


def written_lines(pid, places):
    """Of the lines at the places that the reader reads: how many the target was seen to write to, in forty looks."""
    first, written = {}, set()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for _ in range(40):
            for at, size in places:
                try:
                    data = os.pread(memory.fileno(), size, at)
                except OSError:
                    continue
                for i in range(-at % LINE, len(data), LINE):
                    line = data[i:i + LINE]
                    if first.setdefault(at + i, line) != line:
                        written.add(at + i)
            time.sleep(random.uniform(0, 0.1))
    return len(written)


SAME = ("object_size stride objects_per_slab active_objects total_objects sheaf_objects slab_free_objects slabs sheaves barns resident_bytes "
        "in_use_bytes cached_bytes wasted_bytes").split()


def compare(stook, target, begin, of):
    """What differs between a snapshot and the own report of the process that gdb has by `of`, and keeps where `begin` leads."""
    folder = target.folder
    own, seen = f"{folder}/own.json", f"{folder}/seen.json"
    for path in (own, seen):
        pathlib.Path(path).touch()
        os.chmod(path, 0o666)
    flags = 0x11  # STOOK_REPORT_JSON | STOOK_REPORT_ALL
    done = subprocess.run(["gdb", "-q", "-batch", "-nx", "-ex", "set pagination off", "-ex", "set breakpoint pending on", *begin,
                           "-ex", 'python import os; os.environ["LOOKED"] = str(gdb.selected_inferior().pid)',
                           "-ex", f'set $fd = (int)open("{own}", 513, 384)',
                           "-ex", f"shell {stook} caches --json $LOOKED > {seen}", "-ex", f"call (int)stook_report($fd, {flags})", *of],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=300, check=False)
    try:
        own, seen = (json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in (own, seen))
    except json.JSONDecodeError:
        raise SystemExit(f"{target.name}: gdb could not have the report:\n{done.stdout}") from None
    wrong = [] if [c["name"] for c in own["caches"]] == [c["name"] for c in seen["caches"]] else ["not the same caches"]
    for mine, theirs in zip(seen["caches"], own["caches"]):
        wrong += [f"{mine['name']}.{key}: {mine[key]}, itself {theirs[key]}" for key in SAME if mine[key] != theirs[key]]
    wrong += [f"{key}: {seen['totals'][key]}, itself {own['totals'][key]}" for key in own["totals"]
              if key in seen["totals"] and seen["totals"][key] != own["totals"][key]]
    return wrong, len(own["caches"]), seen["totals"]["resident_bytes"]


def typed(stook, pid):
    """{cache: (objects in use, handed out, taken back)} of a process that counts all events."""
    seen = json.loads(subprocess.run([stook, "caches", "--json", str(pid)], stdout=subprocess.PIPE, check=True).stdout)
    return {c["name"]: (c["active_objects"], *(sum(c["counters"][f"{what}_{path}path"] for path in ("fast", "slow")) for what in ("alloc", "free")))
            for c in seen["caches"] if not c["internal"] and not c["name"].startswith("malloc")}


def bounded(stook, pid, times):
    """Whether what a snapshot under load says is in use lies within the events between the snapshots beside it: what was
    handed out by the one before less what was taken back by the one behind, and the other way round; of each thread a call
    may be under way that is not counted yet.  What does not; how many snapshots; events between two; objects in use."""
    threads = len(os.listdir(f"/proc/{pid}/task"))
    seen = [typed(stook, pid) for _ in range(times)]
    wrong, events = [], []
    for before, now, behind in zip(seen, seen[1:], seen[2:]):
        events.append(sum(sum(behind[name][1:]) - sum(before[name][1:]) for name in now))
        for name in now:
            active, least, most = now[name][0], before[name][1] - behind[name][2], behind[name][1] - before[name][2]
            if not least - threads <= active <= most + threads:
                wrong.append(f"{name}: {active} objects in use, by its counters {least} to {most}")
    return wrong, len(seen), statistics.median(events), max(sum(c[0] for c in now.values()) for now in seen)


def example(target, options, stook):
    """The reader's calls, its sums under load, its sums at rest."""
    os.environ["STOOK_STATS"] = "1"
    process = target.run(options.build, 1 << 40)
    try:
        time.sleep(1)
        counts, _, _ = calls(stook, process.pid, target.folder, 5)
        wrong, snapshots, events, objects = bounded(stook, process.pid, 100)
        switches(process.pid)
    finally:
        process.kill()
        process.wait()
        del os.environ["STOOK_STATS"]
    bad = [call for call in FORBIDDEN if call in counts]
    if bad or counts.get("process_vm_readv", 0) == 0:
        wrong.append(f"the reader's system calls: {bad or counts}")
    print(f"  under load {snapshots} snapshots, {objects} typed objects in use, {events:.0f} events from one to the one after the next: "
          + ("all within these events; no call that stops, signals or writes" if not wrong else "NOT within these events"))
    differs, caches, resident = compare(stook, target, ["-ex", "break stook_report", "-ex", "run > /dev/null", "-ex", "delete"],
                                       ["--args", f"{options.build}/examples/tenants", "50000"])
    print(f"  at rest {caches} caches, {resident / 2**20:.1f} MiB: " + ("the process's own report, exactly" if not differs else "NOT the process's own report"))
    return wrong + differs


def one(target, options, stook):
    failed = []
    target.begin()
    try:
        if isinstance(target, Example):
            pairs = runs(target, options.build, stook, options.seconds, options.slice)
            target.pid = 0
        else:
            target.load()
            time.sleep(2)
            top = Top(stook, target.pid)
            used = cpu_ns(top.process.pid)
            pairs = slices(target, top, options.seconds, options.slice)
            used = cpu_ns(top.process.pid) - used
            top.end()
            counts, read, places = calls(stook, target.pid, target.folder, 5)
            lines = written_lines(target.pid, places)
            bad = [call for call in FORBIDDEN if call in counts]
            if bad or counts.get("process_vm_readv", 0) == 0:
                failed.append(f"the reader's system calls: {bad or counts}")
            target.rest()
            time.sleep(0.5)
            wrong, caches, resident = compare(stook, target, [], ["-p", str(target.pid)])
            failed += wrong
        share, low, high = interval([(p[True][1] / p[True][0]) / (p[False][1] / p[False][0]) for p in pairs])
        by = {on: [1e6 * sum(p[on][i] for p in pairs) / sum(p[on][0] for p in pairs) for i in range(1, 5)] for on in (True, False)}
        print(f"{target.name}: {len(pairs)} pairs of {options.slice:g} s with stook top at 2 Hz and without")
        print(f"  CPU time by request with over without: {share:.4f} (95 %: {low:.4f} to {high:.4f})")
        print("  by 1000 requests, with and without: " + ", ".join(
            f"{name} {by[True][i] / 1000:.2f} and {by[False][i] / 1000:.2f}"
            for i, name in ((1, "voluntary switches"), (2, "involuntary"), (3, "minor faults"))))
        if not target.pid:
            return failed + example(target, options, stook)
        print(f"  reader: {used / 1e6 / (len(pairs) * options.slice * 2):.2f} ms of CPU a snapshot, on its own CPU; {counts['process_vm_readv'] / 5:.0f} "
              f"process_vm_readv a second, {read / 5 / 1024:.0f} KiB; no call that stops, signals or writes")
        print(f"  of {sum(size for _, size in places) // LINE} lines that it reads the target writes to {lines}: "
              f"{100 * lines * 2 * LINE_NS / 1e9:.4f} % of a CPU at {LINE_NS} ns each to have them back")
        print(f"  at rest {caches} caches, {resident / 2**20:.1f} MiB: " + ("the process's own report, exactly" if not wrong else "NOT the process's own report"))
        return failed
    finally:
        if not isinstance(target, Example):
            target.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--seconds", type=float, default=60, help="with the reader, and as long without")
    parser.add_argument("--slice", type=float, default=2)
    parser.add_argument("--programs", default="redis,postgresql,python,example")
    options = parser.parse_args()
    stook = f"{os.path.realpath(options.build)}/bin/stook"
    failed = []
    for kind in (Redis, Postgres, Python, Example):
        if kind.name not in options.programs.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            try:
                failed += [f"{kind.name}: {what}" for what in one(kind(stook, folder), options, stook)]
            except Missing as missing:
                print(f"{kind.name}: {missing} is not installed")
    for what in failed:
        print(f"FAILED {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
