#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
# labels: more
# Everyday programs and python3 under STOOK_HARDEN=full, and some under each of its words: the same output, Stook served
# them, and nothing is reported.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need perl python3

for script in everyday python; do
    STOOK_HARDEN=full bash "$STOOK_SOURCE_DIR/tests/programs/preload_$script.sh"
done
export PYTHONMALLOC=malloc PYTHONHASHSEED=1
for word in order zero quarantine guards types tokens; do
    export STOOK_HARDEN=$word
    same "perl-$word" perl perl -e 'my %h; $h{$_ % 999} .= "x$_" for 1..30000; print length(join ",", map { $h{$_} } 1..998), "\n"'
    same "python-$word" 'python*' "$python" -c '
import json, threading
data = [{"k%d" % i: [i / 7, "v" * (i % 97), None], "n": i} for i in range(5000)]
threads = [threading.Thread(target=json.loads, args=(json.dumps(data),)) for n in range(6)]
[t.start() for t in threads], [t.join() for t in threads]
print(len(json.dumps(data)))'
done
