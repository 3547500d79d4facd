#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default
"""A program's sampled profile: what is in use is what the library says, stook profile reads it, and pprof's message has
Go's sample types, labels, and differences."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["STOOK_BUILD_DIR"])
STOOK = BUILD / "bin/stook"
PROGRAM = r"""
import os, signal
kept = [str(i) * 20 for i in range(200000)]
os.kill(os.getpid(), signal.SIGUSR2)
more = [bytes(3000 + i % 5) for i in range(4000)]
large = bytes(5 << 20)
os.kill(os.getpid(), signal.SIGUSR2)
"""


def fields(data):
    """(number, value) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size
        else:
            yield key >> 3, varint()


def varints(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    return values


def read(path):
    message = list(fields(gzip.decompress(path.read_bytes())))
    strings = [value.decode() for number, value in message if number == 6]
    types = [strings[dict(fields(value))[1]] for number, value in message if number == 1]
    samples = []
    for number, value in message:
        if number == 2:
            parts = list(fields(value))
            labels = {strings[dict(fields(v))[1]]: strings[dict(fields(v))[2]] for n, v in parts if n == 3}
            samples.append((next(varints(v) for n, v in parts if n == 2), labels))
    single = {number: value for number, value in message if number in (10, 12, 14)}
    return types, samples, single, strings


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "profile"
        env = os.environ | {"LD_PRELOAD": str(BUILD / "lib/libstook-malloc.so"), "STOOK_SAMPLE": "64K",
                            "STOOK_PROFILE": str(out), "STOOK_PROFILE_SIGNAL": "USR2", "PYTHONMALLOC": "malloc"}
        program = os.path.realpath("/usr/bin/python3")
        subprocess.run([program, "-c", PROGRAM], env=env, check=True)
        documents = [json.loads(pathlib.Path(f"{out}.{n}").read_text()) for n in (1, 2)]
        for document in documents:
            live = sum(sample["live_bytes"] for sample in document["samples"])
            # The first milliseconds of a program have few samples, that stand for much each.
            assert 0.3 < live / document["in_use_bytes"] < 3, (live, document["in_use_bytes"])
            assert document["sample_every"] == 64 << 10 and document["samples_lost"] == 0
        assert any(sample["kind"] == "large" and sample["live_bytes"] > 5 << 20
                   for sample in documents[1]["samples"])
        table = subprocess.run([STOOK, "profile", f"{out}.1"], check=True, text=True, stdout=subprocess.PIPE).stdout
        assert "Sampled, each 64.0 KiB" in table, table
        for files in ([f"{out}.1"], [f"{out}.1", f"{out}.2"]):
            pprof = pathlib.Path(folder) / "pprof"
            subprocess.run([STOOK, "profile", "--pprof", pprof, *files], check=True)
            types, samples, single, strings = read(pprof)
            assert types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"], types
            assert single[12] == 64 << 10 and strings[single[14]] == "inuse_space", single
            assert (10 in single) == (len(files) == 2)
            assert all(labels["cache"] and labels["thread"] for _, labels in samples)
            sums = [sum(values[i] for values, _ in samples) for i in range(4)]
            wanted = [sum(sample[key] for sample in documents[1]["samples"]) -
                      sum(sample[key] for sample in documents[0]["samples"]) if len(files) == 2 else
                      sum(sample[key] for sample in documents[0]["samples"])
                      for key in ("total_objects", "total_bytes", "live_objects", "live_bytes")]
            assert sums == wanted, (sums, wanted)
    print("sampled profiles: as they should be")


if __name__ == "__main__":
    sys.exit(main())
