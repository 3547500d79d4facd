# SPDX-License-Identifier: MIT
"""What the tests of `stook why` share: planted shapes, and what freeing the named objects in a fork brings."""
import json
import os
import random
import re
import tempfile

from tool import TESTS, do, start, stook

PROGRAM = os.path.join(TESTS, "prog_holes")
WORK = tempfile.mkdtemp()
FROM, TO = (os.path.join(WORK, name) for name in ("from", "to"))
# By shape: settings, and what the first line has to name; CACHE: the class of malloc.
SHAPES = {
    "malloc": ({}, "CACHE"),
    "malloc-even": ({}, "CACHE"),
    "malloc-full": ({}, "CACHE"),
    "malloc-large": ({}, "CACHE"),
    "malloc-threads": ({"STOOK_TAGS": "1"}, "keep_row"),
    "malloc-tags": ({"STOOK_TAGS": "1"}, "keep_row"),
    "malloc-samples": ({"STOOK_SAMPLE": "8K"}, "keep_row"),
    "typed": ({}, "session"),
    "typed-decoy": ({"STOOK_DEBUG": "U"}, "keep_row"),
    "typed-group": ({"STOOK_TAGS": "1"}, "session"),
}


def rollup(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"^Rss: +(\d+) kB", file.read(), re.M)[1]) << 10


def adds_up(seen, pid):
    parts = {key: value for key, value in seen["resident"].items() if key != "sum"}
    assert sum(parts.values()) == seen["resident"]["sum"], seen["resident"]
    assert abs(seen["resident"]["sum"] - rollup(pid)) <= rollup(pid) / 100, (seen["resident"], rollup(pid))


def measured(ask):
    """Bytes that came back when ask() had the process free, in a fork, the objects of FROM."""
    with open(TO, "w", encoding="ascii"):
        pass
    ask()
    with open(TO, encoding="ascii") as file:
        return int(file.read())


def look(pid):
    """What is predicted, the first line, and the objects in FROM."""
    seen = json.loads(stook("why", "--json", pid))
    first = stook("why", pid).split("\n")[0]
    with open(FROM, "w", encoding="ascii") as file:
        file.write(stook("why", "--objects", pid))
    return seen, first


def try_shape(shape, seed=None, within=0.05):
    settings, name = SHAPES[shape]
    seed = seed or random.randrange(1 << 32)
    print(shape, "seed", seed, flush=True)
    process = start(shape, str(seed), program=PROGRAM, **settings)
    try:
        seen, first = look(process.pid)
        assert first == seen["verdict"] and seen["kind"] == "sparse", (seed, first)
        keeps = float(re.search(r" keep ([\d.]+) % of the sparse slabs$", first)[1])
        said = seen["cache"] if name == "CACHE" else name
        assert said in first and keeps >= 90, (seed, first)
        assert (name != "CACHE") or said.startswith("malloc-"), (seed, first)
        adds_up(seen, process.pid)
        trimmed = measured(lambda: do(process, f"/no/such/file {TO}"))
        assert abs(seen["come_back"]["trim"] - trimmed) <= within * trimmed + (256 << 10), (seed, seen["come_back"], trimmed)
        came = measured(lambda: do(process, f"{FROM} {TO}"))
        predicted = seen["come_back"]["objects"]
        print(f"  {first}\n  predicted {predicted}, came back {came}: {predicted / came - 1:+.1%}", flush=True)
        assert abs(predicted - came) <= within * came, (seed, predicted, came)
        return seen
    finally:
        process.kill()
        process.communicate()
