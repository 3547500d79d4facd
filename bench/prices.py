#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each mechanism against memory errors costs: the table of docs/security.md, in turns.

    bench/prices.py [--turns N] [--write] [--modes LIST] [--programs LIST] [--save FILE]

Rows: the default, what it is without encoded links (a build of its own, made in build-links) and
without samples for profiles, the sampling guard at its rate, each word of STOOK_HARDEN and all of them, the letters of STOOK_DEBUG.  Columns: CPU time (user and system)
and peak resident memory of programs under libstook-malloc.so, and malloc's pair and batch of 32 objects.

A turn runs each program in every mode for a second at least, by turns of the modes, in any order.  A figure is the median of the turns' ratios to the first row in the
same turn; that row has medians.  --save adds the turns to a file and shows all that it has, so that turns may be run
one by one, or at another time.  --write puts the table into docs/security.md.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/security.md"
BEGIN, END = "<!-- bench/prices.py begins -->\n", "<!-- bench/prices.py ends -->\n"
CLEAR = "links not encoded"
MECHANISMS = ["order", "zero", "quarantine", "guards", "types", "tokens", "full"]
LETTERS = ["F", "FZ", "FZP", "FZPU"]
# Row: (environment, build)
MODES = {
    "default": ({}, "default"),
    CLEAR: ({}, "clear"),
    "STOOK_SAMPLE=512K": ({"STOOK_SAMPLE": "512K"}, "default"),
    "STOOK_GUARD=512K": ({"STOOK_GUARD": "512K"}, "default"),
    **{f"STOOK_HARDEN={word}": ({"STOOK_HARDEN": word}, "default") for word in MECHANISMS},
    **{f"STOOK_DEBUG={letters}": ({"STOOK_DEBUG": letters}, "default") for letters in LETTERS},
}
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
    "perl": (["perl", "-e", PERL], None, {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}),
    "python": (["/usr/bin/python3", "-c", PYTHON], None, {"PYTHONMALLOC": "malloc"}),
    "sqlite": (["sqlite3", ":memory:"], SQL, {}),
}


def build_of(name, options):
    """The folder of a build."""
    if name == "default":
        return pathlib.Path(options.build)
    tree = ROOT / "build-links"
    if name not in made:
        made.add(name)
        for command in (
            ["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
             "-DSTOOK_ENCODED_LINKS=OFF", "-DSTOOK_TESTS=OFF"],
            ["cmake", "--build", tree, "--target", "stook_shared", "stook_malloc_shared", "stook-bench",
             "bench-stook-malloc-shared"],
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return tree


made = set()


def environment(mode):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("STOOK_")}
    return {**kept, **MODES[mode][0]}


def measure(program, modes, options):
    """{mode: (CPU seconds, peak KiB)}, medians of as many runs as take a second; the modes' runs in turns, so that what
    else the machine does meets all alike; and the program's output."""
    runs = {mode: [] for mode in modes}
    outputs = set()
    while True:
        rest = [mode for mode in modes if sum(seconds for seconds, _ in runs[mode]) < 1]
        if not rest:
            break
        for mode in random.sample(rest, len(rest)):
            seconds, peak, out = run_once(program, mode, build_of(MODES[mode][1], options))
            runs[mode].append((seconds, peak))
            outputs.add(out)
            if len(outputs) > 1:
                sys.exit(f"{program}, {mode}: another output")
    return {mode: [statistics.median(figures) for figures in zip(*runs[mode])] for mode in modes}, outputs.pop()


def run_once(program, mode, build):
    words, text, more = PROGRAMS[program]
    library = {"LD_PRELOAD": str(build / "lib/libstook-malloc.so")}
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out:
        source.write((text or "").encode())
        source.seek(0)
        process = subprocess.Popen(words, stdin=source, stdout=out, env={**environment(mode), **more, **library})
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{program}, {mode}: status {status:#x}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, out.read()


def bench(mode, build):
    """{case: ns an object of malloc}."""
    figures = {}
    for case, n in CASES.items():
        command = [str(build / "bin/stook-bench"), case, "--json", "--repeats", "5", "--quick", "--n", str(n),
                   "--allocators", "stook-malloc", "--linked", "shared"]
        done = subprocess.run(command, env={**environment(mode), "LD_LIBRARY_PATH": str(build / "lib")},
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"stook-bench, {mode}: {done.stderr}")
        for record in map(json.loads, done.stdout.splitlines()):
            if record["n"] == n:
                figures[case] = record["pair_ns"]
    return figures


def turn(modes, programs, options, outputs):
    """{mode: {column: figure}}."""
    found = {mode: {} for mode in modes}
    for program in programs:
        figures, out = measure(program, modes, options)
        if outputs.setdefault(program, out) != out:
            sys.exit(f"{program}: another output")
        for mode, (seconds, peak) in figures.items():
            found[mode][program], found[mode][f"{program}, memory"] = seconds, peak
    for mode in random.sample(modes, len(modes)):
        found[mode].update(bench(mode, build_of(MODES[mode][1], options)))
    return found


def first_cell(column, figure):
    if column in CASES:
        return f"{figure:.2f} ns"
    return f"{figure / 1024:.1f} MiB" if column.endswith("memory") else f"{figure:.2f} s"


def table(turns, modes):
    base = modes[0]
    columns = list(turns[0][base])
    yield "| | " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    for mode in modes:
        cells = []
        for column in columns:
            if mode == base:
                cells.append(first_cell(column, statistics.median(one[base][column] for one in turns)))
                continue
            ratio = statistics.median(one[mode][column] / one[base][column] for one in turns)
            cells.append(f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}")
        yield f"| {mode} | " + " | ".join(cells) + " |"


def track(turns):
    """What one track of the letter U costs: a pair of calls makes two."""
    return statistics.median(one["STOOK_DEBUG=FZPU"]["pair"] - one["STOOK_DEBUG=FZP"]["pair"] for one in turns) / 2


def text_of(turns, modes):
    lines = [*table(turns, modes), ""]
    if {"STOOK_DEBUG=FZPU", "STOOK_DEBUG=FZP"} <= set(modes):
        lines += [f"One track of U, with the stack of `pair`: {track(turns) / 1000:.1f} µs (FZPU less FZP, by half).", ""]
    return "\n".join(lines + [f"{len(turns)} turns.", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--build", default=f"{ROOT}/build")
    parser.add_argument("--modes", default=",".join(MODES), help="rows; the first one is what others are compared with")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--save", metavar="FILE", help="turns are added to it, and it is shown as a whole")
    parser.add_argument("--write", action="store_true", help="puts the table into docs/security.md")
    options = parser.parse_args()
    modes, programs = options.modes.split(","), options.programs.split(",")
    saved = pathlib.Path(options.save) if options.save else None
    turns = json.loads(saved.read_text()) if saved and saved.exists() else []
    outputs = {}
    for name in {MODES[mode][1] for mode in modes}:
        build_of(name, options)
    for _ in range(options.turns):
        turns.append(turn(modes, programs, options, outputs))
        if saved:
            saved.write_text(json.dumps(turns))
    if not turns:
        sys.exit("prices.py: no turns")
    text = text_of(turns, modes)
    print(text)
    if options.write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
