#!/bin/bash
# SPDX-License-Identifier: MIT
# Fails on a header that does not compile alone, or not twice.
#
#   check-headers.sh SOURCE        headers of src/ as gnu17, of include/ as C11, gnu17 and C++11; *.hpp as C++17;
#                                  stook.hpp as C++20, and without RTTI and exceptions, too; in C++ with the
#                                  warnings that careful projects turn on, by clang++ too where there is one
#   check-headers.sh --self-test   planted violations must be found
set -euo pipefail

CC=${CC:-cc} CXX=${CXX:-c++}
warnings=(-Wall -Wextra -Werror -fsyntax-only)

compiles() { # HEADER COMPILER FLAGS...: the header alone, twice
    printf '#include "%s"\n#include "%s"\nextern int used;\n' "$1" "$1" | "${@:2}" "${warnings[@]}" -
}

compiles_cxx() { # HEADER FLAGS...: the same as C++
    local cxx cast
    for cxx in "$CXX" $(compgen -c clang++- | sort -u | grep -x 'clang++-[0-9]*' | tail -n 1); do
        case $("$cxx" --version) in *clang*) cast=() ;; *) cast=(-Wuseless-cast) ;; esac
        compiles "$1" "$cxx" -xc++ "${@:2}" -Wshadow -Wold-style-cast "${cast[@]}" || return
        case $CXX in *-linux-gnu-*) break ;; esac # clang compiles for this machine
    done
}

check_header() { # ROOT HEADER
    local include=(-I"$1/include") internal=(-I"$1/src" -D_GNU_SOURCE -DSTOOK_RSEQ=1)
    case $2 in
    include/stook/cpp/*) compiles_cxx "$1/$2" -std=c++17 "${include[@]}" ;;
    *.hpp)
        compiles_cxx "$1/$2" -std=c++17 "${include[@]}" &&
            compiles_cxx "$1/$2" -std=c++20 -O2 -Wconversion "${include[@]}" &&
            compiles_cxx "$1/$2" -std=c++17 -fno-rtti -fno-exceptions "${include[@]}"
        ;;
    include/*)
        compiles "$1/$2" "$CC" -xc -std=c11 "${include[@]}" &&
            compiles "$1/$2" "$CC" -xc -std=gnu17 "${include[@]}" &&
            compiles_cxx "$1/$2" -std=c++11 "${include[@]}"
        ;;
    *) compiles "$1/$2" "$CC" -xc -std=gnu17 "${include[@]}" "${internal[@]}" ;;
    esac || {
        echo "$2 does not compile alone"
        return 1
    }
}

check_tree() { # ROOT
    local header machine fail=0
    while read -r header; do
        case $header in
        *_x86_64.h) [ "$(uname -m)" = x86_64 ] || continue ;;
        *_aarch64.h | *_riscv64.h)
            machine=${header##*_}
            machine=${machine%.h}
            if [ "$(uname -m)" != "$machine" ]; then
                command -v "$machine"-linux-gnu-gcc >/dev/null &&
                    command -v "$machine"-linux-gnu-g++ >/dev/null || continue
                CC=$machine-linux-gnu-gcc CXX=$machine-linux-gnu-g++ check_header "$1" "$header" ||
                    fail=1
                continue
            fi
            ;;
        esac
        check_header "$1" "$header" || fail=1
    done < <(cd "$1" && find include src -name '*.h' -o -name '*.hpp' | sort)
    return $fail
}

self_test() {
    local dir
    dir=$(mktemp -d)
    trap "rm -rf '$dir'" EXIT
    must() { # good|bad FILE TEXT
        rm -rf "$dir/tree" && mkdir -p "$dir/tree/include/stook" "$dir/tree/src/slab"
        printf '%s\n' '#ifndef BASE_H' '#define BASE_H' 'struct base { int x; };' '#endif' \
            >"$dir/tree/src/slab/base.h"
        printf '%s\n' "$3" >"$dir/tree/$2"
        local result=good
        check_tree "$dir/tree" >"$dir/said" 2>&1 || result=bad
        [ "$result" = "$1" ] || {
            echo "self-test: taken for $result: $2: $3"
            cat "$dir/said"
            exit 1
        }
    }
    must good src/slab/a.h '#pragma once
        #include "slab/base.h"
        static inline int a_x(struct base *base) { return base->x; }'
    must bad src/slab/a.h '#pragma once
        static inline int a_x(struct base *base) { return base->x; }'
    must bad src/slab/a.h 'struct twice { int x; };'
    must good include/stook/a.h 'void a_f(int *p);'
    must bad include/stook/a.h 'void a_f(size_t n);'
    must bad include/stook/a.h 'void a_f(int class);'
    must bad include/stook/a.h '#pragma once
        static inline int a_f(unsigned u, int i) { return u < i; }'
    must good include/stook/a.hpp '#pragma once
        #include <string_view>
        inline int a_f(std::string_view) { return 0; }'
    must bad include/stook/a.hpp '#pragma once
        inline void a_f() { throw 1; }'
    must bad include/stook/a.h '#pragma once
        static inline long a_f(int i) { return (long)i; }'
    must bad include/stook/a.h '#pragma once
        struct a { int x; };
        void a(struct a *to);'
    must bad include/stook/a.hpp '#pragma once
        inline int a_f(int i) { return static_cast<int>(i); }'
}

case $1 in
--self-test) self_test ;;
*) check_tree "$1" ;;
esac
