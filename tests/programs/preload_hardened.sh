#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
# Everyday programs and python3 under STOOK_HARDEN=full: the same output, Stook served them, and nothing is reported.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need perl xz python3 openssl
cd "$STOOK_SOURCE_DIR"

quiet() { # NAME...: no process of it reported a corruption
    for name in "$@"; do
        if grep -n 'stook:' "$work/$name.with.err"; then
            echo "$name reported something" >&2
            exit 1
        fi
    done
}

export STOOK_HARDEN=full
same ls ls ls -lR /usr/include/linux
same sort sort sort --parallel=4 -k2 src/*/*.c include/stook/*.h
same bash bash bash -c 'for i in $(seq 100); do a[i]=$(printf "%*s" $i x); done; echo "${a[@]}" | md5sum'
tar -cf "$work/tree.tar" src
same xz xz xz -T2 --block-size=65536 -c "$work/tree.tar"
same openssl openssl openssl dgst -sha256 src/*/*.c
same perl perl perl -e '
    my %h; $h{$_ % 1000} .= "x$_" for 1..50000;
    my @sorted = sort { length $h{$a} <=> length $h{$b} || $a <=> $b } keys %h;
    print scalar(@sorted), " ", unpack("%32C*", join ",", map { "$_=" . substr($h{$_}, 0, 50) } @sorted), "\n"'
quiet ls sort bash xz openssl perl

cat >"$work/work.py" <<'PYTHON'
import json, random, subprocess, sys, threading

random.seed(1)
data = [{"k%d" % i: [random.random(), "v" * (i % 97), None], "n": i} for i in range(5000)]
text = json.dumps(data)
assert json.loads(text) == data
results = [None] * 6


def thread(n):
    kept = [[str(i) * (i % 9), (i, n)] for i in range(3000)]
    results[n] = sum(len(a) for a, _ in kept)


threads = [threading.Thread(target=thread, args=(n,)) for n in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
done = subprocess.run([sys.executable, "-c", "print(sum(len(str(i)) for i in range(10000)))"],
                      stdout=subprocess.PIPE, text=True, check=True)
print(len(text), results, done.stdout)
PYTHON
export PYTHONMALLOC=malloc PYTHONHASHSEED=1
same python 'python*' "$python" "$work/work.py"
quiet python
# Each by itself.
for word in order zero quarantine guards types tokens; do
    export STOOK_HARDEN=$word
    same "perl-$word" perl perl -e 'my %h; $h{$_ % 999} .= "x$_" for 1..30000; print length(join ",", map { $h{$_} } 1..998), "\n"'
    same "python-$word" 'python*' "$python" "$work/work.py"
    quiet "perl-$word" "python-$word"
done
