# SPDX-License-Identifier: MIT
"""workloads.py NAME: one workload in a process of its own; its seconds of CPU time on standard output."""
import gc
import json
import os
import pickle
import random
import re
import sys
import time


class Node:
    def __init__(self, left, right):
        self.left, self.right = left, right


def trees():
    def grow(depth):
        return Node(grow(depth - 1), grow(depth - 1)) if depth else Node(None, None)

    for _ in range(8):
        grow(14)


def documents():
    table = [{"id": i, "name": f"name {i}", "tags": ["a", "b", str(i)], "x": i / 7} for i in range(4000)]
    for _ in range(12):
        if json.loads(json.dumps(table)) != table:
            raise SystemExit("json")


def strings():
    generator = random.Random(7)
    words = ["".join(generator.choices("abcdefgh", k=generator.randrange(3, 12))) for _ in range(40000)]
    for _ in range(4):
        counts = {}
        for word in words:
            counts[word + "x"] = counts.get(word + "x", 0) + 1
        re.sub(r"[aeiou](\w)", lambda match: match.group(1).upper(), " ".join(sorted(counts)))


def pickles():
    table = {i: (str(i), [i] * (i % 9), {"k": float(i)}) for i in range(20000)}
    for _ in range(8):
        if len(pickle.loads(pickle.dumps(table))) != 20000:
            raise SystemExit("pickle")


def collector():
    for _ in range(6):
        rings = []
        for i in range(40000):
            ring = [i]
            ring.append(ring)
            rings.append(ring)
        del rings
        gc.collect()


def numbers():
    for _ in range(3):
        table = [float(i) * 1.5 for i in range(200000)]
        sum(value * value + 1.0 for value in table)
        [i << 70 for i in range(100000)]


WORKLOADS = {work.__name__: work for work in (trees, documents, strings, pickles, collector, numbers)}

if __name__ == "__main__":
    if "PYTHONSTOOK" in os.environ and "obj" not in sys.modules["stook"].installed():
        raise SystemExit("stook is not installed: this would measure pymalloc")
    begin = time.process_time()
    WORKLOADS[sys.argv[1]]()
    print(time.process_time() - begin)
