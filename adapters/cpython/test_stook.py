#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the package stook:  test_stook.py FOLDER-WITH-THE-PACKAGE

Each test runs an interpreter of its own, since an install lasts until the process ends.
"""
import os
import subprocess
import sys
import unittest

PACKAGE = os.path.abspath(sys.argv.pop(1))
# What site does for a folder of packages, stook.pth included.
BEGIN = f"import sys, site; site.addsitedir({PACKAGE!r}); "


def python(code, *options, **env):
    env = {"PATH": os.environ["PATH"], **env}
    done = subprocess.run([sys.executable, "-B", *options, "-c", BEGIN + code], env=env, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


class Stook(unittest.TestCase):
    def good(self, code, expected, *options, **env):
        self.assertEqual(python(code, *options, **env), (0, expected, ""))

    def test_environment(self):
        show = "import stook; print(stook.installed())"
        self.good(show, "()")
        self.good(show, "()", PYTHONSTOOK="0")
        self.good(show, "('raw', 'mem', 'obj')", PYTHONSTOOK="1")
        self.good(show, "('obj',)", PYTHONSTOOK="obj")
        self.good(show, "()", "-E", PYTHONSTOOK="1")

    def test_wrong_environment_is_said(self):
        code, out, err = python("print(1)", PYTHONSTOOK="objects")
        self.assertEqual((code, out), (0, "1"))
        self.assertIn("no such domain: objects", err)

    def test_objects_move_to_the_allocator(self):
        self.good("import stook; early = object(); stook.install(); late = object(); "
                  "print(stook._alloc.is_ours(early), stook._alloc.is_ours(late))", "False True")

    def test_old_objects_are_freed_by_the_old_allocator(self):
        self.good("import stook, sys; old = [[i] * (i % 50) for i in range(20000)]; first = sys.getallocatedblocks();"
                  "stook.install(); new = [[i] * (i % 50) for i in range(20000)]; del old; "
                  "print(first - sys.getallocatedblocks() > 20000)", "True")

    def test_resize_across(self):
        # Both ways over 8 KiB, and an old list that grows after the install.
        self.good("import stook; old = list(range(100)); stook.install(); old.extend(range(100, 5000)); "
                  "new = bytearray(); [new.extend(b'%04d' % i) for i in range(5000)]; "
                  "ok = old == list(range(5000)) and new == b''.join(b'%04d' % i for i in range(5000)); "
                  "del new[40:], old[10:]; print(ok, new[:8], old)",
                  "True bytearray(b'00000001') [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")

    def test_live(self):
        self.good("import stook; stook.install(); keep = [bytes(1000 - 33) for i in range(3000)]; full = stook.live(); "
                  "del keep; empty = stook.live(); print(full[1024] - empty.get(1024, 0))", "3000")

    def test_every_size_has_the_smallest_cache(self):
        # The domain raw, which hardly anything else uses meanwhile.
        self.good("import ctypes, stook, bisect; stook.install(('raw',)); api = ctypes.pythonapi\n"
                  "api.PyMem_RawMalloc.restype = ctypes.c_void_p; api.PyMem_RawMalloc.argtypes = [ctypes.c_size_t]\n"
                  "caches = list(range(16, 513, 16)) + [b + b // 8 * k for b in (512, 1024, 2048, 4096) for k in range(1, 9)]\n"
                  "expected = dict.fromkeys(caches, 0); before = stook.live()\n"
                  "for size in range(8193): expected[caches[bisect.bisect_left(caches, size)]] += 1\n"
                  "all(api.PyMem_RawMalloc(size) for size in range(8300)); after = stook.live()\n"
                  "print(all(0 <= after.get(s, 0) - before.get(s, 0) - expected[s] <= 3 for s in caches), len(after))", "True 64")

    def test_not_with_tracemalloc(self):
        self.good("import stook, tracemalloc; tracemalloc.start()\n"
                  "try: stook.install()\nexcept RuntimeError: print('refused', stook.installed())", "refused ()")
        # After the install it may trace, and stop.
        self.good("import stook, tracemalloc; stook.install(); tracemalloc.start(); a = [[] for i in range(9999)]; "
                  "n = tracemalloc.get_traced_memory()[0]; tracemalloc.stop(); del a; print(n > 9999 * 56)", "True")

    def test_not_with_debug_hooks(self):
        for options, env in ((("-X", "dev"), {}), ((), {"PYTHONMALLOC": "debug"})):
            code, _, err = python("import stook; stook.install()", *options, **env)
            self.assertEqual((code, "debug hooks" in err), (1, True))

    def test_threads(self):
        self.good("import threading, zlib, hashlib\n"
                  "def work():\n for i in range(300): zlib.decompress(zlib.compress(bytes(20000) + b'%d' % i))\n"
                  "ts = [threading.Thread(target=work) for _ in range(4)]; [t.start() for t in ts]; "
                  "[t.join() for t in ts]; print('done')", "done", PYTHONSTOOK="1")

    def test_fork(self):
        self.good("import os\npid = os.fork()\nif pid == 0:\n a = [[i] for i in range(9999)]; os._exit(7)\n"
                  "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))", "7", PYTHONSTOOK="1")


if __name__ == "__main__":
    unittest.main()
