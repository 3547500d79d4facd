#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/check-all.py runs each check target of the Makefile beside it, goes on after one that fails, and says what each
counted and took."""
import json
import os
import shutil
import subprocess
import tempfile

SCRIPT = os.path.join(os.environ["STOOK_SOURCE_DIR"], "scripts/check-all.py")
MAKEFILE = """\
check:
\t@echo "1 passed, 1 failed"
\t@echo "12 passed, 0 failed"
check-bad:
\t@echo "5 passed, 1 skipped, 2 failed"; exit 1
check-broken:
\t@echo "7 passed, 0 failed"; exit 1
check-silent:
\t@true
check-aarch64 check-all:
\t@echo is run by another; exit 1
build:
\t@exit 1
"""


def counted(done):
    rows = json.loads(done.stdout.splitlines()[-1])
    assert rows["seconds"] == sum(row["seconds"] for row in rows["targets"]), rows
    return [(row["target"], row["passed"], row["failed"]) for row in (*rows["targets"], rows)]


with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "scripts"))
    script = shutil.copy(SCRIPT, os.path.join(folder, "scripts"))
    with open(os.path.join(folder, "Makefile"), "w", encoding="utf-8") as file:
        file.write(MAKEFILE)

    def run(*targets):
        return subprocess.run([script, *targets], stdout=subprocess.PIPE, text=True, check=False)

    done = run()
    assert done.returncode == 1, done
    assert counted(done) == [("check", 12, 0), ("check-bad", 5, 2), ("check-broken", 7, 1), ("check-silent", 1, 0),
                             ("all", 25, 3)], done.stdout
    assert done.stdout.splitlines()[-3].split()[:3] == ["check-silent", "1", "0"], done.stdout
    done = run("check-silent", "check")
    assert done.returncode == 0 and counted(done) == [("check-silent", 1, 0), ("check", 12, 0), ("all", 13, 0)], done
    assert run("build").returncode == 2
