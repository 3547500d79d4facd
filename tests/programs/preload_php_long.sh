#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 1500
# PHP's own tests of extensions that Debian's php opens as libraries, each with the result that it has with glibc's malloc.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need php apt-get dpkg-source
package=php$(php -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
sources=$STOOK_BUILD_DIR/sources
"$STOOK_SOURCE_DIR/scripts/debian-source.sh" "$package" "$sources" || exit 77
cd "$sources/$package"

export NO_INTERACTION=1 SKIP_ONLINE_TESTS=1
TEST_PHP_EXECUTABLE=$(command -v php)
export TEST_PHP_EXECUTABLE
phpt() { # phpt RUN...: the results into $work/results
    "$@" php run-tests.php -q -j2 --no-color -W "$work/list" ext/{pdo,pdo_sqlite,phar,tokenizer} >"$work/log" 2>&1 || true
    sort "$work/list"
}

phpt env >"$work/without"
phpt with_stook php >"$work/with"
served php 'php*'
passed=$(grep -c '^PASSED' "$work/with") || true
echo "$passed passed of $(wc -l <"$work/with")"
[ "$passed" -gt 300 ] || { tail -40 "$work/log" >&2; exit 1; }
diff "$work/without" "$work/with" >&2
