#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds one allocator from its crate, and the two workers over it:
#
#   build.sh NAME "SYMBOLS" TARGET OUT CC OBJECT...
#
# NAME is a feature of Cargo.toml. NAME.static has the crate's archive linked in, NAME.shared calls libpeer_NAME.so made
# of the same archive, and libpreload_NAME.so is the same as a malloc to preload. A peer that cannot be built (no network,
# an old cargo, no C++20) is a note beside the workers, which stook-bench shows, and never an error of the build.
# TARGET/built is made only when both are there: a build that failed for want of a network is tried again by the next one.
set -u

name=$1 symbols=$2 target=$3 out=$4 cc=$5
shift 5

here=$(dirname "$0")
log=$target/build.log
archive=$target/release/libpeer.a
mkdir -p "$target" "$out"
rm -f "$target/built" "$out/$name.static" "$out/$name.shared" "$out/$name.static.missing" \
    "$out/$name.shared.missing"

missing() { # LINKED REASON
    echo "$2" >"$out/$name.$1.missing"
    echo "stook-bench: $name ($1) will be missing: $2" >&2
}

# The crates' own makefiles must not inherit a jobserver that is not handed down to them.
unset MAKEFLAGS MFLAGS MAKELEVEL
export CARGO_NET_RETRY="${CARGO_NET_RETRY:-1}"
# Thread-local data as the allocators' own builds have it.
export CFLAGS="${CFLAGS:-} -ftls-model=initial-exec" CXXFLAGS="${CXXFLAGS:-} -ftls-model=initial-exec"
if ! timeout 3600 cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml" --features "$name" \
    --target-dir "$target" >"$log" 2>&1; then
    reason=$(grep -m 1 -E '^error' "$log" | cut -c 1-160)
    missing static "cargo could not build it: ${reason:-see $log}"
    missing shared "cargo could not build it: ${reason:-see $log}"
    exit 0
fi

libs="-lstdc++ -lm -ldl -lpthread"
roots=
for symbol in $symbols; do
    roots="$roots -Wl,--undefined=$symbol"
done

# shellcheck disable=SC2086  # lists of words
$cc -o "$out/$name.static" "$@" "$archive" $libs >>"$log" 2>&1 ||
    missing static "its archive does not link: see $log"
# shellcheck disable=SC2086
{
    $cc -shared -o "$out/libpeer_$name.so" $roots "$archive" -Wl,--gc-sections $libs &&
        $cc -o "$out/$name.shared" "$@" -L"$out" "-lpeer_$name" -Wl,-rpath,'$ORIGIN' $libs
} >>"$log" 2>&1 || missing shared "its archive makes no shared library: see $log"
# One of them has malloc's own names.
family=$here/preload.c
[ "$name" != hardened ] || family=
# shellcheck disable=SC2086
$cc -O2 -fPIC -shared -fno-builtin -D"PEER_$name" -o "$out/libpreload_$name.so" \
    $family $roots "$archive" -Wl,--gc-sections -Wl,-Bsymbolic $libs >>"$log" 2>&1 ||
    echo "stook-bench: $name makes no malloc to preload: see $log" >&2
if [ -x "$out/$name.static" ] && [ -x "$out/$name.shared" ]; then
    touch "$target/built"
fi
exit 0
