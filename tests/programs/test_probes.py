#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload native
# timeout: 300
"""bpftrace, where the kernel lets it, counts at the probes what the library counts itself; and the scripts of
tools/bpftrace attach to a process that runs."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["STOOK_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["STOOK_SOURCE_DIR"])
WORK = "keep = [bytes(i % 3000) for i in range(100000)]\ndel keep\n"
FOREVER = """import sys, time
end = time.time() + 60
while time.time() < end:
    keep = [bytes(i % 3000) for i in range(20000)]
    del keep
"""


def libraries(folder):
    """A copy: another program that runs meanwhile has other files, and no probe in them."""
    for name in ("libstook.so", "libstook-malloc.so"):
        file = (BUILD / "lib" / name).resolve()
        shutil.copy(file, folder / f"{name}.0")
    return folder / "libstook.so.1", folder / "libstook-malloc.so.1"


def environment(malloc, **more):
    return dict(os.environ, LD_PRELOAD=str(malloc), PYTHONMALLOC="malloc", **more)


class Bpftrace:
    """Attached when it is there; its output when it ends."""

    def __init__(self, folder, *args):
        self.out = folder / "bpftrace.txt"
        self.file = open(self.out, "w", encoding="utf8")
        self.process = subprocess.Popen(["bpftrace", "-q", *args], stdout=self.file, stderr=self.file)

    def ready(self, word, seconds=60):
        end = time.time() + seconds
        while time.time() < end and self.process.poll() is None and word not in self.text():
            time.sleep(0.1)
        return self.process.poll() is None and word in self.text()

    def text(self):
        return self.out.read_text(encoding="utf8", errors="replace")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        self.file.close()
        return self.text()


def possible():
    if not shutil.which("bpftrace") or os.geteuid() != 0:
        return "bpftrace is not here, or this is not root"
    try:
        hello = subprocess.run(["bpftrace", "-e", 'BEGIN { printf("hello\\n"); exit(); }'], timeout=60,
                               capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return "bpftrace hangs here"
    return None if "hello" in hello.stdout else "the kernel refuses: " + hello.stderr.strip()[-200:]


def maps(text):
    """@name[key]: value -> {name: {key: value}}"""
    found = {}
    for line in text.splitlines():
        if line.startswith("@") and "]: " in line:
            name, _, rest = line[1:].partition("[")
            key, _, value = rest.rpartition("]: ")
            found.setdefault(name, {})[key] = int(value)
    return found


def check_counts(folder):
    stook, malloc = libraries(folder)
    report = folder / "report.json"
    probes = "".join(f'usdt:{stook}:stook:{name} {{ @{name}[str(arg0)] = {what}; }}\n'
                     for name, what in (("slab_made", "count()"), ("sheaf_refilled", "sum(arg1)"),
                                        ("barn_get", "count()")))
    trace = Bpftrace(folder, "-e", 'BEGIN { printf("ready\\n"); }\n' + probes)
    assert trace.ready("ready"), "bpftrace does not attach to the library: " + trace.end()
    time.sleep(1)  # BEGIN comes before the probes
    subprocess.run([os.path.realpath(sys.executable), "-c", WORK], check=True,
                   env=environment(malloc, STOOK_STATS="slow", STOOK_REPORT="1,json",
                                   STOOK_REPORT_FILE=str(report)))
    seen = maps(trace.end())
    counted = {}
    for cache in json.loads(report.read_text())["caches"]:
        count = cache.get("counters") or {}
        counted[cache["name"]] = (count.get("alloc_slab", 0), count.get("sheaf_refill", 0),
                                  count.get("barn_get", 0) + count.get("barn_get_fail", 0))
    wrong, checked = [], 0
    for name, numbers in counted.items():
        if not name.startswith("malloc-"):
            continue
        own = tuple(seen.get(probe, {}).get(name, 0) for probe in ("slab_made", "sheaf_refilled", "barn_get"))
        checked += numbers[0] > 0
        # What the report itself and the process's last steps allocate comes behind the counters.
        if any(a < b or a > b + 1 + b // 100 for a, b in zip(own, numbers)):
            wrong.append(f"{name}: probes {own}, counters {numbers}")
    assert checked > 20, f"only {checked} caches made slabs: {counted}"
    assert not wrong, "\n".join(wrong)
    print(f"{checked} caches: bpftrace counted what they counted")


def check_scripts(folder):
    _, malloc = folder / "libstook.so.1", folder / "libstook-malloc.so.1"
    expected = {"stook-sheaves.bt": "@refilled[", "stook-growth.bt": "@made[", "stook-samples.bt": "@sampled: "}
    for script in sorted((SOURCE / "tools" / "bpftrace").glob("*.bt")):
        with subprocess.Popen([os.path.realpath(sys.executable), "-c", FOREVER],
                              env=environment(malloc, STOOK_GUARD="65536", STOOK_RESERVE="0")) as target:
            try:
                time.sleep(0.5)
                trace = Bpftrace(folder, "-p", str(target.pid), str(script))
                time.sleep(6)
                text = trace.end()
            finally:
                target.kill()
        assert expected[script.name] in text, f"{script.name} saw nothing: {text[-2000:]}"
        print(script.name)


def main():
    why = possible()
    if why:
        print(why)
        return 77
    notes = subprocess.run(["readelf", "-n", BUILD / "lib" / "libstook.so"], capture_output=True, text=True,
                           check=False).stdout
    if "stapsdt" not in notes:
        print("built without sys/sdt.h")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        check_counts(pathlib.Path(folder))
        check_scripts(pathlib.Path(folder))
    return 0


sys.exit(main())
