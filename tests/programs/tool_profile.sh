#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# stook profile: the program's output, input and status are its own, the profile is of it and not of
# what it starts, exact for a program whose allocations are known, and what wrote none is said.
. "$STOOK_SOURCE_DIR/tests/programs/lib_tool.sh"
program=$STOOK_TEST_DIR/prog_sites
unset "${!STOOK_@}"

said() {
    grep -qE -- "$1" "${2:-err}" || fail "${2:-standard error} does not say \"$1\": $(head -5 "${2:-err}")"
}

# --- a program whose allocations are known -------------------------------------------------------
# Each function keeps the objects of 1000 bytes that it made, 100 and 300; a third frees its 500.
status 5 "$stook" profile --save saved -- "$program" exit 5
[ "$(cat out)" = "made 100, 300 and 500" ] || fail "standard output is not the program's: $(cat out)"
said '^prog_sites, process [0-9]+: [0-9]+ call sites, [0-9]+ allocations'
said '^ *%      live   objects       calls    in all      each  call site, by total$'
said '^ *[0-9.]+ +[0-9.]+ KiB +300 +300 +[0-9]+ KiB +[0-9.]+ (B|KiB)  keep_300'
said '^ *[0-9.]+ +[0-9.]+ KiB +100 +100 +[0-9.]+ KiB +[0-9.]+ (B|KiB)  keep_100'
said '^ *[0-9.]+ +0 B +0 +500 +[0-9]+ KiB +[0-9.]+ (B|KiB)  drop_500'
[ "$(wc -l <err)" -le 15 ] || fail "more than ten sites: $(cat err)"
status 0 "$stook" profile --top 0 --json saved
python3 - out <<'PYTHON' || fail "the saved profile does not say so"
import json, sys
sites = {s["frames"][-1]["function"]: s for s in json.load(open(sys.argv[1]))["sites"] if s["frames"]}
for name, live, total in (("keep_100", 100, 100), ("keep_300", 300, 300), ("drop_500", 0, 500)):
    counts = sites[name]["counts"]
    assert counts["live_objects"] == live and counts["total_objects"] == total, (name, counts)
    assert counts["total_bytes"] % total == 0 and counts["total_bytes"] >= 1000 * total, counts
    assert counts["live_bytes"] * total == counts["total_bytes"] * live, counts
assert sites["large"]["counts"]["live_objects"] == 1
assert sites["large"]["counts"]["live_bytes"] >= 8 << 20
PYTHON
status 5 "$stook" profile --pprof p.gz --collapsed c -- "$program" exit 5
[ ! -s err ] || fail "a table although files were asked for: $(cat err)"
gzip -t p.gz || fail "no gzip"
said ';keep_300.* [0-9]{6}$' c

# --- it is the program's process -----------------------------------------------------------------
status 0 "$stook" profile -- bash -c 'read line; echo "$line"; bash -c "echo inner >&2"; exit 0' <<<'from stdin'
[ "$(cat out)" = "from stdin" ] || fail "standard input: $(cat out)"
[ "$(grep -c ' call sites, ' err)" = 1 ] || fail "not one profile: $(cat err)"
said '^bash, process'
status 143 "$stook" profile -- sh -c 'kill -TERM $$'
said 'wrote no profile: it ended by a signal'
status 0 "$stook" profile -- "$program" _exit 0
said 'wrote no profile: it ended by _exit'
status 127 "$stook" profile -- ./nothing
said 'there is no such program'
[ "$(wc -l <err)" = 1 ] || fail "more than one message: $(cat err)"
status 125 "$stook" profile --save /nowhere/at/all -- true
said '/nowhere/at/all cannot be written'
# Who ends the tool ends the program.
"$stook" profile -- sh -c 'echo $$; exec sleep 60' >out 2>err &
pid=$!
for ((i = 0; i < 1000 && ! $(wc -l <out); i++)); do sleep 0.05; done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "the signal did not end the program"
kill -0 "$(cat out)" 2>/dev/null && fail "the program is still there"
ls /tmp/stook-profile.* >/dev/null 2>&1 && ls -l /tmp/stook-profile.*

# --- snapshots of a program that runs: what grew between them --------------------------------------
mkfifo in
STOOK_TAGS=1 STOOK_PROFILE=USR2,snap.%p "$stook" run -- "$program" grow <in >out 2>err &
pid=$!
exec 3>in
step() { # NUMBER: the program has taken 200 objects more, then the snapshot is there
    echo go >&3
    for ((i = 0; i < 2000 && $(wc -l <out) < $1; i++)); do sleep 0.02; done
    kill -USR2 $pid
    for ((i = 0; i < 2000; i++)); do
        python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "snap.$pid.$1" 2>/dev/null && return
        sleep 0.02
    done
    fail "no snapshot $1: $(ls) $(cat err)"
}
step 1
step 2
exec 3>&-
wait $pid || fail "the growing program failed: $(cat err)"
[ -s snap.$pid ] || fail "no profile at the end"
status 0 "$stook" profile "snap.$pid.1" "snap.$pid.2"
said '^Since the earlier profile: \+[0-9.]+ KiB live in \+200 objects, [0-9]+ allocations\.$' out
said '^ *\+[0-9]+ KiB +\+200 .*  grow_200' out

exit $failed
