# SPDX-License-Identifier: MIT
"""What the tests of this folder share: a program is run under glibc's malloc and under Stook's, in the
mode that STOOK_MODE asks for, in surroundings that are imitated: files of sysfs, limits, sandboxes.

Nothing here judges a time: a time-out only ends what hangs.
"""
import os
import re
import resource
import shutil
import subprocess
import sys

BUILD = os.environ["STOOK_BUILD_DIR"]
FOLDER = os.environ["STOOK_TEST_DIR"]
PRELOAD = os.path.join(BUILD, "lib", "libstook-malloc.so")
MODE = os.environ.get("STOOK_MODE", "")
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BOTH = (("glibc", False), ("stook", True))

failures = []
skipped = []


def check(good, what):
    """Counts a failure and goes on: one run shows all of them."""
    if not good:
        failures.append(what)
        print("FAILED:", what, flush=True)
    return good


def skip(what):
    skipped.append(what)
    print("skipped:", what, flush=True)


def finish(checked=True):
    """Ends the test; `checked` is false where nothing could be tried."""
    if failures:
        sys.exit(f"{len(failures)} failed")
    sys.exit(0 if checked else 77)


def program(name, *arguments):
    return [os.path.join(FOLDER, "prog_" + name), *map(str, arguments)]


def served(argv, stook, **variables):
    """The command with Stook preloaded, or without; only its last program is."""
    settings = [f"{name}={value}" for name, value in variables.items()]
    return ["env", f"LD_PRELOAD={PRELOAD if stook else ''}", *settings, *argv]


class Done:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def figures(self):
        """The program's lines "name value", as numbers."""
        return {name: int(value) for name, value in re.findall(r"^([\w-]+) (-?\d+)$", self.out, re.M)}

    def __str__(self):
        return f"status {self.status}: {self.out.strip()[-600:]} {self.err.strip()[-600:]}"


def run(argv, limits=(), timeout=120, **how):
    """A status of 0 to 255, minus the signal, or None where it hung."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for limit, value in limits:
            resource.setrlimit(limit, (value, value))

    how.setdefault("preexec_fn", prepare)
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, **how)
    except subprocess.TimeoutExpired as late:
        return Done(None, (late.stdout or b"").decode(errors="replace"),
                    (late.stderr or b"").decode(errors="replace"))
    return Done(done.returncode, done.stdout, done.stderr)


def works(what, argv, **how):
    """Runs a command that must end well; returns what it did."""
    done = run(argv, **how)
    check(done.status == 0, f"{what}: {done}")
    return done


def faked(files, argv):
    """The command in a mount namespace where these files say something else."""
    # A file system of its own for the texts: nothing is left behind.
    script = "mount --make-rprivate / && mount -t tmpfs none $0 || exit 77\n"
    words = []
    for number, (path, text) in enumerate(files.items()):
        script += f'printf "%s\\n" "$2" >$0/{number} && mount --bind $0/{number} "$1" || exit 77\n'
        script += "shift 2\n"
        words += [path, text]
    return ["unshare", "-m", "sh", "-c", script + 'exec "$@"', "/mnt", *words, *argv]


def can_fake(*files):
    if os.geteuid() != 0 or not shutil.which("unshare") or not os.path.isdir("/mnt"):
        return False
    if not all(os.path.exists(path) for path in files):
        return False
    return run(faked({path: "0" for path in files}, ["true"])).status == 0


def traced(calls, argv, log):
    return ["strace", "-f", "-qq", "-o", log, "-e", "trace=" + calls, *argv]


def can_trace():
    return bool(shutil.which("strace")) and run(["strace", "-o", "/dev/null", "true"]).status == 0


def cpus():
    return sorted(os.sched_getaffinity(0))
