# SPDX-License-Identifier: MIT
"""What a program keeps after a burst, minute by minute: redis whose keys are gone, and a Python that sleeps.

Under all mallocs at once, since what is read is memory and not time. Each is idle as such programs are: redis has
its timer of ten turns a second, Python wakes every second and makes a small list."""
import pathlib
import random
import socket
import sys
import time

import catalogue
import measure
import servers

AT = (0, 1, 10, 30, 60, 120, 180, 240, 300)  # seconds after the last free
PYTHON = """
import random, sys, time
chance = random.Random(1)
held = [{"name": "n" * chance.randrange(8, 400), "at": [chance.random()] * 3} for _ in range(int(sys.argv[1]))]
held = None
print("free", flush=True)
while True:
    time.sleep(1)
    [n for n in range(100)]
"""


def anonymous_mib(pids):
    """Of the processes: what is theirs, not the files that they map."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            total += next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
    return total / 1024


class Redis:
    """Keys of log-uniform sizes, then all deleted."""
    name = "redis"
    missing = servers.Redis.missing

    def __init__(self, folder, malloc, size):
        self.server = servers.Redis(folder)
        self.server.begin(malloc)
        self.pids = self.server.run.pids
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(folder / "redis.socket"))
            chance = random.Random(1)
            for at in range(0, size, 500):
                one.sendall(b"".join(b"SET k%d %s\r\n" % (at + i, b"v" * int(2 ** chance.uniform(4, 11))) for i in range(500)))
                got = b""
                while got.count(b"\n") < 500:
                    got += one.recv(1 << 16)
            self.full_mib = anonymous_mib(self.pids())
            one.sendall(b"FLUSHALL SYNC\r\n")
            one.recv(100)

    def end(self):
        self.server.end()


class Python:
    """A list of dictionaries, then none; PYTHONMALLOC=malloc."""
    name = "python"

    @staticmethod
    def missing():
        return None if catalogue.find("python3") else "python3 not found"

    def __init__(self, folder, malloc, size):
        said = folder / "said"
        words = [catalogue.find("python3"), "-c", PYTHON, str(size)]
        self.full_mib = 0
        with open(said, "wb") as out:
            self.run = measure.Run(measure.Command(words, env={"PYTHONMALLOC": "malloc"}), malloc, out)
        self.pids = self.run.pids
        while not said.read_bytes():
            if self.run.has_ended():
                raise measure.Failed("python3 ended")
            if pids := self.pids():
                self.full_mib = max(self.full_mib, anonymous_mib(pids))
            time.sleep(0.02)

    def end(self):
        self.run.stop(15)
        self.run.wait(20)


def run(subject, folder, those, size, seconds):
    """A record for each malloc: resident MiB at full, and at each of `seconds` after the last free."""
    running, records = [], {}
    try:
        for malloc in those:
            where = pathlib.Path(folder) / malloc.name
            where.mkdir()
            try:
                one = subject(where, malloc, size)
            except (measure.Failed, OSError) as error:
                print(f"failed: burst {subject.name}: {malloc.name}: {error}", file=sys.stderr)
                continue
            running.append((one, time.monotonic(), iter(seconds)))
            records[one] = {"case": "long", "program": f"burst {subject.name}", "allocator": malloc.name,
                            "full_mib": one.full_mib, "seconds": list(seconds), "resident_mib": []}
        todo = sorted((start + at, i) for i, (_, start, _) in enumerate(running) for at in seconds)
        for when, i in todo:
            time.sleep(max(0, when - time.monotonic()))
            one = running[i][0]
            records[one]["resident_mib"].append(anonymous_mib(one.pids()))
    finally:
        for one, _, _ in running:
            one.end()
    return list(records.values())
