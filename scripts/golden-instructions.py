#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the machine code of the hot paths with what is committed; its diff is the performance review.

  golden-instructions.py SOURCE            compare; 77 when no compiler of the table is here
  golden-instructions.py --update [SOURCE] write the files of the compilers that are here
  golden-instructions.py --self-test       an instruction more, and one less, must be found

One file per compiler and architecture, tests/golden/COMPILER-MAJOR.ARCHITECTURE.txt, has the code of each
function below.  Addresses, padding and section-relative offsets are taken out: labels stand for jump
targets, `elsewhere` for the exits of a section that stand behind all functions, names for what relocations
point to.  `hot path` counts the instructions from the entry to the
first return with no conditional branch taken.  A compiler of another major version makes other code:
its file is skipped, and said to be.
"""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TARGETS = [("gcc", 12, "x86_64"), ("gcc", 12, "aarch64"),
           ("clang", 16, "x86_64"), ("clang", 16, "aarch64")]
COMMON = ["-O2", "-g0", "-D_GNU_SOURCE", "-fno-stack-protector",
          "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"]
MACHINE = {"x86_64": ["-march=x86-64", "-mtune=generic", "-fcf-protection=none"],
           "aarch64": ["-march=armv8-a", "-mtune=generic", "-mbranch-protection=none"]}
# As CMakeLists.txt compiles them: a user's program, and the library.
USER = ["-fPIE"]
LIBRARY = ["-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fno-plt", "-fexceptions",
           "-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-builtin-free",
           "-DSTOOK_RSEQ=1", "-DSTOOK_INLINE_NO_PIN="]
FILES = [("tests/golden/inline_pair.c", USER, ["golden_pop", "golden_push", "golden_pop_static", "golden_push_static"]),
         ("tests/golden/inline_pair.cc", USER,
          ["golden_make", "golden_destroy", "golden_make_static", "golden_destroy_static", "golden_make_lazy",
           "golden_destroy_lazy", "golden_new", "golden_delete", "golden_node", "golden_node_free"]),
         ("src/malloc/malloc.c", LIBRARY, ["malloc", "free"])]

# Hot paths of C++ beside C's: how many instructions more each may take.  A cache that is made by its first use is tested for.
BESIDE = [("golden_make", "golden_pop", 0), ("golden_destroy", "golden_push", 0),
          ("golden_make_static", "golden_pop_static", 0), ("golden_destroy_static", "golden_push_static", 0),
          ("golden_make_lazy", "golden_pop_static", 2), ("golden_destroy_lazy", "golden_push_static", 0),
          ("golden_new", "golden_pop_static", 2), ("golden_delete", "golden_push_static", 0),
          ("golden_node", "golden_pop_static", 2), ("golden_node_free", "golden_push_static", 2)]


def major(command):
    said = subprocess.run([command, "-dumpversion"], capture_output=True, text=True, check=False)
    return int(said.stdout.split(".")[0]) if said.returncode == 0 and said.stdout else 0


def compiler_of(name, version, machine):
    """The command, or None."""
    here = machine == os.uname().machine
    if not here and not os.path.exists(f"/usr/{machine}-linux-gnu/include/stdlib.h"):
        return None
    if name == "clang":
        found = [f"clang-{version}", "clang"]
    elif here:
        found = [f"gcc-{version}", "gcc", "cc"]
    else:
        found = [f"{machine}-linux-gnu-gcc-{version}", f"{machine}-linux-gnu-gcc"]
    for command in found:
        if shutil.which(command) and major(command) == version:
            return [command] if name == "gcc" or here else [command, f"--target={machine}-linux-gnu"]
    return None


def objdump_of(machine):
    for command in ([] if machine != os.uname().machine else ["objdump"]) + [
            f"{machine}-linux-gnu-objdump"]:
        if shutil.which(command):
            return command
    return None


def disassemble(objdump, path, function):
    """A list of (address, instruction, [relocations])."""
    said = subprocess.run([objdump, "-dr", "--no-show-raw-insn", f"--disassemble={function}", path],
                          capture_output=True, text=True, check=True).stdout
    code = []
    for line in said.splitlines():
        relocation = re.match(r"\s+([0-9a-f]+): (R_\S+)\s+(\S+)", line)
        if relocation:
            # Those of the functions before this one come first.
            if code and int(relocation[1], 16) >= code[-1][0]:
                code[-1][2].append(relocation.group(2, 3))
            continue
        instruction = re.match(r"\s+([0-9a-f]+):\t(.*)", line)
        if instruction:
            code.append([int(instruction[1], 16), instruction[2].strip(), []])
    while code and re.match(r"(nop|data16|cs nop|xchg +%ax,%ax|\.inst|udf)", code[-1][1]):
        code.pop()
    if not code:
        raise SystemExit(f"{path}: no function {function}")
    return code


def plain(relocation):
    kind, to = relocation
    # Where something stands in a section says nothing about the code.
    to = re.sub(r"^(\.[\w.]+|__rseq_\w+)[+-]0x[0-9a-f]+$", r"\1", to)
    return f"{kind.replace('R_X86_64_', '').replace('R_AARCH64_', '')} {to}"


def normal(code):
    """The lines: labels and names instead of addresses."""
    addresses = {address for address, _, _ in code}
    jump = re.compile(r"^((?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s+(?:[^<]*,\s*)?)([0-9a-f]+) <[^>]*>")
    targets = sorted({int(m[2], 16) for _, text, relocations in code
                      if not relocations and (m := jump.match(text)) and int(m[2], 16) in addresses})
    label = {address: f".L{i + 1}" for i, address in enumerate(targets)}
    lines = []
    for address, text, relocations in code:
        match = jump.match(text)
        if address in label:
            lines.append(f"{label[address]}:")
        if match and not relocations and int(match[2], 16) in label:
            text = match[1] + label[int(match[2], 16)]
        text = re.sub(r"\s+(#|//) .*$", "", text)       # what objdump believes a place is
        text = re.sub(r"\b[0-9a-f]+ <[^>]*>$", "@" if relocations else "elsewhere", text)
        text = re.sub(r"\s+", " ", text)
        lines.append("    " + text + "".join(f"  {{{plain(r)}}}" for r in relocations))
    return lines


def hot_path(code):
    """Instructions from the entry to the first return, no conditional branch taken."""
    index = {address: i for i, (address, _, _) in enumerate(code)}
    at = steps = 0
    while steps < 1000 and at < len(code):
        _, text, relocations = code[at]
        steps += 1
        if re.match(r"ret\b", text):
            return steps
        jump = re.match(r"(?:jmp|b)\s+([0-9a-f]+) ", text)
        if jump:
            if relocations or int(jump[1], 16) not in index:
                return steps
            at = index[int(jump[1], 16)]
        else:
            at += 1
    raise SystemExit("no way to a return")


def text_of(source, target, replace=None, files=None):
    """What the file of a target should say; None: the compiler is not here."""
    name, version, machine = target
    compiler, objdump = compiler_of(name, version, machine), objdump_of(machine)
    if not compiler or not objdump:
        return None
    lines = ["# Machine code of the hot paths; scripts/golden-instructions.py --update"]
    with tempfile.TemporaryDirectory() as work:
        for file, flags, functions in files or FILES:
            path = source / file
            if replace and file in replace:
                path = pathlib.Path(work, "replaced" + path.suffix)
                path.write_text(replace[file](pathlib.Path(source, file).read_text()))
            built = os.path.join(work, "golden.o")
            command = compiler + COMMON + MACHINE[machine] + flags
            command.append("-std=gnu17" if path.suffix == ".c" else "-std=gnu++17")
            subprocess.run(command + [f"-I{source}/include", f"-I{source}/src", "-c", str(path),
                                      "-o", built], check=True)
            for function in functions:
                code = disassemble(objdump, built, function)
                lines += ["", f"{function}: hot path {hot_path(code)}, all {len(code)}"]
                lines += normal(code)
    return "\n".join(lines) + "\n"


def file_of(source, target):
    return source / "tests" / "golden" / f"{target[0]}-{target[1]}.{target[2]}.txt"


def beside(text):
    """What C++ takes more than it may, a line each."""
    paths = {name: int(hot) for name, hot in re.findall(r"^(\w+): hot path (\d+)", text, re.M)}
    return [f"{cpp}: {paths[cpp]} instructions, {c} has {paths[c]} and it may have {more} more"
            for cpp, c, more in BESIDE if cpp in paths and paths[cpp] > paths[c] + more]


def compare(source):
    compared = failed = 0
    for target in TARGETS:
        text = text_of(source, target)
        path = file_of(source, target)
        if text is None:
            print(f"skipped: no {target[0]} {target[1]} for {target[2]}, or no headers or objdump of it")
            continue
        compared += 1
        golden = path.read_text() if path.exists() else ""
        for line in beside(text):
            failed += 1
            print(f"{target}: {line}")
        if text != golden:
            failed += 1
            sys.stdout.writelines(difflib.unified_diff(
                golden.splitlines(True), text.splitlines(True), str(path), "this tree"))
    if failed:
        print("a hot path is not what its golden file says; --update writes it anew, and the commit says why")
        return 1
    return 0 if compared else 77


def update(source):
    for target in TARGETS:
        text = text_of(source, target)
        if text is None:
            print(f"left alone: no {target[0]} {target[1]} for {target[2]}, or no objdump")
        else:
            file_of(source, target).write_text(text)
    return 0


def self_test(source):
    compared = 0
    file = "tests/golden/inline_pair.c"
    one = [row for row in FILES if row[0] == file]
    planted = "".join(f"{name}: hot path {15 + more}, all 19\n" for cpp, c, more in BESIDE[:1] for name in (cpp, c))
    if beside(planted) or len(beside(planted.replace(f"{BESIDE[0][0]}: hot path 15", f"{BESIDE[0][0]}: hot path 16"))) != 1:
        raise SystemExit("self-test: an instruction more than C's was not found")

    def put(statement):
        return {file: lambda text: text.replace("    return stook_alloc_inline(cache,",
                                                f"    {statement}\n    return stook_alloc_inline(cache,")}
    more = ["*(volatile char *)cache = 0;", "(void)*(volatile char *)cache;",
            '__asm__ volatile("nop");']
    for target in TARGETS:
        golden = text_of(source, target, None, one)
        if golden is None:
            print(f"skipped: no {target[0]} {target[1]} for {target[2]}, or no objdump")
            continue
        compared += 1
        if golden != text_of(source, target, {file: lambda text: "/* one line lower */\n" + text}, one):
            raise SystemExit(f"self-test: {target}: a comment changed the code")
        changed = [text_of(source, target, put(statement), one) for statement in more]
        changed.append(text_of(source, target, {file: lambda text: text.replace(
            "stook_free_inline(cache, object);", "(void)cache, (void)object;")}, one))
        if golden in changed:
            raise SystemExit(f"self-test: {target}: change {changed.index(golden)} was not found")
        paths = [int(re.search(r"golden_pop: hot path (\d+)", text)[1])
                 for text in [golden] + changed[:3]]
        if min(paths[1:]) <= paths[0]:
            raise SystemExit(f"self-test: {target}: the hot path is counted wrongly: {paths}")
    return 0 if compared else 77


def main(arguments):
    here = pathlib.Path(__file__).resolve().parent.parent
    if arguments and arguments[0] == "--self-test":
        return self_test(here)
    if arguments and arguments[0] == "--update":
        return update(pathlib.Path(arguments[1]).resolve() if len(arguments) > 1 else here)
    return compare(pathlib.Path(arguments[0]).resolve() if arguments else here)


sys.exit(main(sys.argv[1:]))
