#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The list in docs/kernel-names.md of what the kernel's headers have and stook/kmem.h lacks.

  kernel-names.py --check TREE   fails where the list is not that of the sources in TREE (scripts/kernel/build.sh 7.2 --source)
  kernel-names.py --fix TREE     writes it
  kernel-names.py --check        without sources: fails where stook/kmem.h has a name of the list

Names are those of functions, of macros and of flags, without the kernel's private ones, which begin with _.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/kernel-names.md"
HEADERS = ("slab.h", "mempool.h", "gfp_types.h")
LIST = re.compile(r"(?<=<!-- by scripts/kernel-names.py -->\n).*?(?=\n<!-- end -->)", re.S)


def code(path):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return text.replace("\\\n", " ")


def names(text):
    """What a header defines or declares."""
    found = set(re.findall(r"^\s*#\s*define\s+([A-Za-z]\w*)(?:\(|[ \t]+\S)", text, re.M))
    text = re.sub(r"^\s*#.*$|\bstatic_assert\(.*?;", "", text, flags=re.M)
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", ";", text)
    return found | set(re.findall(r"^[^;]*?\b([a-z]\w*)\([^;]*;", text, re.M))


def main(arguments):
    if arguments[:1] not in (["--check"], ["--fix"]) or len(arguments) > 2 or arguments == ["--fix"]:
        print(__doc__)
        return 2
    page = PAGE.read_text(encoding="utf-8")
    ours = set(re.findall(r"\w+", "".join(code(path) for path in ROOT.glob("include/stook/kmem*.h"))))
    written = LIST.search(page)[0]
    if len(arguments) == 1:
        wrong = [name for name in re.findall(r"`(\w+)`", written) if name in ours]
        print("\n".join(f"{PAGE.name} lists {name} as absent, and stook/kmem.h has it" for name in wrong) or "ok")
        return bool(wrong)
    lines = []
    for header in HEADERS:
        missing = sorted(names(code(pathlib.Path(arguments[1], "include/linux", header))) - ours)
        lines.append(f"- `{header}`: " + (", ".join(f"`{name}`" for name in missing) or "nothing"))
    if arguments[0] == "--fix":
        PAGE.write_text(LIST.sub(lambda _: "\n".join(lines), page), encoding="utf-8")
    elif written != "\n".join(lines):
        print("docs/kernel-names.md is not what the sources have: scripts/kernel-names.py --fix TREE\n" + "\n".join(lines))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
