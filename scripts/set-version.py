#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the number of a release wherever it stands; docs/releases.md says when which part rises.

  set-version.py VERSION [TREE]    writes it
  set-version.py --check [TREE]    fails where a place has another number than CMakeLists.txt
"""
import pathlib
import re
import subprocess
import sys


def places(root, version):
    """(file, pattern with one group that is the number, what it has to be)"""
    major, minor, patch = version.split(".")
    header = root / "include/stook/stook.h"
    yield root / "CMakeLists.txt", r"^project\(stook VERSION ([\d.]+) ", version
    for name, part in (("MAJOR", major), ("MINOR", minor), ("PATCH", patch)):
        yield header, rf"^#define STOOK_VERSION_{name} (\d+)$", part
    yield header, r'^#define STOOK_VERSION_STRING "([\d.]+)"$', version
    # Pages of section 3 are made from the headers.
    for page in sorted([*(root / "man").glob("*.1"), *(root / "man").glob("*.7"), root / "man/stook.3"]):
        yield page, r'^\.TH \S+ \d "[^"]*" "Stook ([\d.]+)"', f"{major}.{minor}"
    yield root / "docs/container.md", r"^cp ~/stook-([\d.]+)\.tar\.xz ", version
    for path in ("packaging/consumers/cmake/CMakeLists.txt", "debian/tests/link", "cmake/StookConfig.cmake.in", "docs/releases.md"):
        yield root / path, r"find_package\(Stook ([\d.]+)[ )]", f"{major}.{minor}"
    rust = root / "bindings/rust"
    yield rust / "Cargo.toml", r'^version = "([\d.]+)"$', version
    yield rust / "bench/Cargo.toml", r'^version = "([\d.]+)"$', version
    yield rust / "stook/Cargo.toml", r'^stook-sys = { path = "../stook-sys", version = "([\d.]+)"', version
    for crate in ("stook", "stook-sys"):
        for lock in (rust / "Cargo.lock", rust / "bench/Cargo.lock"):
            yield lock, rf'^name = "{crate}"\nversion = "([\d.]+)"', version
    yield rust / "bench/Cargo.lock", r'^name = "stook-bench-rust"\nversion = "([\d.]+)"', version
    number = str((int(major) * 100 + int(minor)) * 100 + int(patch))
    yield rust / "stook-sys/src/lib.rs", r"^pub const STOOK_VERSION: c_uint = (\d+);", number
    yield root / "packaging/vcpkg/stook/vcpkg.json", r'^  "version": "([\d.]+)"', version
    yield root / "packaging/nix/package.nix", r'^  version = "([\d.]+)";', version
    yield root / "packaging/meson/stook.wrap", r"^directory = stook-([\d.]+)$", version
    yield root / "packaging/meson/stook.wrap", r"^source_url = @URL@/stook-([\d.]+)\.tar\.xz$", version
    yield root / "packaging/meson/stook.wrap", r"^source_filename = stook-([\d.]+)\.tar\.xz$", version


def main(arguments):
    check = arguments[:1] == ["--check"]
    if not 1 <= len(arguments) <= 2 or not (check or re.fullmatch(r"\d+\.\d+\.\d+", arguments[0])):
        print(__doc__)
        return 2
    root = pathlib.Path(arguments[1] if len(arguments) > 1 else pathlib.Path(__file__).parent.parent)
    version = arguments[0]
    if check:
        version = re.search(r"^project\(stook VERSION ([\d.]+) ", (root / "CMakeLists.txt").read_text(), re.M)[1]
    wrong = 0
    for path, pattern, wanted in places(root, version):
        text = path.read_text(encoding="utf-8")
        found = re.search(pattern, text, re.M)
        if not found:
            print(f"{path.relative_to(root)}: no line is {pattern}")
            wrong += 1
        elif found[1] != wanted and check:
            print(f"{path.relative_to(root)}: {found[1]}, and the release is {wanted}")
            wrong += 1
        elif found[1] != wanted:
            path.write_text(text[:found.start(1)] + wanted + text[found.end(1):], encoding="utf-8")
    changelog = (root / "debian/changelog").read_text(encoding="utf-8")
    packaged = re.match(r"stook \(([\d.]+)-\S+\)", changelog)
    if not packaged or packaged[1] != version:
        print(f"debian/changelog: its first entry is not of {version} (dch --newversion {version}-1)")
        wrong += 1
    if f"\n## {version}" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        print(f"CHANGELOG.md: no section of {version}")
        wrong += 1
    if not check:
        subprocess.run([sys.executable, root / "scripts/man.py", root], check=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
