#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# What is installed under DESTDIR and the prefix is enough to build a program, shared and static,
# and to run one on slab caches.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"

DESTDIR=$work/root cmake --install "$STOOK_BUILD_DIR" >"$work/log" || fail "$(tail -n 20 "$work/log")"
pc=$(find "$work/root" -name stook.pc)
[ "$pc" ] || fail "no stook.pc"
prefix=$(sed -n 's/^prefix=//p' "$pc")
lib=$(sed -n 's/^libdir=//p' "$pc")
lib=$work/root${lib/'${prefix}'/$prefix}
[ -d "$work/root$prefix/include/stook/arch" ] || fail "no headers under $prefix"

export PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_LIBDIR=${pc%/*}
read -ra flags < <(pkg-config --cflags --libs stook)
"$CC" -Wall -Werror -o "$work/shared" "$STOOK_SOURCE_DIR/examples/ten_lines.c" "${flags[@]}"
readelf -d "$work/shared" | grep -q 'NEEDED.*\[libstook\.so\.1\]' || fail "no soname"
readelf -V "$work/shared" | grep -q 'STOOK_0\.3' || fail "no symbol versions"
LD_LIBRARY_PATH=$lib "$work/shared" | grep -q '^point ' || fail "the shared program reports no cache"

read -ra flags < <(pkg-config --cflags stook)
"$CC" -Wall -Werror -o "$work/static" "$STOOK_SOURCE_DIR/examples/ten_lines.c" "${flags[@]}" \
    "$lib/libstook.a" -pthread
"$work/static" | grep -q '^point ' || fail "the static program reports no cache"

# A program that knows of no Stook has its malloc, also with link-time optimisation, where malloc is no symbol yet.
plain=$STOOK_SOURCE_DIR/packaging/consumers/cmake/plain.c
read -ra flags < <(pkg-config --cflags --libs stook-malloc)
for compiler in "$CC" clang clang-16; do
    command -v "$compiler" >/dev/null || continue
    for lto in -fno-lto -flto; do
        "$compiler" -O2 $lto -o "$work/plain" "$plain" "${flags[@]}" || fail "$compiler $lto"
        readelf -d "$work/plain" | grep -q 'NEEDED.*\[libstook-malloc\.so\.1\]' || fail "$compiler $lto leaves it out"
        "$compiler" -O2 $lto -o "$work/plain" "$plain" "${flags[@]/#-lstook-malloc/-l:libstook-malloc.a}" -pthread ||
            fail "$compiler $lto, static"
        [[ $(STOOK_REPORT=1 "$work/plain" 2>&1) == *$'\nmode '* ]] || fail "$compiler $lto leaves the archive out"
    done
done

# A Meson project finds it by pkg-config.
if command -v meson >/dev/null; then
    mkdir "$work/meson"
    cp "$STOOK_SOURCE_DIR"/packaging/consumers/{meson/meson.build,cmake/plain.c} "$STOOK_SOURCE_DIR/examples/ten_lines.c" "$work/meson/"
    { meson setup -Db_lto=true "$work/meson/build" "$work/meson" && meson compile -C "$work/meson/build"; } >"$work/log" 2>&1 ||
        fail "meson: $(tail -n 20 "$work/log")"
    LD_LIBRARY_PATH=$lib "$work/meson/build/typed" | grep '^point ' >"$work/log" || fail "Meson's program reports no cache"
    STOOK_REPORT=1 LD_LIBRARY_PATH=$lib "$work/meson/build/plain" 2>&1 | grep '^malloc-112 ' >"$work/log" || fail "Meson's program has another malloc"
fi

# A module that a program opens has the archive in it.
cat >"$work/plugin.c" <<'PLUGIN'
#include <stook/stook.h>
int plugin(void);
int plugin(void)
{
    struct stook_cache *cache = stook_cache_create("plugin", 100, NULL);
    void *object = cache ? stook_alloc(cache, 0) : NULL;
    stook_free(cache, object);
    return object ? stook_cache_destroy(cache) : 1;
}
PLUGIN
cat >"$work/host.c" <<'HOST'
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *module = dlopen(argv[argc - 1], RTLD_NOW);
    int (*plugin)(void) = module ? (int (*)(void))dlsym(module, "plugin") : 0;
    return plugin ? plugin() || dlclose(module) : 2;
}
HOST
read -ra flags < <(pkg-config --cflags stook)
for lto in -fno-lto -flto; do
    "$CC" -O2 $lto -shared -fPIC -o "$work/plugin.so" "$work/plugin.c" "${flags[@]}" "$lib/libstook.a" -pthread &&
        "$CC" -o "$work/host" "$work/host.c" -ldl && "$work/host" "$work/plugin.so" || fail "a plug-in with the archive ($lto)"
done
"$CC" -O2 -static-pie -fPIE -o "$work/static" "$STOOK_SOURCE_DIR/examples/ten_lines.c" "${flags[@]}" "$lib/libstook.a" -pthread &&
    "$work/static" | grep '^point ' >"$work/log" || fail "-static-pie"

# liburcu's own .pc files are the system's.
if [ -e "$lib/libstook-urcu.so" ]; then
    system=$(env -u PKG_CONFIG_SYSROOT_DIR -u PKG_CONFIG_LIBDIR \
        pkg-config --variable=pcfiledir liburcu-memb)
    read -ra flags < <(PKG_CONFIG_PATH=$system pkg-config --cflags --libs stook-urcu)
    "$CC" -Wall -Werror -o "$work/urcu" "$STOOK_SOURCE_DIR/examples/rcu_readers.c" "${flags[@]}" \
        -lurcu-memb -lurcu-common -pthread
    LD_LIBRARY_PATH=$lib "$work/urcu" | grep -q ' 0 wrong' || fail "readers with liburcu"
fi

# The tool finds the installed library beside itself.
mv "$work/root$prefix" "$work/elsewhere"
"$work/elsewhere/bin/stook" run --report -- true 2>"$work/report" || fail "stook run: $(cat "$work/report")"
grep -q '^total ' "$work/report" || fail "no report: $(cat "$work/report")"
"$work/elsewhere/bin/stook" compare -n 1 --mallocs glibc,stook -- true >"$work/report" 2>&1 || fail "stook compare: $(cat "$work/report")"
readelf -d "$work/elsewhere/bin/stook" "$work"/elsewhere/lib*/libstook*.so \
    "$work"/elsewhere/lib/*/libstook*.so 2>/dev/null | grep RUNPATH | grep -v '\[\$ORIGIN\]' &&
    fail "a run path that is not \$ORIGIN"
exit 0
