#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `stook leaks` names in real programs while they work: no object beyond those that a search of them at rest names.

    scripts/check-leaks.py [--build DIR] [--searches 5] [--programs redis,postgresql,...]

What is lost stays lost.  So each object that a search calls lost while the program works has to be lost later, too, while
all threads stand still: those of servers when their load has ended (`stook leaks --stop`), those of other programs at their
end (`stook run --leaks`).  Compared are objects by cache.  The server `planted` has lost 50 objects, which each search has
to name.

The exit status is 1 if a search named what the later one did not, if searches did not come to agree, or if one missed what
was planted.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from servers import ROOT, WEB, Missing, Postgres, Python, Redis

PLANTED = 50
PLANT = f"""
import ctypes
lib = ctypes.CDLL(None)
lib.malloc.restype = ctypes.c_void_p
for i in range({PLANTED}):
    lib.malloc(1100)
"""
SQL = """
CREATE TABLE reading (id INTEGER PRIMARY KEY, name TEXT, place INTEGER, value REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700000)
INSERT INTO reading SELECT i, printf('sensor-%d-%s', i % 5003, substr('abcdefghijklmnop', i % 16)), i * 7919 % 1009, (i * 104729 % 1000003) / 7.0 FROM n;
CREATE INDEX by_name ON reading (name);
CREATE INDEX by_place ON reading (place, value);
SELECT group_concat(id) FROM (SELECT id FROM reading ORDER BY value);
DELETE FROM reading WHERE id % 3 = 0;
SELECT count(*), round(sum(value), 3) FROM reading WHERE place BETWEEN 100 AND 300;
"""
PERL = "my %h; for my $r (1..60) { $h{$_ % 50000} .= \"x$_\" for 1..300000; delete $h{$_ * 3} for 1..15000; my @s = map { {id => $_, n => [1..5]} } 1..40000; }"
PYTHON = "import json\nfor r in range(40): keep = [json.loads(json.dumps({str(i): [i] * 9})) for i in range(12000)]"
BASH = "for r in {1..12}; do for i in {1..20000}; do a[$i]=${i}x; b=\"$b${i:0:1}\"; done; unset a; b=; done"


class Planted(Python):
    name = "planted"
    web = PLANT + WEB


def commands(folder):
    """{program: its words}, which run for some seconds."""
    sql, source, lines = (pathlib.Path(folder, name) for name in ("load.sql", "source.c", "lines"))
    sql.write_text(SQL, encoding="utf-8")
    source.write_text("".join(f"int f{i}(int *a, int n) {{ int s = {i}; for (int i = 0; i < n; i++) {{ if (a[i] > s) s += a[i] * {i % 7 + 1}; "
                              f"else s ^= a[n - i - 1]; }} return s; }}\n" for i in range(2500)), encoding="utf-8")
    lines.write_text("".join(f"{i * 7919 % 1000003} line\n" for i in range(1500000)), encoding="utf-8")
    yield "sqlite3", ["sqlite3", "-bail", ":memory:", f".read {sql}"]
    yield "perl", ["perl", "-e", PERL]
    yield "python3", [sys.executable, "-c", PYTHON]
    yield "bash", ["bash", "--norc", "-c", BASH]
    yield "sort", ["sort", "--parallel=2", "-S", "100M", str(lines)]
    yield "git", ["git", "-C", str(ROOT), "pack-objects", "--all", "--stdout", "--no-reuse-object", "--threads=2", "-q"]
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip() if shutil.which("gcc") else ""
    yield "cc1", [cc1 or "cc1", "-quiet", "-O2", str(source), "-o", "/dev/null"]


def by_cache(report, *kinds):
    sums = collections.Counter()
    for group in report["groups"]:
        if group["kind"] in kinds:
            sums[group["cache"]] += group["objects"]
    return sums


def search(stook, pid, *how):
    """None: it has ended."""
    begin = os.times()
    done = subprocess.run([stook, "leaks", "--json", *(how or ("--wait", "0.2")), str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600, check=False)
    end = os.times()
    if done.returncode != 0:
        if "has ended" in done.stderr or "has become another program" in done.stderr or "no process" in done.stderr or "does not run on Stook" in done.stderr:
            return None
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)
    report["cpu"] = end.children_user + end.children_system - begin.children_user - begin.children_system
    return report


def child_of(pid):
    """The program below `stook run --leaks`."""
    for _ in range(100):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise SystemExit("stook run has no child")


def serve(target, options, stook):
    """Reports of searches under load, and of one at rest."""
    target.begin()
    try:
        target.load()
        time.sleep(2)
        reports = [search(stook, target.pid) for _ in range(options.searches)]
        target.rest()
        time.sleep(1)
        return reports, search(stook, target.pid, "--stop")
    finally:
        target.end()


def run(name, words, folder, options, stook):
    """The same of a program that ends: it is started until there were enough searches."""
    reports, own = [], None
    if not shutil.which(words[0]):
        raise Missing(name)
    for _ in range(4):
        path = f"{folder}/own.json"
        pathlib.Path(path).unlink(missing_ok=True)
        with subprocess.Popen([stook, "run", "--leaks", "--report-format", "json", "--report-file", path, "--", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.3)
            program = child_of(process.pid)
            while len(reports) < options.searches and (report := search(stook, program)):
                reports.append(report)
        if process.returncode not in (0, 23):
            raise SystemExit(f"{name} ended with {process.returncode}")
        own = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if len(reports) >= options.searches:
            break
    return reports, own


def judge(name, reports, own):
    lost = by_cache(own, "lost", "lost_behind")
    failed = [f"{name}: no search was made"] if not reports else []
    for report in reports:
        named = by_cache(report, "lost", "lost_behind")
        failed += [f"{name}: {n} objects of {cache}, at rest {lost[cache]}" for cache, n in named.items() if n > lost[cache]]
        if not report["agreed"]:
            failed.append(f"{name}: {report['searches']} searches did not come to agree")
        if name == "planted" and not PLANTED - 5 <= max(named.values(), default=0) <= PLANTED + 5:
            failed.append(f"{name}: not what was planted: {dict(named)}")
    if reports:
        print(f"{name}: {len(reports)} times under load, {min(r['searches'] for r in reports)} to {max(r['searches'] for r in reports)} searches each, "
              f"{max(r['reachable']['objects'] + r['possible']['objects'] for r in reports)} objects in use, {max(r['cpu'] for r in reports):.1f} s of CPU: "
              f"{max(sum(by_cache(r, 'lost', 'lost_behind').values()) for r in reports)} lost, at rest {sum(lost.values())}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--searches", type=int, default=5)
    parser.add_argument("--programs", default="all")
    options = parser.parse_args()
    stook = f"{os.path.realpath(options.build)}/bin/stook"
    os.environ["STOOK_TAGS"] = "1"
    failed = []

    def wanted(name):
        return options.programs == "all" or name in options.programs.split(",")

    for kind in (Redis, Postgres, Python, Planted):
        if wanted(kind.name):
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o755)
                try:
                    failed += judge(kind.name, *serve(kind(stook, folder), options, stook))
                except Missing as missing:
                    print(f"{kind.name}: {missing} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for name, words in commands(folder):
            if wanted(name):
                try:
                    failed += judge(name, *run(name, words, folder, options, stook))
                except Missing as missing:
                    print(f"{missing} is not installed")
    for what in failed:
        print(f"FAILED {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
