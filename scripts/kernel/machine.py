#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs workloads in an emulated machine and unpacks what they leave.

    machine.py KERNEL TOPOLOGY OUT COMMAND...

KERNEL is a bzImage of build.sh, TOPOLOGY a file of topologies/, OUT a folder for the results, COMMAND
a line for /init: "run NAME SCENARIO [KEY=N]...", "again NAME" (the calls of the last run, one at a time),
"follow NAME=FILE" where FILE is an order to follow, or "ublk NAME READS [APART]".  init.c says what a run leaves.  Needs no rights and no KVM: the emulated CPUs share the
CPUs that there are, so that the events mean something and the times do not.
"""
import argparse
import gzip
import os
import re
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEGABYTES = 2048  # of all nodes together
DISK = 1 << 30    # sparse
FOLDER, CONSOLE = 0o040755, 0o020600  # modes of files


def numbers(text):
    """1,4-6 as a list."""
    result = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        result += range(int(first), int(last or first) + 1)
    return result


class Topology:
    """What a file of topologies/ says, as far as an emulated machine can be given it."""

    def __init__(self, path):
        self.counts = {"node": 1, "core": 1, "smt": 1}
        self.memory = None
        self.distances = []
        with open(path) as file:
            for word in re.sub(r"#.*", "", file.read()).split():
                key, _, value = word.partition(":")
                if key in self.counts and value.isdigit():
                    self.counts[key] = int(value)
                elif key == "memory":
                    self.memory = numbers(value.partition("=")[0])
                elif key == "distance":
                    self.distances.append(value.partition("=")[::2])
                else:
                    sys.exit(f"machine.py: {path}: {word} cannot be emulated")
        self.nodes, self.cores, self.threads = (self.counts[k] for k in ("node", "core", "smt"))
        self.cpus = self.nodes * self.cores * self.threads
        if self.memory is None:
            self.memory = list(range(self.nodes))

    def distance(self, a, b):
        result = 20
        for nodes, far in self.distances:
            if nodes == "*" or (a in numbers(nodes) and b in numbers(nodes)):
                result = int(far)
        return result

    def arguments(self):
        """Node n has the CPUs n*cores.., and the second threads of these cores half of all CPUs on."""
        result = ["-smp", str(self.cpus), "-m", f"{MEGABYTES}M"]
        each = MEGABYTES // len(self.memory)
        for node in range(self.nodes):
            text = f"node,nodeid={node}"
            if node in self.memory:
                result += ["-object", f"memory-backend-ram,id=m{node},size={each}M"]
                text += f",memdev=m{node}"
            for thread in range(self.threads):
                first = thread * self.nodes * self.cores + node * self.cores
                text += f",cpus={first}-{first + self.cores - 1}"
            result += ["-numa", text]
        for a in range(self.nodes):
            for b in range(self.nodes):
                if a != b:
                    result += ["-numa", f"dist,src={a},dst={b},val={self.distance(a, b)}"]
        return result


def cpio(files):
    """An archive in the format that the kernel unpacks: name -> (mode, bytes).  Devices: the console."""
    result = b""
    files = dict(files, **{"TRAILER!!!": (0, b"")})
    for at, (name, (mode, data)) in enumerate(files.items()):
        device = (5, 1) if mode == CONSOLE else (0, 0)
        fields = [at + 1, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        result += head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
    return result


def initramfs(out, commands):
    init = os.path.join(out, "init")
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-static", "-pthread", "-o", init,
                    *(os.path.join(HERE, name) for name in ("init.c", "ublk.c"))], check=True)
    files = {name: (FOLDER, b"") for name in ("dev", "proc", "sys")}
    files["dev/console"] = (CONSOLE, b"")
    with open(init, "rb") as file:
        files["init"] = (0o100755, file.read())
    plan = ""
    for command in commands:
        words = command.split()
        if words[0] == "follow":
            words[1], _, path = words[1].partition("=")
            with open(path, "rb") as file:
                files[words[1] + ".order"] = (0o100644, file.read())
        plan += " ".join(words) + "\n"
    files["plan"] = (0o100644, plan.encode())
    path = os.path.join(out, "initramfs.gz")
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(cpio(files))
    return path


# The emulator's clock is the machine's, so that on a busy machine little is done between two ticks: the
# kernel's tests of its timers, and its measurements of delays, would fail or never end.  Caches are not
# merged, so that the block layer's has a folder of its own.
APPEND = "console=ttyS0 rdinit=/init loglevel=5 panic=-1 no_timer_check lpj=4000000 slab_nomerge"


def boot(kernel, topology, out, initrd, seconds, more):
    """The machine runs until it turns itself off; its console goes to OUT/console."""
    disk = os.path.join(out, "disk")
    with open(disk, "wb") as file:
        file.truncate(DISK)
    console = os.path.join(out, "console")
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi",
               "-cpu", "max,-la57", *topology.arguments(), "-kernel", kernel, "-initrd", initrd,
               "-append", f"{APPEND} {more}",
               "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
               "-display", "none", "-serial", f"file:{console}", "-monitor", "none",
               "-nodefaults", "-no-reboot"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=seconds, check=True)
    except subprocess.TimeoutExpired:
        sys.exit(f"machine.py: not done after {seconds} s; its console is {console}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"machine.py: the emulator ended with status {error.returncode}")
    return disk, console


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("topology")
    parser.add_argument("out")
    parser.add_argument("command", nargs="+")
    parser.add_argument("--seconds", type=int, default=900, help="at most so long (900)")
    parser.add_argument("--append", default="", help="for the kernel's command line")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    topology = Topology(options.topology)
    began = time.monotonic()
    initrd = initramfs(options.out, options.command)
    disk, console = boot(options.kernel, topology, options.out, initrd, options.seconds,
                         options.append)
    names = []
    try:
        with tarfile.open(disk) as archive:
            for member in archive:
                names.append(member.name)
                archive.extract(member, options.out)
    except tarfile.TarError:
        pass  # an archive that was begun: what is missing is said below
    for path in (disk, initrd, os.path.join(options.out, "init")):
        os.remove(path)
    if "machine" not in names:
        with open(console) as file:
            sys.stderr.write(file.read()[-2000:])
        sys.exit("machine.py: the machine did not come to the end of its plan")
    print(f"{options.out}: {sum(n.endswith('.order') for n in names)} runs on {topology.cpus} CPUs "
          f"of {topology.nodes} nodes in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
