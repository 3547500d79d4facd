# SPDX-License-Identifier: MIT
"""Builds the extension against an installed libstook (pkg-config), and puts stook.pth beside the package."""
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


def config(what):
    return subprocess.run(["pkg-config", what, "stook"], check=True, capture_output=True, text=True).stdout.split()


class WithStart(build_py):
    """site reads *.pth of the folder that packages are in, so it goes to the root of the wheel."""
    def run(self):
        super().run()
        Path(self.build_lib).mkdir(parents=True, exist_ok=True)
        shutil.copy("stook.pth", self.build_lib)


LIBDIR = subprocess.run(["pkg-config", "--variable=libdir", "stook"], check=True, capture_output=True,
                        text=True).stdout.strip()
setup(packages=["stook"], cmdclass={"build_py": WithStart},
      ext_modules=[Extension("stook._alloc", ["stook/_alloc.c"], extra_compile_args=config("--cflags"),
                             extra_link_args=config("--libs") + [f"-Wl,-rpath,{LIBDIR}"])])
