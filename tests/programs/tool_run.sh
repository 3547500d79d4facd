#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# stook run: what the program sees is its own, the report comes where it was asked for, and what
# cannot be served is said.
. "$STOOK_SOURCE_DIR/tests/programs/lib_tool.sh"

said() {
    grep -q -- "$1" err || fail "standard error does not say \"$1\": $(head -3 err)"
}

# value FILE EXPRESSION: of a JSON report r
value() {
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"
}

header='^cache  *peak  *resident  *in use  *cached  *wasted  *objects  *total  *slabs  *sheaves  *barns  *size  *stride  *order  *obj/slab$'

# --- what the program sees ----------------------------------------------------------------------
status 0 "$stook" run -- true
[ ! -s err ] || fail "a run without --report says something: $(cat err)"
status 7 "$stook" run sh -c 'exit 7'
status 3 "$stook" run --report -- bash -c 'echo to stdout; echo to stderr >&2; exit 3'
[ "$(cat out)" = "to stdout" ] || fail "standard output is not the program's alone"
[ "$(head -1 err)" = "to stderr" ] || fail "standard error does not begin with the program's"
[ "$(grep -c "$header" err)" = 1 ] || fail "not one report"
# Its arguments are its own, those that look like ours too.
status 0 "$stook" run --report-file r -- printf '%s,' --report -- x
[ "$(cat out)" = "--report,--,x," ] || fail "arguments: $(cat out)"
# It is the program itself: the same process, and signals reach it.
"$stook" run sh -c 'echo $$; exec sleep 60' >out &
pid=$!
for ((i = 0; i < 100 && ! $(wc -l <out); i++)); do sleep 0.1; done
[ "$(cat out)" = "$pid" ] || fail "the program is not the process that was started"
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "the signal did not end the program"
# What was preloaded stays, ours comes once.
status 0 env LD_PRELOAD=libm.so.6 "$stook" run "$stook" run sh -c 'echo "$LD_PRELOAD"'
case $(cat out) in
libm.so.6:*libstook-malloc.so*libstook-malloc.so* | *libstook-malloc.so:libm*)
    fail "LD_PRELOAD: $(cat out)" ;;
libm.so.6:*/libstook-malloc.so) ;;
*) fail "LD_PRELOAD: $(cat out)" ;;
esac

# --- the report ---------------------------------------------------------------------------------
# ls closes standard error before destructors run.
status 0 "$stook" run --report ls /
grep -q "$header" err || fail "no report of a program that closes standard error"
grep -q '^total ' err || fail "no totals"
grep -q '^mode [a-z]*: ' err || fail "no mode"
grep -q ' (ls)$' err || fail "no name"

status 0 "$stook" run --report-format json --report-file r.json -- ls /
[ ! -s err ] || fail "a report to a file says something: $(cat err)"
[ "$(value r.json 'r["program"]')" = ls ] || fail "JSON: program"
[ "$(value r.json 'r["totals"]["active_objects"] > 20')" = True ] || fail "ls was not served"
# A second run replaces the first one's.
status 0 "$stook" run --report-format json --report-file r.json -- ls /
value r.json 'r["pid"]' >/dev/null || fail "the file of an earlier run is in the way"

status 0 "$stook" run --mode locked --reserve 5M --report-format json --report-file m -- true
[ "$(value m 'r["mode"]')" = locked ] || fail "--mode locked"
[ "$(value m 'r["arena"]["reserve_bytes"]')" = $((5 << 20)) ] || fail "--reserve"

# A tree: the first alone, or each; a relative path is the tool's; %p is the process.
mkdir tree all 'odd%pdir'
status 0 "$stook" run --report-file tree/%p -- bash -c 'echo $$; cd /; ls >&2; (exit 0); exit 0'
[ "$(ls tree)" = "$(cat out)" ] || fail "not the first process alone: $(ls tree)"
status 0 "$stook" run --report-all --report-format json --report-file all/%p.json -- \
    bash -c 'cd /; ls >&2; ls >&2; exit 0'
[ "$(ls all | wc -l)" -ge 3 ] || fail "not each of the tree: $(ls all)"
for file in all/*; do
    [ "$(value "$file" 'r["pid"]').json" = "${file#all/}" ] || fail "$file is of another process"
done
(cd 'odd%pdir' && "$stook" run --report-file r -- true) || fail "a directory with a percent sign"
[ -s 'odd%pdir/r' ] || fail "no report in a directory with a percent sign"
# Processes that share a file do not write into each other's report.
status 0 "$stook" run --report-all --report-format json --report-file shared -- \
    bash -c 'for ((i = 0; i < 40; i++)); do ls / >/dev/null & done; wait; exit 0'
python3 - <<'END' || fail "a file that processes share"
import json
text, decoder, pids = open("shared").read(), json.JSONDecoder(), set()
while text := text.lstrip():
    report, end = decoder.raw_decode(text)
    pids.add(report["pid"])
    text = text[end:]
assert len(pids) == 41, pids
END
# Standard error, when the file goes away meanwhile.
mkdir gone
status 0 "$stook" run --report-file gone/r -- rm -r gone
grep -q "$header" err || fail "no report when the file's directory is gone"

# Each program of a tree reports to standard error, and none of them finds a descriptor more that way.
cat >descriptors.py <<'END'
import os, subprocess, sys


def say():
    found = []
    for fd in range(os.sysconf("SC_OPEN_MAX")):
        try:
            os.fstat(fd)
            found.append(fd)
        except OSError:
            pass
    print(found, flush=True)


say()
if len(sys.argv) == 1:
    if os.fork() == 0:
        say()
        os._exit(0)
    os.wait()
    subprocess.run([sys.executable, sys.argv[0], "child"], check=True)
END
for limit in $(ulimit -Sn) 100; do
    (
        ulimit -Sn "$limit"
        python3 descriptors.py >plain.fds
        status 0 "$stook" run --report-all -- python3 descriptors.py
        cmp -s plain.fds out || fail "descriptors: $(cat plain.fds), with reports $(cat out)"
        [ "$(grep -c "$header" err)" -ge 2 ] || fail "not each process reported: $(grep -c "$header" err)"
        exit $failed
    ) || failed=1
done
# One that closes standard error reports to it all the same, where the copy can be hidden.
(
    ulimit -Sn 100
    status 0 "$stook" run --report-all -- bash -c 'ls /; exit 0'
    [ "$(grep -c "$header" err)" = 2 ] || fail "no report of a child that closes standard error"
    exit $failed
) || failed=1

# A child that stays and has closed what it had keeps nobody waiting for the end of standard error.
cat >daemon.py <<'END'
import os, time
child = os.fork()
if child == 0:
    os.closerange(0, 3)
    time.sleep(200)
else:
    print(child, file=open("daemon.pid", "w"))
END
"$stook" run --report -- python3 daemon.py 2>&1 >/dev/null | cat >err
grep -q "$header" err || fail "no report of a program that leaves a child"
kill "$(cat daemon.pid)" || fail "the child kept standard error open"

# --- what goes wrong ----------------------------------------------------------------------------
status 127 "$stook" run there-is-no-such-program
said 'there-is-no-such-program'
status 127 "$stook" run ./nor/this
: >plain
status 126 "$stook" run ./plain
status 126 "$stook" run /
status 125 "$stook" run
status 125 "$stook" run --no-such-option true
said '--no-such-option'
status 125 "$stook" run --report-format xml true
status 125 "$stook" run --mode fast true
status 125 "$stook" run --reserve much true
status 125 "$stook" run --reserve
status 125 "$stook" run --report-file no/such/dir true
said 'no/such/dir'
status 2 "$stook"
status 2 "$stook" no-such-command
status 2 "$stook" info --no-such-option
status 0 "$stook" help run
status 0 "$stook" run --help
status 0 "$stook" --help
status 0 "$stook" --version
[ -z "$(grep -v '^stook [0-9]*\.[0-9]*\.[0-9]*$' out)" ] || fail "version: $(cat out)"

# A script that the kernel does not know how to run is the shell's, as with execvp.
printf 'echo from the shell\n' >script
chmod +x script
status 0 "$stook" run ./script
[ "$(cat out)" = "from the shell" ] || fail "a script without an interpreter"

printf 'int main(void) { return 5; }\n' >static.c
if "$CC" -static -o static static.c 2>/dev/null; then
    status 5 "$stook" run --report ./static
    said 'linked statically'
    printf '#!%s/static\n' "$work" >by-static
    chmod +x by-static
    status 5 "$stook" run ./by-static
    said 'linked statically'
fi
# A sanitizer's runtime has a malloc of its own, and must come first: gcc links a library, clang puts it into the program.
for compiler in "$CC" clang-16; do
    for sanitizer in address thread leak; do
        if "$compiler" "-fsanitize=$sanitizer" -o sanitized static.c 2>/dev/null; then
            status 5 "$stook" run --report -- ./sanitized
            said 'has a sanitizer, which needs its own malloc: stook cannot serve it'
        fi
    done
done
# A program with Stook's malloc inside has nothing to be warned of, and reports; stripped as it is.
printf '#include <stdlib.h>\nint main(void) { free(malloc(10)); return 5; }\n' >own.c
if "$CC" -O0 -static -s -o own own.c "$STOOK_BUILD_DIR/lib/libstook-malloc.a" 2>/dev/null; then
    status 5 "$stook" run --report ./own
    ! grep -q '^stook: ' err || fail "a warning of a program that is linked with Stook"
    grep -q "$header" err || fail "no report of a program that is linked with Stook"
    printf 'int main(void) { return 5; }\n' >static.c
    status 5 "$stook" run --report-format json --report-file own.json -- ./own
    [ "$(value own.json 'r["program"]')" = own ] || fail "no JSON of a program linked with Stook"
fi
# Another C library: its loader would try to preload, and fail.
if type -P musl-gcc >/dev/null; then
    printf '#include <stdio.h>\nint main(void) { puts("from musl"); return 5; }\n' >musl.c
    musl-gcc -o musl musl.c
    status 5 "$stook" run --report --report-file musl.report -- ./musl
    said 'runs on musl.*cannot serve it.*writes no report'
    [ "$(cat out)" = "from musl" ] || fail "a program that runs on musl"
    [ ! -e musl.report ] || fail "a report of a program that is not served"
    status 5 "$stook" run -- bash -c "'$stook' run ./musl"
    said 'runs on musl'
    status 5 env LD_PRELOAD= "$stook" run ./musl
fi
if [ "$(id -u)" = 0 ]; then
    cp "$(type -P true)" raised
    chown 65534 raised
    chmod u+s raised
    status 0 "$stook" run ./raised
    said 'gains privileges'
fi

# The library is looked for beside the tool.
mkdir -p away/bin 'with space/bin' 'with space/lib'
cp "$stook" away/bin
cp "$stook" 'with space/bin'
: >'with space/lib/libstook-malloc.so'
if ! away/bin/stook info | grep -q '^to preload  */'; then # no other one is installed
    status 125 away/bin/stook run true
    said 'libstook-malloc.so is missing'
fi
status 125 'with space/bin/stook' run true
said 'space'

exit $failed
