#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# gcc and g++ compile and link a file each: the same assembly, and programs that run.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
cd "$STOOK_SOURCE_DIR"
c=(-std=gnu17 -D_GNU_SOURCE -DSTOOK_RSEQ=1 -Iinclude -Isrc -O2)

same gcc cc1 "${CC:-gcc}" "${c[@]}" -g -S -o - src/slab/node.c
same g++ cc1plus "${CXX:-g++}" -std=c++17 -O1 -S -o - tests/programs/prog_threads.cc
same cpp cc1 "${CC:-gcc}" "${c[@]}" -E -dD src/cache/cache.c

cat >"$work/c.c" <<'C'
#include <stdio.h>
int main(void) { for (int i = 0; i < 3; i++) printf("%d\n", i * i); return 0; }
C
cat >"$work/cc.cc" <<'CC'
#include <string>
#include <iostream>
int main() { std::cout << std::string(7, 'x') << std::endl; }
CC
with_stook c "${CC:-gcc}" -O2 "$work/c.c" -o "$work/c" -pipe
served c ld
[ "$("$work/c" | tail -1)" = 4 ]
with_stook cc "${CXX:-g++}" -O2 -flto "$work/cc.cc" -o "$work/cc"
served cc 'lto1*'
[ "$("$work/cc")" = xxxxxxx ]
