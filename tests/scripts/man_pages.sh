#!/bin/bash
# SPDX-License-Identifier: MIT
# The man pages of section 3 are those of the headers, and format without a warning; a page that was
# changed by hand, a page too many and a comment that lost its shape are found.
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
sed -i '0,/^ \* context: any$/s///' "$work/tree/include/stook/pool.h"
must_find "an entry that does not say where it may be called"

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
