#!/bin/bash
# SPDX-License-Identifier: MIT
# labels: more
# Common mistakes with stook.hpp: in C++20 each is one error, at the program's line, with the name of what is missing.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"

compile() { # COMPILER FILE
    "$1" -std=c++20 -fsyntax-only -I"$STOOK_SOURCE_DIR/include" "$work/$2" 2>"$work/said"
}

refused=0
mistake() { # WHAT LINES: in the last line is the mistake
    local compiler line
    { echo '#include <stook/stook.hpp>'; cat; } >"$work/mistake.cc"
    sed '$d' "$work/mistake.cc" >"$work/before.cc"
    line=$(wc -l <"$work/mistake.cc")
    for compiler in g++ clang++-16; do
        command -v "$compiler" >/dev/null || continue
        compile "$compiler" before.cc || fail "$compiler: what stands before the mistake: $(cat "$work/said")"
        ! compile "$compiler" mistake.cc || fail "$compiler accepts: $1"
        [ "$(grep -c 'error:' "$work/said")" = 1 ] && grep -q "mistake.cc:$line:[0-9]*: error:" "$work/said" &&
            grep -q "$1" "$work/said" || fail "$compiler, $1: $(cat "$work/said")"
        refused=$((refused + 1))
    done
}

mistake constructor_takes <<'END'
struct session { session(int number, const char *user); };
stook::static_cache<session> sessions{"session"};
session *f() { return sessions.make("anna"); }
END
mistake constructor_takes <<'END'
struct point { double x, y; };
void f(stook::cache<point> &points, point **all) { points.make_bulk(all, 3, "1"); }
END
mistake constructor_takes <<'END'
struct buffer { explicit buffer(int bytes); };
void f(stook::pool<buffer> &pool) { auto lent = pool.make_unique(); }
END
mistake type_is_complete <<'END'
struct session;
stook::static_cache<session> sessions{"session"};
session *f() { return sessions.make(); }
END
[ "$refused" -gt 0 ] || { echo "no g++, no clang++-16"; exit 77; }
echo "$refused mistakes are refused where they are made"
