#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
# Under debug flags, a C++ program: calls that do not belong together are reported and the program goes on; a program
# that does right gets no report, whatever the flags.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
program=$STOOK_TEST_DIR/prog_mismatch

fail() {
    echo "$*" >&2
    exit 1
}

# FLAGS CASE PATTERN: the only report has it
wrong() {
    local said
    said=$("$stook" run --debug "$1" -- "$program" "$2" 2>&1) || fail "$2: exit status $?: $said"
    [ "$(grep -c '^stook: BUG' <<<"$said")" = 1 ] && grep -q "$3" <<<"$said" || fail "$2: $said"
}
wrong FZPU new-free 'allocated by operator new, freed by free'
wrong FZPU malloc-delete 'allocated by malloc, freed by operator delete'
wrong F array 'allocated by operator new\[\], freed by operator delete'
wrong FZPU size '24 bytes is freed as one of 25'
wrong FZPU realloc 'is free already'
wrong Z large 'right red zone'

for flags in F Z P U FZP FZPU; do
    said=$(STOOK_ON_CORRUPTION=abort "$stook" run --debug $flags -- "$program" right 2>&1) &&
        [ -z "$said" ] || fail "$flags: $said"
done

# Failing on purpose: the one allocation of that class.
STOOK_FAIL=1,100,0,1 "$stook" run --debug A,malloc-3072 -- "$program" fail || fail "nothing failed"
STOOK_FAIL=1,100,0,1 "$stook" run --debug A,malloc-2560 -- "$program" fail && fail "another class failed"
[ "$(STOOK_FAIL=1,2 "$stook" run --debug A -- "$program" right 2>&1 | grep -c 'STOOK_FAIL=1,2')" = 1 ] ||
    fail "a bad value is not named"
echo "what does not belong together is seen"
