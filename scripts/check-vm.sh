#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the tests of a cross-compiled build in a virtual machine: qemu, Debian's kernel and busybox for
# arm64, the tests, their libraries and tests/vm/init.c.  There is rseq, and so both modes.
#
#   check-vm.sh BUILD_DIR [REGEX]   tests labelled unit, api, property, fault, stress, death or surroundings and not
#                                   long, whose name matches; the last line is
#                                   "vm: N passed, N failed, N skipped"
#
# In the environment: VM_KERNEL (a kernel image; else Debian's is fetched into BUILD_DIR/vm), VM_CPU
# (cortex-a72), VM_CPUS (2), VM_MEMORY (3072, in MiB), VM_TIMEOUT (of all, 7200 s), VM_DIR
# (BUILD_DIR/vm).
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "$1") regex=${2:-.}
vm=${VM_DIR:-$build/vm}
root=$vm/root
cross=aarch64-linux-gnu
mkdir -p "$vm"

scripts/vm-fetch.sh busybox-static:arm64 bin/busybox "$vm/busybox"
if [ -z "${VM_KERNEL:-}" ]; then
    VM_KERNEL=$vm/vmlinuz
    package=$(apt-cache depends linux-image-cloud-arm64:arm64 |
        sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    scripts/vm-fetch.sh "${package:-linux-image-cloud-arm64:arm64}" 'boot/vmlinuz-*' "$VM_KERNEL"
fi

# The build as it lies (programs find their libraries from where they are), without debug information.
rm -rf "$root"
mkdir -p "$root/lib"
copy() { # FILE TARGET
    mkdir -p "$(dirname "$2")"
    $cross-strip --strip-debug -o "$2" "$1" 2>/dev/null || cp -L "$1" "$2"
}
for library in "$build"/lib/*.so.?; do
    copy "$library" "$root/$library"
    ln -s "$(basename "$library")" "$root/${library%.?}"
done
mkdir -p "$root/$PWD"
cp -r tests topologies docs include man "$root/$PWD"
find "$build/tests" -name 'test_*' -o -name 'prog_*' -o -name 'plug_*' | while read -r file; do
    [ ! -x "$file" ] || [ ! -f "$file" ] || copy "$file" "$root/$file"
done
for library in ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libgcc_s.so.1 libcmocka.so.0 libstdc++.so.6; do
    for dir in /lib/$cross /usr/lib/$cross /usr/$cross/lib; do
        [ ! -e "$dir/$library" ] || {
            copy "$dir/$library" "$root/lib/$library"
            break
        }
    done
done
$cross-gcc -O2 -static -Wall -Werror -o "$root/init" tests/vm/init.c
mkdir -p "$root/bin" "$root/etc"
cp "$vm/busybox" "$root/bin/busybox"
for tool in sh rm mkdir cp mv ls cat echo true false sleep env kill chmod ln; do
    ln -s busybox "$root/bin/$tool"
done
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"

# NAME TIMEOUT PROGRAM DIRECTORY VARIABLES: from ctest's, with what emulates a program taken away.
(cd "$build" && ctest --show-only=json-v1 -L '^(unit|api|property|fault|stress|death|surroundings)$' \
    -LE '^long$' -R "$regex") | python3 -c '
import json, sys

for test in json.load(sys.stdin)["tests"]:
    if "command" not in test:
        sys.exit(test["name"] + " is not built")
    properties = {p["name"]: p["value"] for p in test["properties"]}
    variables = [v for v in properties.get("ENVIRONMENT", []) if " " not in v and
                 not v.startswith("STOOK_EMULATED=")]
    print(test["name"], properties.get("TIMEOUT", 300), test["command"][-1],
          properties["WORKING_DIRECTORY"], "STOOK_SLOW=1", *variables)
' >"$root/tests"
while read -r _ _ program directory _; do
    mkdir -p "$root/$directory"
    [ -e "$root/$program" ] || echo "no $program"
done <"$root/tests"

(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$vm/initrd"
timeout "${VM_TIMEOUT:-7200}" qemu-system-aarch64 -M virt -accel tcg,thread=multi \
    -cpu "${VM_CPU:-cortex-a72}" -smp "${VM_CPUS:-2}" -m "${VM_MEMORY:-3072}" -nic none -nographic \
    -no-reboot -kernel "$VM_KERNEL" -initrd "$vm/initrd" \
    -append "console=ttyAMA0 quiet panic=-1 ${VM_APPEND:-}" </dev/null | stdbuf -oL tr -d '\r' | tee "$vm/log"
grep -q '^vm: [0-9]* passed, 0 failed, [0-9]* skipped$' "$vm/log"
