#!/bin/bash
# SPDX-License-Identifier: MIT
# What stook says where the kernel's Yama restricts ptrace: in a virtual machine, with Debian's kernel and busybox, which
# are fetched and not installed.  The last line is "yama: N right, N wrong".
#
#   check-yama.sh [BUILD_DIR]
#
# In the environment: VM_KERNEL (a kernel image with CONFIG_SECURITY_YAMA), VM_DIR (BUILD_DIR/yama), VM_TIMEOUT (300 s).
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:-build}")
vm=${VM_DIR:-$build/yama}
root=$vm/root
mkdir -p "$vm"

scripts/vm-fetch.sh busybox-static bin/busybox "$vm/busybox"
if [ -z "${VM_KERNEL:-}" ]; then
    VM_KERNEL=$vm/vmlinuz
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    scripts/vm-fetch.sh "${package:-linux-image-cloud-amd64}" 'boot/vmlinuz-*' "$VM_KERNEL"
fi

rm -rf "$root"
mkdir -p "$root"/{bin,etc,proc,sys,dev,tmp,lib/x86_64-linux-gnu}
cp "$vm/busybox" "$root/bin/busybox"
for tool in sh mount cat grep sleep mkfifo poweroff echo su chmod timeout tr; do
    ln -s busybox "$root/bin/$tool"
done
for program in "$build/bin/stook" "$build/tests/programs/prog_seen" "$build/tests/programs/prog_leaks"; do
    cp "$program" "$root/bin"
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
        [[ $library != *libstook* ]] || cp -L "$library" "$root/lib/x86_64-linux-gnu/"
    done
done
cp -L "$build/lib/libstook-malloc.so" "$root/lib/"
printf 'root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n' >"$root/etc/passwd"
cat >"$root/init" <<'EOF'
#!/bin/sh
mount -t proc proc /proc
mount -t devtmpfs dev /dev
chmod 1777 /tmp
right=0 wrong=0
# Starts the program as the user, with what it has in its environment: it is no child of the shell that looks.
start() {
    rm -f /tmp/in /tmp/out
    su user -c "mkfifo /tmp/in; $1 prog_seen </tmp/in >/tmp/out & exec sleep 1000 >/tmp/in" &
    until grep -q ready /tmp/out 2>/dev/null; do sleep 0.2; done
    for p in /proc/[0-9]*; do
        [ "$(cat $p/comm 2>/dev/null)" = prog_seen ] && pid=${p#/proc/}
    done
}
end() {
    kill -9 $pid
    wait
}
# WHO WHAT COMMAND: what the command says to that user, and its status, match.
says_of() {
    said=$(su "$1" -c "$3; echo status \$?" 2>&1 | tr '\n' ' ')
    if echo "$said" | grep -q "$2"; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
        echo "ptrace_scope $(cat /proc/sys/kernel/yama/ptrace_scope), $1: not \"$2\" but: $said"
    fi
}
says() {
    says_of "$1" "$2" "stook caches $pid"
}
leaks() {
    says_of "$1" "$2" "stook run --leaks -- prog_leaks clean fork" # whose child loses a string
}
scope() {
    echo "$1" >/proc/sys/kernel/yama/ptrace_scope
}
scope 0
start ""
says user widgets
leaks user 'lost  *1 .*status 23'
scope 1
leaks user 'lost  *1 .*status 23'
says user 'does not let you look into process .* (prog_seen): kernel.yama.ptrace_scope is 1. *Start it with STOOK_VIEW=1, or run stook with CAP_SYS_PTRACE'
says root widgets
kill -9 $pid $(cat /proc/$pid/status | grep PPid | grep -o '[0-9]*$')
start STOOK_VIEW=1
says user widgets
says root widgets
scope 2
leaks user 'needs ptrace (.*ptrace_scope is 2).*run stook as root.*status 125'
leaks root 'lost  *1 .*status 23'
says user 'ptrace_scope is 2. *Run stook with CAP_SYS_PTRACE'
says root widgets
scope 3
leaks root 'needs ptrace (.*ptrace_scope is 3).*status 125'
says user 'before the next boot: kernel.yama.ptrace_scope is 3'
says root 'before the next boot: kernel.yama.ptrace_scope is 3'
echo "yama: $right right, $wrong wrong"
poweroff -f
EOF
chmod +x "$root/init"
ln -sf busybox "$root/bin/rm"
ln -sf busybox "$root/bin/kill"

(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$vm/initrd"
timeout "${VM_TIMEOUT:-300}" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max,-la57 -smp 2 -m 512 -nic none -nographic \
    -no-reboot -kernel "$VM_KERNEL" -initrd "$vm/initrd" -append "console=ttyS0 quiet panic=-1" </dev/null |
    stdbuf -oL tr -d '\r' | tee "$vm/log"
grep -q '^yama: [1-9][0-9]* right, 0 wrong$' "$vm/log"
