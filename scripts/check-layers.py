#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails on an #include and on a call that goes up the layers.

check-layers.py SOURCE BUILD      includes of SOURCE/src and SOURCE/include, objects below BUILD
check-layers.py --self-test       violations planted in a temporary folder must be found
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Lowest first.  "include" has what everybody may include; watch stands beside cache.
RANK = {"include": 0, "base": 1, "os": 2, "percpu": 3, "page": 4, "slab": 5, "sheaf": 6, "cache": 7,
        "trace": 8, "site": 9, "charge": 10, "kmalloc": 11, "watch": 12, "reserve": 12, "face": 13,
        "malloc": 14, "urcu": 14}


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


def check_calls(build):
    defined, wanted, seen = {}, [], False
    for path in build.rglob("*.o"):
        match = re.search(r"stook-(?:core|malloc)\.dir/src/(\w+)/", str(path))
        if match:
            seen = True
            for line in subprocess.run(["nm", path], check=True, stdout=subprocess.PIPE,
                                       text=True).stdout.splitlines():
                *_, kind, name = line.split()
                if kind in "Uwv":
                    wanted.append((path, match[1], name))
                elif kind.isupper():
                    defined[name] = match[1]
    for path, own, name in wanted:
        if RANK.get(defined.get(name), 0) > RANK[own]:
            yield f"{path.name}: {own} calls {name} of {defined[name]}, which is above it"
    if not seen:
        yield f"{build}: no objects"


def plant(own, include="", call="0"):
    """What both checks find in a tree of slab/slab.[ch] and OWN/user.c."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {
                "include/stook/stook.h": "",
                "src/slab/slab.h": "int slab_f(void);",
                "src/slab/slab.c": "int slab_f(void); int slab_f(void) { return 1; }",
                f"src/{own}/user.c": f"{include}\nint slab_f(void); int user(void);"
                                     f"int user(void) {{ return {call}; }}"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
            if name.endswith(".c"):
                made = root / f"build/stook-core.dir/{name}.o"
                made.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([os.environ.get("CC", "cc"), "-I", root / "src", "-I",
                                root / "include", "-c", root / name, "-o", made], check=True)
        return [*check_includes(root), *check_calls(root / "build")]


def self_test():
    assert not plant("os") and not plant("malloc")
    assert len(plant("os", '#include "slab/slab.h"')) == 1, "an include that goes up"
    assert len(plant("os", '#  include "../slab/slab.h"')) == 1, "a relative one"
    assert len(plant("os", call="slab_f()")) == 1, "a call that goes up"
    assert len(plant("os", '#include "slab/slab.h"', "slab_f()")) == 2, "both"
    assert not plant("cache", '#include "slab/slab.h"', "slab_f()"), "these go down"
    assert not plant("base", "#include <stook/stook.h>"), "the public header is below all"
    assert len(plant("attic")) == 1, "an unknown layer"


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    root, build = map(pathlib.Path, arguments)
    errors = [*check_includes(root.resolve()), *check_calls(build)]
    print(*errors, sep="\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
