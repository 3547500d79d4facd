#!/bin/bash
# SPDX-License-Identifier: MIT
# The format of .clang-format, of the C and C++ files that git tracks.
#
#   check-format.sh SOURCE        fails on a file with another format; 77 without clang-format-14
#   check-format.sh --fix SOURCE  formats them
#   check-format.sh --self-test   a planted violation must be found
#
# Left out: files of inline assembly, which is laid out by hand, and code of others (vendor/).
set -euo pipefail

tracked() {
    git ls-files '*.c' '*.h' '*.cc' '*.hpp' '*.cppm' | grep -v '^vendor/\|/\(ops\|rseq\)_[a-z0-9_]*\.h$\|/sections\.h$\|/chain_sections\.h$' |
        while read -r file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done
}

check() { # names the files and the first line of each
    local said
    said=$(tracked | xargs -0 -r clang-format-14 --dry-run --Werror 2>&1) && return
    grep ': error: ' <<<"$said" | sort -t: -u -k1,1 | cut -d: -f1,2 | sed 's/$/: not formatted/'
    echo "make format changes them"
    return 1
}

self_test() {
    local config dir
    config=$(dirname "$(dirname "$(realpath "$0")")")/.clang-format
    dir=$(mktemp -d)
    trap "rm -rf '$dir'" EXIT
    cd "$dir"
    cp "$config" .clang-format
    git init -q .
    printf 'int f(int x)\n{\n    if (x) {\n        return 1;\n    }\n    return 0;\n}\n' >a.c
    printf 'int  f( int x ) { return 0; }\n' >untracked.c
    git add a.c
    check || { echo "self-test: good format was refused"; exit 1; }
    printf 'int f(int x) {\n\treturn x;\n}\n' >a.c
    ! check >/dev/null || { echo "self-test: a brace and a tab were not found"; exit 1; }
}

command -v clang-format-14 >/dev/null || {
    echo "skipped: no clang-format-14 (Debian: clang-format-14)"
    [ "$1" != --fix ] || exit 1
    exit 77
}
case $1 in
--self-test) self_test ;;
--fix) cd "$2" && tracked | xargs -0 -r clang-format-14 -i ;;
*)
    cd "$1"
    git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "skipped: no git"; exit 77; }
    check
    ;;
esac
