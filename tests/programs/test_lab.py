#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# labels: more
# needs: tool
# timeout: 600
"""stook lab: its counters add up, the same seed prints the same bytes, nothing is lost, and what it
shows of the sheaves holds on machines of several shapes."""
import json
import os
import subprocess

from tool import SANITIZED, STOOK, TOPOLOGIES, lab, lab_json as run

SCENARIOS = ("ublk", "local", "producer-consumer", "fork-exec", "random-walk", "hotplug")


def topology(name):
    return os.path.join(TOPOLOGIES, name + ".topo")


def total(result, counter):
    return sum(cpu[counter] for cpu in result["per_cpu"])


def check_sums(result, operations):
    """What must hold of any run."""
    assert result["operations"] == operations, result["operations"]
    assert len(result["per_cpu"]) == result["cpus"]
    assert total(result, "allocs") == total(result, "frees") == operations
    assert total(result, "alloc_outside") >= result["alloc_outside"]
    assert total(result, "free_outside") >= result["free_outside"]
    assert result["barn_locks"] + result["list_locks"] == \
        result["alloc_locks"] + result["free_locks"]
    # The library counts its calls itself; the pool has its reserve from it too.
    alloc = total(result, "alloc_fastpath") + total(result, "alloc_slowpath")
    assert operations <= alloc <= operations + 2, (operations, alloc)
    free = total(result, "free_fastpath") + total(result, "free_slowpath")
    assert operations - 2 <= free <= operations, (operations, free)
    # A call is slow where slabs were touched for its object; outside counts what made sheaves too.
    assert total(result, "alloc_slowpath") <= total(result, "alloc_outside") + 2
    # Sheaves come from where they were put; none is made of nothing.
    assert total(result, "barn_get") <= total(result, "barn_put")
    assert total(result, "sheaf_free") <= total(result, "sheaf_alloc")
    assert total(result, "free_slab") <= total(result, "alloc_slab")


# The keys, on the machine of the report.
plain = run("ublk", "--operations", "200k")
check_sums(plain, 200000)
assert plain["design"] == "stook" and plain["cpus"] == 64 and plain["nodes"] == 8
assert plain["memory_nodes"] == 2 and plain["operations_steady"] == 100000
assert plain["order"] == 2 and plain["objs_per_slab"] == 51 and plain["slab_size"] == 320
for cpu in plain["per_cpu"]:
    c = cpu["cpu"]
    assert cpu["node"] == c % 32 // 4 and cpu["home"] == (1 if c % 32 < 16 else 5)
    assert (cpu["allocs"] > 0) == (c < 32 and c % 2 == 1), cpu
    assert (cpu["frees"] > 0) == (c < 32 and c % 2 == 0), cpu
# What CPU c allocates, c - 1 frees; and whole sheaves travel: what c gets of the barn, c - 1 has put,
# but for those that were filled from slabs before and those still in flight.
for c in range(1, 32, 2):
    taker, giver = plain["per_cpu"][c], plain["per_cpu"][c - 1]
    assert taker["allocs"] == giver["frees"], (taker, giver)
gets, puts = total(plain, "barn_get"), total(plain, "barn_put")
assert gets > 100000 / plain["sheaf_capacity"] and puts - gets <= 16 * 32, (gets, puts)
text = lab("ublk", "--operations", "200k")
for counter in ("allocs", "barn_get", "alloc_fastpath"):
    cpus = {f"C{cpu['cpu']}={cpu[counter]}" for cpu in plain["per_cpu"] if cpu[counter]}
    line, = [line for line in text.splitlines() if line.startswith(counter + ":")]
    assert line.split()[0] == f"{counter}:{total(plain, counter)}", line
    assert set(line.split()[1:]) == cpus, line

# The same seed, the same bytes; whatever the environment says of the library's ways.
for scenario in SCENARIOS:
    options = (scenario, "--operations", "30k", "--seed", 7)
    first = lab(*options, "--json")
    assert first == lab(*options, "--json", STOOK_HARDEN="order", STOOK_MODE="locked",
                        STOOK_TOPOLOGY="node:1 core:1", STOOK_STATS="slow",
                        STOOK_CACHED_MAX="1M", STOOK_LIMIT="64M", STOOK_TAGS="1"), scenario
    assert lab(*options) == lab(*options), scenario
    other = run(scenario, "--operations", "30k", "--seed", 8)
    assert json.loads(first)["per_cpu"] != other["per_cpu"], scenario
    check_sums(json.loads(first), 30000)
    check_sums(other, 30000)

# Nothing is lost (the status says so) on other machines, with threads, and without sheaves to speak of.
for scenario in SCENARIOS:
    for machine in ("two-sockets", "cxl", "gaps"):
        check_sums(run(scenario, "--operations", "10k", "--topology", topology(machine)), 10000)
    check_sums(run(scenario, "--operations", "10k", "--threads"), 10000)
    check_sums(run(scenario, "--operations", "10k", "--capacity", 1, "--size", 64, "--depth", 40),
               10000)

# CPUs and nodes go: what they held comes back at once, and nothing stays on a CPU that is not there.
for machine, cpus, memories in (("ublk", 128, 4), ("eight-nodes", 128, 16), ("one-node", 32, 0)):
    gone = run("hotplug", "--operations", "100k", "--topology", topology(machine))["gone"]
    assert gone["cpus"] == cpus and gone["memories"] == memories, (machine, gone)
    assert gone["sheaves"] >= cpus and gone["objects"] > gone["sheaves"], (machine, gone)
    assert gone["bytes"] == 320 * gone["objects"] and gone["sheaves_left"] == 0, (machine, gone)
    assert (gone["node_bytes"] > 0) == (memories > 0), (machine, gone)
gone = run("local", "--operations", "10k")["gone"]
assert not any(gone.values()), gone

# The steady state, wherever submitters, completers and memory are: no slabs, and a lock a sheaf.
OPERATIONS = 300000 if SANITIZED else 1000000
for machine in ("ublk", "eight-nodes", "one-memoryless"):
    for pairing in (("--pairing", "adjacent"), ("--pairing", "same"), ("--pairing", "cross-node"),
                    ("--completers", 0), ("--completers", 6)):
        for capacity in ((), ("--capacity", 28)):
            options = ("--topology", topology(machine), *pairing, *capacity)
            result = run("ublk", "--operations", OPERATIONS, *options)
            steady = result["operations_steady"]
            assert steady == OPERATIONS / 2
            assert result["alloc_outside"] < steady / 1000, (options, result["alloc_outside"])
            assert result["free_outside"] < steady / 1000, (options, result["free_outside"])
            sheaves = -(-steady // result["sheaf_capacity"])
            assert result["lock_budget"] == 2 * sheaves
            for side in ("alloc_locks", "free_locks"):
                assert result[side] <= 2 * sheaves * 1.01, (options, side, result[side], sheaves)
            # Records of what is in flight still come now and then: a slab or two.
            assert result["slabs_allocated_steady"] <= 8, (options, result)
            if "same" not in pairing:
                assert result["barn_locks"] > sheaves, (options, result["barn_locks"])
            check_sums(result, OPERATIONS)
# A counter-proof, that the lab sees what it should: sheaves of one object need locks for each.
tiny = run("ublk", "--operations", "50k", "--capacity", 1)
assert tiny["barn_locks"] + tiny["list_locks"] > 5000, tiny["barn_locks"]

# What is refused, and that it is said why.
for arguments, why in ((("nothing",), "there is no scenario nothing"), ((), "a scenario is needed"),
                       (("ublk", "--design", "magic"), "there is no such design; there are stook"),
                       (("ublk", "--pairing", "odd"), "adjacent, same, cross-node or all-to-one"),
                       (("ublk", "--queues", 40), "40 queues need 80 CPUs; the topology has 64"),
                       (("ublk", "--batch", 200), "do not fit a depth of 128"),
                       (("ublk", "--operations", "many"), "a number from 2"),
                       (("ublk", "--completers", 9), "node 9 has no CPUs"),
                       (("ublk", "--topology", "node:1 core:16", "--pairing", "cross-node"),
                        "on two nodes"),
                       (("ublk", "--topology", "node:x"), "topology: line 1"),
                       (("ublk", "more"), "there is no option more")):
    said = lab(*arguments, status=2)
    assert why in said, (arguments, said)
said = lab(status=2)
guide = subprocess.run([STOOK, "help", "lab"], check=True, stdout=subprocess.PIPE, text=True).stdout
for scenario in SCENARIOS:
    line, = [line for line in said.splitlines() if line.split()[0] == scenario]
    assert line.strip() in guide, f"help lab does not say {line}"
print("ok")
