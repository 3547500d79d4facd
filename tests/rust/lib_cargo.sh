# SPDX-License-Identifier: MIT
# Sourced by the tests of the Rust crates: finds a cargo that is new enough, or says so and skips.
# Crates come from the registry or its cache; Cargo.lock has their versions.

fail() {
    echo "FAILED: $*"
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

# The minor version of a cargo, 0 if there is none.
cargo_minor() {
    "$1" --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p' | grep . || echo 0
}

rust=$STOOK_SOURCE_DIR/bindings/rust
for cargo in "${CARGO:-}" cargo "$HOME/.cargo/bin/cargo" /root/.cargo/bin/cargo; do
    [ "$cargo" ] && [ "$(cargo_minor "$cargo")" -ge 87 ] && break
    cargo=
done
[ "$cargo" ] || skip "no cargo of 1.87 or newer (https://rustup.rs; Debian's is older)"
# Its own rustc and rustdoc beside it.
case $cargo in */*) PATH=${cargo%/*}:$PATH ;; esac
export CARGO_TERM_COLOR=never CARGO_TERM_QUIET=true CARGO_TARGET_DIR=$STOOK_BUILD_DIR/rust
cd "$rust" || fail "no $rust"

need_crates() {
    cargo fetch --locked --offline >/dev/null 2>&1 || cargo fetch --locked >/dev/null 2>&1 ||
        skip "no crates: the registry does not answer, and its cache has not all of $PWD/Cargo.lock"
}

# Another copy of a toolchain: nightly, where there is one.
nightly() {
    cargo +nightly --version >/dev/null 2>&1
}
