#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What sampled profiles cost real programs, as a count of instructions.

instructions.py [--runs N] [--every BYTES] [--build DIR] [PROGRAM]...

A clock cannot tell 0.3 %: caches, frequency and neighbours move a program's time by more.  So the programs run in QEMU,
whose clock advances by 1 ns with each instruction of the guest (-icount shift=0), kernel and user.  A process's CPU
time there is its count of instructions; the kernel's part differs from run to run.  A first run of each is not counted,
and the two ways go first in turns.  There is rseq.  What QEMU does not count is misses of caches.

Debian's kernel is fetched into DIR/instructions and not installed; VM_KERNEL names another one.  Programs: ld (all of
libc.a), python (documents of JSON), cc1 (one file of the library), redis (keys of several types).
"""
import argparse
import itertools
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
SOURCE = "src/cache/cache.c"
LEFT_OUT = ("test", "idlelib", "tkinter", "lib2to3", "ensurepip", "dist-packages", "pydoc_data", "turtledemo",
            "config-*")


# In the guest.


def guest():
    import ctypes  # pylint: disable=import-outside-toplevel

    import profiles  # pylint: disable=import-outside-toplevel

    libc = ctypes.CDLL(None)
    os.environ["PATH"] = "/usr/bin"
    for folder in ("/proc", "/sys", "/tmp", "/dev"):
        os.makedirs(folder, exist_ok=True)
    libc.mount(b"proc", b"/proc", b"proc", 0, None)
    libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None)
    libc.mount(b"dev", b"/dev", b"devtmpfs", 0, None)
    libc.mount(b"tmp", b"/tmp", b"tmpfs", 0, None)

    def run_cc1(env, folder):
        cc1 = next(pathlib.Path("/usr/lib/gcc").glob("*/*/cc1"))
        subprocess.run(["setarch", "-R", str(cc1), "-quiet", "-fpreprocessed", "-O2", "-o", "/dev/null", "/source.i"],
                       check=True, env=env)

    profiles.REDIS_BLOCKS = 6
    profiles.PROGRAMS["cc1"] = (run_cc1, "")
    runs, every, *names = pathlib.Path("/options").read_text().split()
    with tempfile.TemporaryDirectory() as folder:
        for run, name, turn in itertools.product(range(int(runs) + 1), names, (0, 1)):
            # Run 0 warms up.  Each mode is the first one in half of the others: what runs first finds other pages.
            mode = ("0", every)[turn ^ run % 2]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            try:
                profiles.PROGRAMS[name][0](
                    {"PATH": "/usr/bin", "LD_PRELOAD": "/libstook-malloc.so", "STOOK_SAMPLE": mode},
                    pathlib.Path(folder))
            except Exception as error:  # pylint: disable=broad-except
                print("failed:", name, error, flush=True)
                break
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            print("ran:" if run > 0 else "warm:", name, mode, round(1e9 * (after.ru_utime - before.ru_utime)),
                  round(1e9 * (after.ru_stime - before.ru_stime)), after.ru_minflt - before.ru_minflt, flush=True)
    libc.reboot(0x4321FEDC)  # RB_POWER_OFF


# On the host.


def kernel(vm):
    if "VM_KERNEL" in os.environ:
        return pathlib.Path(os.environ["VM_KERNEL"])
    image = vm / "vmlinuz"
    if not image.exists():
        depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        package = re.search(r"Depends: (linux-image-\S+)", depends).group(1)
        print("fetching:", package, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["apt-get", "-q", "download", package], check=True, cwd=folder, stdout=subprocess.DEVNULL)
            subprocess.run(["dpkg-deb", "-x", next(pathlib.Path(folder).glob("*.deb")), folder], check=True)
            shutil.copy(next(pathlib.Path(folder).glob("boot/vmlinuz-*")), image)
    return image


def printed(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def copy(root, path, target=None):
    """The file and the libraries that it needs, at the same places."""
    target = root / str(target or path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
    said = subprocess.run(["ldd", path], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for library in re.findall(r"(/\S+)", said.stdout):
        library = library.rstrip(":")
        if not (root / library[1:]).exists() and library != str(path):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])


def fill(root, build, names):
    python = os.path.realpath(shutil.which("python3", path="/usr/bin"))
    stdlib = printed(python, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))")
    copy(root, python)
    (root / "usr/bin/python3").symlink_to(python)
    shutil.copytree(stdlib, root / stdlib[1:], ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    for module in pathlib.Path(stdlib).glob("lib-dynload/*.so"):
        copy(root, module)
    copy(root, shutil.which("setarch"), "usr/bin/setarch")
    copy(root, build / "lib/libstook-malloc.so", "libstook-malloc.so")
    copy(root, printed("gcc", "-print-file-name=libgcc_s.so.1"), "lib/x86_64-linux-gnu/libgcc_s.so.1")
    if "ld" in names:
        copy(root, "/usr/bin/gcc")
        copy(root, os.path.realpath("/usr/bin/ld"), "usr/bin/ld")
        copy(root, printed("gcc", "-print-file-name=libc.a"))
        (root / "usr/lib/gcc/x86_64-linux-gnu" / printed("gcc", "-dumpversion")).mkdir(parents=True, exist_ok=True)
    if "cc1" in names:
        copy(root, printed("gcc", "-print-prog-name=cc1"))
        with open(root / "source.i", "w", encoding="utf-8") as out:
            subprocess.run(["gcc", "-E", "-std=gnu17", "-Isrc", "-Iinclude", f"-I{build}/include", SOURCE], check=True,
                           cwd=TOP, stdout=out)
    if "redis" in names:
        copy(root, shutil.which("redis-server"), "usr/bin/redis-server")
    shutil.copy(TOP / "bench/profiles.py", root / "profiles.py")
    shutil.copy(__file__, root / "instructions.py")
    (root / "init").write_text(f"#!{python} -B\nimport sys\nsys.path.insert(0, '/')\n"
                               "import instructions\ninstructions.guest()\n")
    (root / "init").chmod(0o755)


def host():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--every", type=int, default=512 << 10)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    names = options.program or ["ld", "python", "cc1"] + ["redis"] * bool(shutil.which("redis-server"))
    vm = options.build.resolve() / "instructions"
    root = vm / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    image = kernel(vm)
    fill(root, options.build.resolve(), names)
    (root / "options").write_text(f"{options.runs} {options.every} {' '.join(names)}\n")
    with open(vm / "initrd", "wb") as out:
        files = subprocess.run(["find", "."], check=True, cwd=root, stdout=subprocess.PIPE).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], check=True, cwd=root, input=files, stdout=out)
    shutil.rmtree(root)
    counts = {}
    with subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu",
             "max,-la57,-erms,-fsrm", "-smp", "1", "-m", "2048", "-nic", "none", "-nographic", "-no-reboot", "-kernel",
             image,
             "-initrd", vm / "initrd", "-append",
             "console=ttyS0 quiet panic=-1 nokaslr norandmaps tsc=reliable clocksource=tsc mitigations=off "
             "transparent_hugepage=madvise"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as machine:
        for line in machine.stdout:
            said = re.search(r"ran: (\S+) (\d+) (\d+) (\d+) (\d+)", line)
            if said:
                run = [int(number) for number in said.groups()[1:]]
                counts.setdefault(said[1], {}).setdefault(run[0], []).append(run[1:])
                print(f"{said[1]:8} {run[0]:7}: {(run[1] + run[2]) / 1e6:8.2f} million, {run[2] / 1e6:.2f} of them in the "
                      f"kernel, {run[3]} faults", flush=True)
            elif re.search("fail|error|panic", line, re.IGNORECASE):
                print(line.rstrip(), flush=True)
    print(f"\n{'program':8} {'million':>9} {'spread':>7} {'sampled':>9} {'spread':>7} {'more':>8}")
    for name, modes in counts.items():
        off, sampled = ([(run[0] + run[1]) / 1e6 for run in modes[mode]] for mode in (0, options.every))
        mean, more = statistics.mean(off), statistics.mean(sampled)
        print(f"{name:8} {mean:9.1f} {(max(off) - min(off)) / mean:7.2%} {more:9.1f} "
              f"{(max(sampled) - min(sampled)) / mean:7.2%} {more / mean - 1:+8.2%}")
    sys.exit(set(counts) != set(names))


if __name__ == "__main__":
    host()
