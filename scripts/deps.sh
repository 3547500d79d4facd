#!/bin/bash
# SPDX-License-Identifier: MIT
# Looks for the tools and packages that a target needs and installs what is missing with apt-get.
# Says what it installs; says nothing, and asks nobody, when all is there.
#
#   deps.sh GROUP...    groups of the table below; "all" is all but aarch64, kernel, yama and libstdcxx
set -euo pipefail

# group, Debian package, what shows that it is there: a command, a file (a glob), or an installed
# .pc file (pc:NAME).  Packages that come from elsewhere count as long as that is found.
table='
build       cmake                   cmake
build       ninja-build             ninja
build       gcc                     gcc
build       g++                     g++
build       libc6-dev               /usr/include/stdlib.h
build       pkg-config              pkg-config

check       libcmocka-dev           pc:cmocka
check       liburcu-dev             pc:liburcu-memb
check       libdw-dev               pc:libdw
check       libncurses-dev          pc:ncursesw
check       libmicrohttpd-dev       pc:libmicrohttpd
check       tmux                    tmux
check       python3-prometheus-client /usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py
check       systemtap-sdt-dev       /usr/include/*/sys/sdt.h
check       python3                 python3
check       binutils                nm
check       util-linux              unshare
check       strace                  strace
check       gdb                     gcore
check       chromium                chromium
check       musl-tools              musl-gcc
check       procps                  ps
check       git                     git
check       perl                    perl
check       xz-utils                xz
check       openssl                 openssl
check       clang-16                clang-16
check       meson                   meson
check       clang-tidy-16           clang-tidy-16
check       codespell               codespell
check       nix-bin                 nix-instantiate
check       gcc-aarch64-linux-gnu   aarch64-linux-gnu-gcc
check       g++-aarch64-linux-gnu   aarch64-linux-gnu-g++
check       libc6-dev-arm64-cross   /usr/aarch64-linux-gnu/include/stdlib.h
check       linux-source-6.1        /usr/src/linux-source-6.1.tar.xz

coverage    libcmocka-dev           pc:cmocka
coverage    liburcu-dev             pc:liburcu-memb
coverage    libdw-dev               pc:libdw
coverage    libncurses-dev          pc:ncursesw
coverage    libmicrohttpd-dev       pc:libmicrohttpd
coverage    tmux                    tmux
coverage    python3                 python3
coverage    gcovr                   gcovr

run         python3                 python3
run         libdw-dev               pc:libdw
run         libncurses-dev          pc:ncursesw
run         libmicrohttpd-dev       pc:libmicrohttpd

bench       python3                 python3
bench       libmimalloc-dev         /usr/lib/*/libmimalloc.so
bench       libjemalloc-dev         /usr/lib/*/libjemalloc.a
bench       libgoogle-perftools-dev /usr/lib/*/libtcmalloc_minimal.a
bench       libdpdk-dev             pc:libdpdk
bench       libclang-rt-16-dev      /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-*.so

programs    libpython3.11-testsuite /usr/lib/python3.11/test/test_json/__init__.py
programs    sqlite3                 sqlite3
programs    redis-server            redis-server
programs    redis-tools             redis-benchmark
programs    prometheus              prometheus
programs    php-cli                 php
programs    php-sqlite3             /usr/lib/php/*/pdo_sqlite.so
programs    php-xml                 /usr/lib/php/*/dom.so
programs    dpkg-dev                dpkg-source

look        strace                  strace
look        gdb                     gdb
look        redis-server            redis-server
look        redis-tools             redis-benchmark
look        postgresql              /usr/lib/postgresql/*/bin/postgres

yama        qemu-system-x86         qemu-system-x86_64
yama        cpio                    cpio

libstdcxx   gcc-12-source           /usr/src/gcc-12/gcc-12.*-dfsg.tar.xz
libstdcxx   xz-utils                xz

adapters    libdpdk-dev             pc:libdpdk
adapters    libsqlite3-dev          pc:sqlite3
adapters    tcl-dev                 /usr/lib/tcl8.6/tclConfig.sh
adapters    python3-dev             pc:python3
adapters    python3-pip             pip3
adapters    libpython3.11-testsuite /usr/lib/python3.11/test/test_json/__init__.py
adapters    make                    make
adapters    dpkg-dev                dpkg-source

pools       make                    make
pools       dpkg-dev                dpkg-source
pools       libssl-dev              pc:libcrypto
pools       liblua5.3-dev           pc:lua5.3
pools       libevent-dev            pc:libevent
pools       perl                    perl
pools       varnish                 varnishtest
pools       nghttp2-client          h2load

format      clang-format-14         clang-format-14

models      spin                    spin
models      gcc                     gcc
models      libc6-dev               /usr/include/stdlib.h
models      python3                 python3

fuzz        clang-16                clang-16
fuzz        libclang-rt-16-dev      /usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.fuzzer-*.a
fuzz        llvm-16                 llvm-symbolizer-16
fuzz        python3                 python3

packages    libcmocka-dev           pc:cmocka
packages    liburcu-dev             pc:liburcu-memb
packages    libdw-dev               pc:libdw
packages    libncurses-dev          pc:ncursesw
packages    libmicrohttpd-dev       pc:libmicrohttpd
packages    systemtap-sdt-dev       /usr/include/*/sys/sdt.h
packages    autopkgtest             autopkgtest
packages    debootstrap             debootstrap
packages    debhelper               dh
packages    dpkg-dev                dpkg-buildpackage
packages    fakeroot                fakeroot
packages    lintian                 lintian
packages    meson                   meson
packages    musl-tools              musl-gcc
packages    debian-archive-keyring  /usr/share/keyrings/debian-archive-keyring.gpg
packages    git                     git
packages    xz-utils                xz
packages    util-linux              unshare
packages    python3                 python3
packages    python3-venv            /usr/lib/python3*/ensurepip/__init__.py

dist        git                     git
dist        xz-utils                xz
dist        python3                 python3
dist        python3-venv            /usr/lib/python3*/ensurepip/__init__.py

kernel      gcc                     gcc
kernel      libc6-dev               /usr/include/stdlib.h
kernel      make                    make
kernel      flex                    flex
kernel      bison                   bison
kernel      bc                      bc
kernel      libelf-dev              pc:libelf
kernel      libssl-dev              pc:libcrypto
kernel      liburcu-dev             pc:liburcu-memb
kernel      xz-utils                xz
kernel      debian-archive-keyring  /usr/share/keyrings/debian-archive-keyring.gpg
kernel      python3                 python3
kernel      qemu-system-x86         qemu-system-x86_64

aarch64     gcc-aarch64-linux-gnu   aarch64-linux-gnu-gcc
aarch64     g++-aarch64-linux-gnu   aarch64-linux-gnu-g++
aarch64     qemu-user               qemu-aarch64
aarch64     qemu-system-arm         qemu-system-aarch64
aarch64     cpio                    cpio
aarch64     libcmocka-dev:arm64     /usr/lib/aarch64-linux-gnu/libcmocka.so
'

is_there() {
    case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

missing=()
for group in "$@"; do
    known=
    while read -r of package probe; do
        if [ "$of" = "$group" ] || { [ "$group" = all ] && [[ ! $of =~ ^(aarch64|kernel|yama|libstdcxx)$ ]]; }; then
            known=yes
            is_there "$probe" || missing+=("$package")
        fi
    done < <(grep . <<<"$table")
    [ "$known" ] || {
        echo "deps.sh: no group $group" >&2
        exit 2
    }
done
[ ${#missing[@]} != 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if ! command -v apt-get >/dev/null; then
    echo "deps.sh: not found, and there is no apt-get to install it (Debian's names): ${missing[*]}" >&2
    exit 1
fi
root=()
if [ "$(id -u)" != 0 ]; then
    root=(sudo)
    [ -t 0 ] || root=(sudo -n)
    command -v sudo >/dev/null || {
        echo "deps.sh: please run as root: apt-get install ${missing[*]}" >&2
        exit 1
    }
fi
run() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

echo "installing: ${missing[*]}"
case "${missing[*]}" in
*:arm64*) run dpkg --add-architecture arm64 ;;
esac
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run apt-get -q -o Acquire::Retries=3 update >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "deps.sh: apt-get update failed; going on with the lists that are there" >&2
}
run apt-get -q -y -o Acquire::Retries=3 install --no-install-recommends "${missing[@]}" \
    >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    echo "deps.sh: could not install: ${missing[*]}" >&2
    exit 1
}
