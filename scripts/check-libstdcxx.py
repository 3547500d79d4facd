#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs libstdc++'s own tests of allocators and containers with Stook as the allocator.

  check-libstdcxx.py [OPTIONS] [FOLDER...]   prints what failed and the count; exit status 1 where a test fails that
                                             passes with libstdc++'s own allocator, 77 without the tests

The tests are those of Debian's package gcc-12-source.  They run in two ways:

  below   std::allocator has its memory from Stook: tests/libstdcxx/bits/c++allocator.h takes the place of the file
          by which libstdc++ chooses what is below it.  All tests of the folders
  named   stook::allocator stands where a test names another allocator than std::allocator (malloc_allocator,
          new_allocator).  All tests of the folders that name one

A test that fails is run again as it is; where that fails too, it counts as broken here.  Left out: tests that
must not compile (dg-error), of standards before C++17, of debug and profile modes, and of what this machine lacks.

  --way below|named     one way only
  --testsuite DIR       libstdc++-v3/testsuite, instead of unpacking it from /usr/src
  --all                 all of 20_util, 21_strings and 23_containers (some 3000 tests, more than an hour)
  -j N                  tests at a time
  -v                    what a test that failed said
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = {
    "below": ["20_util/allocator", "20_util/allocator_traits", "20_util/scoped_allocator", "20_util/polymorphic_allocator",
              "20_util/memory_resource", "20_util/unsynchronized_pool_resource", "20_util/shared_ptr",
              "21_strings/basic_string/allocator"] +
             [f"23_containers/{name}/{part}" for name in ("deque", "forward_list", "list", "map", "multimap", "multiset", "set",
                                                          "unordered_map", "unordered_multimap", "unordered_multiset",
                                                          "unordered_set", "vector")
              for part in ("allocator", "cons", "modifiers")],
    "named": ["20_util", "21_strings", "23_containers", "ext"],
}
ALL = ["20_util", "21_strings", "23_containers"]
NAMES = r"__gnu_cxx::(malloc|new)_allocator\b"
# Tests that fail by what they test, and why.
CONSTRUCT = "calls construct(), which C++20 removed from allocators"
HINT = "calls allocate(n, hint), which C++20 removed from allocators"
KNOWN = {
    "named": {
        "20_util/allocator/64135.cc": "wants the base class of std::allocator",
        "23_containers/deque/cons/clear_allocator.cc": HINT,
        "23_containers/vector/bool/clear_allocator.cc": HINT,
        "23_containers/vector/cons/clear_allocator.cc": HINT,
        "ext/debug_allocator/explicit_instantiation.cc": HINT,
        "ext/malloc_allocator/89510.cc": CONSTRUCT,
        "ext/malloc_allocator/variadic_construct.cc": CONSTRUCT,
        "ext/new_allocator/89510.cc": CONSTRUCT,
        "ext/new_allocator/variadic_construct.cc": CONSTRUCT,
        "ext/new_allocator/check_delete.cc": "wants operator delete to be called",
        "ext/new_allocator/check_new.cc": "wants operator new to be called",
    },
    "below": {
        "20_util/allocator/1.cc": "wants operator new to be called",
    },
}
OLD = re.compile(r"-std=(?:gnu|c)\+\+(?:98|03|0x|11|1y|14)|c\+\+(?:98|11|14)_only|c\+\+98_only")
LEFT_OUT = re.compile(r"dg-error|dg-prune-output|dg-require-(?:debug|profile|parallel|namedlocale|mkfifo|fork|time)|"
                      r"dg-xfail|xfail|_GLIBCXX_DEBUG|_GLIBCXX_ASSERTIONS|dg-shouldfail|tr1/|dg-skip-if")


def testsuite(folder):
    """libstdc++-v3/testsuite of the compiler's version; None without it."""
    if folder:
        return pathlib.Path(folder)
    version = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    place = ROOT / "build" / "libstdcxx"
    for archive in pathlib.Path("/usr/src").glob(f"gcc-{version.split('.', maxsplit=1)[0]}/gcc-*.tar.*"):
        found = place / archive.name.split(".tar")[0]
        if not found.exists():
            with tarfile.open(archive) as tar:
                tar.extractall(found, [m for m in tar if "/libstdc++-v3/testsuite/" in m.name])
        for suite in found.glob("*/libstdc++-v3/testsuite"):
            return suite
    return None


def standard_of(text):
    """The option; None for one that stook.hpp does not have."""
    if match := re.search(r"-std=(?:gnu|c)\+\+(\w+)", text):
        return None if OLD.search(match[0]) else match[0]
    if OLD.search(text):
        return None
    return "-std=gnu++20" if re.search(r"target c\+\+(?:20|2a|23)", text) else "-std=gnu++17"


class Suite:
    """A testsuite with the library that it is linked to."""
    def __init__(self, suite, work):
        self.suite, self.work = suite, pathlib.Path(work)
        self.lib = ROOT / "build" / "lib"
        self.flags = ["-O0", "-w", "-D_GLIBCXX_ASSERT", f"-I{suite}/util", f"-I{ROOT}/include", "-DSTOOK_CHECK_DELETE=0"]
        self.helpers = []
        for name in ("hooks", "allocator", "character"):
            built = self.work / f"{name}.o"
            subprocess.run(["g++", "-std=gnu++17", *self.flags, "-c", f"{suite}/util/testsuite_{name}.cc", "-o", built],
                           check=True)
            self.helpers.append(str(built))

    def run(self, path, text, standard, way):
        """"" or what was wrong."""
        options = [word for line in re.findall(r"dg-(?:additional-)?options\s+\"([^\"]*)\"", text) for word in line.split()
                   if not word.startswith(("-std", "-W", "-O"))]
        source = self.work / f"{way}-{re.sub(r'[^a-z0-9]+', '-', str(path))}.cc"
        program = source.with_suffix("")
        more = []
        if way == "below":
            more = [f"-I{ROOT}/tests/libstdcxx", "-DSTOOK_BELOW"]
        elif way == "named":
            text = re.sub(r"using " + NAMES + ";", r"template<typename T> using \1_allocator = stook::allocator<T>;", text)
            text = re.sub(NAMES, "stook::allocator", text)
            text = "#include <stook/stook.hpp>\n#line 1\n" + text
        source.write_text(text)
        compiles_only = re.search(r"dg-do\s+compile", text)
        command = ["g++", standard, *self.flags, *more, *options, f"-iquote{(self.suite / path).parent}", str(source)]
        command += ["-fsyntax-only"] if compiles_only else [
            "-o", str(program), *self.helpers, "-pthread", *([] if way == "plain" else [
                f"-L{self.lib}", "-lstook-malloc", "-lstook", f"-Wl,-rpath,{self.lib}", "-Wl,--no-as-needed"])]
        try:
            built = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, errors="replace")
            if built.returncode != 0:
                return "does not compile:\n" + built.stderr[:3000]
            if compiles_only:
                return ""
            ran = subprocess.run([program], cwd=self.work, capture_output=True, text=True, timeout=300, check=False,
                                 errors="replace")
            return "" if ran.returncode == 0 else f"exit status {ran.returncode}:\n{ran.stdout[-500:]}{ran.stderr[-1500:]}"
        except subprocess.TimeoutExpired:
            return "not ended"
        finally:
            for file in (source, program):
                file.unlink(missing_ok=True)

    def judge(self, way, path):
        """(way, path, verdict, words)"""
        text = (self.suite / path).read_text(errors="replace")
        standard = standard_of(text)
        if standard is None:
            return way, path, "left out", "an older standard"
        if match := LEFT_OUT.search(text):
            return way, path, "left out", match[0]
        if way == "named" and not re.search(NAMES, text):
            return way, path, "none", ""
        if not (said := self.run(path, text, standard, way)):
            return way, path, "passed", ""
        if self.run(path, text, standard, "plain"):
            return way, path, "broken", said
        return way, path, "known" if str(path) in KNOWN[way] else "failed", said


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--way", choices=list(FOLDERS))
    parser.add_argument("--testsuite")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--help", action="store_true")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__)
        return 2
    suite = testsuite(options.testsuite)
    if not suite:
        print("skipped: libstdc++'s tests are missing (Debian: gcc-12-source, of the compiler's version)")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory(prefix="stook-libstdcxx-") as work:
        runner = Suite(suite, work)
        for way in [options.way] if options.way else FOLDERS:
            folders = options.folders or (ALL if options.all else FOLDERS[way])
            paths = sorted({path.relative_to(suite) for folder in folders for path in (suite / folder).rglob("*.cc")})
            count = dict.fromkeys(("passed", "failed", "known", "broken", "left out", "none"), 0)
            with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
                for _, path, verdict, said in pool.map(lambda path, way=way: runner.judge(way, path), paths):
                    count[verdict] += 1
                    if verdict in ("failed", "broken", "known"):
                        print(f"{way}: {verdict}: {path}" + (f": {KNOWN[way][str(path)]}" if verdict == "known" else ""))
                        if options.v or verdict == "failed":
                            print("    " + said.strip().replace("\n", "\n    ")[:2500])
            bad += count["failed"] + (count["passed"] == 0)
            print(f"{way}: {count['passed']} passed, {count['failed']} failed, {count['known']} known, {count['broken']} fail "
                  f"without Stook too, {count['left out']} left out")
    return bool(bad)


sys.exit(main())
