#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every case of stook-bench with tiny parameters and checks what it prints.

    smoke.py BENCH

Nothing is said here about how fast anything is: only that each case runs, that its records have
exactly the keys that are promised, that no figure is impossible, and that what is missing is said.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

TIME = {"case", "allocator", "linked", "object_size", "n",
        "alloc_ns", "free_ns", "pair_ns", "pair_min", "pair_max"}
IDLE = TIME | {"kib_per_thread", "kib_at_once"}
SLAB_BULK = TIME | {"mode"}
KMALLOC = SLAB_BULK | {"reserve_mib"}
HANDOFF_MODE = SLAB_BULK
HANDOFF_RCU = KMALLOC
SLUB_BULK = KMALLOC | {"order", "free_order"}
MEMORY = {"case", "allocator", "resident_over_live", "resident_mib", "faults_per_1000"}

LARGE = SLAB_BULK | {"faults_per_1000", "resident_mib"}
ACCOUNTED = SLAB_BULK | {"extra_ns"}
COLUMNS = {"case", "allocator", "object_size", "align", "n", "mode", "resident_bytes",
           "counted_bytes", "extra_resident", "extra_counted"}

LATENCY = {"case", "allocator", "linked", "n", "clock_ns", "slow", "slow_faults", "slow_switches",
           *(f"{half}_{name}" for half in ("alloc", "free")
             for name in ("p50", "p99", "p999", "p9999", "p99999", "max"))}
LONG = {"case", "program", "allocator", "hours", "worst", "end", "after_mib", "after_live_mib", "huge_share",
        "child_private_mib"}
PROGRAMS = {"case", "program", "allocator", "runs", "cpu_s", "user_s", "system_s", "wall_s", "peak_mib",
            "mean_pss_mib", "peak_pss_mib", "faults_minor", "faults_major", "requests_per_s", "p50_us",
            "p99_us", "p999_us", "cpu_min", "cpu_max", "marked"}

AGAINST = {"case", "allocator", "linked", "object_size", "n", "mode", "order", "free_order", "align",
           "raised", "metric", "runs", "this", "against", "difference", "ratio", "ratio_min",
           "ratio_max", "ratio_of_least"}

CHAIN = {"case", "form", "what", "calls", "shape", "ns", "cpu", "vendor", "family", "model", "stepping", "microcode",
         "hypervisor", "speculation_store_bypass"}

STOOK = {("stook-inline", "static"), ("stook-inline", "shared"), ("stook", "static"),
         ("stook", "shared"), ("stook-malloc", "static"), ("stook-malloc", "shared")}
# What every machine that can build this has; the other peers may be missing, but must be said.
ALWAYS = STOOK | {("glibc", "shared")}
LOOPS = ALWAYS | {("floor-rseq", "static")}

failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def run(bench, *arguments):
    done = subprocess.run([bench, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=240)
    check(done.returncode == 0,
          f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    missing = [line for line in done.stderr.splitlines() if line.startswith("missing: ")]
    return done.stdout, missing


def records(bench, *arguments):
    text, missing = run(bench, *arguments, "--json", "--repeats", "2")
    return [json.loads(line) for line in text.splitlines()], missing


def said_or_there(wanted, found, missing, what):
    for allocator, linked in wanted:
        said = any(f": {allocator} ({linked}): " in line for line in missing)
        check((allocator, linked) in found or said, f"{what}: no word of {allocator} ({linked})")


def check_times(bench, case, n, wanted, split, *arguments):
    lines, missing = records(bench, case, "--ms", "1", "--rounds", "3", *arguments)
    found = set()
    for line in lines:
        check(set(line) == TIME, f"{case}: keys {sorted(line)}")
        check(line["case"] == case and line["n"] == n, f"{case}: {line}")
        check(line["linked"] in ("static", "shared"), f"{case}: {line}")
        check(0 < line["pair_min"] <= line["pair_ns"] <= line["pair_max"], f"{case}: {line}")
        if split:
            check(line["alloc_ns"] > 0 and line["free_ns"] > 0, f"{case}: no split in {line}")
        else:
            check(line["alloc_ns"] is None and line["free_ns"] is None, f"{case}: {line}")
        found.add((line["allocator"], line["linked"]))
    check(len(found) == len(lines), f"{case}: an allocator came twice")
    said_or_there(wanted, found, missing, case)
    return lines


def check_variants(lines, case, keys, *by):
    """The records' keys and figures, and that no two are of the same; returns what told them apart."""
    found = set()
    for line in lines:
        check(set(line) == keys, f"{case}: keys {sorted(line)}")
        check(line["case"] == case, f"{case}: {line}")
        check(0 < line["pair_min"] <= line["pair_ns"] <= line["pair_max"], f"{case}: {line}")
        check(line["alloc_ns"] > 0 and line["free_ns"] > 0, f"{case}: no split in {line}")
        is_ours = line["allocator"].startswith("stook")
        if "reserve_mib" in keys:
            check((line["reserve_mib"] is not None) == is_ours, f"{case}: {line}")
        what = tuple(line[key] for key in ("allocator", "linked", "object_size", "n", *by))
        check(what not in found, f"{case}: twice {what}")
        found.add(what)
    return found


def check_slab_bulk(bench):
    lines, missing = records(bench, "slab_bulk", "--ms", "1", "--rounds", "3", "--n", "1,5,250")
    check_variants(lines, "slab_bulk", SLAB_BULK, "n", "mode")
    for n in (1, 5, 250):
        for mode, wanted in (("single", ALWAYS | {("dpdk", "shared")}),
                             ("bulk", {("stook", "static"), ("stook", "shared"),
                                       ("dpdk", "shared")})):
            found = {(line["allocator"], line["linked"]) for line in lines
                     if line["n"] == n and line["mode"] == mode}
            said_or_there(wanted, found, missing, f"slab_bulk {mode} of {n}")
            if mode == "bulk":
                check(found <= wanted, f"slab_bulk: who has bulk calls? {found}")


def check_slub_bulk(bench):
    sizes = {16: 256, 64: 64, 512: 32}
    lines, missing = records(bench, "slub_bulk", "--mib", "2", "--rounds", "1",
                             "--size", ",".join(str(size) for size in sizes))
    check_variants(lines, "slub_bulk", SLUB_BULK, "mode", "order", "free_order", "reserve_mib")
    for line in lines:
        check(line["n"] == sizes[line["object_size"]], f"slub_bulk: batch of {line}")
        slabs = line["allocator"] in ("stook", "floor-link")
        check((line["order"] in ("sequential", "random")) if slabs else line["order"] is None,
              f"slub_bulk: {line}")
        check(line["free_order"] in ("ordered", "shuffled"), f"slub_bulk: {line}")
    for size in sizes:
        ours = [line for line in lines
                if line["allocator"] == "stook" and line["object_size"] == size]
        raised = max(line["reserve_mib"] for line in ours)
        for order in ("sequential", "random"):
            for free_order in ("ordered", "shuffled"):
                found = sorted((line["mode"], line["reserve_mib"] == raised) for line in ours
                               if line["order"] == order and line["free_order"] == free_order)
                by_default = [("emit", False)] if free_order == "ordered" else []
                check(found == by_default + [("emit", True), ("link-inside", True)],
                      f"slub_bulk of {size}: {found}")
                check(any(line["allocator"] == "floor-link" and line["object_size"] == size and
                          line["order"] == order and line["free_order"] == free_order and
                          line["mode"] == "link-first" for line in lines),
                      f"slub_bulk of {size}: no floor")
        peers = {("glibc", "shared"), ("dpdk", "shared"), ("mimalloc", "shared"),
                 ("jemalloc", "shared"), ("tcmalloc", "shared")}
        said_or_there(peers, {(line["allocator"], line["linked"]) for line in lines
                              if line["object_size"] == size}, missing, "slub_bulk")

    lines, _ = records(bench, "slub_bulk", "--mib", "2", "--quick", "--size", "48",
                       "--mode", "emit,single", "--order", "random", "--free-order", "ordered")
    modes = {(line["allocator"], line["mode"]) for line in lines}
    check({("stook", "emit"), ("glibc", "single")} <= modes and
          all(mode in ("emit", "single") for _, mode in modes) and
          all(line["order"] in ("random", None) and line["free_order"] == "ordered" and
              line["n"] == 32 for line in lines), f"slub_bulk, a selection: {lines}")


def check_kmalloc(bench):
    lines, missing = records(bench, "kmalloc", "--n", "500", "--rounds", "2", "--size", "32,4096")
    check_variants(lines, "kmalloc", KMALLOC, "reserve_mib")
    for size in (32, 4096):
        found = [(line["allocator"], line["linked"]) for line in lines
                 if line["object_size"] == size]
        said_or_there(ALWAYS | {("dpdk", "shared")}, found, missing, f"kmalloc of {size}")
        for one in STOOK:
            check(found.count(one) == 2, f"kmalloc: {one} with two reserves")


def check_latency(bench):
    lines, missing = records(bench, "latency", "--n", "500", "--rounds", "1")
    for case in ("latency", "latency-phases", "latency-threads"):
        found = [line for line in lines if line["case"] == case]
        for line in found:
            check(set(line) == LATENCY, f"{case}: keys {sorted(line)}")
            for half in ("alloc", "free"):
                rising = [line[f"{half}_{name}"] for name in ("p50", "p99", "p999", "p9999", "p99999")]
                check(rising == sorted(rising) and 0 < rising[0], f"{case}: {line}")
                # A bucket's end may be a sixty-fourth above what it counts.
                check(rising[-1] <= line[f"{half}_max"] * 1.03 + 1, f"{case}: {line}")
            check(max(line["slow_faults"], line["slow_switches"]) <= line["slow"], f"{case}: {line}")
        mallocs = {one for one in ALWAYS if one[0] in ("stook-malloc", "glibc")}
        said_or_there(mallocs, {(line["allocator"], line["linked"]) for line in found}, missing, case)


def check_programs(bench):
    """Programs of a machine that can build this and of our own, and one that fails."""
    names = ["awk", "bash", "own-document", "own-mixed", "own-relay"]  # as they are listed
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as csv:
        text, _ = run(bench, "programs", "--json", "--quick", "--sample-ms", "2", "--allocators", "glibc,stook",
                      "--programs", ",".join(names), "--csv", csv.name, "--thp", "never")
        again, _ = run(bench, "programs", "--read", csv.name)
        check(csv.read().startswith("# CPU: ") and all(f"\n{name}: " in again for name in names), f"programs: {again}")
    lines = [json.loads(line) for line in text.splitlines()]
    check([(line["program"], line["allocator"]) for line in lines] ==
          [(name, malloc) for name in names for malloc in ("glibc", "stook")], f"programs: {text}")
    for line in lines:
        ours = line["allocator"] == "stook"
        check(set(line) == PROGRAMS | ({"against_best"} if ours else set()), f"programs: keys {sorted(line)}")
        check(line["cpu_s"] > 0 and line["peak_mib"] > 0.5 and line["faults_minor"] > 50, f"programs: {line}")
        check(line["requests_per_s"] is None and line["runs"] == 1, f"programs: {line}")
        if ours:
            check(line["against_best"]["cpu_s"]["allocator"] == "glibc" and
                  line["against_best"]["cpu_s"]["verdict"] == "too few runs", f"programs: {line}")
    text, _ = run(bench, "programs", "--json", "--quick", "--no-pss", "--allocators", "glibc,stook", "--programs",
                  "own-document", "--litter", "0.5")
    faults = {line["allocator"]: line["faults_minor"] for line in map(json.loads, text.splitlines())}
    check(list(faults) == ["glibc", "stook", "glibc~", "stook~"] and faults["glibc~"] > faults["glibc"] and
          faults["stook~"] > faults["stook"], f"programs, littered: {text}")
    for case, what in (("programs", ("--programs", "own-mixed", "--repeats", "1")), ("long", ("--case", "drift"))):
        done = subprocess.run([bench, case, *what, "--json", "--allocators", "glibc", "--timeout", "0.05"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        check(done.returncode == 1 and "did not end within 0.05 s" in done.stdout + done.stderr, f"{case}: {done}")
    done = subprocess.run([bench, "programs", "--programs", "nothing"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    check(done.returncode != 0 and "no such program: nothing" in done.stderr, f"programs: {done}")


def check_long(bench):
    """A live set, children of one parent, and a recorded program."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "awk.trace")
        traced = subprocess.run([os.path.join(os.path.dirname(bench), "stook"), "run", "--trace", trace, "--",
                                 "awk", "BEGIN { for (i = 0; i < 20000; i++) a[i] = i \"x\"; print length(a) }"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        check(traced.returncode == 0, f"long: {traced.stderr}")
        text, _ = run(bench, "long", "--json", "--mib", "8", "--hours", "3", "--after", "0", "--times", "1",
                      "--case", "drift,mixed,prefork,trace", "--trace", trace, "--allocators", "glibc,stook")
    lines = [json.loads(line) for line in text.splitlines()]
    check([(line["program"], line["allocator"]) for line in lines] ==
          [(name, malloc) for name in ("drift", "mixed", "prefork", "trace awk.trace")
           for malloc in ("glibc", "stook")], f"long: {text}")
    for line in lines:
        check(set(line) == LONG and line["case"] == "long", f"long: keys {sorted(line)}")
        if line["program"] == "prefork":
            check(line["child_private_mib"] > 0.1 and line["hours"] == [], f"long: {line}")
        else:
            check(line["worst"] >= line["end"] > 0.9 and line["after_mib"] is not None, f"long: {line}")
            check(len(line["hours"]) == 3 or line["program"].startswith("trace"), f"long: {line}")


def check_handoff(bench):
    """Each way of handing over has its records, and who knows which way is as promised."""
    floor = {("floor-ring", "static")}
    dpdk = {("dpdk", "shared")}
    calls = {("stook", "static"), ("stook", "shared")}
    mallocs = {one for one in ALWAYS if one[0] in ("stook-malloc", "glibc")}
    time = ("--ms", "1", "--rounds", "2")

    check_times(bench, "handoff", 1, ALWAYS | floor | dpdk, False, "--case", "handoff")
    for case, keys, arguments, wanted in (
            ("handoff-burst", HANDOFF_MODE, (*time, "--n", "1,7,128"),
             {"single": ALWAYS | floor | dpdk, "bulk": calls | dpdk}),
            ("handoff-pool", HANDOFF_MODE, time,
             {"single": ALWAYS | floor, "pool": calls | dpdk | mallocs}),
            ("handoff-rcu", HANDOFF_RCU, ("--mib", "1", "--rounds", "2"),
             {"memb": calls | floor | mallocs, "qsbr": calls | floor | mallocs})):
        lines, missing = records(bench, "handoff", "--case", case, *arguments)
        found = set()
        for line in lines:
            check(set(line) == keys, f"{case}: keys {sorted(line)}")
            check(line["case"] == case and line["mode"] in wanted, f"{case}: {line}")
            check(0 < line["pair_min"] <= line["pair_ns"] <= line["pair_max"], f"{case}: {line}")
            check(line["alloc_ns"] is None and (line["free_ns"] is None) == (case != "handoff-rcu"),
                  f"{case}: {line}")
            one = (line["mode"], line["n"], line["allocator"], line["linked"])
            check(one not in found, f"{case}: twice {one}")
            found.add(one)
        for n in (1, 7, 128) if case == "handoff-burst" else (1,):
            for mode in wanted:
                said_or_there(wanted[mode], {(one[2], one[3]) for one in found
                                             if one[:2] == (mode, n)}, missing, f"{case} {mode}")


def check_accounted(bench, case):
    """Four modes in one run, and the difference is that of the figures beside it."""
    lines, missing = records(bench, case, "--ms", "1", "--rounds", "2", "--n", "1,5")
    check_variants(lines, case, ACCOUNTED, "mode")
    calls = {one for one in STOOK if one[0] != "stook-malloc"}
    pairs = {(line["allocator"], line["linked"], line["n"], line["mode"]): line["pair_ns"]
             for line in lines}
    for n in (1, 5):
        for mode in ("off", "group", "tag", "both"):
            said_or_there(calls, {one[:2] for one in pairs if one[2:] == (n, mode)}, missing,
                          f"{case} {mode} of {n}")
    for line in lines:
        off = pairs[line["allocator"], line["linked"], line["n"], "off"]
        check(abs(line["extra_ns"] - (line["pair_ns"] - off) / 2) < 0.002, f"{case}: {line}")


def check_columns(bench):
    """Bytes are no times: they are what was planned, on any machine."""
    lines, _ = records(bench, "columns", "--case", "columns", "--n", "20000")
    counted = {line["mode"]: line["extra_counted"] for line in lines}
    for line in lines:
        check(set(line) == COLUMNS, f"columns: keys {sorted(line)}")
        check((line["object_size"], line["align"]) == (992, 64) and line["n"] >= 20000,
              f"columns: {line}")
        check(line["resident_bytes"] > 992 and line["counted_bytes"] > 992, f"columns: {line}")
    check(counted == {"off": 0, "group": 0, "both": 0},
          f"columns: {counted}")

    lines, _ = records(bench, "columns", "--case", "columns-table", "--mib", "1",
                       "--size", "40,200", "--align", "16,64", "--mode", "off,both")
    check({(line["object_size"], line["align"], line["mode"]) for line in lines} ==
          {(size, align, mode) for size in (40, 200) for align in (16, 64)
           for mode in ("off", "both")} and len(lines) == 8,
          f"columns-table: {lines}")


def check_large(bench):
    lines, missing = records(bench, "large", "--ms", "1", "--rounds", "1", "--size", "60000,3000000", "--n", "1,3")
    cases = [f"large-{sizes}" for sizes in ("fixed", "alternating", "growing", "random")]
    for line in lines:
        check(set(line) == LARGE and line["case"] in cases, f"large: keys {sorted(line)}")
        check(0 < line["pair_min"] <= line["pair_ns"] <= line["pair_max"], f"large: {line}")
        check(line["resident_mib"] >= 0 and line["faults_per_1000"] >= 0, f"large: {line}")
    for case in cases:
        for mode in ("touched", "untouched"):
            found = {(line["allocator"], line["linked"]) for line in lines
                     if (line["case"], line["mode"]) == (case, mode)}
            said_or_there({("stook-malloc", "shared"), ("glibc", "shared")}, found, missing, f"{case} {mode}")


def check_idle(bench):
    lines, missing = records(bench, "idle", "--threads", "4", "--n", "50")
    for line in lines:
        check(set(line) - {"reserve_mib"} == IDLE, f"idle: keys {sorted(line)}")
        check(line["kib_at_once"] >= 0 and line["kib_per_thread"] is not None, f"idle: {line}")
    said_or_there(ALWAYS, {(line["allocator"], line["linked"]) for line in lines}, missing, "idle")


def check_memory(bench, case, *arguments):
    lines, _ = records(bench, "memory", "--case", case, *arguments)
    allocators = [line["allocator"] for line in lines]
    check("stook-malloc" in allocators and "glibc" in allocators, f"{case}: only {allocators}")
    check(len(set(allocators)) == len(allocators), f"{case}: an allocator came twice")
    for line in lines:
        check(set(line) - {"reserve_mib"} == MEMORY, f"{case}: keys {sorted(line)}")
        check(line["case"] == case, f"{case}: {line}")
        check(line["resident_mib"] >= 0 and line["faults_per_1000"] >= 0, f"{case}: {line}")
        if case.startswith("remote"):
            # Every page of a live object was touched: it cannot be less.
            check(line["resident_over_live"] >= 1, f"{case}: {line}")


def against_lines(bench, case, library, wanted, *arguments):
    """Rows of one build beside another: all of `wanted`, and none of other allocators."""
    lines, missing = records(bench, case, "--against", library, *arguments)
    for line in lines:
        check(set(line) == AGAINST, f"against, {case}: keys {sorted(line)}")
        check(line["runs"] == 2, f"against, {case}: {line}")
        if line["metric"] == "pair_ns":
            check(line["this"] > 0 and line["against"] > 0, f"against, {case}: {line}")
            check(line["ratio_min"] <= line["ratio"] <= line["ratio_max"],
                  f"against, {case}: {line}")
            check(abs((line["this"] - line["against"]) - line["difference"]) < 0.002,
                  f"against, {case}: two runs, whose medians differ as the runs do: {line}")
    found = {(line["allocator"], line["linked"]) for line in lines}
    check(found == wanted, f"against, {case}: {found}")
    return lines, missing


def check_against(bench):
    library = os.path.join(os.path.dirname(os.path.dirname(bench)), "lib")
    time = ("--ms", "1", "--rounds", "2")
    against_lines(bench, "pair", library, STOOK, *time)
    against_lines(bench, "batch", library, STOOK, *time, "--n", "4")
    against_lines(bench, "handoff", library, STOOK, *time, "--case", "handoff")
    lines, _ = against_lines(bench, "slab_bulk", library, STOOK, *time, "--n", "4")
    check({line["mode"] for line in lines} == {"single", "bulk"}, f"against, slab_bulk: {lines}")
    lines, _ = against_lines(bench, "idle", library, STOOK, "--threads", "4", "--n", "50")
    check({line["metric"] for line in lines} == {"kib_per_thread", "kib_at_once"},
          f"against, idle: {lines}")
    against_lines(bench, "memory", library, {("stook-malloc", "shared")}, "--case", "returned",
                  "--mib", "8")

    # Nothing but libraries, as they are installed: the shared ones are found, and they are these.
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(library):
            if ".so" in name:
                shutil.copy(os.path.join(library, name), folder, follow_symlinks=True)
        _, missing = against_lines(bench, "pair", folder,
                                   {("stook", "shared"), ("stook-malloc", "shared")}, *time)
        check(len(missing) == 4 and all("no worker of its own" in line for line in missing),
              f"against libraries alone: {missing}")
        # The name that a worker loads is not there: it would load this build's again.
        for name in os.listdir(folder):
            if ".so." in name:
                os.remove(os.path.join(folder, name))
        lines, missing = records(bench, "pair", "--against", folder, *time)
        check(not lines and sum("loads nothing from there" in line for line in missing) == 2,
              f"against libraries that are not loaded: {lines} {missing}")
        os.remove(os.path.join(folder, "libstook.so"))
        refused = subprocess.run([bench, "pair", "--against", folder], stderr=subprocess.PIPE,
                                 text=True)
        check(refused.returncode == 2 and "no libstook.so" in refused.stderr, "against nothing")


def check_chain(bench):
    program = os.path.join(os.path.dirname(bench), "../libexec/stook-bench/stook-bench-chain")
    if os.path.exists(program):  # x86-64
        rows = [json.loads(line) for line in run(program)[0].splitlines()]
        check(rows and all(set(row) == CHAIN and row["ns"] > 0 for row in rows), "the rows of stook-bench-chain")


def check_refusals(bench):
    for arguments, said in ((("idle", "--litter", "0.5"), "no such case"), (("slab_bulk", "--mode", "nonsense"), "there is no nonsense"),
                            (("nonsense",), "no such case")):
        refused = subprocess.run([bench, *arguments], stderr=subprocess.PIPE, text=True, check=False)
        check(refused.returncode == 2 and said in refused.stderr, f"{arguments} is refused: {refused}")


def main():
    bench = sys.argv[1]
    check_chain(bench)
    check_times(bench, "pair", 1, LOOPS, False)
    check_times(bench, "batch", 4, LOOPS, True, "--n", "4")
    check_memory(bench, "returned", "--mib", "8")
    check_refusals(bench)
    check_handoff(bench)
    check_slab_bulk(bench)
    check_slub_bulk(bench)
    check_kmalloc(bench)
    check_accounted(bench, "tags")
    check_accounted(bench, "groups")
    check_columns(bench)
    check_large(bench)
    check_idle(bench)
    check_against(bench)
    check_latency(bench)
    check_programs(bench)
    check_long(bench)
    check_memory(bench, "breathing", "--mib", "4", "--rounds", "2")
    check_memory(bench, "parked", "--mib", "4", "--threads", "2", "--rounds", "3")
    check_memory(bench, "remote-ordered", "--mib", "8", "--threads", "3", "--rounds", "8")
    check_memory(bench, "remote-random", "--mib", "8", "--threads", "3", "--rounds", "8")

    text, _ = run(bench, "pair", "--ms", "1", "--rounds", "1", "--repeats", "1", "--size",
                  "64,4096", "--allocators", "stook,glibc", "--linked", "shared")
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    check(rows.count("stook") == 2 and rows.count("glibc") == 2 and "mimalloc" not in text and "# kernel: " in text,
          f"the table of a selection:\n{text}")
    for case, words in (("handoff", ("handoff-burst: ", "handoff-pool: ", "handoff-rcu: ", "defer",
                                     "/ floor", "of that")),
                        ("slab_bulk", ("bulk", "target", "/ dpdk", "/ single")),
                        ("slub_bulk", ("emit", "link-first", "% less")),
                        ("kmalloc", ("stook-malloc", "/ best")),
                        ("groups", ("both", "operation")),
                        ("columns", ("columns-table: ", "both", "extra"))):
        text, _ = run(bench, case, "--quick", "--ms", "1", "--rounds", "1", "--mib", "2",
                      "--size", "128", "--n", "40", "--allocators",
                      "stook,stook-malloc,glibc,floor-link")
        check(all(word in text for word in words), f"the table of {case}:\n{text}")
    littered, _ = records(bench, "kmalloc", "--quick", "--litter", "0.5", "--n", "500", "--size", "64", "--allocators",
                          "stook,glibc,dpdk")
    check({line["allocator"] for line in littered} == {"stook", "glibc"}, f"a littered heap: {littered}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
