#!/bin/bash
# SPDX-License-Identifier: MIT
# What three people type in their first minutes, from nothing, in clean systems, with a stopwatch: a program in C, a server as it
# is, a program in Rust.  README names their lines.  Root only; needs the network; some minutes a system.  The last line is
# "N passed, N failed".
#
#   first-minutes.sh [SUITE...]     bookworm unless said otherwise; each is made by debootstrap in build-packages/first/ and kept;
#                                   a run is made in a copy of it, so that each begins with nothing
#
# In the environment: MIRROR_SUITE, the mirror of that suite (MIRROR_noble=http://archive.ubuntu.com/ubuntu); PEOPLE="c server rust".
set -uo pipefail
cd "$(dirname "$0")/.."
source=$PWD work=$PWD/build-packages/first passed=0 failed=0
[ "$(id -u)" = 0 ] || { echo "first-minutes.sh: please run as root" >&2; exit 1; }
# Bind mounts end with this name space.
if [ -z "${FIRST_INSIDE:-}" ]; then
    exec unshare -m env FIRST_INSIDE=1 "$source/scripts/first-minutes.sh" "$@"
fi
mount --make-rprivate /

# What the person types; each line is shown before it runs, and one that fails ends it.
c='
apt-get -qq update
apt-get -qq install -y --no-install-recommends git make ca-certificates >/dev/null
git clone -q file:///origin stook
make -C stook install >/dev/null
sed -n '\''/^```c$/,/^```$/{//!p}'\'' stook/README.md >server.c
cc server.c $(pkg-config --cflags --libs stook) -o server
./server | grep "^point "
'
server='
apt-get -qq update
apt-get -qq install -y --no-install-recommends git make ca-certificates redis-server procps >/dev/null
git clone -q file:///origin stook
make -C stook install >/dev/null
LD_PRELOAD=/usr/local/lib/libstook-malloc.so redis-server --save "" --daemonize yes
sleep 1
redis-cli set key value
stook list | grep redis-server
stook why redis-server | head -3
redis-cli shutdown
'
rust='
apt-get -qq update
apt-get -qq install -y --no-install-recommends git make ca-certificates cargo >/dev/null
cargo --version
git clone -q file:///origin stook
cargo new -q mine
cd mine
cargo add -q --path ../stook/bindings/rust/stook
sed -n '\''/^```rust src.main.rs$/,/^```$/{//!p;/^```$/q}'\'' ../stook/docs/rust.md >src/main.rs
cargo run -q | grep sessions
'

# A clean system, made once.
root() {
    local mirror=MIRROR_$1
    [ -e "$work/$1/made" ] || {
        rm -rf "${work:?}/$1"
        # shellcheck disable=SC2086
        debootstrap --variant=minbase --components=main,universe "$1" "$work/$1" ${!mirror:-} >"$work/$1.log" 2>&1 ||
            debootstrap --variant=minbase "$1" "$work/$1" ${!mirror:-} >"$work/$1.log" 2>&1 || return 1
        touch "$work/$1/made"
    }
}

# type_all SUITE PERSON: in a copy of the system.
type_all() {
    local dir=$work/run line begin=$SECONDS rc=0
    rm -rf "$dir" && cp -a "$work/$1" "$dir" && mkdir -p "$dir/origin" && cp /etc/resolv.conf "$dir/etc/" || return 1
    [ -z "${SSL_CERT_FILE:-}" ] || cp "$SSL_CERT_FILE" "$dir/this-machine.crt"
    mount --bind "$work/origin.git" "$dir/origin" && mount -t proc proc "$dir/proc" && mount --rbind /dev "$dir/dev" || return 1
    begin=$SECONDS
    {
        echo 'export DEBIAN_FRONTEND=noninteractive HOME=/root; git config --global --add safe.directory "*" 2>/dev/null; cd /root'
        [ ! -e "$dir/this-machine.crt" ] || echo 'export CARGO_HTTP_CAINFO=/this-machine.crt'
        printf '%s\n' "${!2}" | while IFS= read -r line; do
            [ -z "$line" ] || printf 'echo "[$SECONDS s] $ "%q\n{ %s; } || exit 1\n' "$line" "$line"
        done
        echo 'echo "[$SECONDS s] done"'
    } >"$dir/root/typed.sh"
    chroot "$dir" bash -o pipefail /root/typed.sh || rc=1
    umount -l "$dir/dev" "$dir/proc" "$dir/origin"
    echo "$1, $2: $((SECONDS - begin)) s, $([ $rc = 0 ] && echo passed || echo failed)"
    return $rc
}

mkdir -p "$work"
rm -rf "$work/origin.git"
git clone -q --bare "$source" "$work/origin.git" || exit 1
least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' bindings/rust/Cargo.toml)
for suite in "${@:-bookworm}"; do
    root "$suite" || { echo "first-minutes.sh: no system $suite: $work/$suite.log" >&2; failed=$((failed + 1)); continue; }
    for person in ${PEOPLE:-c server rust}; do
        echo "== $suite, $person"
        if [ "$person" = rust ] && cargo=$(chroot "$work/$suite" sh -c 'apt-get -qq update; apt-cache show cargo' 2>/dev/null |
            sed -n 's/^Version: \([0-9.]*\).*/\1/p' | head -1) && dpkg --compare-versions "$cargo" lt "$least"; then
            echo "$suite, rust: its cargo is $cargo, the crate needs $least: left out"
            continue
        fi
        if type_all "$suite" "$person"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
done
rm -rf "$work/run"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
