#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes build-musl-root/, which cmake/musl.cmake builds with: the kernel's headers, which musl-tools leaves out,
# and cmocka, compiled from Debian's source package with musl-gcc.  Does nothing if the folder is complete.
#
#   musl-root.sh [--no-tests]     without cmocka, and so without the network
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build-musl-root
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
mirror=${STOOK_DEBIAN_MIRROR:-http://deb.debian.org/debian}

command -v musl-gcc >/dev/null || {
    echo "musl-root.sh: musl-gcc is missing (Debian: musl-tools)" >&2
    exit 1
}
mkdir -p "$root/include" "$root/lib/pkgconfig"
ln -sfn /usr/include/linux "$root/include/linux"
ln -sfn /usr/include/asm-generic "$root/include/asm-generic"
for asm in /usr/include/"$(uname -m)"-linux-gnu/asm /usr/include/asm; do
    [ ! -d "$asm" ] || ln -sfn "$asm" "$root/include/asm"
done
[ "${1:-}" != --no-tests ] || exit 0
[ ! -e "$root/lib/pkgconfig/cmocka.pc" ] || exit 0

# A list of packages of its own: the machine's need not name source packages.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/parts" "$work/cache/archives/partial"
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
options=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/parts"
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
    -o Acquire::Retries=3 -o Acquire::Languages=none)
(
    cd "$work"
    apt-get "${options[@]}" update && apt-get "${options[@]}" source cmocka
) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    echo "musl-root.sh: the source package of cmocka is not to be had" >&2
    exit 1
}
source=$(compgen -G "$work/cmocka-*/src/cmocka.c")
source=${source%/src/cmocka.c}
version=${source##*/cmocka-}

# One file, whose configuration names headers that musl has.
has=(ASSERT_H INTTYPES_H IO_H=0 MALLOC_H MEMORY_H SETJMP_H SIGNAL_H STDARG_H STDDEF_H STDINT_H STDIO_H
    STDLIB_H STRINGS_H STRING_H SYS_STAT_H SYS_TYPES_H TIME_H UNISTD_H CALLOC EXIT FPRINTF FREE LONGJMP
    SIGLONGJMP MALLOC MEMCPY MEMSET PRINTF SETJMP SIGNAL SNPRINTF STRCMP STRCPY STRLEN STRSIGNAL
    VSNPRINTF CLOCK_GETTIME STRUCT_TIMESPEC GCC_THREAD_LOCAL_STORAGE CLOCK_REALTIME)
for name in "${has[@]}"; do
    case $name in
    *=0) ;;
    *) echo "#define HAVE_$name 1" ;;
    esac
done >"$work/config.h"
musl-gcc -O2 -g -w -std=gnu99 -fPIC -DHAVE_CONFIG_H -I"$work" -I"$source/include" \
    -c -o "$work/cmocka.o" "$source/src/cmocka.c"
ar rcs "$root/lib/libcmocka.a" "$work/cmocka.o"
cp "$source"/include/cmocka*.h "$root/include/"
cat >"$root/lib/pkgconfig/cmocka.pc" <<PC
Name: cmocka
Description: cmocka, built for musl
Version: $version
Libs: -L$root/lib -lcmocka
Cflags: -I$root/include
PC
echo "built cmocka $version for musl"
