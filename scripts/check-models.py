#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the models of the protocols in tests/models; docs/models.md says what they are.

check-models.py [-j N] [NAME...]    all models, or those whose names contain one of these: each as it is,
                                    and with each of its planted faults, which must be found
check-models.py --anchors [SOURCE]  only whether the code that the steps stand for is still there
check-models.py --trace NAME FAULT  how a Promela model comes to the error of a planted fault
check-models.py --herd COMMAND      compares each program for aarch64 with what herd7 says
check-models.py --self-test         wrong models, planted in a temporary folder, must be found

The last line of the first is "N passed, N failed".
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/models"))
import litmus  # noqa: E402

# No model needs more: -w is the hash table's logarithm, -m the longest path.
PAN = ["-w24", "-m100000"]
COMPILE = ["-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=3000", "-DNOFAIR"]
HERD_SECONDS = 10  # of CPU time, a program


# ---- the code that steps stand for --------------------------------------------------------------

def squeezed(text):
    return re.sub(r"\s+", " ", text.replace("\\\n", " ")).strip()


def body_of(text, name):
    """The text of a function's definitions, or of a macro's, in a C file; None: there is none."""
    bodies = []
    for match in re.finditer(rf"^#define {re.escape(name)}\b(?:.*\\\n)*.*\n", text, re.M):
        bodies.append(match[0])
    for match in re.finditer(rf"^\w[^\n;{{}}]*\b{re.escape(name)}\([^;{{}}]*\)[^;{{}}]*\n?{{\n?.*?^}}", text, re.M | re.S):
        bodies.append(match[0])
    return "\n".join(bodies) if bodies else None


def anchors(source, path):
    """Problems with the lines "code: FILE FUNCTION | TEXT" of a model."""
    found = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.search(r"code: (\S+) (\w+) \| (.*?)(?:\s*\*/.*)?$", line)
        if "code: " in line and not match:
            yield f"{path.name}:{number}: not understood: {line.strip()}"
        if not match:
            continue
        found += 1
        file, name, text = match.groups()
        text = squeezed(text)
        if not (source / file).is_file():
            yield f"{path.name}:{number}: there is no {file}"
            continue
        body = body_of((source / file).read_text(), name)
        if body is None:
            yield f"{path.name}:{number}: {file} has no {name}()"
        elif text not in squeezed(body):
            yield f"{path.name}:{number}: {name}() of {file} has not: {text}"
    if found == 0 and path.name != "known.litmus":
        yield f"{path.name}: no step names its code"


# ---- Promela ------------------------------------------------------------------------------------

def planted(path):
    """The faults that a Promela model's head names."""
    head = path.read_text().partition("*/\n/*")[2].partition("*/")[0]
    return re.findall(r"^ \*(?: Faults:|        ) ([A-Z][A-Z0-9_]+)  ", head, re.M)


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)


def promela(path, fault, trace=False):
    """One search: (right, what it says)."""
    with tempfile.TemporaryDirectory() as folder:
        define = [f"-D{fault}"] if fault else []
        made = run(["spin", *define, "-a", str(path)], cwd=folder)
        if made.returncode == 0:
            made = run(["gcc", "-O1" if fault else "-O2", *COMPILE, "-o", "pan", "pan.c"], cwd=folder)
        if made.returncode != 0:
            return False, made.stdout
        said = run(["./pan", *PAN], cwd=folder).stdout
        errors = re.search(r"errors: (\d+)", said)
        states = re.search(r"(\d+) states, stored", said)
        what = re.search(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", said, re.M)
        # The search must have come to its end.
        cut = re.search(r"max search depth too small|out of memory|Search not completed", said)
        if not errors or (not fault and cut and errors[1] == "0"):
            return False, said
        if (trace or not fault) and errors[1] != "0":
            steps = run(["spin", *define, "-t", "-p", "-g", str(path)],
                        cwd=folder).stdout if os.path.exists(f"{folder}/{path.name}.trail") else ""
            if not steps or "cannot find" in steps:
                run(["cp", f"{path}", folder])
                steps = run(["spin", *define, "-t", "-p", "-g", path.name], cwd=folder).stdout
            what_steps = f"{what[1] if what else said}\n{steps}"
            return (bool(fault), what_steps)
        if fault:
            return errors[1] != "0", f"found: {what[1]}" if what else "not found"
        return True, f"{states[1]} states"


# ---- aarch64 ------------------------------------------------------------------------------------

def explain(test, fault):
    """One test for aarch64 with a fault or none: (right, what it says)."""
    programs = list(litmus.variants(test, fault))
    if fault:
        for program in programs:
            for condition in test.forbid:
                if program.reaches(condition):
                    return True, f"found: {condition} ({program.what})"
        return False, "not found"
    for condition in test.forbid:
        for program in programs:
            if program.reaches(condition):
                return False, f"is allowed:\n{program.herd(condition)}"
    for condition in test.allow:
        if not any(program.reaches(condition) for program in programs):
            return False, f"is never so: {condition}"
    return True, f"{len(programs)} program{'s' if len(programs) > 1 else ''}"


def compare(test, command):
    """What arm.py and herd7 say of each program: (same, what it says)."""
    same = late = 0
    for fault in [None, *test.faults]:
        for program in litmus.variants(test, fault):
            for condition in test.forbid + ([] if fault else test.allow):
                with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
                    file.write(program.herd(condition))
                    file.flush()
                    done = run(["prlimit", f"--cpu={HERD_SECONDS}", *shlex.split(command), "-speedcheck", "fast",
                                file.name])
                if done.returncode < 0:
                    late += 1
                    continue
                said = done.stdout
                verdict = re.search(r"^Observation \S+ (\w+)", said, re.M)
                if not verdict:
                    return False, said + program.herd(condition)
                if (verdict[1] != "Never") != program.reaches(condition):
                    return False, f"herd7 says {verdict[1]}:\n{program.herd(condition)}"
                same += 1
    return True, f"{same} verdicts are the same" + (f", {late} took herd7 too long" if late else "")


# ---- all ----------------------------------------------------------------------------------------

def work(item):
    kind, path, name, fault, command = item
    begin = time.monotonic()
    if kind == "code":
        said = list(anchors(ROOT, path))
        right, what = not said, "\n".join(said) or "the code is there"
    elif kind == "promela":
        right, what = promela(path, fault)
    else:
        test = next(t for t in litmus.read(path) if t.name == name)
        right, what = compare(test, command) if command else explain(test, fault)
    return right, f"{name}{' ' + fault if fault else ''}: {what}", time.monotonic() - begin


def items(folder, command=None):
    """All that is to be checked, what takes long first."""
    for path in sorted(folder.glob("spin/*.pml"), key=lambda p: (p.stem not in ("slot", "stock"), p.stem)):
        for fault in [None, *planted(path)] if not command else []:
            yield "promela", path, f"spin/{path.stem}", fault, None
    for path in sorted(folder.glob("aarch64/*.litmus")):
        for test in litmus.read(path):
            for fault in [None, *test.faults] if not command else [None]:
                yield "arm", path, test.name, fault, command
    for path in sorted([*folder.glob("spin/*.pml"), *folder.glob("aarch64/*.litmus")]) if not command else []:
        yield "code", path, f"{path.parent.name}/{path.name}", None, None


def check_all(folder, names, jobs, command=None):
    begin, passed, failed = time.monotonic(), 0, []
    todo = [item for item in items(folder, command) if not names or any(n in item[2] for n in names)]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for right, what, seconds in pool.map(work, todo):
            passed += right
            if not right:
                failed.append(what.splitlines()[0])
            print(f"{'passed' if right else 'FAILED'}  {what}" + (f" ({seconds:.0f} s)" if seconds >= 1 else ""), flush=True)
    for what in failed:
        print(f"failed: {what}")
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{passed} passed, {len(failed)} failed")
    return bool(failed) or not passed


WRONG = {
    "reached": "test t\ninit x=0\ncpu P0\n str #1, [x]\ncpu P1\n ldr x0, [x]\nforbid P1.x0=1\n",
    "never": "test t\ninit x=0\ncpu P0\n str #1, [x]\ncpu P1\n ldr x0, [x]\nallow P1.x0=2\n",
    "not found": "test t\ninit x=0 y=0\nfault f\ncpu P0\n @f: str #1, [y]\n str #1, [x]\n"
                 "cpu P1\n ldr x0, [x]\nforbid P1.x0=2\n",
}


def self_test():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.c").write_text("int declared(int a);\nint defined(int a)\n{\n    return a +\n        1;\n}\n"
                                    "#define MACRO(a) \\\n    f(a)\nint other(void)\n{\n    g();\n}\n")
        model = folder / "m.pml"
        for line, right in (("a.c defined | return a + 1;", True), ("a.c defined | g();", False),
                            ("a.c declared | a", False), ("a.c MACRO | f(a)", True), ("a.c MACRO | g()", False),
                            ("b.c defined | a", False), ("a.c gone | a", False), ("a.c defined", False)):
            model.write_text(f"/* code: {line} */\n")
            if (not list(anchors(folder, model))) != right:
                sys.exit(f"self-test: code: {line}")
        model.write_text("/* nothing */\n")
        if not list(anchors(folder, model)):
            sys.exit("self-test: a model without code")
        for what, text in WRONG.items():
            path = folder / "w.litmus"
            path.write_text(text)
            test = litmus.read(path)[0]
            if all(explain(test, fault)[0] for fault in [None, *test.faults]):
                sys.exit(f"self-test: {what}")
        # What is known of aarch64 is wrong of a machine that keeps all stores in order, and the other way round.
        known = {test.name: test for test in litmus.read(ROOT / "tests/models/aarch64/known.litmus")}
        for test in known.values():
            if not explain(test, None)[0]:
                sys.exit(f"self-test: {test.name}")
            test.forbid, test.allow = test.allow, test.forbid
            if explain(test, None)[0]:
                sys.exit(f"self-test: {test.name}, turned round")
    print("self-test: passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=int(os.environ.get("JOBS", os.cpu_count() or 1)))
    parser.add_argument("--anchors", nargs="?", const=str(ROOT))
    parser.add_argument("--trace", nargs=2)
    parser.add_argument("--herd")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    folder = ROOT / "tests/models"

    if options.self_test:
        self_test()
    elif options.anchors:
        said = [what for path in sorted([*folder.glob("spin/*.pml"), *folder.glob("aarch64/*.litmus")])
                for what in anchors(pathlib.Path(options.anchors), path)]
        print("\n".join(said) or "models: the code of each step is there")
        sys.exit(bool(said))
    elif options.trace:
        print(promela(folder / f"spin/{options.trace[0]}.pml", options.trace[1], True)[1])
    else:
        sys.exit(check_all(folder, options.names, options.j, options.herd))


if __name__ == "__main__":
    main()
