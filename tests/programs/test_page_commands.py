#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""Every command of README and docs/ that scripts/run-page.py does not run is run here, or named with the reason why it is not.
A command that is in neither list fails, and so does an entry of a list that no page has any more."""
import fnmatch
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT, BUILD, TESTS = (pathlib.Path(os.environ[f"STOOK_{name}_DIR"]) for name in ("SOURCE", "BUILD", "TEST"))
# Pages that tests run as a whole.
WHOLE = "cpp dpdk rust port-kernel-code replace-a-pool container".split()
STARTS = ("make stook cc gcc g++ git cmake ctest python3 debootstrap bpftrace perf go kill ulimit docker curl program server "
          "journalctl systemctl sudo").split()
FOLDERS = ("build/", "build-dev/", "scripts/", "bench/", "tests/", "tools/", "./", "/usr/")

# (pages, commands) that run in an empty folder beside links to the tree, in the order of a page.
RUN = [
    ("*", r"build/bin/stook run --(report|report-format json|report-file \S+ --report-all|trace /tmp/ls.trace) -- .*ls.*"),
    ("*", r"(build/bin/)?stook run --trace /tmp/cc1.trace -- gcc -O2 -c many.c"),
    ("capacity", r"build/bin/stook plan --traces /tmp/cc1.trace"),
    ("columns", r"build/bin/stook plan .*"),
    ("traces", r"build/bin/stook lab trace /tmp/ls.trace"),
    ("malloc", r"cc -static program.c .*"),
    ("malloc", r"LD_PRELOAD=\S+ program"),
    ("debug", r"(build/bin/)?stook run --debug FZPU -- program|STOOK_DEBUG=\S+ (STOOK_FAIL=\S+ )?program"),
    ("debugging", r"stook run --leaks ./server"),
    ("groups", r"stook run --limit 512M -- PROGRAM"),
    ("guard", r"STOOK_GUARD=512K stook run -- program"),
    ("security", r"STOOK_HARDEN=\S+ program|stook run --harden full -- program"),
    ("lab", r"stook lab (ublk|random-walk|order) .*"),
    ("look-inside", r"stook (list|caches|stat|walk|leaks|why|report|whatis)( .*)?"),
    ("profile", r"stook profile .*"),
    ("profile*", r"(STOOK_\w+=\S+ )+stook run -- server &|kill -USR2 PID|stook profile .*|stook report PID --html heap.html"),
    ("topology", r"STOOK_TOPOLOGY=topologies/ublk.topo program"),
    ("statistics", r"STOOK_STATS=slow build/bin/stook run .*|python3 -c .*"),
    ("benchmarks", r"build/bin/stook-bench( programs)? --(help|list)|build/bin/stook-bench programs --read FILE"),
]
# (pages, commands, why they do not run here)
NOT_RUN = [
    ("*", r"stook \d.*|stook top -|stook export|program|cmake", "a line of output, not a command"),
    ("malloc", r"cc program.c .*pkg-config.*", "scripts.install builds with an installed library"),
    ("topology", r".*ssh server .*", "reads another machine"),
    ("*", r"make .*", "targets of the Makefile: CI and check-all run them"),
    ("testing", r"ctest .*|build-dev/.*|scripts/check-fuzz.sh .*|build/fuzz/.*", "ways to run the tests"),
    ("models", r"scripts/check-models.py .*", "make check-models runs them, for minutes"),
    ("kernel", r".*(scripts/kernel/|/tmp/out/cross).*", "make check-kernel runs them, in an emulated machine"),
    ("benchmarks", r"build/bin/stook-bench .*", "measures for minutes: bench-smoke runs all cases"),
    ("benchmarks", r"build/bin/stook compare .*", "programs.compare runs the command"),
    ("benchmarks", r"debootstrap .*|git worktree .*", "needs root and the network, or the tree's history"),
    ("capacity", r".*FILE….*", "stands for the reader's own sizes and files"),
    ("debug*", r"bench/prices.py .*|ulimit -c unlimited|STOOK_TAGS=1 STOOK_CORE_DUMP=all .*|stook leaks --core core",
     "minutes; where a core goes is the machine's choice, and programs.test_leaks has cores"),
    ("security", r"bench/prices.py .*", "measures for minutes"),
    ("lab", r"stook lab (sweep|trace) .*|stook lab ublk --time.*", "minutes: programs.test_lab* run them smaller"),
    ("lab-traces", r".*", "needs a loaded server: programs.test_lab_recorded"),
    ("look-inside", r"stook top.*", "needs a terminal: programs.test_top"),
    ("probes", r"bpftrace .*", "needs bpftrace and root: surroundings.probes reads the probes"),
    ("*", r"go tool pprof .*", "needs Go: programs.test_export_clients, where it is there"),
    ("traces", r"STOOK_TRACE=\S+ .*stook-bench .*", "measures, and writes 4 GiB"),
]


def commands_of(page):
    """(line, command) of blocks that are no program's text, without prompts, comments, and what jq makes of it."""
    fence = info = None
    held = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if match := re.match(r" *```(.*)", line):
            fence, info = not fence, match[1]
            continue
        if not (line.startswith("    ") if not fence else info in ("", "sh", "console")):
            continue
        line = held + re.sub(r"\s+# .*|\s{2,}.*| \| jq .*", "", line.strip().removeprefix("$ "))
        words = [word for word in line.split() if not re.match(r"\w+=", word)]
        if words and (words[0] in STARTS or words[0].startswith(FOLDERS)):
            held = line.removesuffix("\\") if line.endswith("\\") else ""
            if not held:
                yield number, re.sub(r" ?\[[^][]*(\[[^][]*\])?\]|\.\.\.", "", line)


def rule(rules, page, command):
    for row in rules:
        if fnmatch.fnmatch(page, row[0]) and re.fullmatch(row[1], command):
            return row
    return None


class Page:
    """A folder in which a page's commands run."""

    PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    const char *profile = getenv("STOOK_PROFILE");

    for (int i = 0; i < 99999; i++)
        free(malloc((size_t)i));
    while (profile && strncmp(profile, "USR2,", 5) == 0)
        pause(); /* it is asked for profiles */
    return 0;
}
"""

    def __init__(self, folder, target, address):
        self.folder, self.pid, self.address, self.server = pathlib.Path(folder), target, address, None
        for name in ("topologies", "scripts", "tools", "bench"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "build").symlink_to(BUILD)
        for name in ("program.c", "many.c"):
            (self.folder / name).write_text(self.PROGRAM, encoding="ascii")
        subprocess.run(["cc", "program.c", "-o", "program"], cwd=folder, check=True)
        for name in ("server", "PROGRAM"):
            (self.folder / name).symlink_to("program")
        (self.folder / "libstook-malloc.a").symlink_to(BUILD / "lib/libstook-malloc.a")
        self.environment = {**os.environ, "PATH": f"{BUILD}/bin:{self.folder}:{os.environ['PATH']}"}

    def file(self, page):
        """What FILE stands for."""
        if page == "benchmarks":
            return min((ROOT / "bench/results").glob("*.csv"))
        return next(iter(sorted(self.folder.glob("server.*.1"))), self.folder / "file")

    def ready(self):
        """The server handles the signal, so the library is there."""
        caught = re.search(r"SigCgt:\s+(\w+)", pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii"))
        return int(caught[1], 16) >> (signal.SIGUSR2 - 1) & 1

    def profiles(self, command):
        """Has the server write the profiles that the command reads."""
        for path in map(pathlib.Path, re.findall(r"\S+/server\.\d+\.\d", command)):
            end = time.monotonic() + 60
            while not path.exists() and self.server.poll() is None and time.monotonic() < end:
                self.server.send_signal(signal.SIGUSR2)
                time.sleep(0.3)

    def run(self, page, command):
        """What went wrong, or nothing."""
        meant = {"PID": self.pid, "4711": self.pid, "20086": self.pid, "CACHE": "widgets", "FILE": self.file(page), "10M": 100000,
                 "/usr/local/lib": BUILD / "lib", "/tmp/": f"{self.folder}/"}
        command = re.sub(r"(?<!\w)(?:PID|4711|20086|CACHE|FILE|10M|/usr/local/lib|/tmp/|ADDRESS|0x[0-9a-f]{6,})",
                         lambda word: str(meant.get(word[0], self.address)), command)
        how = {"cwd": self.folder, "env": self.environment, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        if command.endswith("&"):
            self.server = subprocess.Popen(["bash", "-c", f"{command.rstrip('& ').replace('stook run', 'exec stook run')}"], **how)
            self.pid = self.server.pid
            end = time.monotonic() + 60
            while not self.ready() and time.monotonic() < end:
                time.sleep(0.05)
            return "" if self.ready() else "the server does not start"
        if command.startswith("kill"):
            return ""  # profiles() does, until the file is there
        self.profiles(command)
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=False, timeout=300, **how)
        return f"exit status {done.returncode}: {done.stdout[-400:]}" if done.returncode else ""

    def end(self):
        if self.server:
            self.server.kill()
            self.server.wait()


def main():
    problems, used, ran = [], set(), 0
    target = subprocess.Popen([TESTS / "prog_seen"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    said = subprocess.check_output([BUILD / "bin/stook", "walk", "--json", str(target.pid), "widgets"])
    address = json.loads(said)["objects"][0]["object"]
    version = subprocess.check_output([BUILD / "bin/stook", "--version"], text=True).split()[1]
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        page = path.stem
        problems += [f"{path.name}: shows version {other}, this is {version}" for other in
                     re.findall(r"\b[Ss]took (\d+\.\d+\.\d+)(?=[:,])", path.read_text(encoding="utf-8")) if other != version]
        if page in WHOLE:
            continue
        with tempfile.TemporaryDirectory() as folder:
            runner = Page(folder, target.pid, address)
            for number, command in commands_of(path):
                found, reason = rule(RUN, page, command), rule(NOT_RUN, page, command)
                used.update((found, reason))
                if not found and not reason:
                    problems.append(f"{path.name}:{number}: neither run nor named here: {command}")
                elif not reason:
                    wrong = runner.run(page, command)
                    ran += 1
                    problems += [f"{path.name}:{number}: {command}: {wrong}"] if wrong else []
            runner.end()
    target.kill()
    problems += [f"no page has a command like {row[1]} ({row[0]})" for row in RUN + NOT_RUN if row not in used]
    print("\n".join(problems) or f"{ran} commands run")
    return bool(problems) or ran < 40


sys.exit(main())
