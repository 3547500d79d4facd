#!/bin/bash
# SPDX-License-Identifier: MIT
# CPython's own tests with its memory from Stook, and the package as pip installs it.
#
#   check.sh BUILD [TEST...]     these of CPython's tests instead of the list below
#
# PYTHON is the interpreter (/usr/bin/python3).  Its tests are in Debian's libpython3-testsuite, which lacks test_capi;
# a Python built from source has all.  Without any it says so and exits with 77.
set -euo pipefail
build=$(realpath "$1")
shift
here=$(dirname "$(realpath "$0")")
python=${PYTHON:-/usr/bin/python3}
# test_capi holds the tests of the memory API (PyMem_*, debug hooks, allocation failures).
tests=(test_capi test_dict test_list test_tuple test_set test_bytes test_unicode test_int test_float
    test_gc test_weakref test_json test_pickle test_re test_sort test_generators test_coroutines test_descr test_class
    test_collections test_deque test_array test_memoryview test_buffer test_io test_struct test_itertools
    test_functools test_threading test_thread test_fork1 test_subprocess test_tracemalloc test_sys test_embed
    test_ast test_compile test_exceptions test_zlib test_decimal test_xml_etree test_asyncgen)
[ $# = 0 ] || tests=("$@")

$python -c 'import test.test_dict' 2>/dev/null || {
    echo "CPython's tests are missing (Debian: libpython3-testsuite)"
    exit 77
}
mapfile -t missing < <($python -c '
import importlib.util, sys
for name in sys.argv[1:]:
    if not importlib.util.find_spec("test." + name):
        print(name)' "${tests[@]}")
for one in "${missing[@]}"; do
    echo "this Python comes without $one"
    mapfile -t tests < <(printf "%s\n" "${tests[@]}" | grep -vx "$one")
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The folder of packages of a user who exists only here; site reads stook.pth in it.
version=$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
site=$work/user/lib/python$version/site-packages
mkdir -p "$site"

# A prefix as an installation has it, out of the build folder; then the wheel, built and installed by pip.
mkdir -p "$work/prefix/lib/pkgconfig" "$work/prefix/include"
cp -a "$build"/lib/libstook.so* "$work/prefix/lib"
cp -a "$here/../../include/stook" "$work/prefix/include"
sed "s|^prefix=.*|prefix=$work/prefix|; s|^libdir=.*|libdir=$work/prefix/lib|; s|^includedir=.*|includedir=$work/prefix/include|" \
    "$build/stook.pc" >"$work/prefix/lib/pkgconfig/stook.pc"
cp -r "$here" "$work/source"
PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig $python -m pip install -q --no-build-isolation --no-deps --no-index \
    --root-user-action=ignore --target "$site" "$work/source"
[ -f "$site/stook.pth" ] || {
    echo "pip installed no stook.pth"
    exit 1
}
export PYTHONUSERBASE=$work/user PYTHONSTOOK=1
installed=$($python -c 'import stook; print(*stook.installed())')
[ "$installed" = "raw mem obj" ] || {
    echo "the installed package does not start: $installed"
    exit 1
}
echo "pip: stook is installed, and starts with PYTHONSTOOK=1"

# What fails without Stook on this machine is no failure of Stook: those tests run again without.  Some tests need SIGINT
# as it is in a terminal.  -w: what fails while two run at a time runs again alone, since some tests measure time.
# Of the last summary in a log.
failures() {
    awk '/^== Tests result/ {n = 0} /^[0-9]+ tests? failed/ {on = 1; next} /^[^ ]/ {on = 0}
        on {for (i = 1; i <= NF; i++) name[++n] = $i} END {for (i = 1; i <= n; i++) print name[i]}' "$1"
}

cd "$work"
python="env --default-signal=INT $python"
$python -m test -j2 -w --timeout 300 "${tests[@]}" >"$work/with" 2>&1 && status=0 || status=$?
tail -n 25 "$work/with"
[ $status = 0 ] && exit 0
mapfile -t failed < <(failures "$work/with")
echo "failed with Stook: ${failed[*]}; the same without:"
PYTHONSTOOK=0 $python -m test --timeout 300 "${failed[@]}" >"$work/without" 2>&1 || true
tail -n 12 "$work/without"
mapfile -t alone < <(failures "$work/without")
for one in "${failed[@]}"; do
    [[ " ${alone[*]} " == *" $one "* ]] || {
        cp "$work/with" "$build/adapters-cpython.log"
        echo "only with Stook: $one ($build/adapters-cpython.log)"
        exit 1
    }
done
