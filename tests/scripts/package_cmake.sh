#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# find_package finds what is installed, also where the prefix was moved; its targets build programs, shared and static,
# that run; other releases and missing parts are refused.  As a part of another project only libraries are built.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
consumer=$STOOK_SOURCE_DIR/packaging/consumers/cmake
version=$(sed -n 's/^project(stook VERSION \([0-9.]*\) .*/\1/p' "$STOOK_SOURCE_DIR/CMakeLists.txt")

DESTDIR=$work/root cmake --install "$STOOK_BUILD_DIR" >"$work/log" || fail "$(tail -n 20 "$work/log")"
config=$(find "$work/root" -name StookConfig.cmake)
[ "$config" ] || fail "no StookConfig.cmake"
prefix=$work/root$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$STOOK_BUILD_DIR/CMakeCache.txt")
mv "$prefix" "$work/moved"

configure() { # BUILD ARGUMENTS...
    cmake -S "$consumer" -B "$work/$1" -G Ninja "-DCMAKE_C_COMPILER=$CC" "-DCMAKE_CXX_COMPILER=$CXX" "${@:2}" >"$work/log" 2>&1
}
programs() { # BUILD ARGUMENTS...: all of the installed library run
    configure "$1" "-DCMAKE_PREFIX_PATH=$work/moved" "${@:2}" || fail "$1: $(tail -n 20 "$work/log")"
    cmake --build "$work/$1" >"$work/log" 2>&1 || fail "$1: $(tail -n 20 "$work/log")"
    cd "$work/$1"
    for program in typed_stook typed_stook_static; do
        ./$program | grep '^point ' >said || fail "$1: $program reports no cache"
        ./${program/typed/typed_cpp} >said 2>&1 || fail "$1: ${program/typed/typed_cpp}: $(cat said)"
    done
    for program in plain_malloc plain_malloc_static; do
        STOOK_REPORT=1 ./$program 2>report >/dev/null || fail "$1: $program"
        grep -q '^malloc-112 ' report || fail "$1: $program does not run on this malloc: $(cat report)"
    done
    if [ -e "$STOOK_BUILD_DIR/lib/libstook-urcu.so" ]; then
        ./readers | grep ' 0 wrong' >said || fail "$1: readers with liburcu"
    fi
}
programs build
# Where the compiler sees the whole program, too.
programs ipo -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_BUILD_TYPE=Release
grep -q 'flto' "$work/ipo/build.ninja" || fail "no link-time optimisation"
if command -v clang-16 >/dev/null; then
    CC=clang-16 CXX=clang++-16 programs ipo-clang -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_BUILD_TYPE=Release
fi

# What is asked for has to be there.
wants() { # WORDS: of find_package
    mkdir -p "$work/wants"
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(wants C)\nfind_package(Stook %s REQUIRED)\n' "$1" \
        >"$work/wants/CMakeLists.txt"
    rm -rf "$work/wants/build"
    cmake -S "$work/wants" -B "$work/wants/build" -G Ninja "-DCMAKE_C_COMPILER=$CC" \
        "-DCMAKE_PREFIX_PATH=$work/moved" >"$work/log" 2>&1
}
wants "$version EXACT" || fail "not this version: $(cat "$work/log")"
! wants 99.0 || fail "version 99.0 was found"
! wants "${version%.*}.0 COMPONENTS nonsense" || fail "a part that is not there was found"
grep -q nonsense "$work/log" || fail "the message does not name the part"

# Beside another project's own targets: the libraries, and no tests, tools or installation.
configure sub "-DSTOOK_FROM=$STOOK_SOURCE_DIR" || fail "add_subdirectory: $(tail -n 20 "$work/log")"
ninja -C "$work/sub" -t targets all >"$work/targets"
grep -q '^stook/lib/libstook-malloc.so\|^stook_malloc_shared' "$work/targets" || fail "no malloc in a subproject"
! grep -q 'stook-tool\|test_cache\|example-\|stook-bench' "$work/targets" || fail "a subproject builds tests or tools"
! grep -q 'libstook' "$work/sub/stook/cmake_install.cmake" || fail "a subproject is installed unasked"
