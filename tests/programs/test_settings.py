#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""Settings: stook info --settings lists the table with what the environment made of it; bad values and
unknown names are named in a warning, once, with and without preloading; stook(1) says what the table says."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["STOOK_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["STOOK_BUILD_DIR"])
STOOK = BUILD / "bin/stook"
LIBRARY = BUILD / "lib/libstook-malloc.so"
# Sanitizers' malloc comes first, and so does one under a prefix.
PRELOAD = LIBRARY.exists() and not any(key.endswith("SAN_OPTIONS") for key in os.environ)
CLEAN = {key: value for key, value in os.environ.items()
         if not re.match(r"STOOK_(?!SOURCE_DIR|BUILD_DIR|TEST_DIR)|MALLOC_|LD_PRELOAD", key)}
KIND = {"number", "bytes", "choice", "signal", "CPUs", "text", "letters", "words", "file"}
work = tempfile.TemporaryDirectory()


def run(*command, leader=False, status=0, **environment):
    """`leader`: of a process group, as a shell with job control starts its jobs."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**CLEAN, **environment}, cwd=work.name, start_new_session=leader)
    assert done.returncode == status, (command, done.returncode, done.stderr)
    return done


def table(**environment):
    done = run(STOOK, "info", "--settings", "--json", **environment)
    known = json.loads(done.stdout)
    return {row["name"]: row for row in known["settings"]}, known["unknown"], done.stderr


# ---- the table ------------------------------------------------------------------------------------
rows, unknown, said = table()
assert len(rows) > 20 and not unknown and not said, said
for row in rows.values():
    assert row["source"] == "default" and row["written"] is None and row["type"] in KIND, row
    assert row["sentence"].endswith(".") and row["takes"], row
assert rows["STOOK_RESERVE"]["value"] == 32 << 20 and rows["STOOK_RESERVE"]["unit"] == "bytes"
assert rows["STOOK_LIMIT"]["value"] is None and rows["STOOK_LIMIT"]["least"] == 1
assert rows["STOOK_TAGS"]["value"] == "0" and rows["STOOK_MODE"]["value"] == "rseq"
assert rows["STOOK_HUGE_PAGES"]["words"] == "never full always"

wrong = {"STOOK_LIMIT": "much", "STOOK_MODE": "lock", "STOOK_RESEVE": "1M"}
rows, unknown, said = table(STOOK_RESERVE="3M", STOOK_VIEW="1", STOOK_TOPOLOGY="node:2 core:x",
                            **wrong)
assert (rows["STOOK_RESERVE"]["value"], rows["STOOK_RESERVE"]["source"]) == (3 << 20, "environment")
assert rows["STOOK_RESERVE"]["written"] == "3M" and rows["STOOK_VIEW"]["value"] == "1"
for name in ("STOOK_LIMIT", "STOOK_MODE"):
    assert rows[name]["source"] == "bad value ignored", rows[name]
    assert rows[name]["value"] == {"STOOK_MODE": "rseq"}.get(name) and "STOOK_TOPOLOGY=node:2 core:x is ignored" in said, said
    assert said.count(f"stook: {name}={rows[name]['written']} is ignored: ") == 1, said
assert unknown == ["STOOK_RESEVE"]
assert said.count("stook: STOOK_RESEVE is no setting: the nearest is STOOK_RESERVE ") == 1, said

text = run(STOOK, "info", "--settings", STOOK_RESERVE="3M", **wrong).stdout
assert re.search(r"^STOOK_RESERVE +3M  \(environment\)$", text, re.M), text
assert re.search(r"^STOOK_LIMIT +-  \(bad value ignored: much\)$", text, re.M), text
assert re.search(r"^STOOK_CACHED_MAX +256M  \(default\)$", text, re.M), text
assert "STOOK_RESEVE is no setting\n" in text
for name, row in rows.items():
    assert re.search(rf"^{name} .*\n    {re.escape(row['sentence'])}\n    Takes "
                     rf"{re.escape(row['takes'])}; default {row['default'] or 'none'}\.$", text, re.M), name
run(STOOK, "info", "--setings", status=2)

# ---- stook run: its options, and warnings for the whole tree ---------------------------------------
inside = run(STOOK, "run", "--reserve", "5M", "--report-file", "r.%p", "--", STOOK, "info", "--settings",
             "--json", STOOK_CACHED_MAX="7M").stdout
rows = {row["name"]: row for row in json.loads(inside)["settings"]}
assert (rows["STOOK_RESERVE"]["value"], rows["STOOK_RESERVE"]["source"]) == (5 << 20, "stook run")
assert rows["STOOK_REPORT"]["source"] == rows["STOOK_PID"]["source"] == "stook run"
assert rows["STOOK_CACHED_MAX"]["source"] == "environment"
assert rows["STOOK_LIMIT"]["source"] == "default"
for option in ("--reserve", "--limit", "--mode"):
    said = run(STOOK, "run", option, "12T", "true", status=125).stderr
    assert f"{option} takes " in said and "not 12T" in said, said
said = run(STOOK, "run", "--trace", "t", "--trace-limit", "1K", "true", status=125).stderr
assert "at least 68K, not 1K" in said, said

# ---- once in a job, not once a process ------------------------------------------------------------
SCRIPT = 'for i in 1 2 3; do /bin/true; /bin/echo $STOOK_LIMIT,$STOOK_RESEVE; done; :'
for leader in (False, True):
    # stook run has warned, of all; values that nobody uses are gone, names that are others' stay.
    done = run(STOOK, "run", "--", "sh", "-c", SCRIPT, leader=leader, **wrong)
    assert done.stdout == 3 * ",1M\n", done.stdout
    for name in wrong:
        assert done.stderr.count(name) == 1, (leader, done.stderr)
    assert not run(STOOK, "run", "--", STOOK, "run", "sh", "-c", "true", leader=leader,
                   STOOK_TEST_X="1", STOOK_SLOW="1", STOOK_TOPOLOGY="node:2").stderr
    nested = run(STOOK, "run", "--", STOOK, "run", "sh", "-c", "true", leader=leader, **wrong).stderr
    assert nested.count("STOOK_RESEVE") == 1, nested
    if PRELOAD:
        preloaded = {"LD_PRELOAD": str(LIBRARY), "STOOK_RESEVE": "1M", "STOOK_TOPOLOGY": "node:2"}
        said = run("sh", "-c", SCRIPT, leader=leader, **preloaded).stderr
        assert said.count("STOOK_RESEVE is no setting") == leader, (leader, said)
        assert said.count("STOOK_TOPOLOGY is no setting: the nearest is that of the library in lib/stook/sim") == leader, said
        # A bad value is the business of each process that would use it.
        said = run("sh", "-c", "/bin/true; :", STOOK_RESERVE="x", LD_PRELOAD=str(LIBRARY)).stderr
        assert said.count("stook: STOOK_RESERVE=x is ignored") == 2, said

# The report's path is read at the start: a program may overwrite its environment.
if PRELOAD:
    WIPE = "import ctypes, os; c = ctypes.CDLL(None); p = c.getenv; p.restype = ctypes.c_void_p\n" \
           "for n in (b'STOOK_REPORT', b'STOOK_REPORT_FILE'):\n" \
           "    at = p(n); ctypes.memset(at, ord('#'), len(ctypes.string_at(at)))\n"
    run(sys.executable, "-c", WIPE, LD_PRELOAD=str(LIBRARY), STOOK_REPORT="1,json",
        STOOK_REPORT_FILE="wiped")
    assert json.loads((pathlib.Path(work.name) / "wiped").read_text())["mode"]
    run("true", LD_PRELOAD=str(LIBRARY), STOOK_REPORT="1", STOOK_PID="1",
        STOOK_REPORT_FILE="never")
    assert not (pathlib.Path(work.name) / "never").exists()

# ---- what is written about them ---------------------------------------------------------------------
problems = []
rows = table()[0]
page = (ROOT / "man/stook.1").read_text(encoding="utf-8")
section = page.split(".SH ENVIRONMENT\n")[1].split(".SH ")[0]
entries = re.findall(r"^\.TP\n\.B (\S+)\n(.*?)(?=^\.TP\n|\Z)", section, re.M | re.S)
documented = [name for name, _ in entries]
for before, name in zip([None, *rows], rows):
    if name not in documented:
        row = rows[name]
        takes = row["takes"].replace("-", "\\-")
        place = f"behind that of {before}" if before else "at the start"
        problems.append(f"stook.1, ENVIRONMENT: no entry of {name}; {place} write\n.TP\n.B {name}\n{row['sentence']}\n"
                        f"Takes {takes}; default {row['default'] or 'none'}.")
if sorted(documented) == sorted(rows) and documented != list(rows):
    problems.append(f"stook.1, ENVIRONMENT: not in the order of settings.def, which is {list(rows)}")
for name, entry in entries:
    row = rows.get(name)
    if not row:
        problems.append(f"stook.1, ENVIRONMENT: {name} is no setting")
    first = " ".join(entry.replace("\\-", "-").split())
    wanted = row and f"{row['sentence']} Takes {row['takes']}; default {row['default'] or 'none'}."
    if row and not (first + " ").startswith(wanted + " "):
        problems.append(f"stook.1: {name}: not \"{wanted}\"")
# NAME=VALUE in a document, and rows of its tables, name settings; -DNAME=VALUE are options of the build.
documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "man").glob("*.[137]"),
             *(ROOT / "include/stook").glob("*.h")]
for document in documents:
    content = document.read_text(encoding="utf-8").replace("\\-", "-")
    used = re.findall(r"(?<![-\w])(?<!-D)(STOOK_[A-Z_]+)=(?!=)", content)
    used += re.findall(r"^\| `?(STOOK_[A-Z_]+)`?,? ", content, re.M) if document.suffix == ".md" else []
    # What a program defines before it includes kmem.h, what a test gives a page, and what only lib/stook/sim reads,
    # are no settings.
    used = [name for name in used if not name.startswith("STOOK_KMEM_") and name not in ("STOOK_TOPOLOGY",)]
    for name in set(used) - set(rows):
        problems.append(f"{document.relative_to(ROOT)}: {name} is no setting")
# Nothing else reads the environment.
for source in (ROOT / "src").rglob("*.c"):
    if re.search(r"\b(secure_)?getenv\(", source.read_text(encoding="utf-8")):
        problems.append(f"{source.relative_to(ROOT)} reads the environment by itself")
print(*problems, sep="\n")
print(f"{len(rows)} settings, {len(documents)} documents")
sys.exit(bool(problems))
