#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# timeout: 600
"""A shared object with a cache is loaded, used and unloaded; threads that used it go on, since it stays mapped."""
import ctypes
import os
import subprocess
import sys
import threading

source, build = os.environ["STOOK_SOURCE_DIR"], os.environ["STOOK_BUILD_DIR"]
script = f". {source}/tests/rust/lib_cargo.sh; need_crates; export STOOK_LIB_DIR={build}/lib; " \
    "cargo build --locked --offline --release --example module || fail 'does not build'"
said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
if said.returncode:
    print(said.stdout, said.stderr, sep="")
    sys.exit(said.returncode)

path = f"{build}/rust/release/examples/libmodule.so"
libc = ctypes.CDLL(None)
libc.dlclose.argtypes = [ctypes.c_void_p]


def mapped():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return path in maps.read()


def work(function, stop):
    while not stop.is_set():
        assert function(10000) == 49995000


for _ in range(3):
    module = ctypes.CDLL(path)
    module.module_work.argtypes, module.module_work.restype = [ctypes.c_uint64], ctypes.c_uint64
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(module.module_work, stop)) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.wait(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    assert module.module_work(1000) == 499500
    libc.dlclose(module._handle)
    assert mapped(), "the sections were unmapped under a thread that may point to one"
print("loaded and closed 3 times, still mapped")
