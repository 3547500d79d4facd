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
        expect(path.startswith(("mm/", "lib/", "linux/")) or
               any((ROOT / base / path).exists() for base in ("", "src", "include")), f"{name}: no {path}")
for files in re.findall(r"^\| (\w+) \| ([^|]*) \|", text("src/README.md"), re.M):
    for file in files[1].split() if (ROOT / "src" / files[0]).is_dir() else ():
        expect(list((ROOT / "src" / files[0]).glob(file if "." in file else file + ".*")), f"src/README.md: no {files[0]}/{file}")

# What CONTRIBUTING.md names is there: structures, calls, constants, functions of tests.
sources = "\n".join(path.read_text(encoding="utf-8") for folder in ("src", "include", "tests", "tools")
                    for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".c", ".def")) + text("CMakeLists.txt")
quoted = {name for name in re.findall(r"`((?:struct |enum )?\w+)(?:\([^`]*\))?`", text("CONTRIBUTING.md")) if "_" in name}
for name in quoted:
    expect(re.search(rf"\b{name}\b", sources), f"CONTRIBUTING.md: there is no {name}")
expect(len(quoted) >= 15, f"CONTRIBUTING.md: only {quoted}")
# Files, functions and members that the pages about the source name are there.
own = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for folder in ("src", "include/stook")
       for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".c", ".def")}
known = set(re.findall(r"\w+", "\n".join(own.values())))
for where in ("docs/path-of-an-object.md", "docs/locking.md", "src/README.md"):
    page = text(where)
    named = set(re.findall(r"(?<![\w/.*-])((?:\w+/)*\w+\.(?:c|h|def))\b", page))
    for name in named:
        expect(any(path.endswith(f"/{name}") or path == name for path in own), f"{where}: there is no {name}")
    called = {name for both in re.findall(r"`(\w+)\(|`(?!scripts)\w+(?:\.|->)(\w+)`", page) for name in both if name}
    expect(len(named) >= 10 and called - {"c", "h"} - known == set(), f"{where}: there is no {called - known}")
# A row of counters.
rows = re.search(r"ROWS_STAT = (\d+)", text("src/percpu/rows.h"))
for where in ("docs/statistics.md", "include/stook/stat.h"):
    expect(f"{1 << int(rows[1])} bytes" in text(where), f"{where}: counters take {1 << int(rows[1])} bytes a CPU")

expect(re.search(r"```c\n(.*?)```", text("README.md"), re.S)[1] == text("examples/ten_lines.c").split("*/\n", 1)[1],
       "README.md: its program is not examples/ten_lines.c")

header = text("include/stook/stook.h")
calls = {call for subject in "stook debug group kmalloc rcu reserve stat topology urcu".split()
         for call in re.findall(r"^(?:STOOK_API|static inline)(?: STOOK_\w+\([^)]*\))? [^;(]*?(stook_\w+)\(", text(f"include/stook/{subject}.h"), re.M)}
expect(len(calls) >= 12, f"stook.h: only {len(calls)} calls were found")
examples = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.c*"))
for call in calls:
    expect((ROOT / f"man/{call}.3").exists(), f"man: no page of {call}")
    expect(re.search(rf"\b{call}\b", examples), f"examples: none calls {call}()")
for page in (ROOT / "man").glob("*.3"):
    source = re.match(r"\.so man3/(\S+)\n", page.read_text(encoding="utf-8"))
    expect(not source or (ROOT / "man" / source[1]).exists(), f"{page.name}: no {source}")
    expect(page.stem in calls or page.stem == "stook", f"{page.name}: there is no such call")

version = ".".join(re.search(rf"#define STOOK_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
expect(f'#define STOOK_VERSION_STRING "{version}"' in header and f"project(stook VERSION {version} " in text("CMakeLists.txt"),
       f"stook.h's string, or CMakeLists.txt: not {version}")

limits = " ".join(text("man/stook.3").split())
for name, words in (("CACHES_MAX", "{} caches at one time"), ("SLAB_OBJECTS_MAX", "{} objects in a slab"),
                    ("SHEAF_CAPACITY_MAX", "{} in a sheaf"), ("NAME_MAX", "{} bytes of a name"), ("ALIGN_MAX", "aligned to up to {}")):
    value = re.search(rf"#define STOOK_{name} (\d+)u", header)[1]
    expect(words.format(value) in limits, f"stook.3: not \"{words.format(value)}\"")

# docs/locking.md has the table of ranks, the words that one thread at a time has, and every function that waits, as a search
# of the source finds them.
page, ranks = text("docs/locking.md"), text("src/base/lock_ranks.h")
ranked = re.findall(r'^    X\(\w+, "([^"]+)", "([^"]+)", "([^"]+)"\)', ranks, re.M)
expect(len(ranked) >= 8 and [(str(i), *lock[:2]) for i, lock in enumerate(ranked, 1)] ==
       re.findall(r"^\| (\d) \| `([^`]+)` \| ([^|]+) \|", page, re.M), f"docs/locking.md: its ranks are not {ranked}")
waiting = re.findall(r"^\| `(\w+/\w+\.[ch])` \|([^|]*)\|([^|]*)\|$", page, re.M)  # file, word, functions
words = [(match[1], where) for where, word, _ in waiting if (match := re.match(r" `([^`]+)`", word))]
for name, where in [(lock, where) for lock, _, where in ranked] + words:
    expect(re.search(rf"\b{re.split(r'[.]|->', name)[-1]}\b", text("src/" + where)), f"no {name} in {where}")

WAITS = "lock_pause|lock_wait|raw_wait|raw_waitpid|once_begin"  # other functions wait by these ...
RAW = r"FUTEX_WAIT\w*|LOCK_EX\)|SYS_\w*(?:nanosleep|yield|poll|wait4)\b|\bpthread_(?:mutex|rwlock|cond|join|barrier|spin)"
NEST = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
SPIN = rf"(?<!\}} )\b(?:while|for) \((?!{NEST}compare_exchange){NEST}atomic_{NEST}\)\s*;"  # ... or spin
waits, homes = set(), {where for *_, where in ranked + words}
for source in (ROOT / "src").rglob("*.[ch]"):
    code = re.sub(r"/\*.*?\*/", "", source.read_text(encoding="utf-8"), flags=re.S)
    name = str(source.relative_to(ROOT / "src"))
    for head, body in re.findall(r"([^;{}]*)\n\{\n(.*?)\n\}", code, re.S):
        function = re.search(r"\b([a-z]\w*)\((?!\()", head)
        if function and re.search(rf"\b(?:{WAITS})\(|{RAW}|{SPIN}", body) and not re.fullmatch(rf"{WAITS}|lock_take|lock_enter", function[1]):
            waits.add((name, function[1]))
    expect(name in homes or not re.search(r"^\s*(static )?struct (lock|once)\s+\w+( LARGE_BSS)?;|_exchange\(&[\w.]+, true\)", code, re.M),
           f"docs/locking.md: no word of {name}")
rows = {(where, name) for where, _, functions in waiting for name in re.findall(r"`(\w+)\(\)`", functions)}
expect(len(waits) >= 20 and waits == rows,
       f"docs/locking.md: these wait and have no row: {waits - rows}; these do not wait: {rows - waits}")

print(*problems, f"{len(documents)} documents, {len(calls)} calls", sep="\n")
sys.exit(bool(problems))
