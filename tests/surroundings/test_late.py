#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""What small programs run and read of libstook-malloc.so lies in its first 128 KiB, and what others run that only call malloc
behind it (cmake/first.ld.in): the rest of its code and constants is made inaccessible before the library starts, and no
program touches it."""
import os
import shutil
import struct

from surroundings import BUILD, FOLDER, KIB, check, finish, program, run, served, skip

FRONT_MOST = 128 * KIB  # of tables, constants and code: two windows of the kernel's, as the library is aligned to one
SECOND_MOST = 173 * KIB  # with what larger programs run


def sections(path):
    """Names of an ELF file's sections, with address and size."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:6] == b"\x7fELF\x02\x01", "a 64-bit file, little-endian"
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3a)
    rows = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    texts = rows[names][4]
    return {data[texts + row[0]:data.index(b"\0", texts + row[0])].decode(): (row[3], row[5])
            for row in rows}


def touched(done):
    return done.status in (98, 99) or "late:" in done.err


# Variables of tests are unknown to the library, and it looks at the names that it forgives.
for name in [name for name in os.environ if name.startswith("STOOK_") and name != "STOOK_MODE"]:
    del os.environ[name]

library = os.path.join(BUILD, "lib", "libstook-malloc.so")
found = sections(library)
with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
    debug = "CMAKE_BUILD_TYPE:STRING=Debug" in file.read()
if ".text_first" not in found or debug:
    skip("the linker has placed nothing, or small functions are not inlined")
    finish(False)
second, begin, (end, size) = found[".text_second"][0], found[".text"][0], found[".rodata"]
check(second <= FRONT_MOST, f"{second} bytes lie at the front: mark what small programs do not run as cold, or SECOND_TEXT")
check(begin <= SECOND_MOST, f"{begin} bytes lie before what few programs run")


def late(begin):
    """The settings of plug_late.c: all from there on is inaccessible."""
    return {"LD_AUDIT": os.path.join(FOLDER, "plug_late.so"), "LATE_REGION": f"{begin:x}-{end + size:x}"}


# The instrument works: the report is no part of what every program runs, and a fork none of the front.
done = run(served(program("late"), True, STOOK_REPORT="1", **late(begin)))
check(touched(done), f"a report was written from the front: {done}")
done = run(served(["sh", "-c", "(true)"], True, **late(second)))
check(touched(done), f"a shell forked from the front: {done}")

for begins, argv in (
        (begin, program("late")), (second, ["true"]), (second, ["sleep", "0"]), (second, ["sed", "s/a/b/", __file__]),
        (second, ["awk", "BEGIN { for (i = 0; i < 9999; i++) a[i] = i \"x\"; print length(a) }"]),
        (second, ["bash", "-c", "for i in {1..9999}; do a[i]=$i; done; echo ${#a[@]}"]),
        (second, ["python3", "-c", "print(1)"]), (second, ["git", "--version"]),
        (begin, ["sh", "-c", "echo $(echo a | sort) | cat"]), (begin, ["sort", "-k2n", __file__]),
        (begin, ["python3", "-c", "import json; print(json.dumps([1] * 999))"]),
        (begin, ["perl", "-e", "push @a, $_ x 9 for 1 .. 9999; print scalar @a"]),
        (begin, ["sqlite3", ":memory:", "create table t(a); select * from t"])):
    if not shutil.which(argv[0]):
        skip(argv[0])
        continue
    done = run(served(argv, True, **late(begins)))
    check(done.status == 0 and not touched(done), f"{' '.join(argv[:2])}: {done}")
finish()
