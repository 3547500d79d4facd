#!/bin/bash
# SPDX-License-Identifier: MIT
# Static analysis of src/ and tools/ by clang-tidy 16; .clang-tidy has the checks.
#
#   check-tidy.sh SOURCE BUILD              BUILD has compile_commands.json; 77 without clang-tidy 16
#   check-tidy.sh --analyzer SOURCE BUILD   clang's static analyzer instead: minutes, and to be judged
#   check-tidy.sh --self-test               planted bugs must be found
set -euo pipefail

tidy=clang-tidy-16
command -v $tidy >/dev/null || {
    echo "skipped: no $tidy"
    exit 77
}

# tidy_files BUILD [OPTION...]: reads names, says what is found
tidy_files() {
    local build=$1
    shift
    # -quiet still counts the warnings of system headers on stderr, word by word: what two say must not mix.
    xargs -P "${JOBS:-$(nproc)}" -n 4 sh -c 'said=$("$@" 2>&1); printf "%s\n" "$said"' tidy \
        $tidy -p "$build" -quiet "$@" --extra-arg=-Wno-unknown-warning-option |
        grep -v '^$\|^[0-9]* warnings\? \(generated\|treated as error\)\|^Suppressed \|^Use -header-filter' || true
}

if [ "${1:-}" = --self-test ]; then
    source=$(dirname "$(dirname "$(realpath "$0")")")
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$source/.clang-tidy" "$work"
    cat >"$work/good.c" <<-'END'
	#include <string.h>
	int planted(int *p);
	int planted(int *p)
	{
	    memset(p, 0, sizeof(*p));
	    return strcmp("a", "b") == 0;
	}
	END
    sed 's/0, sizeof(\*p)/sizeof(*p), 0/' "$work/good.c" >"$work/size.c"
    sed 's/ == 0//; s/return \(strcmp.*\);/if (\1) return 1; return 0;/' "$work/good.c" >"$work/compare.c"

    sed 's/memset.*/for (unsigned char i = 0; i < *p; i++) p[i] = 0;/' "$work/good.c" >"$work/loop.c"
    (
        echo '['
        for file in "$work"/*.c; do
            echo "{\"directory\":\"$work\",\"file\":\"$file\",\"command\":\"cc -c $file\"},"
        done | sed '$s/,$//'
        echo ']'
    ) >"$work/compile_commands.json"
    found=$(printf '%s\n' "$work"/*.c | JOBS=1 tidy_files "$work")
    status=0
    for file in size compare loop; do
        grep -q "/$file.c:.*\[bugprone" <<<"$found" || {
            echo "self-test: what is planted in $file.c was not found"
            status=1
        }
    done
    ! grep "/good.c:" <<<"$found" || {
        echo "self-test: something was found in good.c"
        status=1
    }
    exit $status
fi

checks=()
if [ "$1" = --analyzer ]; then
    shift
    # Functions of Annex K, which glibc does not have.
    checks=('--checks=-*,clang-analyzer-*,-clang-analyzer-security.insecureAPI.*' '--warnings-as-errors=-*')
fi
cd "$1"
[ -e "$2/compile_commands.json" ] || {
    echo "skipped: $2 has no compile_commands.json"
    exit 77
}
# What this build compiles: some files need libraries.
found=$(sed -n "s,^ *\"file\": \"$PWD/\(\(src\|tools\)/.*\.c\)\".*,\1,p" "$2/compile_commands.json" |
    sort -u | tidy_files "$2" "${checks[@]}")
[ -z "$found" ] || {
    echo "$found"
    exit 1
}
