#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 900
# redis-server, which Debian links with jemalloc, under redis-benchmark, saving from a forked child
# meanwhile; what it saved is what it holds, and what it counts is what Stook handed out.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need redis-server redis-benchmark redis-cli
socket=$work/socket
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; rm -rf "$work"' EXIT

cli() { redis-cli -s "$socket" "$@"; }
info() { cli info "$1" | tr -d '\r' | sed -n "s/^$2://p"; }
fail() {
    echo "FAILED: $*" >&2
    cat "$work"/*.log >&2
    exit 1
}

mkdir "$work/data"
start() { # stook run becomes the server
    "$stook" run --report-format json --report-file "$work/$1.report" -- redis-server --port 0 \
        --unixsocket "$socket" --dir "$work/data" --save "" --enable-debug-command yes --appendonly no --daemonize no \
        --logfile "$work/$1.log" >/dev/null &
    server=$!
    for _ in $(seq 400); do
        [ "$(cli ping 2>/dev/null)" != PONG ] || return 0
        sleep 0.05
    done
    fail "redis-server does not start"
}
stop() {
    local status=0
    cli shutdown nosave >/dev/null || true
    wait "$server" || status=$?
    server=
    [ $status = 0 ] || fail "redis-server ended with $status"
}
benchmark() {
    redis-benchmark -s "$socket" -q "$@" | tr '\r' '\n' | grep -E 'requests per second|rror' |
        tee "$work/benchmark"
    ! grep -qi error "$work/benchmark" || fail "redis-benchmark saw errors"
}
contents() {
    cli --scan | sort | md5sum
    cli debug digest
    cli hgetall myhash | sort
    cli zrange myzset 0 -1 withscores | md5sum
    cli lrange mylist 0 -1 | md5sum
    cli smembers myset | sort | md5sum
}

start redis
echo "mem_allocator: $(info memory mem_allocator)"
grep -q libstook-malloc "/proc/$server/maps" || fail "the library is not loaded"
benchmark -n 100000 -r 50000 -d 100 -t set,get,incr,lpush,rpop,sadd,hset,zadd,mset
cli bgsave
benchmark -n 100000 -r 50000 -d 900 -P 8 -t set,get,hset,lpush
for _ in $(seq 600); do
    [ "$(info persistence rdb_bgsave_in_progress)" = 1 ] || break
    sleep 0.1
done
[ "$(info persistence rdb_last_bgsave_status)" = ok ] || fail "the background save"
cli save
keys=$(cli dbsize)
[ "$keys" -gt 10000 ] || fail "only $keys keys"
contents >"$work/before"
used=$(info memory used_memory)
stop
served redis redis-server 10000
"$python" - "$work/redis.report" "$used" <<'PYTHON'
import json, sys

# used_memory is what redis asked malloc_usable_size() for, or its own sum of sizes.
totals, large = (json.load(open(sys.argv[1]))[key] for key in ("totals", "large"))
peak, used = totals["peak_bytes"] + large["resident_bytes"], int(sys.argv[2])
print(f"redis counts {used >> 20} MiB, Stook held up to {peak >> 20} MiB")
assert used < peak < 4 * used + (64 << 20)
PYTHON

start again
[ "$(cli dbsize)" = "$keys" ] || fail "it came back with $(cli dbsize) keys of $keys"
contents | diff - "$work/before" >&2 || fail "other contents"
cli flushall >/dev/null
[ "$(cli dbsize)" = 0 ]
stop
served again redis-server 10000
