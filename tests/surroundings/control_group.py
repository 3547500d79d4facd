# SPDX-License-Identifier: MIT
"""A control group with a limit of memory, where one can be made here: of version 2, else of version 1."""
import os
import resource
import time


def folders():
    """Where a group can be made, the file of its limit, and that of swap."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            with open(root + "/cgroup.subtree_control", encoding="ascii") as file:
                if "memory" in file.read().split():
                    yield root, "memory.max", "memory.swap.max"
        except OSError:
            pass
    yield "/sys/fs/cgroup/memory", "memory.limit_in_bytes", None


class Group:
    def __init__(self, folder, limit, swap):
        self.folder, self.limit_file = folder, limit
        os.mkdir(folder)
        if swap and os.path.exists(os.path.join(folder, swap)):
            self.write(swap, 0)

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def limit(self, size):
        self.write(self.limit_file, size)

    def enter(self):
        """In a child, before its program."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        for _ in range(50):  # a process that was killed leaves a moment later
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.1)
        return os.rmdir(self.folder)


def make(size):
    """None: none can be made here."""
    for root, limit, swap in folders():
        try:
            group = Group(os.path.join(root, f"stook-test-{os.getpid()}"), limit, swap)
        except OSError:
            continue
        try:
            group.limit(size)
            return group
        except OSError:
            group.remove()
    return None
