#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook info on simulated machines, and of this one as a text that it can be simulated by."""
import json
import os
import subprocess

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
TOPOLOGIES = os.path.join(os.environ["STOOK_SOURCE_DIR"], "topologies")


def info(topology=None, *options):
    environment = {**os.environ}
    environment.pop("STOOK_TOPOLOGY", None)
    if topology is not None:
        environment["STOOK_TOPOLOGY"] = topology
    return subprocess.run([STOOK, "info", *options], check=True, stdout=subprocess.PIPE, text=True,
                          env=environment).stdout


def known(topology=None):
    return json.loads(info(topology, "--json"))


def shape(said):
    return [(node["node"], node["cpus"], node["home"]) for node in said["nodes"]]


said = known(os.path.join(TOPOLOGIES, "ublk.topo"))
assert said["topology"]["simulated"] is True
assert said["mode"] == "locked" and said["mode_why"] == "the topology is simulated"
assert said["cpus"]["possible"] == said["cpus"]["allowed"] == 64
assert shape(said) == [(n, 8, 1 if n < 4 else 5) for n in range(8)]
assert [node["memory_bytes"] >> 30 for node in said["nodes"]] == [0, 32, 0, 0, 0, 32, 0, 0]

said = known(os.path.join(TOPOLOGIES, "gaps.topo"))
assert shape(said) == [(0, 2, 0), (2, 3, 5), (5, 3, 5)]

# What it says of any machine says the same of a simulated one.
for name in sorted(name for name in os.listdir(TOPOLOGIES) if name.endswith(".topo")):
    first = known(os.path.join(TOPOLOGIES, name))
    again = known(first["topology"]["text"])
    assert again["topology"] == first["topology"] and again["nodes"] == first["nodes"], name

plain = known()
assert plain["topology"]["simulated"] is False
again = known(plain["topology"]["text"])
assert again["topology"] == {"simulated": True, "text": plain["topology"]["text"]}
assert shape(again) == shape(plain)
assert again["cpus"]["possible"] == plain["cpus"]["possible"]

lines = info(os.path.join(TOPOLOGIES, "large.topo")).splitlines()
large = [line for line in lines if line.startswith("topology         simulated: cpus:0=0-15,256-27")]
assert len(large) == 1 and large[0].endswith("distance:14/15=12"), lines
assert "topology         cpus:" in info()
assert "simulated" not in info()
