#!/bin/bash
# SPDX-License-Identifier: MIT
# The man pages of section 3 are those of the headers, and those of commands and the completion those of the tables and helps; all format
# without a warning.  A page that was changed by hand, a page too many, and a comment or a help that lost its shape are found.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
cd "$STOOK_SOURCE_DIR"

python3 scripts/man.py --check .

mkdir -p "$work/tree/include"
cp -r include/stook "$work/tree/include/"
cp -r man "$work/tree/"
must_find() { # WHAT: planted in the copy
    if python3 scripts/man.py --check "$work/tree" >"$work/said"; then
        echo "not found: $1"
        exit 1
    fi
}
sed -i 's/cannot fail/never fails/' "$work/tree/man/stook_free.3"
must_find "a page that was changed by hand"
cp man/stook_free.3 "$work/tree/man/"
echo '.so man3/stook_free.3' >"$work/tree/man/stook_release.3"
must_find "a page of no call"
rm "$work/tree/man/stook_release.3"
python3 scripts/man.py --check "$work/tree"
sed -i '0,/^ \* context: any$/s///' "$work/tree/include/stook/reserve.h"
must_find "an entry that does not say where it may be called"

# Commands: the same, and an option that the help does not have.
python3 scripts/commands.py --check .
cp -r tools "$work/tree/"
commands_find() { # WHAT, the words that are said
    if python3 scripts/commands.py --check "$work/tree" >"$work/said" || ! grep -q -e "$2" "$work/said"; then
        echo "not found: $1"
        cat "$work/said"
        exit 1
    fi
}
sed -i 's/the largest first/the smallest first/' "$work/tree/man/stook-caches.1"
commands_find "a page that was changed by hand" 'run scripts/commands.py'
cp man/stook-caches.1 "$work/tree/man/"
sed -i 's/"wait", OPTION_SECONDS/"waits", OPTION_SECONDS/' "$work/tree/tools/stook/look/leaks.c"
commands_find "an option that the help does not have" 'does not have --waits'
cp tools/stook/look/leaks.c "$work/tree/tools/stook/look/"
sed -i 's/^    "example:.n"$//' "$work/tree/tools/stook/look/leaks.c"
commands_find "a help without an example" 'leaks has no example'

# Every page of all sections; mandoc where it is installed.
if command -v groff >/dev/null; then
    for page in man/*.[1-8]; do
        if grep -q '^\.so ' "$page"; then
            continue
        fi
        groff -ww -man -t -Tutf8 -z "$page" >"$work/said" 2>&1 && [ ! -s "$work/said" ] || {
            echo "$page:"
            cat "$work/said"
            exit 1
        }
    done
fi
if command -v mandoc >/dev/null; then
    mandoc -Tlint -Wwarning man/*.[1-8]
fi
exit 0
