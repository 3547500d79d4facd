#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds HAProxy and memcached from Debian's source packages, with their own pools and on Stook, below BUILD/pools.  Does
# nothing where all is there and newer than what it is made of.
#
#   build.sh BUILD
#
#   haproxy/haproxy-own      as it comes
#   haproxy/haproxy-tuned    its pools with 8 MiB for each thread instead of 512 KiB
#   haproxy/haproxy-stook    haproxy_pool.c in place of its src/pool.c
#   memcached-own/, memcached-stook/    the latter with memcached_cache.c in place of its cache.c
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
jobs=${JOBS:-$(nproc)}
for name in haproxy memcached; do
    "$here/../../scripts/debian-source.sh" $name "$build/sources"
done
mkdir -p "$build/pools"
cd "$build/pools"

log() { # what a command says, only if it fails
    "$@" >"$build/pools/build.log" 2>&1 || {
        tail -n 30 "$build/pools/build.log"
        exit 1
    }
}
stook=(-L"$build/lib" -Wl,-rpath,"$build/lib" -lstook)

# One compilation; the other two replace one object.
haproxy() { # WORDS...: with these libraries
    # What the last line has is of Debian's package as well, if it is installed.
    log make -C haproxy -j "$jobs" TARGET=linux-glibc USE_OPENSSL=1 USE_SLZ=1 USE_LUA=1 USE_PROMEX=1 \
        LUA_INC=/usr/include/lua5.3 LUA_LIB_NAME=lua5.3 CC="${CC:-cc}" CFLAGS="-O2 -fwrapv -w" VERSION=2.6 SUBVERS= \
        VERDATE=2022/01/01 IGNOREGIT=1 ADDINC="-I$here/../../include" ADDLIB="$*" haproxy
}
if [ ! -x haproxy/haproxy-tuned ]; then
    rm -rf haproxy
    cp -r ../sources/haproxy haproxy
    cp haproxy/src/pool.c haproxy/pool-own.c
    haproxy
    mv haproxy/haproxy haproxy/haproxy-own
    { echo '#define CONFIG_HAP_POOL_CACHE_SIZE (8 << 20)' && cat haproxy/pool-own.c; } >haproxy/src/pool.c
    rm haproxy/src/pool.o
    haproxy
    mv haproxy/haproxy haproxy/haproxy-tuned
fi
if [ ! haproxy/haproxy-stook -nt "$here/haproxy_pool.c" ]; then
    cp "$here/haproxy_pool.c" haproxy/src/pool.c
    rm -f haproxy/src/pool.o
    haproxy "${stook[@]}"
    mv haproxy/haproxy haproxy/haproxy-stook
fi

memcached() { # FOLDER CPPFLAGS LIBS
    rm -rf "$1"
    cp -r ../sources/memcached "$1"
    [ "$1" != memcached-stook ] || cp "$here/memcached_cache.c" "$1/cache.c"
    cd "$1"
    # Its files are of one age: nothing is to be made again by automake.
    find . -exec touch -r configure {} +
    log ./configure --disable-docs CFLAGS=-O2 CPPFLAGS="$2" LIBS="$3"
    log make -j "$jobs" memcached memcached-debug sizes testapp timedrun
    cd ..
}
[ -x memcached-own/testapp ] || memcached memcached-own "" ""
# HAVE_UMEM_H: another allocator checks the bytes around objects, says testapp.c, so that it does not test memcached's.
[ memcached-stook/testapp -nt "$here/memcached_cache.c" ] ||
    memcached memcached-stook "-I$here/../../include -DHAVE_UMEM_H" "${stook[*]}"
