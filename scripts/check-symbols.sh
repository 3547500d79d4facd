#!/bin/bash
# SPDX-License-Identifier: MIT
# Fails on a symbol without its prefix.
#
#   check-symbols.sh SOURCE LIB    libstook.so exports stook_ only, and all that the public headers
#                                  declare; libstook-malloc.so the same, and the malloc family;
#                                  libstook-urcu.so what stook/urcu.h declares;
#                                  the globals of an object of the archives begin with the noun of
#                                  its file (barn.c: barn, barn_get_full) or stook_, and
#                                  another file of src/ or tools/ uses them
#   check-symbols.sh --self-test   planted violations must be found
set -euo pipefail

# Sets noun.  The nouns of a file where they are not its stem: pagemap.h, cache.h and fast.h have no file of
# their own in their layers.
noun_of() {
    case $1 in
    os_linux | arena_note | arena_zones | zone_grow | zone_space | zone_take | zone_warm | node_pending | guard_pool | \
        guard_fault | alloc_node | accounted_alloc | accounted_free | group_table | rows_two | rcu_full | slot_drain | \
        slot_alloc | slot_free) noun=${1%%_*} ;;
    window) noun='window|pagemap' ;;
    cache_table) noun='cache_table|slab' ;;
    flags | object | report) noun="$1|debug" ;; # of debug/, beside base/report.c
    hooks) noun='hooks|init' ;;
    pin) noun='pin|cache_list' ;;
    settings | settings_show) noun='settings?' ;;
    class) noun='class|fast' ;;
    slot) noun='slot|sheaf' ;;
    group_stock) noun='group_stock|group_stocks' ;;
    *) noun=$1 ;;
    esac
}

malloc_family='malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|memalign'
malloc_family+='|valloc|pvalloc|malloc_usable_size|malloc_trim|mallinfo2?|mallopt|malloc_info'
malloc_family+='|free_sized|free_aligned_sized|cfree|malloc_stats|__libc_(malloc|calloc|realloc|free|memalign|p?valloc)'
operators='_Z(nw|na|dl|da)[A-Za-z0-9_]+'

fail=0
error() {
    echo "$*"
    fail=1
}

check_dynamic() { # LIBRARY REGEX: exported names and their versions
    local name
    while read -r name; do
        [[ $name =~ ^($2)(@@.*)?$ ]] || error "$(basename "$1") exports $name"
    done < <(nm -D --defined-only "$1" | awk '$2 != "A" {print $3}')
}

check_unversioned() { # LIBRARY: the loader would pass over a malloc that has a version
    local name
    while read -r name; do
        error "$(basename "$1"): $name has a version"
    done < <(nm -D --defined-only "$1" | awk '{print $3}' | grep '@' | grep -v '^stook_\|^STOOK_')
}

check_public() { # LIBRARY HEADER...: what is declared is exported, and nothing else is
    diff <(sed -n '/^STOOK_API/{:a;/(.*;/!{N;ba};s/[^(]*[ *\n]\([a-z0-9_]*\)(.*/\1/p}' "${@:2}" |
            LC_ALL=C sort -u) \
        <(nm -D --defined-only "$1" | awk '$3 ~ /@@STOOK_(0|SIM_)/ {sub(/@@.*/, "", $3); print $3}' |
            LC_ALL=C sort -u) ||
        error "the public headers (<) and $(basename "$1") (>) differ"
}

check_private() { # LIBRARY: of two libraries in a process malloc calls the first one's core for all, or none
    local name
    while read -r name; do
        error "$(basename "$1"): $name is not exported"
    done < <(nm --defined-only "$1" | awk '$2 == "t" && $3 ~ /^stook_private_[a-z_]*$/ {print $3}')
}

check_archive() { # ARCHIVE REGEX: also allowed
    local file name noun
    while read -r file name; do
        noun_of "${file%.c.o}"
        # sys/sdt.h makes the last one in each object with a probe.
        [[ $name =~ ^(($noun|stook)(_.*)?|$2|_\.stapsdt\.base)$ ]] || error "$(basename "$1"): $file has $name"
    done < <(nm --extern-only --defined-only "$1" | awk '/:$/ {sub(/:$/, ""); f = $1} NF == 3 {print f, $3}')
}

# What tests alone use, beside the file that has it; what assembly names.  No name is added without need.
for_tests='callbacks|debug_reports|deepbind_.*|depot_put|fail_read|gone_kept|guard_begin|heap_run_of|os_page_known|prefilled_of'
for_tests+='|quarantine_(bytes|held)|runs_guards(_most)?|sample_.*|setting_initial_number|settings_read|slot_lost'
for_tests+='|topology_(root|text_.*)|view_(names|variables)'

check_used() { # SOURCE REGEX ARCHIVE...: a global that no other file uses is static, or does not exist
    while read -r name; do
        [[ $name =~ ^(stook_.*|_.*|$2|$for_tests)$ ]] || grep -qrw --include='*.[ch]' "$name" "$1/tools" "$1/src/sim" ||
            error "$name is used by no other file: it can be static, or go"
    done < <(nm "${@:3}" | awk 'NF == 3 && $2 ~ /[TDBR]/ {has[$3]} NF == 2 && $1 == "U" {uses[$2]}
        END {for (name in has) if (!(name in uses)) print name}')
}

self_test() {
    local dir CC=${CC:-cc}
    dir=$(mktemp -d)
    trap "rm -rf '$dir'" EXIT
    mkdir -p "$dir"/{include,tools,src/sim}
    must() { # good|bad WHAT CHECK...: what a check says of what was planted
        local result=good
        fail=0
        "${@:3}" >"$dir/said"
        [ "$fail" = 0 ] || result=bad
        [ "$result" = "$1" ] || {
            echo "self-test: $2 was taken for $result"
            exit 1
        }
    }
    build() { # the library, with the version script $1 if that is not empty
        $CC -shared -fPIC ${1:+-Wl,--version-script,$dir/map} -o "$dir/lib.so" "$dir/barn.c"
        printf '%s\n' "$1" >"$dir/map"
    }
    echo 'int barn_get(void); int barn_get(void) { return 0; } int barn; int stook_barn;
        static int other; int *stook_x(void); int *stook_x(void) { return &other; }' >"$dir/barn.c"
    $CC -c "$dir/barn.c" -o "$dir/barn.c.o" && ar rc "$dir/good.a" "$dir/barn.c.o"
    must good "an archive" check_archive "$dir/good.a" malloc
    cp "$dir/barn.c.o" "$dir/slot.c.o" && ar rc "$dir/bad.a" "$dir/slot.c.o"
    must bad "a global without its noun" check_archive "$dir/bad.a" malloc
    echo 'int barny;' >"$dir/barn.c"
    $CC -c "$dir/barn.c" -o "$dir/barn.c.o" && ar rc "$dir/bad2.a" "$dir/barn.c.o"
    must bad "half a noun" check_archive "$dir/bad2.a" malloc
    must bad "a global that nothing uses" check_used "$dir" malloc "$dir/bad2.a" && echo 'barny' >"$dir/tools/tool.c"
    must good "a global that a tool uses" check_used "$dir" malloc "$dir/bad2.a"

    echo 'int stook_a; int stook_b;' >"$dir/barn.c"
    echo 'STOOK_0.3 { global: stook_*; local: *; };' >"$dir/map"
    build "$(cat "$dir/map")"
    must good "a library" check_dynamic "$dir/lib.so" 'stook_.*'
    printf 'STOOK_API int\nstook_b(int\n x);\nSTOOK_API void *stook_a(void);\n' >"$dir/include/a.h"
    must good "its header" check_public "$dir/lib.so" "$dir/include/a.h"
    echo 'STOOK_API void *stook_c(void);' >>"$dir/include/a.h"
    must bad "a call that is not exported" check_public "$dir/lib.so" "$dir/include/a.h"
    echo 'STOOK_API void *stook_a(void);' >"$dir/include/a.h"
    must bad "an export that is not declared" check_public "$dir/lib.so" "$dir/include/a.h"
    echo 'int stook_a; int slot_b;' >"$dir/barn.c"
    build ''
    must bad "an export without prefix" check_dynamic "$dir/lib.so" 'stook_.*'

    echo 'static int stook_private_a(void) { return 0; } int (*stook_b)(void) = stook_private_a;' >"$dir/barn.c"
    build ''
    must bad "a private call that is hidden" check_private "$dir/lib.so"
    must good "the others" check_dynamic "$dir/lib.so" 'stook_.*'

    echo 'int malloc_trim(unsigned long n) { return !n; }' >"$dir/barn.c"
    build ''
    must good "malloc_trim" check_dynamic "$dir/lib.so" "stook_.*|$malloc_family|$operators"
    must good "malloc_trim without version" check_unversioned "$dir/lib.so"
    echo 'STOOK_0.3 { global: *; };' >"$dir/map"
    build "$(cat "$dir/map")"
    must bad "malloc_trim with a version" check_unversioned "$dir/lib.so"
}

if [ "$1" = --self-test ]; then
    self_test
    exit
fi
source=$1 lib=$2
check_dynamic "$lib/libstook.so" 'stook_.*'
mapfile -t headers < <(ls "$source"/include/stook/*.h | grep -v '/urcu\.h$')
check_public "$lib/stook/sim/libstook.so" "${headers[@]}" # libstook.so's own map, and one more
check_archive "$lib/libstook.a" stook
if [ -e "$lib/libstook-malloc.so" ]; then
    check_dynamic "$lib/libstook-malloc.so" "stook_.*|dlm?open|$malloc_family|$operators"
    check_public "$lib/stook/sim/libstook-malloc.so" "${headers[@]}"
    check_unversioned "$lib/libstook-malloc.so"
    check_private "$lib/libstook-malloc.so"
    check_archive "$lib/libstook-malloc.a" "$malloc_family|$operators"
    check_used "$source" "$malloc_family|$operators|libc_heap_find" "$lib/libstook-malloc.a"
fi
if [ -e "$lib/libstook-urcu.so" ]; then
    check_dynamic "$lib/libstook-urcu.so" 'stook_.*'
    check_public "$lib/libstook-urcu.so" "$source/include/stook/urcu.h"
    check_archive "$lib/libstook-urcu.a" stook
fi
exit $fail
