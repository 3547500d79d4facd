# SPDX-License-Identifier: MIT
# needs: tool preload
"""stook run --trace: what real programs got and gave back balances, the file is whole however they
end, and who writes which file in a tree of processes."""
import glob
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from trace_bytes import number_at

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
TESTS = os.environ["STOOK_TEST_DIR"]
for name in list(os.environ):
    if name.startswith("STOOK_TRACE") or name == "LD_PRELOAD":
        del os.environ[name]
work = tempfile.mkdtemp()
os.chdir(work)


class Trace:
    def __init__(self, path):
        self.bytes = open(path, "rb").read()
        (magic, version, header, chunk, self.cpus, _, self.chunks, self.lost, self.pid, self.ended,
         program) = struct.unpack_from("<8sIIIIQQQII64s", self.bytes)
        assert magic == b"STOOKTRC" and (version, header, chunk) == (2, 4096, 65536)
        assert len(self.bytes) >= header + chunk * self.chunks
        self.program = program.rstrip(b"\0").decode()
        self.events, self.caches, self.threads, self.used_caches = [], {}, set(), {0}
        self.asked = [] # (address, bytes, alignment, cache) of malloc's classes
        for i in range(self.chunks):
            self.chunk(header + i * chunk)
        assert self.used_caches <= {0, *self.caches} # by whichever thread
        self.balance()

    def number(self):
        value, self.at = number_at(self.bytes, self.at)
        return value

    def chunk(self, at):
        thread, used, time, address, _, zero = struct.unpack_from("<IIQQII", self.bytes, at)
        assert thread > 0 and zero == 0
        self.threads.add(thread)
        self.at = at + 32
        used_caches = self.used_caches
        end = self.at + used
        while self.at < end:
            kind = self.bytes[self.at]
            self.at += 1
            if kind == 3:
                assert self.number() < self.cpus
            elif kind == 4:
                number = self.number()
                size, stride, align = self.number(), self.number(), self.number()
                length = self.number()
                name = self.bytes[self.at:self.at + length].decode()
                self.at += length
                assert size <= stride and stride % align == 0, name
                self.caches[number] = name
            else:
                assert kind in (1, 2, 5), kind
                time += self.number()
                zigzag = self.number()
                address += zigzag >> 1 ^ -(zigzag & 1)
                if kind != 2:
                    cache = self.number()
                    used_caches.add(cache)
                    assert cache > 0 or (kind == 1 and self.number() > 0)
                if kind == 5:
                    twice = self.number()
                    assert twice > 1
                    align = 1 << self.number() if twice & 1 else 0
                    self.asked.append((address * 8, twice >> 1, align, cache))
                self.events.append((time, kind != 2, address))
        assert self.at == end

    def balance(self):
        live, self.unknown, self.twice, self.allocs = set(), 0, 0, 0
        for _, alloc, address in sorted(self.events):
            there = address in live
            self.allocs += alloc
            self.twice += alloc and there
            self.unknown += not alloc and not there
            (live.add if alloc else live.discard)(address)
        self.live = len(live)

    def exact(self, program, least):
        assert self.program == program, self.program
        assert self.ended == 1 or program == "sh" # which may not call exit()
        assert self.lost == 0
        assert self.unknown == 0 and self.twice == 0, (self.unknown, self.twice)
        assert self.allocs >= least, self.allocs
        assert 2 * self.allocs - self.live == len(self.events)
        return self


def run(*command, status=0, **environment):
    result = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False)
    assert result.returncode == status, (command, result.returncode, result.stderr)
    return result


def stook(*command, **more):
    return run(STOOK, "run", *command, **more)


try:
    # A program as it is says the same; what it got and gave back balances.
    with open("words", "w", encoding="ascii") as words:
        words.writelines(f"{i * 7919 % 10007}\n" for i in range(10007))
    result = stook("--trace", "sort.trace", "--", "sort", "words")
    assert result.stdout == run("sort", "words").stdout and result.stderr == ""
    Trace("sort.trace").exact("sort", 10)
    assert os.stat("sort.trace").st_mode & 0o7777 == 0o600

    # What was asked for: sizes, alignments, an object that is resized in place and one that moves.
    calls = '''
import ctypes
libc = ctypes.CDLL(None)
for name in ("malloc", "calloc", "realloc", "aligned_alloc"):
    getattr(libc, name).restype = ctypes.c_void_p
    getattr(libc, name).argtypes = [ctypes.c_size_t] * (1 if name == "malloc" else 2)
libc.free.argtypes = [ctypes.c_void_p]
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
objects = [libc.malloc(7777), libc.calloc(3, 2591), libc.aligned_alloc(256, 7779)]
objects[0] = libc.realloc(objects[0], 7781)
moved = objects[0]
objects[0] = libc.realloc(objects[0], 17783)
print(moved, *objects)
'''
    result = stook("--trace", "asked.trace", "--", sys.executable, "-c", calls)
    moved, *objects = map(int, result.stdout.split())
    trace = Trace("asked.trace")
    trace.exact(trace.program, 100)
    asked = {(a, size, align): trace.caches[cache] for a, size, align, cache in trace.asked}
    for call in (moved, 7777, 0), (moved, 7781, 0), (objects[0], 17783, 0), (objects[1], 7773, 0), \
            (objects[2], 7779, 256):
        assert asked[call].startswith("malloc-") and call[1] <= int(asked[call][7:]), (call, asked[call])
    assert asked[moved, 7777, 0] == asked[moved, 7781, 0] and objects[2] % 256 == 0

    # In both modes, many threads, which hand objects to each other.
    for mode in "rseq", "locked":
        stook("--trace", "threads.trace", "--mode", mode, "--",
              os.path.join(TESTS, "prog_threads"), "1")
        trace = Trace("threads.trace").exact("prog_threads", 2000)
        assert len(trace.threads) > 1, trace.threads

    # The first process alone, whatever it starts: told by stook run, or by who has the file.
    script = "ls / >ls.out; ls / >ls.out; :"
    stook("--trace", "one.trace", "--", "sh", "-c", script)
    Trace("one.trace").exact("sh", 1)
    assert glob.glob("one.trace*") == ["one.trace"]
    stook("--", "sh", "-c", script, STOOK_TRACE="env.trace")
    Trace("env.trace").exact("sh", 1)
    assert glob.glob("env.trace*") == ["env.trace"]

    # Every one of them.
    stook("--report", "--trace", "all%%.%p", "--", "sh", "-c", script)
    paths = glob.glob("all*")
    traces = [Trace(path) for path in paths]
    assert sorted(trace.program for trace in traces) == ["ls", "ls", "sh"], [t.program for t in traces]
    for path, trace in zip(paths, traces):
        assert path == f"all%.{trace.pid}"
        trace.exact(trace.program, 1)

    # An inner run: what the outer one asked of its process is not asked of the inner one's.
    stook("--report-file", "outer.%p", "--trace", "outer.trace", "--", sys.executable, "-c",
          "import subprocess, sys; subprocess.run(sys.argv[1:], check=True)",
          STOOK, "run", "--report-file", "inner.%p", "--", "ls", STOOK_PROFILE="own.%p")
    trace = Trace("outer.trace")
    trace.exact(trace.program, 100)
    for name in "inner", "outer", "own":
        assert len([path for path in glob.glob(f"{name}.*[0-9]") if os.path.getsize(path)]) == 1, (name, glob.glob("*"))
    assert os.path.exists(f"own.{trace.pid}") and os.path.exists(f"outer.{trace.pid}")

    # The limit of the file.
    stook("--trace", "small.trace", "--trace-limit", "68K", "--",
          os.path.join(TESTS, "prog_threads"), "1")
    assert os.path.getsize("small.trace") <= 68 << 10
    small = Trace("small.trace")
    assert small.lost > 1000 and small.chunks == 1, (small.lost, small.chunks)

    # Killed: all that was recorded is there.
    with subprocess.Popen([STOOK, "run", "--trace", "killed.trace", "--", "sh", "-c",
                           "echo x; while :; do i=$((i + 1)); j=$i$j; j=${j%????}; done"],
                          stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGKILL)
    killed = Trace("killed.trace")
    assert killed.ended == 0 and killed.allocs > 0 and killed.unknown == killed.twice == 0

    # What cannot be is said, once, before the program runs or while it does.
    for options in (["--trace", "/nowhere/x"], ["--trace", "."], ["--report-all", "--trace", "x"],
                    ["--trace", "x", "--trace-limit", "10"], ["--trace-limit", "1G"]):
        assert stook(*options, "--", "true", status=125).stderr.startswith("stook"), options
    said = run(os.path.join(TESTS, "prog_threads"), "1", STOOK_TRACE="/nowhere/x",
               LD_PRELOAD=os.path.join(os.environ["STOOK_BUILD_DIR"], "lib/libstook-malloc.so"))
    assert said.stderr == ("stook: /nowhere/x: this process is not traced: No such file or "
                           "directory\n"), said.stderr
    os.mkfifo("fifo")
    assert stook("--", "ls", STOOK_TRACE="fifo").stderr.count("fifo: this process is not traced")

    # It is what stook lab trace reads.
    assert "sort" in run(STOOK, "lab", "trace", "sort.trace").stdout
    print("traces balance")
finally:
    os.chdir("/")
    shutil.rmtree(work)
sys.exit(0)
