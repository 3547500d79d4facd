#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""AddressSanitizer and Valgrind see objects: each fault of prog_watched is an error of theirs at the access, with the
object, its size and where it was allocated; and without a fault they say nothing."""
import os
import re
import shutil
import subprocess
import tempfile

SOURCE, BUILD = os.environ["STOOK_SOURCE_DIR"], os.environ["STOOK_BUILD_DIR"]
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_watched")
CLEAN = {key: value for key, value in os.environ.items()
         if not re.match(r"STOOK_(?!SOURCE_DIR|BUILD_DIR|TEST_DIR|MODE)|LD_PRELOAD|ASAN_", key)}
tried = []


def run(command, **environment):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", env={**CLEAN, **environment}, timeout=250, check=False)


def address_sanitizer(folder):
    watched = os.path.join(folder, "watched")
    made = run([os.environ["CC"], "-std=gnu17", "-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address", "-I",
                os.path.join(SOURCE, "include"), os.path.join(SOURCE, "tests/programs/prog_watched.c"), "-o", watched, "-L",
                os.path.join(BUILD, "lib"), "-lstook", f"-Wl,-rpath,{BUILD}/lib"])
    if made.returncode != 0 or run([watched, "clean"], STOOK_DEBUG="-").returncode != 0:
        print(f"skipped: AddressSanitizer: {made.stderr.strip()[-200:]}")
        return
    tried.append("AddressSanitizer")
    done = run([watched, "clean"])
    assert done.returncode == 0 and done.stdout == "at the end\n" and done.stderr == "", done
    for fault, place, size, cache in (("over", "3 bytes after", 40, "parcels"), ("under", "3 bytes before", 40, "parcels"),
                                      ("after", "5 bytes inside of", 40, "parcels"), ("size", "0 bytes after", 18, "kmalloc-32")):
        done = run([watched, fault])
        assert done.returncode != 0 and done.stdout == "", (fault, done)
        assert re.search(r"ERROR: AddressSanitizer: use-after-poison on address (0x\w+) .*\nWRITE of size 1 at \1 thread T0\n"
                         r"    #0 0x\w+ in main ", done.stderr), done
        at = re.search(r"on address (0x\w+)", done.stderr)[1].lstrip("0x")
        assert re.search(rf"^stook: BUG {cache}: 0x{at} is {place} object 0x\w+ of {size} bytes$", done.stderr, re.M), done
        maker = "main" if fault == "size" else "make_parcel"
        assert re.search(rf"^Allocated in {maker}\+0x\w+ age=\d+ms cpu=\d+ pid=\d+\n {maker}\+0x", done.stderr, re.M), done
        freed = re.search(r"^Freed in drop_parcel\+0x\w+ age=\d+ms cpu=\d+ pid=\d+\n drop_parcel\+0x", done.stderr, re.M)
        assert bool(freed) == (fault == "after"), done
    for fault in ("pages", "freed_pages", "reserve"):
        done = run([watched, fault])
        assert done.returncode != 0 and done.stdout == "", (fault, done)
        assert re.search(r"ERROR: AddressSanitizer: use-after-poison on address (0x\w+) .*\nWRITE of size 1 at \1 thread T0\n"
                         r"    #0 0x\w+ in main ", done.stderr), (fault, done)
    # A leak is for `stook leaks`: the sanitizer's search knows its own malloc only.
    with subprocess.Popen([watched, "leak"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**CLEAN, "ASAN_OPTIONS": "detect_leaks=0"}) as process:
        process.stdout.readline()
        done = run([os.path.join(BUILD, "bin/stook"), "leaks", "--stop", str(process.pid)])
    assert re.search(r"^lost: 1 object, 40 bytes of cache parcels, such as 0x\w+\n  allocated .* ago\n  allocated in .*\n    main at ", done.stdout, re.M), done
    # Who does not want it has caches as they are elsewhere.
    done = run([watched, "over"], STOOK_DEBUG="-")
    assert "AddressSanitizer" not in done.stderr, done


def valgrind():
    if not shutil.which("valgrind"):
        print("skipped: no valgrind")
        return

    def watch(fault, *options, program=PROGRAM, **environment):
        done = run(["valgrind", "--leak-check=full", "--error-exitcode=9", *options, program, fault], **environment)
        return done.returncode, re.sub(r"^==\d+== ?", "", done.stderr, flags=re.M)

    status, text = watch("clean")
    if "ERROR SUMMARY" not in text:
        print(f"skipped: valgrind does not run: {text[-300:]}")
        return
    if status == 0 and watch("over")[0] == 0:
        print("skipped: the library was built without valgrind/memcheck.h")
        return
    tried.append("Valgrind")
    assert status == 0 and "ERROR SUMMARY: 0 errors" in text, text
    for fault, place, size in (("over", "3 bytes after", 40), ("under", "3 bytes before", 40), ("after", "5 bytes inside", 40),
                               ("size", "0 bytes after", 18)):
        status, text = watch(fault)
        assert status == 9 and "ERROR SUMMARY: 1 errors from 1 contexts" in text, (fault, text)
        maker = "main" if fault == "size" else "make_parcel"
        assert re.search(r"^Invalid write of size 1\n   at 0x\w+: main \(prog_watched.c:\d+\)\n"
                         rf" Address 0x\w+ is {place} a (recently re-allocated )?block of size {size} (alloc'd|free'd|client-defined)\n", text, re.M), text
        assert re.search(rf"   by 0x\w+: {maker} ", text), text
        assert ("free'd" in text and "drop_parcel" in text) == (fault == "after"), text
    for fault, place in (("pages", "0 bytes after a .*block of size 20,000 "), ("freed_pages", "7 bytes inside a block of size 20,000 free'd"),
                         ("reserve", "7 bytes inside ")):
        status, text = watch(fault)
        assert status == 9 and re.search(r"^Invalid write of size 1\n   at 0x\w+: main \(prog_watched.c:\d+\)\n"
                                         rf" Address 0x\w+ is {place}", text, re.M), (fault, text)
    status, text = watch("leak")
    assert status == 9, text
    assert re.search(r"^40 bytes in 1 blocks are definitely lost in loss record .*\n(   .*\n)+   by 0x\w+: make_parcel ", text, re.M), text
    status, text = watch("over", STOOK_DEBUG="-")
    assert status == 0, text


with tempfile.TemporaryDirectory() as folder:
    address_sanitizer(folder)
valgrind()
if not tried:
    raise SystemExit(77)
print("seen through: " + ", ".join(tried))
