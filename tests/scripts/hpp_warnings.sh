#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
# labels: more
# A program that uses all of stook.hpp compiles without a warning, with those that careful projects turn on: GCC's, and
# all of Clang's but for older standards, layouts, pointers as such, and classes that are in headers only.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"

cat >"$work/use.cc" <<'END'
#include <stook/stook.hpp>
#include <map>
#include <string>
#include <vector>

namespace
{
struct thing {
    int number = 1;
    std::string text = "text";
};
struct plain {
    long x, y;
};
struct alignas(256) wide {
    char bytes[256];
};
struct session : stook::typed_new<session> {
    int requests = 0;
};
struct alignas(128) wide_session : stook::typed_new<wide_session> {
    char bytes[128] = {};
};
stook::static_cache<plain> plains{"plain"};

template <class Cache> void use(const Cache &cache)
{
    auto *one = cache.make();
    cache.destroy(one);
    one = cache.make_for_overwrite();
    cache.destroy(one);
    one = cache.try_make();
    cache.destroy(one);
    decltype(one) many[8];
    cache.make_bulk(many, 8);
    cache.destroy_bulk(many, 8);
    if (cache.try_make_bulk(many, 8))
        cache.destroy_bulk(many, 8);
    cache.deallocate(cache.allocate());
    auto owned = cache.make_unique();
}
} // namespace

int main()
{
    stook::cache<thing> things{"thing"};
    use(things);
    use(plains);
    use(stook::cache_view<thing>(things));
    const std::unique_ptr<plain, stook::deleter_of<plains>> owned{plains.make(1L, 2L)};
    delete new session;
    delete new (std::nothrow) wide_session;

    std::map<int, int, std::less<>, stook::allocator<std::pair<const int, int>>> map;
    std::vector<wide, stook::allocator<wide>> wides(3);
    std::pmr::vector<int> numbers({1, 2}, stook::resource());
    map[1] = 2;

    stook::reserve<thing> reserve{things, 4};
    if (auto *kept = reserve.try_make())
        things.destroy(kept);
    reserve.refill(4);
    stook::pool<thing> pool{things, 2};
    auto lent = pool.make_unique();
    pool.destroy(pool.try_make_for(std::chrono::milliseconds(1)));
    stook::reuse_cache<plain> reused;
    reused.give(reused.take());
    auto taken = reused.take_unique();

    stook::group group{"group"};
    const stook::group_scope inside{group};
    group.set_limit(1 << 20);
    return map.size() == 1 && wides.size() == 3 && numbers.size() == 2 && reserve.size() >= 4 &&
                   pool.available() > 0 && group.usage() == 0
               ? 0
               : 1;
}
END
echo 'int narrow(long value) { return value; }' | cat "$work/use.cc" - >"$work/planted.cc"

gcc=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
    -Woverloaded-virtual -Wnull-dereference -Wduplicated-cond -Wlogical-op)
clang=(-Weverything -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-c++20-compat -Wno-c++20-extensions -Wno-padded -Wno-unsafe-buffer-usage
    -Wno-weak-vtables)

compiles() { # COMPILER STANDARD CHECK FILE WARNINGS...
    "$1" -std="$2" -O2 -DSTOOK_CHECK_DELETE="$3" -Werror -I"$STOOK_SOURCE_DIR/include" "${@:5}" -c "$work/$4" -o "$work/use.o" \
        >"$work/said" 2>&1
}

count=0
all() { # COMPILER STANDARDS WARNINGS...
    local compiler=$1 standard check
    command -v "$compiler" >/dev/null || return 0
    ! compiles "$compiler" c++17 0 planted.cc "${@:3}" || { echo "$compiler: a planted conversion is not found"; exit 1; }
    for standard in $2; do
        for check in 0 1; do
            compiles "$compiler" "$standard" "$check" use.cc "${@:3}" || { echo "$compiler $standard, check $check:"; cat "$work/said"; exit 1; }
            count=$((count + 1))
        done
    done
}
all g++ "c++17 c++20 c++23" "${gcc[@]}"
all clang++-16 "c++17 c++20 c++2b" "${clang[@]}"
[ "$count" -gt 0 ] || { echo "no g++, no clang++-16"; exit 77; }
"${CXX:-g++}" -std=c++17 -O1 -g -I"$STOOK_SOURCE_DIR/include" "$work/use.cc" -o "$work/use" -L"$STOOK_BUILD_DIR/lib" \
    -Wl,-rpath,"$STOOK_BUILD_DIR/lib" -lstook
"$work/use"
echo "$count builds without a warning"
