#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: preload
# labels: long
# timeout: 1200
# What make check has no time for: lints, documentation and its examples, every way to build, sanitizers.
set -euo pipefail
. "${0%/*}/lib_cargo.sh"
need_crates
export STOOK_LIB_DIR=$STOOK_BUILD_DIR/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() {
    echo "== $*"
}

if cargo clippy --version >/dev/null 2>&1; then
    step "clippy"
    cargo clippy --locked --offline --workspace --all-targets --all-features -- -D warnings
    cargo clippy --locked --offline -p stook --no-default-features -- -D warnings
else
    echo "no clippy: lints are not checked"
fi

step "documentation and its examples"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --offline --workspace --no-deps --all-features
cargo test --locked --offline -p stook --doc --all-features

step "every operation a call"
CARGO_TARGET_DIR=$CARGO_TARGET_DIR-calls cargo test --locked --offline -p stook --tests \
    --features no-inline,allocator-api2

step "optimised"
cargo test --locked --offline --release -p stook --tests --features allocator-api2

step "assertions of the library's own"
for dev in "$STOOK_SOURCE_DIR"/build-dev/lib; do
    [ -e "$dev/libstook.a" ] || continue
    STOOK_LIB_DIR=$dev cargo test --locked --offline -p stook --tests
done

step "the library from its sources"
env -u STOOK_LIB_DIR CARGO_TARGET_DIR="$CARGO_TARGET_DIR-vendored" cargo test --locked --offline \
    -p stook --features vendored --test objects --test threads

step "the lean library from its sources"
env -u STOOK_LIB_DIR CARGO_TARGET_DIR="$CARGO_TARGET_DIR-lean" cargo test --locked --offline -p stook \
    --no-default-features --features alloc,vendored --test objects --test threads

step "the installed library, by pkg-config"
DESTDIR=$work/root cmake --install "$STOOK_BUILD_DIR" >"$work/log" || fail "$(tail -n 20 "$work/log")"
pc=$(find "$work/root" -name stook.pc)
lib=$work/root$(PKG_CONFIG_LIBDIR=${pc%/*} pkg-config --variable=libdir stook)
env -u STOOK_LIB_DIR PKG_CONFIG_SYSROOT_DIR="$work/root" PKG_CONFIG_LIBDIR="${pc%/*}" \
    LD_LIBRARY_PATH="$lib" CARGO_TARGET_DIR="$work/installed" cargo test --locked --offline -p stook \
    --test objects
objects=$(find "$work/installed/debug/deps" -name 'objects-*' -perm -u+x)
readelf -d "$objects" | grep -q 'NEEDED.*libstook\.so' || fail "not linked to the shared library"

step "an allocator in Rust in place of the library"
RUSTFLAGS="--cfg stook_mock" CARGO_TARGET_DIR="$CARGO_TARGET_DIR-mock" cargo test --locked --offline \
    -p stook --test objects --test types
if nightly; then
    step "the same under AddressSanitizer"
    # Leaks are none of its business: static caches live until the process ends.
    RUSTFLAGS="--cfg stook_mock -Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 \
        CARGO_TARGET_DIR="$CARGO_TARGET_DIR-asan" cargo +nightly test --locked --offline \
        --target x86_64-unknown-linux-gnu -p stook --test objects --test types
    step "a nightly compiler: labels with outputs, the standard library's Allocator"
    RUSTFLAGS="--cfg stook_nightly" CARGO_TARGET_DIR="$CARGO_TARGET_DIR-nightly" cargo +nightly test \
        --locked --offline -p stook --tests --features allocator-api2
    if cargo +nightly miri --version >/dev/null 2>&1; then
        step "Miri"
        CARGO_TARGET_DIR="$CARGO_TARGET_DIR-miri" cargo +nightly miri test --locked --offline -p stook \
            --test objects --test types
    else
        echo "no Miri (rustup +nightly component add miri): AddressSanitizer stands in for it"
    fi
else
    echo "no nightly toolchain: no AddressSanitizer, no Miri, no Allocator of the standard library"
fi
