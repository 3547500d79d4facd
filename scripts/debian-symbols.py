#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The symbols files of debian/: what each shared library exports, and the release that had it first.

  debian-symbols.py --check LIBDIR [TREE]   fails where a file differs from the libraries in LIBDIR
  debian-symbols.py --fix LIBDIR [TREE]     adds symbols that are new, at the version of CMakeLists.txt

Symbols that the lean library lacks end with 1: programs that use one need the full library, by the second line of
the file.  A symbol that is gone is an error in both: programs need it, and docs/releases.md says what that means.
"""
import pathlib
import re
import subprocess
import sys

LIBRARIES = {"libstook.so.1": "libstook1", "libstook-malloc.so.1": "libstook-malloc1",
             "libstook-urcu.so.1": "libstook-urcu1"}
# The linker's and C's own.
IGNORED = re.compile(r"(_init|_fini|__bss_start|_edata|_end|__gcov_.*|__llvm_.*)@")


def exported(library):
    """name@version as dpkg-gensymbols writes it: Base for a symbol without a version."""
    said = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True, capture_output=True, text=True).stdout
    names = set()
    for line in said.splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK") and words[6] != "UND" and words[0].endswith(":"):
            name, _, version = words[7].partition("@")
            name += "@" + (version.lstrip("@") or "Base")
            if words[6] == "ABS" and not version:  # the version itself
                name = f"{words[7]}@{words[7]}"
            if not IGNORED.match(name):
                names.add(name)
    return names


def main(arguments):
    if len(arguments) not in (2, 3) or arguments[0] not in ("--check", "--fix"):
        print(__doc__)
        return 2
    fix, folder = arguments[0] == "--fix", pathlib.Path(arguments[1])
    root = pathlib.Path(arguments[2] if len(arguments) > 2 else pathlib.Path(__file__).parent.parent)
    version = re.search(r"^project\(stook VERSION ([\d.]+) ", (root / "CMakeLists.txt").read_text(), re.M)[1]
    wrong = 0
    for soname, package in LIBRARIES.items():
        path = root / f"debian/{package}.symbols"
        text = path.read_text(encoding="utf-8")
        first = dict(re.findall(r"^ (\S+) (\S.*)$", text, re.M))
        if not (folder / soname).exists():
            print(f"{soname}: not built")
            wrong += 1
            continue
        there = exported(folder / soname)
        for name in sorted(set(first) - there):
            print(f"{path.name}: {name} is not exported any more")
            wrong += 1
        for name in sorted(there - set(first)):
            if fix:
                first[name] = version
            else:
                print(f"{path.name}: {name} is missing (scripts/debian-symbols.py --fix LIBDIR)")
                wrong += 1
        if fix:
            lines = [line for line in text.splitlines() if line[:1] != " "]
            lines += [f" {name} {first[name]}" for name in sorted(first)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
