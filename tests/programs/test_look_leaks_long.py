#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload rseq
# labels: long
# timeout: 900
"""What `stook leaks` names in real programs that rest: no object beyond those that one search names while all their threads
stand still."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
work = tempfile.TemporaryDirectory()
CLEAN = {key: value for key, value in os.environ.items() if not re.match(r"STOOK_|LD_PRELOAD", key)}
SQL = "create table t(a integer primary key, b text);\n" + "".join(f"insert into t(b) values('row {i * 7919 % 10007}');\n" for i in range(3000)) + \
      "create index i on t(b);\nselect count(*), 'loaded' from t where b > 'row 5';\n"
PERL = "my %h; $h{$_ % 5000} .= \"x$_\" for 1..60000; my @s = map { {id => $_, n => [1..5]} } 1..4000; $| = 1; print \"loaded\\n\"; <STDIN>; print scalar @s"
PYTHON = "import json\nkeep = [json.loads(json.dumps({str(i): [i] * 9})) for i in range(9000)]\nprint('loaded', flush=True)\ninput()"
PROGRAMS = {"sqlite3": (["sqlite3", ":memory:"], SQL), "perl": (["perl", "-e", PERL], ""), "python3": (["python3", "-c", PYTHON], ""),
            "redis-server": (["redis-server", "--port", "0", "--unixsocket", f"{work.name}/redis", "--save", ""], None),
            "bash": (["bash", "--norc"], "for i in {1..2000}; do a[$i]=${i}x; done; echo loaded\n")}


def load_redis():
    for _ in range(200):
        if os.path.exists(f"{work.name}/redis"):
            break
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-s", f"{work.name}/redis", "-n", "20000", "-r", "5000", "-d", "100", "-t", "set,lpush,hset", "-q"],
                   stdout=subprocess.DEVNULL, check=True)
    time.sleep(0.3)


def rest(pid):
    """It waits for what does not come."""
    for _ in range(500):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "S":
                return
        time.sleep(0.01)


for name, (command, text) in PROGRAMS.items():
    if not shutil.which(command[0]):
        print(f"{name} is not installed")
        continue
    process = subprocess.Popen([STOOK, "run", "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**CLEAN, "STOOK_TAGS": "1"})
    if text is None:
        load_redis()
    else:
        process.stdin.write(text)
        process.stdin.flush()
        while "loaded" not in (line := process.stdout.readline()):
            assert line, name
    rest(process.pid)
    seen = {}
    for how in (("--wait", "0.3"), ("--stop",)):
        done = subprocess.run([STOOK, "leaks", "--json", *how, str(process.pid)], stdout=subprocess.PIPE, text=True, timeout=300, check=True)
        seen[how[0]] = json.loads(done.stdout)
    process.kill()
    process.communicate()
    lost = {how: {kind: report[kind]["objects"] for kind in ("lost", "lost_behind", "possible", "reachable")} for how, report in seen.items()}
    print(name, lost)
    live, still = lost["--wait"], lost["--stop"]
    assert sum(live.values()) > 100 and sum(still.values()) > 100, (name, lost)
    assert live["lost"] + live["lost_behind"] <= still["lost"] + still["lost_behind"], (name, lost, seen["--wait"]["groups"][:5])
