#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of docs/security.md: each mechanism of STOOK_HARDEN alone and all together, in turns.

    bench/hardening_modes.py [--turns N] [--build DIR] [--modes LIST] [--programs LIST]

Columns: CPU time (user and system) and peak resident memory of programs under libstook-malloc.so, and malloc's
pair and batch of 32.  Each figure is the median of the turns over the median without hardening; the first row has
the figures themselves.  A turn runs every mode once, so that a slow minute is in all of them.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MECHANISMS = ["order", "zero", "quarantine", "guards", "types", "tokens"]
MODES = {"none": {}, **{m: {"STOOK_HARDEN": m} for m in MECHANISMS}, "full": {"STOOK_HARDEN": "full"},
         "FZPU": {"STOOK_DEBUG": "FZPU"}}
CASES = {"pair": 1, "batch": 32}  # n of the row that is shown

PERL = """my %h; for my $i (1..400000) { my $k = "k" . ($i * 7919 % 60013); $h{$k} .= "x" x ($i % 13); }
my @s = sort { length $h{$a} <=> length $h{$b} } keys %h; print scalar(@s), length(join ",", @s), "\\n";"""
PYTHON = """import json, random
random.seed(1)
rows = [{"id": i, "name": "n%d" % i, "tags": ["t%d" % (i % 7)] * (i % 5), "v": random.random()} for i in range(40000)]
for _ in range(3):
    text = json.dumps(rows); rows = json.loads(text)
print(len(text))"""
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, 'row ' || i || hex(i * 7919), i / 3.0 from n;
create index b on t(b); select count(*), sum(length(b)) from t where b like 'row 1%';
select substr(b, 5, 2) as g, count(*), avg(c) from t group by g order by 2 desc limit 5; delete from t where a % 3 = 0;
select count(*) from t;"""
PROGRAMS = {
    "perl": (["perl", "-e", PERL], None, {}),
    "python": (["/usr/bin/python3", "-c", PYTHON], None, {"PYTHONMALLOC": "malloc"}),
    "sqlite": (["sqlite3", ":memory:"], SQL, {}),
}


def measure(program, mode, library):
    """(CPU seconds, peak KiB, its output)."""
    words, text, more = PROGRAMS[program]
    environment = {**os.environ, **more, **MODES[mode], "LD_PRELOAD": library}
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out:
        source.write((text or "").encode())
        source.seek(0)
        process = subprocess.Popen(words, stdin=source, stdout=out, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{program} with {MODES[mode]}: status {status:#x}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, out.read()


def bench(driver, build, mode):
    """{case: ns an object of malloc}."""
    figures = {}
    for case, n in CASES.items():
        command = [driver, case, "--json", "--repeats", "1", "--quick", "--allocators",
                   "stook-malloc", "--linked", "shared"]
        done = subprocess.run(command, env={**os.environ, **MODES[mode], "LD_LIBRARY_PATH": f"{build}/lib"},
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"stook-bench with {MODES[mode]}: {done.stderr}")
        for record in map(json.loads, done.stdout.splitlines()):
            if record["n"] == n:
                figures[f"{case} ns"] = record["pair_ns"]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--build", default=f"{ROOT}/build")
    parser.add_argument("--driver", help="the stook-bench that runs pair and batch (BUILD/bin/stook-bench)")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args()
    library = f"{options.build}/lib/libstook-malloc.so"
    driver = options.driver or f"{options.build}/bin/stook-bench"
    modes, programs = options.modes.split(","), options.programs.split(",")
    figures = {mode: {} for mode in modes}
    outputs = {}
    begin = time.monotonic()
    for _ in range(options.turns):
        for mode in modes:
            for program in programs:
                seconds, peak, out = measure(program, mode, library)
                if outputs.setdefault(program, out) != out:
                    sys.exit(f"{program} with {MODES[mode]}: another output")
                figures[mode].setdefault(program, []).append(seconds)
                figures[mode].setdefault(f"{program} KiB", []).append(peak)
            for case, ns in bench(driver, options.build, mode).items():
                figures[mode].setdefault(case, []).append(ns)
    columns = list(figures[modes[0]])
    print(f"{options.turns} turns, {time.monotonic() - begin:.0f} s")
    print("| mode | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for mode in modes:
        cells = []
        for column in columns:
            median = statistics.median(figures[mode][column])
            base = statistics.median(figures[modes[0]][column])
            if mode == modes[0]:
                cells.append(f"{median:.2f}" if median < 1000 else f"{median / 1024:.1f} MiB")
            else:
                cells.append(f"{median / base:.2f}")
        print(f"| {mode} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
