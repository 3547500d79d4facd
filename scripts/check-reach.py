#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails where a tool could change another process, and where a file is opened that text/file.h should open.

check-reach.py SOURCE        the sources below SOURCE/tools and SOURCE/src
check-reach.py --self-test   violations planted in texts must be found

Who looks into a process must be able to trust that the process cannot use it: not to write somewhere, and not to wait for
ever.  So no tool has a call that writes into a process or signals one that it did not start, and files whose names come
from elsewhere are opened by file_open_read() and file_open_write() alone.
"""
import pathlib
import re
import sys

# In tools/, also in scripts of debuggers.
WRITES = re.compile(r"process_vm_writev|process_madvise|pidfd_send_signal|PTRACE_(?:POKE|SET(?!OPTIONS)|CONT\b|SYSCALL)\w*|(?:tg?|pthread_)?kill\("
                    r"|/mem\"|write_memory|gdb\.execute\(f?[\"'](?:call|set|print)|inferior_call")
OPENS = re.compile(r"(?<![\w.])(?:raw_)?(?:open|openat|fopen|freopen|creat)\((?!\))")

# By file, what may stand in a line that is found, and why.
MAY = {
    "tools/compare/launch.c": {"kill(child, signal": "a child of its own", "open(name, O_RDONLY": "/proc/PID/maps",
                               "PTRACE_CONT, pid": "a process that it traces goes on"},
    "tools/export/http.c": {"kill(c->child": "a child of its own, which it has not waited for"},
    "tools/look/apart.c": {"kill(child": "the same", "fopen(path": "/proc/PID/stat"},
    "tools/look/target_pid.c": {"openat(folder, name": "the kernel's files of a process", 'openat(pid_folder(target), resident ? "smaps" : "maps"': "the same",
                                "open(path, O_RDONLY | O_DIRECTORY": "/proc/PID", 'openat(own->folder, "pagemap"': "the kernel's"},
    "tools/look/stop.c": {"fopen(path": "/proc/PID/syscall", "PTRACE_CONT, thread->number": "a thread that it traces goes on"},
    "tools/stook/run_leaks.c": {"fopen(path": "/proc/PID/status", "PTRACE_CONT, thread,": "a thread that it traces goes on",
                                "kill(tree.program": "a child of its own, which it has not waited for"},
    "tools/stook/look/look_show.c": {"fopen(path": "/proc/PID/statm"},
    "tools/export/metrics.c": {'fopen("/proc/stat"': "the kernel's"},
    "tools/plan/slabinfo.c": {"fopen(SLABINFO_PROC": "the kernel's"},
    "tools/stook/profile/profile.c": {"fopen(path": "output, by the user's own name", "kill(profile_child": "a child of its own"},
    "tools/stook/look/report.c": {"fopen(html": "output, by the user's own name"},
    "tools/lab/order_write.c": {'fopen(file, "wbe"': "output, by the user's own name"},
    "tools/lab/trace_read.c": {"open(name, O_RDONLY | O_NONBLOCK": "of a program without the library; it must be a regular file"},
    "tools/stook/standard.c": {'open("/"': "holds a descriptor's number"},
    "src/text/file.c": {"": "it is the one"},
    "src/base/raw.h": {"": "the calls themselves"},
    "src/face/affinity.c": {'raw_openat(AT_FDCWD, "/proc/self/task"': "the kernel's"},
    "src/watch/profile_maps.c": {'raw_openat(AT_FDCWD, "/proc/self/mem", O_RDONLY': "its own memory, to be read"},
    "src/cache/init.c": {"open(map->l_name": "dlopen()"},
    "src/text/maps.c": {'raw_openat(AT_FDCWD, "/proc/self/maps"': "the kernel's"},
    "src/os/os_linux.c": {"raw_openat(AT_FDCWD, path": "the kernel's files of CPUs and nodes"},
}


def check(name, text):
    """What is found in a file, and what MAY lists of it."""
    may, used = MAY.get(name, {}), set()
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"/\*.*?(\*/|$)|^ \*.*", "", line)
        wrong = OPENS.search(code) if name.endswith((".c", ".h")) else None
        if name.startswith("tools/"):
            wrong = WRITES.search(code) or wrong
        found = [words for words in may if words in code]
        used.update(found if wrong else [])
        if wrong and not found:
            yield f"{name}:{number}: {wrong[0].rstrip('(')}: {line.strip()}"
    for words in may:
        if words not in used:
            yield f"{name}: no line has any more, but listed: {words}"


def main(root):
    errors = []
    seen = set()
    for path in sorted([*root.glob("tools/**/*.*"), *root.glob("src/**/*.[ch]")]):
        if path.suffix in (".c", ".h", ".py", ".bt"):
            name = str(path.relative_to(root))
            seen.add(name)
            errors += check(name, path.read_text(encoding="utf-8"))
    errors += [f"{name}: listed, but not there" for name in MAY if name not in seen]
    print(*errors, sep="\n")
    return 1 if errors else 0


def self_test():
    MAY.clear()
    MAY["tools/a.c"] = {"kill(child": "a reason"}
    for line in ("process_vm_writev(pid, a, 1, b, 1, 0);", "ptrace(PTRACE_POKEDATA, pid, at, word);", "ptrace(PTRACE_SETREGSET, pid, 1, &r);",
                 "kill(pid, 9);", "tgkill(pid, t, 9);", 'f = fopen(path, "re");', "fd = open(path, O_RDONLY);", "fd = raw_openat(AT_FDCWD, path, 0, 0);",
                 'openat(folder, "mem", O_RDWR)', 'snprintf(path, n, "/proc/%d/mem", pid);'):
        assert len([*check("tools/b.c", line)]) == 1, line
    for line in ("file_open_read(path);", "/* open(path) */", " * kill(pid) in a comment", "dwarf_open(path)", "heap_open(target, &error)",
                 "ptrace(PTRACE_GETREGSET, pid, 1, &r);", "x.open(1)", "ptrace(PTRACE_DETACH, pid, 0, 0);"):
        assert not [*check("tools/b.c", line)], line
    assert not [*check("src/b.c", "kill(pid, 9);")] and [*check("src/b.c", "raw_openat(AT_FDCWD, path, 0, 0);")]
    assert [*check("tools/b.py", "gdb.execute('call f()')")] and [*check("tools/b.py", "inferior.write_memory(at, text)")]
    assert not [*check("tools/a.c", "kill(child, 9);")]
    assert len([*check("tools/a.c", "")]) == 1, "what is listed and gone"


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
