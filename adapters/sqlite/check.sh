#!/bin/bash
# SPDX-License-Identifier: MIT
# SQLite's own tests on the adapter, from Debian's source package: run_tests.sh says what is compared.
#
#   check.sh BUILD-FOLDER [speed]     speed: speedtest1 on each malloc and on the adapter instead
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
preload=$build/lib/libstook-sqlite-preload.so
[ -e "$preload" ] || {
    echo "sqlite: skipped, the adapter is not built (Debian: libsqlite3-dev)"
    exit 77
}
"$here/../../scripts/debian-source.sh" sqlite3 "$build/sources"
source=$build/sources/sqlite3
work=$build/adapters/sqlite/own
mkdir -p "$work"
cd "$work"
if [ ! -x testfixture ] || [ ! -e sqlite3.c ]; then
    # Exported symbols, so that the preload configures the SQLite in the program.
    { "$source/configure" --with-tcl=/usr/lib/tcl8.6 CFLAGS=-O1 && make sqlite3.c &&
        make testfixture LTLINK_EXTRAS=-export-dynamic CFLAGS=-O1; } >log 2>&1 || {
        tail -20 log
        exit 1
    }
fi
if [ "${2:-}" = speed ]; then
    cc -O2 -w -DSQLITE_THREADSAFE=1 -DSQLITE_DEFAULT_MEMSTATUS=0 -I. "$source/test/speedtest1.c" sqlite3.c \
        -o speedtest1 -rdynamic -lm -lpthread -ldl
    exec "$here/speed.py" speedtest1 "$build" --rounds 5 --size 20
fi
exec "$here/run_tests.sh" testfixture "$source/test" "$preload"
