#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""What programs that only call malloc run and read of libstook-malloc.so lies at its front (cmake/first.ld.in): the rest of
its code and constants is made inaccessible before the library starts, and nobody touches it."""
import os
import shutil
import struct

from surroundings import BUILD, FOLDER, KIB, check, finish, program, run, served, skip

FRONT_MOST = 173 * KIB  # of tables, constants and code at the front, malloc's too; 172 with GCC 12


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
begin, (end, size) = found[".text"][0], found[".rodata"]
check(begin <= FRONT_MOST, f"{begin} bytes lie at the front")
audit = {"LD_AUDIT": os.path.join(FOLDER, "plug_late.so"),
         "LATE_REGION": f"{begin:x}-{end + size:x}"}

# The instrument works: the report is no part of what every program runs.
late = run(served(program("late"), True, STOOK_REPORT="1", **audit))
check(touched(late), f"a report was written from the front: {late}")

for argv in (program("late"), ["sleep", "0"], ["sh", "-c", "echo $(echo a | sort) | cat"],
             ["awk", "BEGIN { for (i = 0; i < 9999; i++) a[i] = i \"x\"; print length(a) }"],
             ["sort", "-k2n", __file__], ["python3", "-c", "import json; print(json.dumps([1] * 999))"],
             ["perl", "-e", "push @a, $_ x 9 for 1 .. 9999; print scalar @a"],
             ["git", "--version"], ["sqlite3", ":memory:", "create table t(a); select * from t"]):
    if not shutil.which(argv[0]):
        skip(argv[0])
        continue
    done = run(served(argv, True, **audit))
    check(done.status == 0 and not touched(done), f"{' '.join(argv[:2])}: {done}")
finish()
