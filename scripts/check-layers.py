#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails on an #include and on a call that goes up the layers, and on circles of files within one.

check-layers.py SOURCE BUILD      includes of SOURCE/src and SOURCE/include, objects below BUILD
check-layers.py --circles BUILD   the circles there are, with the names that make them
check-layers.py --self-test       violations planted in a temporary folder must be found

A call goes up by the table of src/base/hooks.h alone: nothing else below may be a pointer that a higher
layer sets.  Every .c file is named in src/README.md.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Lowest first.  "include" has what everybody may include; the core is base to cache.
RANK = {"include": 0, "base": 1, "os": 2, "percpu": 3, "page": 4, "slab": 5, "sheaf": 6, "cache": 7,
        "text": 8, "large": 8, "trace": 9, "site": 10, "debug": 11, "harden": 12, "sample": 12, "charge": 13, "guard": 14,
        "observe": 15, "kmalloc": 16, "watch": 17, "reserve": 17, "view": 18,
        "face": 19, "sim": 19, "malloc": 20, "urcu": 20}
UP = {"hooks"}  # the table, which face/ defines

# Circles of files that stay, each with its reason.
CIRCLES = {
    "malloc/aligned malloc/class malloc/mallinfo malloc/malloc malloc/realloc malloc/start":
        "the C names call each other, and the first of them makes the classes",
}

# Pointers to functions in the core that no layer above it sets.
POINTERS = {
    ("slab/cache.h", "ctor"): "the program's",
    ("slab/cache.h", "dtor"): "the program's",
}


def layer(path, root):
    parts = path.relative_to(root).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def check_includes(root):
    for path in [*root.glob("src/**/*.[ch]"), *root.glob("include/**/*.[ch]")]:
        own = layer(path, root)
        if own not in RANK:
            yield f"{path}: layer {own} is not known"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            for folder in (path.parent, root / "src", root / "include") if match else ():
                place = pathlib.Path(os.path.normpath(folder / match[1]))
                if place.is_file():
                    if RANK.get(layer(place, root), 99) > RANK[own]:
                        yield f"{path}:{number}: {own} includes {match[1]}, which is above it"
                    break


def symbols(build, root):
    """Where each name is defined and who wants it, as "layer/file"; of files that are still there."""
    defined, wanted, files = {}, [], {}
    for path in build.rglob("*.o"):
        match = re.search(r"stook-(?:core|malloc|urcu)\.dir/(src/(\w+)/(\w+)\.c)\.o$", str(path))
        if match and (root / match[1]).is_file():
            files[str(path)] = f"{match[2]}/{match[3]}"
    for line in subprocess.run(["nm", "-A", *files], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines() if files else ():
        path, symbol = line.rsplit(":", 1)
        *_, kind, name = symbol.split()
        if kind in "Uwv":
            wanted.append((files[path], name))
        elif kind.isupper():
            defined[name] = files[path]
    return defined, wanted


def check_calls(defined, wanted):
    for user, name in wanted:
        own, other = user.split("/")[0], defined.get(name, "include/").split("/")[0]
        if name not in UP and RANK.get(other, 0) > RANK[own]:
            yield f"{user}.c: {own} calls {name} of {other}, which is above it"
    if not defined:
        yield "no objects"


def circles(defined, wanted):
    """Sets of files of one layer of which each reaches each, and the names they want of each other."""
    uses = collections.defaultdict(lambda: collections.defaultdict(set))
    for user, name in wanted:
        other = defined.get(name)
        if other and other != user and other.split("/")[0] == user.split("/")[0] and name not in UP:
            uses[user][other].add(name)

    def reached(file):
        seen, todo = set(), [file]
        while todo:
            for other in uses[todo.pop()]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    reach = {file: reached(file) for file in list(uses)}
    found = {frozenset(other for other in reach[file] if file in reach.get(other, ()))
             for file in reach if file in reach[file]}
    return {circle: [(a, b, sorted(uses[a][b])) for a in sorted(circle) for b in sorted(uses[a])
                     if b in circle] for circle in found}


def check_circles(found):
    for circle in found:
        if " ".join(sorted(circle)) not in CIRCLES:
            yield f"a circle of files: {' '.join(sorted(circle))} (check-layers.py --circles)"
    for known in CIRCLES:
        if frozenset(known.split()) not in found:
            yield f"no circle any more, but listed: {known}"


def check_pointers(root):
    """Variables and fields in the core that a layer above could set, instead of hooks.h."""
    for path in [*root.glob("src/**/*.[ch]")]:
        if RANK.get(layer(path, root), 99) > RANK["cache"] or path.name == "hooks.h":
            continue
        name = str(path.relative_to(root / "src"))
        depth = 0
        for number, line in enumerate(path.read_text().splitlines(), 1):
            field = re.match(r"\s*(?:extern |static |_Atomic )*[\w ]+[ *]\(\*(\w+)\)\(", line)
            if field and (line[0] != " " or depth == 1) and (name, field[1]) not in POINTERS:
                yield f"{path}:{number}: {field[1]} is a pointer that a call may go up by"
            if re.match(r"(?:static |extern )?(?:struct|union)[^()]*\{$", line):
                depth = 1
            elif line.startswith("}"):
                depth = 0


def check_readme(root):
    readme = root / "src/README.md"
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]*) \|", readme.read_text(), re.M)) if readme.is_file() else {}
    for path in root.glob("src/*/*.c"):
        if rows and path.stem not in rows.get(layer(path, root), "").split():
            yield f"{path}: not in the table of src/README.md"


def plant(own, include="", call="0", back="1", more=""):
    """What the checks find in a tree of slab/slab.[ch] and OWN/user.c."""
    CIRCLES.clear()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {
                "include/stook/stook.h": "",
                "src/slab/slab.h": "int slab_f(void);",
                "src/slab/slab.c": "int slab_f(void); int user(void);"
                                   f"int slab_f(void) {{ return {back}; }}",
                f"src/{own}/user.c": f"{include}\nint slab_f(void); int user(void); {more}\n"
                                     f"int user(void) {{ return {call}; }}"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
            if name.endswith(".c"):
                made = root / f"build/stook-core.dir/{name}.o"
                made.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([os.environ.get("CC", "cc"), "-I", root / "src", "-I",
                                root / "include", "-c", root / name, "-o", made], check=True)
        defined, wanted = symbols(root / "build", root)
        return [*check_includes(root), *check_calls(defined, wanted), *check_pointers(root),
                *check_circles(circles(defined, wanted))]


def self_test():
    assert not plant("os") and not plant("malloc")
    assert len(plant("os", '#include "slab/slab.h"')) == 1, "an include that goes up"
    assert len(plant("os", '#  include "../slab/slab.h"')) == 1, "a relative one"
    assert len(plant("os", call="slab_f()")) == 1, "a call that goes up"
    assert len(plant("os", '#include "slab/slab.h"', "slab_f()")) == 2, "both"
    assert not plant("cache", '#include "slab/slab.h"', "slab_f()"), "these go down"
    assert not plant("base", "#include <stook/stook.h>"), "the public header is below all"
    assert len(plant("attic")) == 1, "an unknown layer"
    assert not plant("slab", call="slab_f()"), "a call within a layer"
    assert len(plant("slab", call="slab_f()", back="user()")) == 1, "a circle"
    assert len(plant("cache", call="slab_f()", back="user()")) == 1, "a call up is no circle"
    for pointer in ("void (*told)(int);", "static int (*told)(void);", "extern void *(*told)(int a);"):
        assert len(plant("slab", more="\n" + pointer)) == 1, pointer
        assert not plant("charge", more="\n" + pointer), "above the core"
    assert len(plant("slab", more="\nstruct told {\n    void (*told)(int);\n};")) == 1, "a field"
    assert not plant("slab", more="\nint each(void (*fn)(int),\n         void (*other)(int));"), "arguments"
    CIRCLES["a/b a/c"] = "a reason"
    assert len([*check_circles({})]) == 1, "a circle that is none any more"


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    if arguments[0] == "--circles":
        root = pathlib.Path(__file__).resolve().parent.parent
        for circle, uses in circles(*symbols(pathlib.Path(arguments[1]), root)).items():
            print(*sorted(circle))
            for a, b, names in uses:
                print(f"    {a} -> {b}: {' '.join(names)}")
        return 0
    root, build = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1])
    defined, wanted = symbols(build, root)
    errors = [*check_includes(root), *check_calls(defined, wanted), *check_pointers(root),
              *check_readme(root), *check_circles(circles(defined, wanted))]
    print(*errors, sep="\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
