#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The operation tables of every architecture: each section does what it says (tests/scripts/port_sections.c),
here and under qemu-user, where a cross compiler and an emulator are installed; and the commit is the last
instruction of its section."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ["STOOK_SOURCE_DIR"]
if os.environ.get("STOOK_EMULATED"):
    sys.exit(77)


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(compiler, *more):
    out = os.path.join(folder, "sections")
    run(*compiler, "-Wall", "-Wextra", "-Werror", "-std=gnu17", "-D_GNU_SOURCE", "-DSTOOK_RSEQ=1", f"-I{ROOT}/include",
        f"-I{ROOT}/src", f"{ROOT}/tests/scripts/port_sections.c", "-static", *more, "-o", out)
    return out


# A store that commits, with its machine's name for it; a section's end is the instruction behind it.
COMMITS = {"aarch64": r"\tst(r|xr|lxp)\t", "riscv64": r"\t(sw|sd|sc\.d|c\.sw|c\.sd|j|c\.j)\t"}


def check_ends(program, tools, machine):
    """Reads each descriptor that was linked and the instruction that ends its section."""
    words = re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]{8} ?){1,4})", run(f"{tools}objdump", "-s", "-j", "__rseq_cs", program), re.M)
    data = bytes.fromhex("".join(words).replace(" ", ""))
    code = run(f"{tools}objdump", "-d", "--no-show-raw-insn", program)
    lines = {int(at, 16): line for line in code.splitlines() for at in re.findall(r"^\s*([0-9a-f]+):\t", line)}
    order = sorted(lines)
    number = 0
    for at in range(0, len(data) - 31, 32):
        start, length = (int.from_bytes(data[at + i:at + i + 8], "little") for i in (8, 16))
        if length == 0:
            continue
        last = lines[order[order.index(start + length) - 1]]
        assert re.search(COMMITS[machine], last), f"{machine}: a section ends with {last}"
        number += 1
    return number


with tempfile.TemporaryDirectory() as folder:
    for machine in (None, "aarch64", "riscv64"):
        tools = f"{machine}-linux-gnu-" if machine else ""
        compiler = [f"{tools}gcc"] if machine else os.environ.get("CC", "cc").split()
        emulator = [f"qemu-{machine}"] if machine else []
        if not all(shutil.which(name) for name in compiler + emulator):
            print(f"{machine}: no {compiler[0]} or no qemu-{machine}")
            continue
        for level in ("-O1", "-O2", "-Os"):
            program = build(compiler, level)
            done = subprocess.run([*emulator, program], stdout=subprocess.PIPE, text=True)
            if done.returncode == 77:
                sys.exit(77)
            assert done.returncode == 0, f"{machine} {level}: {done.stdout}"
            if machine:
                number = check_ends(program, tools, machine)
                assert number >= 10, f"{machine}: only {number} sections were found"
        print(f"{machine or 'this machine'}: {done.stdout.strip()}")
