# SPDX-License-Identifier: MIT
# What the tests of single commands of stook share: all that fails is said, and the last line is `exit $failed`.
set -uo pipefail
stook=$STOOK_BUILD_DIR/bin/stook
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset STOOK_REPORT STOOK_REPORT_FILE STOOK_RESERVE LD_PRELOAD
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# status EXPECTED COMMAND...: runs it, output in out and err
status() {
    local expected=$1 got
    shift
    "$@" >out 2>err
    got=$?
    [ "$got" = "$expected" ] || fail "status $got instead of $expected: $*; $(head -3 err)"
}
