#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Plug-ins into which an archive of the library is linked are closed again.  The kernel reads the descriptor of a
thread's last section later, and what the copy of the library took stays: so the plug-in does."""
import tempfile

from surroundings import FOLDER, MODE, check, finish, program, works

ROUNDS = 30
PLUGS = ["plug_close.so", "plug_close_malloc.so"]

def stays(what, *steps, rounds=ROUNDS, locked=MODE == "locked", **variables):
    """Runs the steps so often; neither mappings nor memory grow by the round."""
    argv = ["env", *(f"{name}={value}" for name, value in variables.items()),
            *program("close", rounds, *steps)]
    done = works(what, argv)
    figures = done.figures()
    if rounds == ROUNDS and done.status == 0:
        check(figures["loaded"] == 1, f"{what}: {done}")
        check(figures["maps-late"] <= figures["maps-early"] + 8 and
              figures["kib-late"] <= figures["kib-early"] + 600, f"{what}: {done}")
    check(figures.get("locked", locked) == locked, f"{what}: {done}")


with tempfile.TemporaryDirectory() as folder:
    for name in PLUGS:
        plug, copy, other = f"{FOLDER}/{name}", f"{folder}/{name}", f"{folder}/other_{name}"
        stays(name, "open", plug, "use")
        stays(f"{name} by a relative path", "copy", plug, copy, "chdir", folder, "open", f"./{name}",
              "chdir", "/", "use")
        stays(f"{name}, whose file is gone", "copy", plug, copy, "open", copy, "unlink", copy, "use")
        stays(f"{name}, replaced and found by its name", "copy", plug, copy, "open", copy, "use",
              "unlink", copy, "copy", plug, copy, "open", name, "use", LD_LIBRARY_PATH=folder)
        stays(f"two copies of {name}", "copy", plug, copy, "copy", plug, other, "open", copy, "use",
              "open", other, "use", "unlink", copy, "unlink", other)
        stays(f"{name} in a namespace of its own", "space", plug, "use", rounds=3)
        stays(f"{name}, which cannot be kept", "open", plug, "use", rounds=3, locked=True,
              LD_PRELOAD=f"{FOLDER}/plug_close_refuse.so")
# libstook.so calls this one when readers have left: libstook-urcu.a in a plug-in is alike.
stays("an RCU", "open", f"{FOLDER}/plug_close_rcu.so", "use")
finish()
