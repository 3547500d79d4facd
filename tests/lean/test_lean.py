#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
"""The lean library under programs: what it lacks it says, what it has it reports, and it is small."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["STOOK_BUILD_DIR"])
LIBRARY = BUILD / "lib/libstook-malloc.so"
MOST = 320 << 10  # bytes of .text, .rodata and .eh_frame
LACKING = {"STOOK_DEBUG": "FZ", "STOOK_HARDEN": "full", "STOOK_GUARD": "1M", "STOOK_SAMPLE": "1M",
           "STOOK_TRACE": "trace", "STOOK_PROFILE": "profile", "STOOK_FAIL": "1"}


def run(*command, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOOK_")}
    return subprocess.run(command, env={**environment, "LD_PRELOAD": str(LIBRARY), **settings}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=True)


class Lean(unittest.TestCase):
    def test_lacking_settings(self):
        for name, value in LACKING.items():
            said = run("/bin/true", **{name: value}).stderr.splitlines()
            self.assertEqual(len(said), 1, said)
            self.assertIn(f"{name}={value} is ignored: this is the lean library", said[0])
        self.assertFalse(pathlib.Path("trace").exists())

    def test_a_program(self):
        done = run(sys.executable, "-c", "print(open('/proc/self/maps').read())", STOOK_REPORT="1")
        self.assertIn("libstook-malloc", done.stdout)
        self.assertRegex(done.stderr, r"(?m)^malloc\S*\d ")

    def test_exports(self):
        names = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, stdout=subprocess.PIPE,
                               text=True).stdout
        self.assertIn(" stook_cache_create@", names)
        self.assertNotRegex(names, r"stook_(trace_|profile_|cache_debug_set|cache_validate|object_track)")

    def test_archive(self):  # that of malloc: lean.static_link
        source = pathlib.Path(os.environ["STOOK_SOURCE_DIR"])
        for flag in "-static", "-pie":
            with tempfile.TemporaryDirectory() as work:
                subprocess.run([os.environ["CC"], flag, "-fPIE", f"-I{source}/include", "-o", f"{work}/points",
                                source / "examples/ten_lines.c", BUILD / "lib/libstook.a", "-pthread"], check=True)
                done = run(f"{work}/points", LD_PRELOAD="", STOOK_TRACE=f"{work}/trace")
                self.assertRegex(done.stdout, r"(?m)^point ")
                self.assertEqual(done.stderr.count("this is the lean library"), 1, done.stderr)

    def test_size(self):
        sections = subprocess.run(["size", "-A", LIBRARY], check=True, stdout=subprocess.PIPE, text=True).stdout
        size = sum(int(n) for n in re.findall(r"^\.(?:text\S*|rodata\S*|eh_frame)\s+(\d+)", sections, re.M))
        print(f"{size} bytes, at most {MOST}")
        self.assertLessEqual(size, MOST)


if __name__ == "__main__":
    unittest.main()
