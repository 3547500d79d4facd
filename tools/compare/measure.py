# SPDX-License-Identifier: MIT
"""One run of a command: what the kernel counted for it, or what it had in memory over time."""
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import typing

LIBEXEC = pathlib.Path(os.environ.get("STOOK_BENCH_LIBEXEC") or pathlib.Path(sys.argv[0]).absolute().parent)
LAUNCH = str(LIBEXEC.parent / "stook/launch")
C_LIBRARY = "libc.so.6"  # preloaded, since its malloc then comes before that of a library which a program is linked with


class Failed(Exception):
    pass


@dataclasses.dataclass
class Command:
    words: list
    env: dict = dataclasses.field(default_factory=dict)
    stdin: typing.Optional[pathlib.Path] = None
    cwd: typing.Optional[pathlib.Path] = None
    prepare: typing.Optional[typing.Callable] = None  # before each run
    clean: bool = True  # without the settings of mallocs that this environment has
    checked: bool = True  # its standard output is the same in each run


@dataclasses.dataclass(frozen=True)
class Malloc:
    name: str
    preload: typing.Optional[str]

    def missing(self):
        """Why it cannot be measured, or None: a library that the loader does not take would be glibc's figures."""
        if self.preload in (None, C_LIBRARY):
            return None
        if not os.path.exists(self.preload):
            return f"no {self.preload}"
        reader, writer = os.pipe()
        run = Run(Command(["/bin/cat", "/proc/self/maps"]), self, writer)
        os.close(writer)
        with open(reader, encoding="utf-8") as maps:
            is_there = os.path.realpath(self.preload) in maps.read()
        code, _ = run.wait(10)
        return None if is_there and code == 0 else f"{self.preload} does not load: /bin/cat ends with {code}"


def said(*words):
    """What the command prints, or nothing."""
    try:
        return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def package(path):
    """The version of a library: its package's, or what its file's name has."""
    if path in (None, C_LIBRARY):
        return path and os.confstr("CS_GNU_LIBC_VERSION")
    path = os.path.realpath(path)
    name = said("dpkg-query", "-S", path).split(": ")[0]
    return (name and said("dpkg-query", "-W", "-f", "${Package} ${Version}", name)) or os.path.basename(path)


def environment(command):
    env = {key: value for key, value in os.environ.items()
           if not command.clean or not key.startswith(
               ("STOOK_", "MALLOC_", "MIMALLOC_", "LD_", "PYTHON", "_RJEM_", "TCMALLOC_"))}
    env.update(command.env)
    return env


class Run:
    """A command that was started; it is a process of a launcher, which reports what it used."""

    def __init__(self, command, malloc, stdout=None, cpu=None, look=None):
        if command.prepare:
            command.prepare()
        self.command = command
        self.report, report = os.pipe()
        with contextlib.ExitStack() as opened:
            stdin = opened.enter_context(open(command.stdin or os.devnull, "rb"))
            try:
                self.launcher = subprocess.Popen(
                    [LAUNCH, str(report), "-" if look is None else str(look), "-" if cpu is None else str(cpu),
                     str(malloc and malloc.preload or "-"), *command.words],
                    stdin=stdin, stdout=subprocess.DEVNULL if stdout is None else stdout, stderr=subprocess.DEVNULL,
                    cwd=command.cwd, env=environment(command), pass_fds=(report, *([look] if look else [])), start_new_session=True)
            finally:
                os.close(report)

    def pids(self):
        """The command's processes: none once it has ended."""
        return family(self.launcher.pid)[1:]

    def has_ended(self):
        return self.launcher.poll() is not None

    def stop(self, how):
        self.launcher.send_signal(how)

    def wait(self, seconds):
        """Waits for its end, or kills it; the figures of it and of the children that it waited for."""
        try:
            self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.launcher.pid, signal.SIGKILL)
            self.launcher.wait()
        with open(self.report, encoding="ascii") as report:
            line = report.read().split()
        name = pathlib.Path(self.command.words[0]).name
        if len(line) != 6:
            raise Failed(f"{name} did not end within {seconds} s")
        status, user, system, peak, minor, major = map(int, line)
        return os.waitstatus_to_exitcode(status), {
            "user_s": user / 1e6, "system_s": system / 1e6, "cpu_s": (user + system) / 1e6, "peak_mib": peak / 1024,
            "faults_minor": minor, "faults_major": major}

    def wait_for_success(self, seconds):
        code, figures = self.wait(seconds)
        if code != 0:
            raise Failed(f"{pathlib.Path(self.command.words[0]).name} ended with {code}")
        return figures


def run(command, malloc, cpu, seconds):
    """Time and faults of the process and its children, and the peak of the largest of them."""
    reader, writer = os.pipe()
    sums = []

    def read():
        digest = hashlib.sha256()
        while data := os.read(reader, 1 << 16):
            digest.update(data)
        sums.append(digest.hexdigest())

    begin = time.monotonic()
    one = Run(command, malloc, writer, cpu)
    os.close(writer)
    thread = threading.Thread(target=read)
    thread.start()
    try:
        figures = one.wait_for_success(seconds)
        wall = time.monotonic() - begin
    finally:
        thread.join()
        os.close(reader)
    return figures | {"wall_s": wall, "sum": sums[0]}


# ---- memory over time ----

def family(pid):
    """The process and its descendants."""
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        try:
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children", encoding="ascii") as children:
                    todo += [int(child) for child in children.read().split()]
        except OSError:
            pass
    return found


def pss(pids):
    """KiB that the processes have, shared pages divided."""
    total = 0
    for one in pids:
        try:
            with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as rollup:
                for line in rollup:
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
                        break
        except OSError:
            pass
    return total


class Sampler:
    """Samples a run's memory until it is stopped: the mean over time and the peak."""

    def __init__(self, run_, pause):
        self.run, self.pause, self.ended = run_, pause, threading.Event()
        self.area = self.length = self.peak = 0.0
        self.count = 0
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()

    def _sample(self):
        before = time.monotonic()
        while not self.ended.wait(self.pause):
            now, kib = time.monotonic(), pss(self.run.pids())
            if kib:
                self.area += kib * (now - before)
                self.length += now - before
                self.peak = max(self.peak, kib)
                self.count += 1
            before = now

    def stop(self):
        self.ended.set()
        self.thread.join()
        if self.count < 3:
            return {"mean_pss_mib": None, "peak_pss_mib": None, "samples": self.count}
        return {"mean_pss_mib": self.area / self.length / 1024, "peak_pss_mib": self.peak / 1024,
                "samples": self.count}


def run_sampled(command, malloc, cpu, seconds, pause):
    one = Run(command, malloc, None, cpu)
    sampler = Sampler(one, pause)
    try:
        one.wait_for_success(seconds)
    finally:
        figures = sampler.stop()
    return figures


# ---- in turns ----

def order_of(turn, n):
    """The order of a round: in n rounds (2n, where n is odd) each runs right behind each other one equally often (Williams 1949)."""
    places = [((i + 1) // 2 if i % 2 else n - i // 2) % n for i in range(n)]
    order = [(place + turn) % n for place in places]
    return order[::-1] if turn // n % 2 else order


def in_turns(those, rounds, one_run):
    """What one_run(malloc, whether it counts) gives for each malloc, a list each, and what failed.

    A first round warms up and is not counted.  Whichever runs behind a malloc that had huge pages has its page faults for less.
    """
    results, failed = {malloc.name: [] for malloc in those}, {}
    for turn in range(-1, rounds):
        for at in order_of(max(turn, 0), len(those)):
            malloc = those[at]
            if malloc.name in failed:
                continue
            try:
                figures = one_run(malloc, turn >= 0)
            except (Failed, OSError) as error:
                failed[malloc.name] = str(error)
                continue
            if turn >= 0:
                results[malloc.name].append(figures)
    return results, failed
