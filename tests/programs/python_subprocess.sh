#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# python3, its threads allocating from Stook, starts programs by vfork (subprocess), posix_spawn and
# fork (multiprocessing), in either mode; what they answer is right.
set -uo pipefail
stook=$STOOK_BUILD_DIR/bin/stook
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONMALLOC=malloc
unset LD_PRELOAD STOOK_REPORT STOOK_REPORT_FILE

cat >"$work/spawn.py" <<'PYTHON'
import multiprocessing, os, subprocess, sys, threading

stop = False

def churn(number):
    kept = {}
    i = 0
    while not stop:
        kept[i % 997] = [str(i) * (i % 7), bytes(i % 3000), {i: number}]
        i += 1

def square(n):
    return sum([n] * n)

def main():
    global stop
    threads = [threading.Thread(target=churn, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for i in range(12):
        done = subprocess.run([sys.executable, "-S", "-c", f"print({i} * 7)"] if i % 10 == 0
                              else ["/bin/echo", str(i * 7)], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == f"{i * 7}\n", done
        child = os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {i}"], os.environ)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == i
        child = os.fork()
        if child == 0:
            made = [bytes(n) for n in range(3000)]
            os._exit(len(made) % 251)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3000 % 251
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(square, range(200)) == [n * n for n in range(200)]
    stop = True
    for thread in threads:
        thread.join()
    print("all well")

main()
PYTHON

for mode in rseq locked; do
    STOOK_MODE=$mode "$stook" run --report-format json --report-file "$work/report" -- \
        python3 "$work/spawn.py" >"$work/out" 2>"$work/err"
    status=$?
    if [ $status != 0 ] || [ "$(cat "$work/out")" != "all well" ]; then
        echo "FAILED: $mode: status $status"
        cat "$work/out" "$work/err"
        exit 1
    fi
    # Stook served it: the report is of this run and has seen its objects.
    python3 - "$work/report" $mode <<'PYTHON' || exit 1
import json, sys

report = json.load(open(sys.argv[1]))
peak = report["totals"]["peak_bytes"]
print(f"{report['mode']}: {peak} bytes at most came from Stook")
assert peak > 2 << 20
assert report["mode"] in (sys.argv[2], "locked")
PYTHON
done
