#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 3600
# python3's own tests with all of its memory from Stook: each test passes, fails or is skipped as it
# does without.  Debian's package of them leaves out test_sqlite3: that runs in whichever python3
# has it, or is said to be missing.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need python3
"$python" -c 'import test.test_json, test.libregrtest' 2>/dev/null || {
    echo "python3's tests are not installed (Debian: libpython3.11-testsuite)" >&2
    exit 77
}
tests=(test_json test_dict test_list test_set test_re test_threading test_subprocess
    test_concurrent_futures test_multiprocessing_fork)
export PYTHONMALLOC=malloc
cd "$work"

# run_tests NAME [RUNNER...]: name and outcome of every single one of $tests in $python, and what
# the whole said.  A test that failed is run again (-w): some count on a machine that is not busy.
run_tests() {
    local name=$1 status=0
    shift
    "$@" "$python" -m test -w --timeout 900 --junit-xml "$work/$name.xml" "${tests[@]}" \
        >"$work/$name.log" 2>&1 </dev/null || status=$?
    [ -s "$work/$name.xml" ] || { tail -40 "$work/$name.log" >&2; exit 1; }
    "$python" - "$work/$name.xml" <<'PYTHON' | sort >"$work/$name.outcomes"
import sys
import xml.etree.ElementTree as tree

for case in tree.parse(sys.argv[1]).iter("testcase"):
    bad = case.find("error") is not None or case.find("failure") is not None
    skipped = case.find("skipped") is not None
    print(case.get("name"), "failed" if bad else "skipped" if skipped else case.get("result"))
PYTHON
    echo "$name: $(grep -o '^Tests result: .*' "$work/$name.log"), status $status," \
        "$(cut -d' ' -f2 "$work/$name.outcomes" | sort | uniq -c | tr -s ' \n' ' ')"
    grep ' failed$' "$work/$name.outcomes" || true
    echo $status >"$work/$name.status"
}

compare() { # compare NAME
    run_tests "$1-with" with_stook "$1"
    run_tests "$1-without"
    served "$1" 'python*' 10000
    if ! cmp "$work/$1-with.status" "$work/$1-without.status" ||
        ! diff "$work/$1-without.outcomes" "$work/$1-with.outcomes"; then
        tail -n 100 "$work/$1-with.log" >&2
        exit 1
    fi
}

reports=--report # test_subprocess counts the descriptors of its children
compare most

tests=(test_sqlite3)
while read -r python; do
    if "$python" -c 'import test.libregrtest, test.test_sqlite3' 2>/dev/null; then
        compare sqlite3
        exit 0
    fi
done < <(echo "$python"; type -aP python3)
echo "no python3 here has test_sqlite3: it was not run"
