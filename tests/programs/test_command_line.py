#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""The command line: names of processes, what was meant, the same beginning of each message, --fail, and completion by bash and
zsh."""
import os
import re
import shutil
import subprocess
import tempfile

from tool import BUILD, PROGRAM, SOURCE, STOOK, TESTS, start, stook

# ---- names of processes -----------------------------------------------------------------------------
folder = tempfile.TemporaryDirectory()
named = os.path.join(folder.name, f"named-{os.getpid()}"[:14])
shutil.copy(PROGRAM, named)
name = os.path.basename(named)
several = [start("first", program=named, LD_LIBRARY_PATH=f"{BUILD}/lib")]
assert f"process {several[0].pid} ({name})" in stook("caches", name)
assert f"process {several[0].pid} ({name})" not in stook("caches", name + "x", status=2)
several.append(start("second one", program=named, LD_LIBRARY_PATH=f"{BUILD}/lib"))
said = stook("caches", name, status=2)
assert f"stook: caches: 2 processes are called {name}; one number is needed:\n" in said, said
assert re.search(rf"^ *{several[0].pid}  .*/{name} first$", said, re.M) and re.search(rf"^ *{several[1].pid}  .*/{name} second one$", said, re.M), said
for command in (["top"], ["stat"], ["walk", "widgets"], ["whatis", "1"], ["leaks"], ["report", "--html", "/dev/null"]):
    line = [command[0], *(command[1:] if command[0] == "report" else []), name, *(command[1:] if command[0] != "report" else [])]
    assert f"stook: {command[0]}: 2 processes are called" in stook(*line, status=2), command
assert "--exe goes with --core" in stook("stat", "--exe", "x", "1", status=2)

# ---- what was meant, and versions --------------------------------------------------------------------
assert stook("-V") == stook("--version") and re.fullmatch(r"stook \d+\.\d+\.\d+\n", stook("-V"))
for wrong, meant in (("lst", "list"), ("cache", "caches"), ("lekas", "leaks"), ("profle", "profile")):
    assert stook(wrong, status=2) == stook("help", wrong, status=2).replace("help: ", "") == f"stook: there is no command {wrong}; did you mean stook {meant}?\n"
assert stook("nothing-like-it", status=2) == "stook: there is no command nothing-like-it; see stook help\n"
assert "there is no command" in stook("x" * 5000, status=2)
overview = re.findall(r"^  (\w+) ", stook("help"), re.M)
assert overview[0] == "run" and overview[-3:] == ["plan", "lab", "help"], overview
for command in overview[:-1]:
    text = stook("help", command)
    assert re.search(r"^exit status: ", text, re.M) and re.search(rf"^example:\n  stook {command}\b", text, re.M), text
    wrong = stook(command, "--no-such-option", status=125 if command == "run" else 2)
    assert wrong.startswith(f"stook: {command}: "), wrong

# ---- leaks as an exit status --------------------------------------------------------------------------
lost = start("wait", program=os.path.join(TESTS, "prog_leaks"), LD_PRELOAD=f"{BUILD}/lib/libstook-malloc.so")
assert subprocess.run([STOOK, "leaks", "--fail", "--wait", "0", str(lost.pid)], stdout=subprocess.DEVNULL, check=False).returncode == 23
assert subprocess.run([STOOK, "leaks", "--wait", "0", str(lost.pid)], stdout=subprocess.DEVNULL, check=False).returncode == 0
lost.kill()


# ---- completion ------------------------------------------------------------------------------------
def completed(*words):
    script = f'''. "{SOURCE}/tools/completion/stook.bash"; PATH="{BUILD}/bin:$PATH"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stook; printf "%s\\n" "${{COMPREPLY[@]}}"'''
    done = subprocess.run(["bash", "-c", script, "bash", "stook", *words], stdout=subprocess.PIPE, text=True, check=True, cwd=folder.name)
    return set(done.stdout.split())


assert completed("l") == {"list", "leaks", "lab"} and set(overview) <= completed("")
assert completed("help", "wh") == {"whatis", "why"}
assert completed("caches", "--s") == {"--sort"} and completed("caches", "--sort", "p") == {"peak"}
assert completed("top", name[:-1]) == {name} and str(several[0].pid) in completed("leaks", "")
assert completed("report", "--html", name[:3]) == {name} and completed("lab", "--pairing", "s") == {"same"}
assert completed("export", "--listen", "") == set()
for process in several:
    process.kill()
if shutil.which("zsh"):
    subprocess.run(["zsh", "-n", f"{SOURCE}/tools/completion/_stook"], check=True)
