#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces of programs that many machines have, for stook lab trace.
#
#   record-traces.sh DIR [NAME]...   all of them into DIR, or those that are named:
#
#     redis      redis-server under redis-benchmark, 50 clients over a socket: strings, lists, hashes
#     redis-io   a twentieth of that with --io-threads 4
#     cc1        gcc's compiler proper on Stook's library as one file, -O2
#     lld        ld.lld, four threads, on the C and the C++ library's archives
#
# Nothing is installed: what is missing is named, and then the status is 1.  STOOK: the tool, if not
# build/bin/stook; REQUESTS: of redis-benchmark, of each kind, 50000 if not said.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
stook=$(realpath "${STOOK:-$source/build/bin/stook}")
[ $# -ge 1 ] || {
    sed -n 's/^# \?//; 3,12p' "$0" >&2
    exit 2
}
[ -x "$stook" ] || {
    echo "$stook is missing: make build, or STOOK=..." >&2
    exit 1
}
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
missing=0

have() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null && return 0
    echo "$1 is missing (Debian: $2)" >&2
    missing=1
    return 1
}

redis() { # NAME REQUESTS OPTION...
    local name=$1 n=$2
    have redis-server redis-server && have redis-benchmark redis-tools || return 0
    "$stook" run --trace "$dir/$name.trace" -- redis-server --port 0 --unixsocket "$work/socket" \
        --dir "$work" --save "" --appendonly no --logfile "$work/log" "${@:3}" &
    server=$!
    for _ in $(seq 200); do
        [ "$(redis-cli -s "$work/socket" ping 2>&1)" != PONG ] || break
        sleep 0.05
    done
    redis-benchmark -s "$work/socket" -q -n "$n" -r 50000 -d 100 -t set,get,incr,lpush,rpop,hset,sadd
    redis-benchmark -s "$work/socket" -q -n "$n" -r 50000 -d 900 -P 8 -t set,get
    redis-cli -s "$work/socket" shutdown nosave || true
    wait "$server"
    server=
}

cc1() {
    local proper
    have gcc gcc || return 0
    proper=$(gcc -print-prog-name=cc1)
    for file in "$source"/src/{base,os,page,slab,sheaf,account,cache,watch,reserve}/*.c; do
        # slot_alloc.c and slot_drain.c have a name in common.
        [ "${file##*/}" = slot_drain.c ] || echo "#include \"$file\""
    done >"$work/all.c"
    gcc -E -D_GNU_SOURCE -DSTOOK_RSEQ=1 -DSTOOK_INLINE_NO_PIN= -I"$source/include" \
        -I"$source/src" "$work/all.c" -o "$work/all.i"
    "$stook" run --trace "$dir/cc1.trace" -- "$proper" -quiet -fpreprocessed -O2 -std=gnu17 \
        "$work/all.i" -o "$work/all.s"
}

lld() {
    local linker archives=()
    linker=$(command -v ld.lld || compgen -c ld.lld- | sort -V | tail -1 || true)
    [ -n "$linker" ] || { have ld.lld lld || return 0; }
    for name in libc.a libm.a libstdc++.a; do
        archives+=("$(gcc -print-file-name=$name)")
    done
    "$stook" run --trace "$dir/lld.trace" -- "$linker" --threads=4 -r -o "$work/all.o" \
        --whole-archive "${archives[@]}"
}

for name in "${@:-redis redis-io cc1 lld}"; do
    for one in $name; do
        case $one in
        redis) redis redis "${REQUESTS:-50000}" ;;
        # Its threads spin for work: where there are fewer CPUs than they it is slow.
        redis-io) redis redis-io $((${REQUESTS:-50000} / 20)) --io-threads 4 --io-threads-do-reads yes ;;
        cc1 | lld) "$one" ;;
        *)
            echo "$one is none of redis, redis-io, cc1, lld" >&2
            exit 2
            ;;
        esac
    done
done
ls -l "$dir"
exit $missing
