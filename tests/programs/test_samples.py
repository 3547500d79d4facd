#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default
"""A program's sampled profile: what is in use is what the library says, stook profile reads it, and pprof's message has
Go's sample types, labels, and differences."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/support"))
import pprof

BUILD = pathlib.Path(os.environ["STOOK_BUILD_DIR"])
STOOK = BUILD / "bin/stook"
PROGRAM = r"""
import os, signal
kept = [str(i) * 20 for i in range(200000)]
os.kill(os.getpid(), signal.SIGUSR2)
more = [bytes(3000 + i % 5) for i in range(4000)]
large = bytes(64 << 20)
os.kill(os.getpid(), signal.SIGUSR2)
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "profile"
        env = os.environ | {"LD_PRELOAD": str(BUILD / "lib/libstook-malloc.so"), "STOOK_SAMPLE": "64K",
                            "STOOK_PROFILE": f"USR2,{out}", "PYTHONMALLOC": "malloc"}
        program = os.path.realpath("/usr/bin/python3")
        subprocess.run([program, "-c", PROGRAM], env=env, check=True)
        documents = [json.loads(pathlib.Path(f"{out}.{n}").read_text()) for n in (1, 2)]
        for document in documents:
            live = sum(sample["live_bytes"] for sample in document["samples"])
            # At least 300 samples: six of their deviations are 35 %.
            assert 0.65 < live / document["in_use_bytes"] < 1.35, (live, document["in_use_bytes"])
            assert document["sample_every"] == 64 << 10 and document["samples_lost"] == 0
        assert sum(sample["live_samples"] for sample in documents[0]["samples"]) > 150
        assert any(sample["kind"] in ("large", "counted") and sample["live_bytes"] >= 64 << 20
                   for sample in documents[1]["samples"])
        table = subprocess.run([STOOK, "profile", f"{out}.1"], check=True, text=True, stdout=subprocess.PIPE).stdout
        assert "Sampled, each 64.0 KiB" in table and "% from " in table, table
        # Samples on a stack that cannot be walked have no caller.
        alone = [dict(sample, stack=[]) for sample in documents[0]["samples"]]
        pathlib.Path(f"{out}.alone").write_text(json.dumps(dict(documents[0], samples=alone)))
        assert "% from" not in subprocess.check_output([STOOK, "profile", f"{out}.alone"], text=True)
        for files in ([f"{out}.1"], [f"{out}.1", f"{out}.2"]):
            path = pathlib.Path(folder) / "pprof"
            subprocess.run([STOOK, "profile", "--pprof", path, *files], check=True)
            profile = pprof.Profile(path.read_bytes())
            assert profile.types == ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space"), profile.types
            assert profile.period == 64 << 10 and profile.default == "inuse_space"
            assert (profile.duration is not None) == (len(files) == 2)
            # The debug letter U counts large objects by call site, and knows no more of them.
            assert all(sample.labels["cache"] and sample.labels["thread"] for sample in profile.samples
                       if sample.labels or "STOOK_DEBUG" not in os.environ)
            sums = [sum(sample.values[name] for sample in profile.samples) for name in profile.types]
            wanted = [sum(sample[key] for sample in documents[1]["samples"]) -
                      sum(sample[key] for sample in documents[0]["samples"]) if len(files) == 2 else
                      sum(sample[key] for sample in documents[0]["samples"])
                      for key in ("total_objects", "total_bytes", "live_objects", "live_bytes")]
            assert sums == wanted, (sums, wanted)
    print("sampled profiles: as they should be")


if __name__ == "__main__":
    sys.exit(main())
