#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The documents say what the code says: paths, links, the README's program, man pages, variables,
limits, and the lock order."""
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


documents = [ROOT / name for name in ("README.md", "CHANGELOG.md", "src/README.md")]
documents += sorted((ROOT / "docs").rglob("*.md"))
for document in documents:
    content = document.read_text(encoding="utf-8")
    name = document.relative_to(ROOT)
    for link in re.findall(r"\]\(([^)#:]+)\)", content):
        expect((document.parent / link).exists(), f"{name}: link to {link}")
    # `page/arena.c` and `src/page/arena.c` are both fine; build/… is made; mm/… is Linux's.
    for path in re.findall(r"`([\w./-]+/[\w.-]+\.(?:c|h|py|sh|md|txt))`", content):
        expect(path.startswith("mm/") or any((base / path).exists() for base in (ROOT, ROOT / "src", ROOT / "include")),
               f"{name}: {path} is not there")
for files in re.findall(r"^\| (\w+) \| ([^|]*) \|", text("src/README.md"), re.M):
    for file in files[1].split() if (ROOT / "src" / files[0]).is_dir() else ():
        expect(list((ROOT / "src" / files[0]).glob(file if "." in file else file + ".*")),
               f"src/README.md: no {files[0]}/{file}")

program = re.search(r"```c\n(.*?)```", text("README.md"), re.S)[1]
example = text("examples/ten_lines.c").split("*/\n", 1)[1]
expect(program == example, "README.md: its program is not examples/ten_lines.c")

header = text("include/stook/stook.h")
calls = set()
for subject in ("stook", "group", "kmalloc", "pool", "rcu", "reclaim", "sheaf", "stat", "tag", "topology", "trace",
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

variables = set()
for source in (ROOT / "src").rglob("*.c"):
    variables |= set(re.findall(r'getenv\("(STOOK_\w+)"\)', source.read_text(encoding="utf-8")))
expect(variables, "src: no variable is read")
for variable in variables:
    expect(f".B {variable}\n" in text("man/stook.1"), f"stook.1: {variable} is missing")

enum = re.search(r"^enum lock_rank \{(.*?)^\};", text("src/base/lock.h"), re.M | re.S)
ranks = re.findall(r"^    LOCK_(\w+)(?: = 1)?,", enum[1], re.M)
order = re.findall(r"^\| (\d) \| `(\w+)\.lock` \|", text("docs/locking.md"), re.M)
names = {"cache_list": "CACHES", "percpu": "PERCPU", "barn": "BARN", "node": "NODE",
         "zone": "ARENA", "window": "WINDOW", "reclaim": "RECLAIM", "group_table": "GROUPS"}
expect([(str(i), rank) for i, rank in enumerate(ranks, 1)] ==
       [(number, names.get(lock)) for number, lock in order],
       f"docs/locking.md: {order} against {ranks}")

for problem in problems:
    print(problem)
print(f"{len(documents)} documents, {len(calls)} calls, {len(variables)} variables")
sys.exit(bool(problems))
