# SPDX-License-Identifier: MIT
"""What the tests of stook's commands share: the tool, prog_seen under it, and an environment without settings."""
import json
import os
import re
import subprocess

BUILD, SOURCE, TESTS = (os.environ[f"STOOK_{name}_DIR"] for name in ("BUILD", "SOURCE", "TEST"))
STOOK = os.path.join(BUILD, "bin/stook")
PROGRAM = os.path.join(TESTS, "prog_seen")
TOPOLOGIES = os.path.join(SOURCE, "topologies")
SANITIZED = any(key.endswith("SAN_OPTIONS") for key in os.environ)
CLEAN = {key: value for key, value in os.environ.items()
         if not re.match(r"STOOK_(?!SOURCE_DIR|BUILD_DIR|TEST_DIR|MODE)|LD_PRELOAD", key)}


def stook(*arguments, status=0, before=(), cwd=None, **environment):
    """What a command says; on standard error where it must fail."""
    done = subprocess.run([*before, STOOK, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=550, check=False, cwd=cwd,
                          env={**os.environ, **environment})
    assert done.returncode == status, (arguments, done)
    return done.stdout if status == 0 else done.stderr


def lab(*arguments, **how):
    return stook("lab", *arguments, **how)


def lab_json(*arguments):
    return json.loads(lab(*arguments, "--json"))


def start(*arguments, program=PROGRAM, **environment):
    """prog_seen, which waits for do()."""
    process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    assert process.stdout.readline() == "ready\n", program
    return process


def do(process, line, answer="done\n"):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == answer, line
