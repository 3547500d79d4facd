# SPDX-License-Identifier: MIT
"""The programs: what each needs, its input, and its command."""
import dataclasses
import os
import pathlib
import shutil
import typing

import inputs
import measure

OWN = str(measure.LIBEXEC / "stook-bench-own")


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    what: str
    needs: tuple  # programs that have to be on the machine; the first one is what is measured
    make: typing.Callable  # (folder, size) -> Command: makes the input there
    package: str = ""  # where Debian has it
    threads: bool = False  # it has several, or several processes at once: it is not bound to one CPU

    def missing(self):
        """Why it cannot run here, or None."""
        for need in self.needs:
            if not find(need):
                return f"{need} not found" + (f" (Debian: {self.package})" if self.package else "")
        return None


def find(name):
    """A program by name: real ones, not the wrappers that start another interpreter first."""
    if name == "python3":
        for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
            if os.access(path, os.X_OK):
                return path
    if name in ("postgres", "initdb"):
        for path in sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True):
            return str(path)
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def own(name, what, threads=False):
    def make(folder, size):
        return measure.Command([OWN, name, str(max(1, int(100 * size)))])
    return Program(f"own-{name}", what, (OWN,), make, threads=threads)


def made(function):
    """`function(folder, size)` gives (words, options of Command)."""
    def make(folder, size):
        words, options = function(folder, size)
        words[0] = find(words[0]) or words[0]
        return measure.Command([str(word) for word in words], **options)
    return make


PROGRAMS = [
    Program("gcc", "compiles C of 1500 functions, -O2", ("gcc",), made(inputs.gcc), "gcc"),
    Program("g++", "compiles C++ with many templates, -O1", ("g++",), made(inputs.gxx), "g++"),
    Program("rustc", "compiles a crate of many small types", ("rustc",), made(inputs.rustc), "rustc",
            threads=True),
    Program("cmake", "a script of lists, strings and regular expressions", ("cmake",), made(inputs.cmake),
            "cmake"),
    Program("python-json", "tables to JSON and back; PYTHONMALLOC=malloc", ("python3",),
            made(inputs.python_json), "python3"),
    Program("python-objects", "a graph of objects, as Python is by default", ("python3",),
            made(inputs.python_objects), "python3"),
    Program("perl", "counts words in hashes, splits and joins", ("perl",), made(inputs.perl), "perl"),
    Program("awk", "sums by key over a table of text", ("awk",), made(inputs.awk), "mawk"),
    Program("sort", "sorts lines of text by bytes", ("sort",), made(inputs.sort), "coreutils"),
    Program("bash", "loops over arrays, strings and functions", ("bash",), made(inputs.bash), "bash"),
    Program("processes", "a shell that starts a thousand short programs", ("sh", "true"),
            made(inputs.processes), "dash"),
    Program("xz", "compresses text, level 6", ("xz",), made(inputs.xz), "xz-utils"),
    Program("zstd", "compresses text, level 12", ("zstd",), made(inputs.zstd), "zstd"),
    Program("sqlite", "a database in memory: inserts, indices, joins", ("sqlite3",), made(inputs.sqlite),
            "sqlite3"),
    Program("git-repack", "repacks a repository of some thousand commits", ("git",),
            made(inputs.git_repack), "git"),
    Program("git-log", "prints all its changes as patches", ("git",), made(inputs.git_log), "git"),
    Program("z3", "proves that pigeons do not fit", ("z3",), made(inputs.z3), "z3"),
    Program("node", "objects, maps and strings in JavaScript", ("node",), made(inputs.node), "nodejs",
            threads=True),
    Program("java", "a virtual machine that starts, compiles and collects", ("java",), made(inputs.java),
            "default-jdk-headless", threads=True),
    own("nbody", "bodies that attract each other, by a tree of cells built anew each step"),
    own("factor", "factors numbers; each result of arithmetic is an object"),
    own("minimise", "combines lists of cubes until nothing more can be combined"),
    own("large", "20 live blocks of 5 to 25 MiB, replaced at random, written to"),
    own("sequence", "objects of one size after the other, freed in three orders"),
    own("strings", "strings that grow, are cut into words and counted"),
    own("document", "documents parsed into objects, printed, freed"),
    own("mixed", "130 MiB live, log-uniform sizes, replaced at random, three quarters freed at times"),
    own("larson", "threads replace objects and hand their set to a successor", threads=True),
    own("relay", "two threads allocate, two others free", threads=True),
    own("stages", "trees kept on shared shelves; threads end between stages", threads=True),
    own("thrash", "threads write to small objects of theirs", threads=True),
]
