#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: preload
# Statically linked programs: the whole family is Stook's, libc's malloc is not even there, C
# programs need no C++ library, C++ programs throw, and ld has nothing to say.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need nm
archive=$STOOK_BUILD_DIR/lib/libstook-malloc.a

cat >"$work/c.c" <<'C'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *p = malloc(100), *q = calloc(10, 10), *big = malloc(5 << 20), *text = NULL;
    void *aligned;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);

    strcpy(p, "kept");
    p = realloc(p, 100000);
    for (int i = 0; i < 1000; i++)
        fprintf(stream, "%d ", i);
    fclose(stream);
    if (posix_memalign(&aligned, 4096, 100) != 0 || strcmp(p, "kept") != 0 || q[99] != 0)
        return 1;
    if (fork() == 0)
        _exit(malloc(1000) == NULL);
    int status;
    wait(&status);
    printf("%d %d %zu %d\n", argc > 1 ? atoi(argv[1]) : 0, (int)((unsigned long)aligned % 4096),
           strlen(strdup(text)), status);
    free(p), free(q), free(big), free(aligned), free(text);
    return 0;
}
C
cat >"$work/cc.cc" <<'CC'
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <thread>
int main()
{
    std::map<int, std::string> m;
    std::thread t([&] { for (int i = 0; i < 1000; i++) m[i] = std::string(100, 'x'); });
    t.join();
    volatile std::size_t much = std::size_t{1} << 62;
    try {
        std::cout << static_cast<void *>(new char[much]);
    } catch (const std::bad_alloc &e) {
        std::cout << e.what() << ' ' << m.size() << ' ' << (new (std::nothrow) char[much] == nullptr) << '\n';
    }
}
CC

link() { # no word from ld
    "$@" >"$work/ld.out" 2>&1 || { cat "$work/ld.out" >&2; exit 1; }
    [ ! -s "$work/ld.out" ] || { cat "$work/ld.out" >&2; exit 1; }
}

check() { # check PROGRAM EXPECTED
    local said libc
    libc=$(nm "$1" | grep -cE ' [Tt] (_int_malloc|sysmalloc)$' || true)
    if [ "$libc" != 0 ]; then
        echo "$1: libc's malloc was linked too" >&2
        exit 1
    fi
    said=$("$1")
    [ "$said" = "$2" ] || { echo "$1 said \"$said\", not \"$2\"" >&2; exit 1; }
    # glibc allocates while it makes what a static program's stack is walked by.
    said=$(STOOK_DEBUG=U STOOK_SAMPLE=64 "$1")
    [ "$said" = "$2" ] || { echo "$1 with stacks said \"$said\", not \"$2\"" >&2; exit 1; }
    STOOK_REPORT=1,json STOOK_REPORT_FILE=$work/report "$1" >/dev/null
    grep -q '"malloc-' "$work/report" || { echo "$1 wrote no report" >&2; exit 1; }
    rm "$work/report"
}

link "${CC:-gcc}" -O2 -static "$work/c.c" "$archive" -o "$work/c"
check "$work/c" "0 0 3890 0"
link "${CC:-gcc}" -O2 -static-pie -fPIE "$work/c.c" "$archive" -o "$work/c-pie"
check "$work/c-pie" "0 0 3890 0"
link "${CXX:-g++}" -O2 -static "$work/cc.cc" "$archive" -o "$work/cc"
check "$work/cc" "std::bad_alloc 1000 1"
# At the first exception libgcc sorts this program's tables under its lock, in an object of malloc's.  When that was
# sampled, about one time in ten, a walk that asked libgcc waited for itself.
for _ in $(seq 60); do
    said=$(timeout 20 "$work/cc") || { echo "a static program that throws: $?" >&2; exit 1; }
done
if nm -u "$archive" | grep _Unwind_ >&2; then
    echo "$archive asks the compiler's unwinder" >&2
    exit 1
fi
link "${CC:-gcc}" -O2 "$work/c.c" "$archive" -o "$work/c-dynamic"
check "$work/c-dynamic" "0 0 3890 0"

# With raised privileges nothing is read from the environment.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$work"
    chmod u+s "$work/c"
    mkdir "$work/open" && chmod 777 "$work/open"
    setpriv --reuid=65534 --clear-groups env STOOK_REPORT=1 STOOK_REPORT_FILE="$work/open/report" \
        "$work/c" >/dev/null
    [ ! -e "$work/open/report" ] || { echo "a set-uid program heeded the environment" >&2; exit 1; }
    chmod u-s "$work/c"
    setpriv --reuid=65534 --clear-groups env STOOK_REPORT=1 STOOK_REPORT_FILE="$work/open/report" \
        "$work/c" >/dev/null
    [ -e "$work/open/report" ]
fi
