#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The documents say what the code says: paths, links, the README's program, man pages, limits, and the
lock order.  Settings: tests/programs/test_settings.py."""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ["STOOK_SOURCE_DIR"])
problems = []


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def expect(condition, problem):
    if not condition:
        problems.append(problem)


documents = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "src/README.md")]
documents += sorted((ROOT / "docs").rglob("*.md"))
for document in documents:
    content = document.read_text(encoding="utf-8")
    name = document.relative_to(ROOT)
    for link in re.findall(r"\]\(([^)#:]+)\)", content):
        expect((document.parent / link).exists(), f"{name}: link to {link}")
    # `page/arena.c` and `src/page/arena.c` are both fine; build/… is made; mm/…, lib/…, linux/… are Linux's.
    for path in re.findall(r"`([\w./-]+/[\w.-]+\.(?:c|h|py|sh|md|txt))`", content.replace("_ARCH.h", "_x86_64.h")):
        expect(path.startswith(("mm/", "lib/", "linux/")) or any((base / path).exists() for base in (ROOT, ROOT / "src", ROOT / "include")),
               f"{name}: {path} is not there")
for files in re.findall(r"^\| (\w+) \| ([^|]*) \|", text("src/README.md"), re.M):
    for file in files[1].split() if (ROOT / "src" / files[0]).is_dir() else ():
        expect(list((ROOT / "src" / files[0]).glob(file if "." in file else file + ".*")),
               f"src/README.md: no {files[0]}/{file}")

# What CONTRIBUTING.md names is there: structures, calls, constants, functions of tests.
sources = "\n".join(path.read_text(encoding="utf-8") for folder in ("src", "include", "tests", "tools")
                    for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".c", ".def"))
sources += text("CMakeLists.txt")
quoted = {name for name in re.findall(r"`((?:struct |enum )?\w+)(?:\([^`]*\))?`", text("CONTRIBUTING.md")) if "_" in name}
for name in quoted:
    expect(re.search(rf"\b{name}\b", sources), f"CONTRIBUTING.md: there is no {name}")
expect(len(quoted) >= 15, f"CONTRIBUTING.md: only {quoted}")
# A row of counters.
rows = re.search(r"ROWS_STAT = (\d+)", text("src/percpu/rows.h"))
for where in ("docs/statistics.md", "include/stook/stat.h"):
    expect(f"{1 << int(rows[1])} bytes" in text(where), f"{where}: counters take {1 << int(rows[1])} bytes a CPU")

program = re.search(r"```c\n(.*?)```", text("README.md"), re.S)[1]
example = text("examples/ten_lines.c").split("*/\n", 1)[1]
expect(program == example, "README.md: its program is not examples/ten_lines.c")

header = text("include/stook/stook.h")
calls = set()
for subject in ("stook", "debug", "group", "kmalloc", "pool", "rcu", "reclaim", "sheaf", "stat", "tag", "topology", "trace",
                "urcu"):
    calls |= set(re.findall(r"^STOOK_API [^;(]*?(stook_\w+)\(", text(f"include/stook/{subject}.h"), re.M))
expect(len(calls) >= 12, f"stook.h: only {len(calls)} calls were found")
for call in calls:
    expect((ROOT / f"man/{call}.3").exists(), f"man: no page of {call}")
for page in (ROOT / "man").glob("*.3"):
    source = re.match(r"\.so man3/(\S+)\n", page.read_text(encoding="utf-8"))
    expect(not source or (ROOT / "man" / source[1]).exists(), f"{page.name}: no {source}")
    expect(page.stem in calls or page.stem == "stook", f"{page.name}: there is no such call")

version = ".".join(re.search(rf"#define STOOK_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
expect(f'#define STOOK_VERSION_STRING "{version}"' in header, f"stook.h: its string is not {version}")
expect(f"project(stook VERSION {version} " in text("CMakeLists.txt"), f"CMakeLists.txt: not {version}")

limits = " ".join(text("man/stook.3").split())
for name, words in (("CACHES_MAX", "{} caches at one time"),
                    ("SLAB_OBJECTS_MAX", "{} objects in a slab"),
                    ("SHEAF_CAPACITY_MAX", "{} in a sheaf"), ("NAME_MAX", "{} bytes of a name"),
                    ("ALIGN_MAX", "aligned to up to {}")):
    value = re.search(rf"#define STOOK_{name} (\d+)u", header)[1]
    expect(words.format(value) in limits, f"stook.3: not \"{words.format(value)}\"")

# The table of locks in the source: docs/locking.md has the same, and it has every lock that there is.
locks = text("src/base/lock_ranks.h")
ranked = re.findall(r'^    X\((\w+), "([^"]+)", "([^"]+)", "([^"]+)"\)', locks, re.M)
words = re.findall(r'^    X\("([^"]+)", "([^"]+)", "([^"]+)"\)', locks, re.M)
expect(len(ranked) >= 8 and len(words) >= 5, f"lock_ranks.h: {len(ranked)} ranked, {len(words)} words")
order = re.findall(r"^\| (\d) \| `([^`]+)` \| ([^|]+) \|", text("docs/locking.md"), re.M)
expect([(str(i), name, per) for i, (_, name, per, _) in enumerate(ranked, 1)] == order,
       f"docs/locking.md: {order} against {ranked}")
rows = re.findall(r"^\| `([^`]+)` \| (process|bag|CPU) \|", text("docs/locking.md"), re.M)
expect([word[:2] for word in words] == rows, f"docs/locking.md: {rows} against {words}")
for *_, name, _, where in ranked + [("", *word) for word in words]:
    last = re.split(r"\.|->", name)[-1]
    expect(re.search(rf"\b{last}\b", text("src/" + where)), f"lock_ranks.h: no {name} in {where}")
holders = {str(source.relative_to(ROOT / "src")) for source in (ROOT / "src").rglob("*.[ch]")
           if re.search(r"^\s*(static )?struct lock\s+\w+( LARGE_BSS)?;", source.read_text(encoding="utf-8"), re.M)}
expect(holders <= {where for *_, where in ranked + words}, f"lock_ranks.h: a lock of {holders} is missing")

for problem in problems:
    print(problem)
print(f"{len(documents)} documents, {len(calls)} calls")
sys.exit(bool(problems))
