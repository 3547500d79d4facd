#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails if the tree has more of anything than scripts/budget.tsv says, or the table says more than the tree has.

check-budget.py SOURCE BUILD            compares; sizes of libraries only if BUILD was compiled by the table's compiler
check-budget.py --lower SOURCE BUILD    lowers the table to what the tree has; never raises a figure
check-budget.py --self-test             a growth of each kind is planted in a temporary tree and must be found

A figure may fall, and the table is lowered in the same commit.  A figure may rise only by a line "raised", which names
the row, both figures and the reason.  The check reads the table's history, so that a rise without such a line is found
as long as the commit is there.
"""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CORE = ("base", "os", "percpu", "page", "slab", "sheaf", "cache")
TREES = ("src", "include", "tools", "bindings", "bench", "adapters", "scripts", "tests")
SLASHES = {".c", ".h", ".cc", ".hpp", ".cppm", ".def", ".rs"}
HASHES = {".py", ".sh", ".cmake"}
LONGEST = 60  # lines of a function
SLACK = 512  # bytes of a library: names of the folder that it was built in


def layers():
    spec = importlib.util.spec_from_file_location("layers", pathlib.Path(__file__).with_name("check-layers.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_lines(path):
    """Lines that are neither blank nor only comment."""
    text = path.read_text(errors="replace")
    if path.suffix in SLASHES:
        text = re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/',
                      lambda m: m[0] if m[0][0] == '"' else "\n" * m[0].count("\n"), text, flags=re.S)
        return sum(1 for line in text.splitlines() if line.strip())
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def files(root, tree):
    """Sources that git knows; all, where there is no repository (a tarball)."""
    known = subprocess.run(["git", "-C", str(root), "ls-files", tree], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False)
    paths = [root / line for line in known.stdout.splitlines()] if known.returncode == 0 else (root / tree).rglob("*")
    for path in sorted(paths):
        kind = path.suffix if path.name != "CMakeLists.txt" else ".cmake"
        if kind in SLASHES | HASHES and path.is_file():
            yield path


def count_code(root):
    total = core = 0
    for tree in TREES:
        folders = {}
        for path in files(root, tree):
            parts = path.relative_to(root).parts
            folder = "/".join(parts[:2]) if tree == "src" and len(parts) > 2 else tree
            folders[folder] = folders.get(folder, 0) + code_lines(path)
        for folder, lines in sorted(folders.items()):
            yield f"code {folder}", lines
        if tree == "src":
            core = sum(folders.get(f"src/{layer}", 0) for layer in CORE)
            yield "code core", core
            yield "code src", sum(folders.values())
        total += sum(folders.values())
    yield "code sum", total


def functions(path):
    """(name, lines) of each function: from the line with its name to the brace in the first column."""
    name = begin = None
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if name is None and re.match(r"[A-Za-z_].*\w\(", line) and not line.endswith(";"):
            name, begin = re.findall(r"(\w+)\(", line)[-1], number
        elif line.startswith("}") and name:
            yield name, number - begin + 1
            name = None
        elif line and line[0] not in " {\t" and line.endswith(";"):
            name = None


def count_shape(root):
    sources = [*root.glob("src/*/*.c"), *root.glob("tools/**/*.c")]
    headers = [*root.glob("src/*/*.h"), *root.glob("tools/**/*.h")]
    yield f"functions over {LONGEST} lines", sum(
        lines > LONGEST for path in [*sources, *headers] for _, lines in functions(path))
    yield ".c files without a head comment", sum(
        not re.match(r"/\* SPDX[^\n]*\n/\*", path.read_text()) for path in sources)
    yield "circles of files", len(layers().CIRCLES)


def matches(path, pattern):
    return len(re.findall(pattern, path.read_text(), re.M)) if path.is_file() else 0


def count_names(root):
    hooks = root / "src/base/hooks.h"
    yield "settings", matches(root / "src/base/settings.def", r"^SETTING\(")
    yield "cache flags", matches(root / "include/stook/stook.h", r"^#define STOOK_CACHE_\w+ 0x")
    yield "reasons to close a cache", matches(root / "src/slab/cache.h", r"CACHE_CLOSED_\w+ =\s*\d")
    yield "calls that go up", matches(hooks, r"^    (?:[\w ]+[ *])\(\*\w+\)\(")


def count_words(root):
    for name, paths in {"README": [root / "README.md"], "docs": root.glob("docs/*.md"),
                        "decisions": root.glob("docs/decisions/*.md")}.items():
        yield f"words of {name}", sum(len(path.read_text().split()) for path in paths if path.is_file())


def count_libraries(build):
    for path in sorted(build.glob("lib/libstook*.so")):
        sections = dict(re.findall(r"^(\.\S+)\s+(\d+)", subprocess.run(
            ["size", "-A", path], check=True, stdout=subprocess.PIPE, text=True).stdout, re.M))
        yield f"bytes of {path.name}", sum(int(n) for s, n in sections.items() if re.match(r"\.(text|rodata|eh_frame$)", s))


def count_exports(build):
    """Names that the two libraries export, each once; the linker's version names are not counted."""
    names = set()
    for path in (build / "lib/libstook.so", build / "lib/libstook-malloc.so"):
        if path.is_file():
            for line in subprocess.run(["nm", "-D", "--defined-only", path], check=True, stdout=subprocess.PIPE,
                                       text=True).stdout.splitlines():
                *_, kind, name = line.split()
                names |= {name.split("@")[0]} if kind != "A" else set()
    yield "exported names", len(names)


def compiler(build):
    cache = (build / "CMakeCache.txt").read_text() if (build / "CMakeCache.txt").is_file() else ""
    cc = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", cache, re.M)
    line = subprocess.run([cc[1] if cc else "cc", "--version"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.splitlines()[0]
    machine = subprocess.run(["uname", "-m"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{machine} {line}"


def measure(root, build):
    return dict([*count_code(root), *count_shape(root), *count_names(root), *count_words(root),
                 *count_libraries(build), *count_exports(build)])


def read_table(text):
    """The compiler, {row: figure}, and the lines of rises as {(row, from, to): reason}."""
    made_by, rows, raised = "", {}, {}
    for line in text.splitlines():
        cells = line.split("\t")
        if line.startswith("compiler\t"):
            made_by = cells[1]
        elif line.startswith("raised\t"):
            raised[cells[1], int(cells[2]), int(cells[3])] = cells[4]
        elif line and not line.startswith("#"):
            rows[cells[0]] = int(cells[1])
    return made_by, rows, raised


def compare(rows, found, sizes):
    for row in sorted({*rows, *found}):
        if row.startswith("bytes of") and not sizes:
            continue
        have, most = found.get(row), rows.get(row)
        if most is None:
            yield f"{row}: {have}, and the table has no such row"
        elif have is None and not row.startswith("bytes of"):
            yield f"{row}: no longer in the tree; take the row away"
        elif have is not None and have > most + (SLACK if row.startswith("bytes of") else 0):
            yield f"{row}: {have}, at most {most}"
        elif have is not None and have < most - (SLACK if row.startswith("bytes of") else 0):
            yield f"{row}: fell to {have} from {most}: lower the table (check-budget.py --lower)"


def check_history(root):
    """Every rise of a figure in the table's history has its line."""
    git = ["git", "-C", str(root)]
    log = subprocess.run([*git, "log", "--first-parent", "--format=%H", "--", "scripts/budget.tsv"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    texts = [(root / "scripts/budget.tsv").read_text()]
    for commit in log.stdout.split():
        texts.append(subprocess.run([*git, "show", f"{commit}:scripts/budget.tsv"], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True, check=False).stdout)
    now = read_table(texts[0])[2]
    for later, earlier in zip(texts, texts[1:]):
        before, after = read_table(earlier)[1], read_table(later)[1]
        yield from check_rises(before, after, now)


def check_rises(before, after, raised):
    for row, figure in after.items():
        if row in before and figure > before[row] and (row, before[row], figure) not in raised:
            yield f"{row}: the table rose from {before[row]} to {figure} without a line that says why"


def lower(path, found, sizes):
    lines = []
    for line in path.read_text().splitlines():
        cells = line.split("\t")
        if len(cells) == 2 and cells[0] in found and not line.startswith(("#", "compiler", "raised")):
            if sizes or not cells[0].startswith("bytes of"):
                line = f"{cells[0]}\t{min(int(cells[1]), found[cells[0]])}"
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def plant(root):
    """A tree with one of each thing that is counted."""
    for name, text in {
            "src/base/hooks.h": "struct hooks {\n    void (*start)(void);\n};\n",
            "src/base/settings.def": 'SETTING(A, "A")\n', "src/slab/cache.h": "    CACHE_CLOSED_A = 1,\n",
            "src/slab/slab.c": "/* SPDX */\n/* A head. */\nint slab(void)\n{\n    return 0;\n}\n",
            "include/stook/stook.h": "#define STOOK_CACHE_A 0x1u\n",
            "README.md": "a word\n", "docs/a.md": "word\n", "docs/decisions/1.md": "word\n",
            **{f"{tree}/a.py": "a = 1\n" for tree in TREES if tree not in ("src", "include")}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def self_test():
    long = "/* SPDX */\n/* A head. */\nint f(void)\n{\n" + "    f();\n" * LONGEST + "}\n"
    grown = {"code sum": ("tests/b.py", "b = 1\n"), "code core": ("src/os/b.c", "/* SPDX */\n/* B. */\nint b;\n"),
             "code src": ("src/malloc/b.h", "int b;\n"), "settings": ("src/base/settings.def", "SETTING(B)\n"),
             "words of README": ("README.md", "more\n"),
             "words of docs": ("docs/b.md", "word\n"), "words of decisions": ("docs/decisions/2.md", "word\n"),
             "cache flags": ("include/stook/stook.h", "#define STOOK_CACHE_B 0x2u\n"),
             "reasons to close a cache": ("src/slab/cache.h", "    CACHE_CLOSED_B = 2,\n"),
             "calls that go up": ("src/base/hooks.h", "    int *(*other)(int a);\n"),
             ".c files without a head comment": ("src/os/b.c", "/* SPDX */\nint b;\n"),
             f"functions over {LONGEST} lines": ("src/os/b.c", long),
             **{f"code {tree}": (f"{tree}/b.py", "b = 1\n") for tree in TREES if tree not in ("src", "include")}}
    for row, (name, text) in grown.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            plant(root)
            before = measure(root, root)
            assert not [*compare(before, measure(root, root), True)], row
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() if path.is_file() else "") + text)
            after = measure(root, root)
            assert any(line.startswith(f"{row}: {after[row]}, at most") for line in compare(before, after, True)), row
            assert any(line.startswith(f"{row}: fell") for line in compare(after, before, True)), row
    assert [*compare({"bytes of a": 1000}, {"bytes of a": 1001 + SLACK}, True)], "a library grows"
    assert not [*compare({"bytes of a": 1000}, {"bytes of a": 9999}, False)], "by another compiler"
    assert [*compare({}, {"circles of files": 1}, True)], "a row that the table lacks"
    assert [*check_rises({"a": 1}, {"a": 2}, {})] and not [*check_rises({"a": 1}, {"a": 2}, {("a", 1, 2): "why"})]
    assert not [*check_rises({"a": 2}, {"a": 1}, {})], "a fall needs no reason"


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    root, build = (pathlib.Path(a).resolve() for a in arguments[-2:])
    table = root / "scripts/budget.tsv"
    made_by, rows, _ = read_table(table.read_text())
    found, sizes = measure(root, build), compiler(build) == made_by
    if arguments[0] == "--lower":
        lower(table, found, sizes)
        return 0
    errors = [*compare(rows, found, sizes), *(check_history(root) if shutil.which("git") else [])]
    print(*errors, sep="\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
