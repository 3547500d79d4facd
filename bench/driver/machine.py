# SPDX-License-Identifier: MIT
"""The machine that a table is of, and the state that runs on it can ask for: huge pages, and warm or cold memory."""
import ctypes
import glob
import mmap
import os
import platform
import re
import shlex
import sys
import time

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, EXCEPT_ADVISED = 41, 42, 2
BALLOON_REPORTS = 5  # the feature by which a guest's free memory goes back to the host
COLD_SECONDS = 3  # the kernel reports free memory after two
MIB = 1 << 20
COMMAND = "STOOK_BENCH_COMMAND"  # in the environment: what the user typed


def add_options(parser):
    parser.add_argument("--thp", choices=("never", "madvise"), help="transparent huge pages of what runs (default: as "
                        "the machine is set)")
    parser.add_argument("--root", metavar="DIR", help="run inside the root of another Debian, with its C library and its "
                        "programs; needs python3 there")


def read(path, otherwise=""):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return otherwise


def prctl(*arguments):
    return ctypes.CDLL(None).prctl(*(ctypes.c_ulong(one) for one in (*arguments, 0, 0, 0, 0)[:5]))


def set_thp(wanted):
    """For this process and all that it starts: the kernel keeps it across fork() and exec()."""
    state = re.findall(r"\[(\w+)\]", read(HUGE_PAGES, "[never]"))[0]
    if not wanted or wanted == state:
        return
    if state == "never":
        sys.exit(f"stook-bench: --thp {wanted}: write {wanted} to {HUGE_PAGES} first")
    if prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED if wanted == "madvise" else 0) != 0:
        sys.exit(f"stook-bench: --thp {wanted}: this kernel cannot, write {wanted} to {HUGE_PAGES}")


def enter_root():
    """With --root DIR: starts the same command again inside DIR, where this tree and the build have the same paths."""
    os.environ.setdefault(COMMAND, shlex.join(["stook-bench", *sys.argv[1:]]))
    at = next((i for i, word in enumerate(sys.argv) if word == "--root"), None)
    if at is None or at + 1 == len(sys.argv):
        return
    root = os.path.realpath(sys.argv.pop(at + 1))
    sys.argv.pop(at)
    if not os.access(root + "/usr/bin/python3", os.X_OK):
        sys.exit(f"stook-bench: --root {root}: no python3 in it")
    program = os.path.abspath(sys.argv[0])
    build, source = (os.path.dirname(os.path.dirname(path)) for path in (program, os.path.dirname(os.path.realpath(program))))
    script = "".join(f"mkdir -p {there} && mount --rbind {here} {there} || exit; " for here, there in (
        (shlex.quote(folder), shlex.quote(root + folder)) for folder in ("/proc", "/sys", "/dev", "/tmp", source, build)))
    inside = 'cd "$0" 2>/dev/null; exec "$@"'  # where the user is, if the root has that folder
    os.execvp("unshare", ["unshare", "-m" if os.getuid() == 0 else "-rm", "sh", "-c", script + 'exec chroot "$@"', "sh",
                          root, "/bin/sh", "-c", inside, os.getcwd(), "/usr/bin/python3", program, *sys.argv[1:]])


def make_memory(state):
    """Before a run: cold gives the host the time to take free memory back, warm touches what the run is about to use."""
    if state == "cold":
        time.sleep(COLD_SECONDS)
    elif state == "warm":
        available = int(re.findall(r"MemAvailable:\s+(\d+)", read("/proc/meminfo"))[0]) << 10
        mmap.mmap(-1, min(1024 * MIB, available // 4), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def facts(memory=None):
    """(what, how it is here) of everything that a figure may depend on."""
    cpu = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)", read("/proc/cpuinfo"), re.M))
    model = f"{cpu.get('model name', platform.machine())} (family {cpu.get('cpu family')}, model {cpu.get('model')})"
    total = int(re.findall(r"MemTotal:\s+(\d+)", read("/proc/meminfo"))[0]) / MIB
    reports = any(read(path)[BALLOON_REPORTS:][:1] == "1" for path in glob.glob(
        "/sys/bus/virtio/drivers/virtio_balloon/*/features"))
    off = {1: "; off for what runs", 3: "; as by madvise for what runs"}.get(prctl(PR_GET_THP_DISABLE), "")
    yield "CPU", f"{model}, {os.cpu_count()} CPUs, {total:.0f} GiB"
    yield "kernel", os.uname().release + (", free memory goes back to the host" if reports else "")
    yield "huge pages", read(HUGE_PAGES, "none").strip() + off
    yield "memory", memory or "neither made cold nor warm"
    yield "C library", os.confstr("CS_GNU_LIBC_VERSION")
    yield "date", time.strftime("%Y-%m-%d %H:%M %Z")
    yield "command", os.environ.get(COMMAND, shlex.join(sys.argv))


def say_facts(file, *more, memory=None):
    for what, how in (*facts(memory), *more):
        print(f"# {what}: {how}", file=file)
