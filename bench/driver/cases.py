# SPDX-License-Identifier: MIT
"""The cases with their defaults, the allocators, and the ways in which an allocator is put through a case."""
import typing


class Case(typing.NamedTuple):
    """Zero and () where the case has no use for a parameter; options of the same names replace the others."""
    name: str  # what the worker is asked for, and the record's "case"
    family: str  # the name it is also run under: stook-bench memory
    kind: str  # its records and tables (tables.py), and which allocators take part
    what: str
    repeats: int
    sizes: tuple = ()
    n: tuple = ()
    paired: bool = False  # the first n belongs to the first size, and so on
    align: tuple = ()
    threads: int = 0
    mib: int = 0
    rounds: int = 0
    ms: int = 0


# Each family ends within a minute over all allocators on two CPUs; handoff and slub_bulk take a few.
CASES = (
    Case("pair", "pair", "loop", "one object allocated and freed at once; ns a pair",
         5, (256,), (1,), rounds=7, ms=15),
    Case("batch", "batch", "loop", "n objects allocated, then freed in the same order, by single calls; ns an object",
         5, (256,), (8, 32, 250), rounds=7, ms=10),
    Case("handoff", "handoff", "handoff", "one CPU allocates, another frees, ring of 128 published by 8; ns an object",
         5, (256,), (1,), rounds=7, ms=15),
    Case("handoff-burst", "handoff", "handoff-burst",
         "as handoff, by bursts of n: single calls, or bulk calls; ns an object",
         3, (256,), (1, 8, 32, 128), rounds=5, ms=4),
    Case("handoff-pool", "handoff", "handoff-pool",
         "as handoff, through pools with a reserve, and without; ns an object", 3, (256,), (1,), rounds=5, ms=5),
    Case("handoff-rcu", "handoff", "handoff-rcu",
         "as handoff, but the frees wait for readers, over liburcu; ns an object", 3, (256,), (1,), mib=128, rounds=3),
    Case("slab_bulk", "slab_bulk", "slab_bulk",
         "n objects allocated, then freed, by n single calls or one bulk call; ns an object",
         7, (256,), (1, 2, 3, 4, 8, 16, 30, 32, 34, 48, 64, 128, 158, 250), rounds=3, ms=2),
    Case("slub_bulk", "slub_bulk", "slub_bulk",
         "256 MiB allocated in batches of n, then freed in batches; ns an object",
         1, (16, 32, 64, 128, 256, 512), (256, 128, 64, 32, 32, 32), paired=True, mib=256, rounds=3),
    Case("kmalloc", "kmalloc", "kmalloc",
         "n objects allocated, then freed in that order, by single calls; ns an object",
         3, (32, 64, 128, 256, 512, 1024, 2048, 4096), (100000,), rounds=5),
    Case("tags", "tags", "accounted", "objects counted by call site, and charged to a group; ns an object",
         7, (256,), (1, 32), rounds=5, ms=5),
    Case("groups", "groups", "accounted", "objects charged to a group, and counted by call site; ns an object",
         7, (256,), (1, 32), rounds=5, ms=5),
    Case("columns", "columns", "columns", "n objects with a group and a tag each; bytes that these cost an object",
         1, (992,), (6000000,), align=(64,)),
    Case("columns-table", "columns", "columns", "the same of objects of many sizes and alignments; bytes an object",
         1, (8, 16, 24, 40, 64, 96, 128, 200, 256, 500, 512, 992, 1024, 2048, 4096), align=(8, 16, 64), mib=32),
    Case("latency", "latency", "latency",
         "each allocation and free of a mixed load timed; ns that so many percent do not exceed",
         3, n=(100000,), threads=1, rounds=20),
    Case("latency-phases", "latency", "latency", "the same, with three quarters freed now and then",
         3, n=(100000,), threads=1, rounds=20),
    Case("latency-threads", "latency", "latency", "the same by two threads in one set",
         3, n=(100000,), threads=2, rounds=20),
    Case("idle", "idle", "idle", "resident KiB for each thread that allocated and freed n objects, then idles",
         3, (256,), (1000,), threads=64),
    *(Case(f"large-{sizes}", "large", "large", f"buffers about so large, {what}, n of them live; ns a buffer",
           3, (20000, 60000, 200000, 600000, 2000000, 6000000, 16000000), (1, 4), rounds=3, ms=20)
      for sizes, what in (("fixed", "all of one size"), ("alternating", "of a fifth and nine fifths in turns"),
                          ("growing", "growing from a fifth to nine fifths"), ("random", "from a fifth to nine fifths"))),
    Case("returned", "memory", "memory",
         "objects of 16-2048 bytes, all freed in random order; what is resident then", 1, mib=1024),
    Case("breathing", "memory", "memory",
         "live memory of 16-2048 byte objects goes up and down; page faults it costs", 1, mib=32, rounds=60),
    Case("parked", "memory", "memory",
         "objects of one size in waves, freed in random order, then all; what is resident then",
         1, (16384,), threads=1, mib=32, rounds=20),
    Case("remote-ordered", "memory", "memory",
         "ten threads allocate 64-512 bytes, one other frees the oldest; resident over live",
         1, threads=10, mib=370, rounds=60),
    Case("remote-random", "memory", "memory",
         "ten threads allocate 64-512 bytes, one other frees any; resident over live",
         1, threads=10, mib=370, rounds=60),
)


class Allocator(typing.NamedTuple):
    name: str
    linked: str
    role: str  # floor, stook, peer, or pool: objects of one size made beforehand, no peer of a malloc
    kinds: frozenset  # of the cases that it takes part in
    modes: tuple = ("single",)  # how it can be asked for objects


HANDOFFS = frozenset(("handoff", "handoff-burst", "handoff-pool"))
LOOPS = HANDOFFS | {"loop", "idle", "slab_bulk", "kmalloc"}
CALLS = LOOPS | {"handoff-rcu"}
MALLOCS = CALLS | {"latency"}
# Memory records do not say how they were linked, and it makes no difference to them: they are made with the shared
# library where there is one.  A call for a batch makes no difference of it either, nor do single calls to memory this cold.
ONCE = MALLOCS | {"memory", "slub_bulk", "large"}
BULK = ("single", "bulk")
STOOK = (*BULK, "emit", "link-inside")

ALLOCATORS = (
    Allocator("floor-rseq", "static", "floor", frozenset(("loop",))),
    Allocator("floor-ring", "static", "floor", HANDOFFS | {"handoff-rcu"}),
    Allocator("floor-link", "static", "floor", frozenset(("slub_bulk",)), ("link-first",)),
    Allocator("stook-inline", "static", "stook", LOOPS | {"accounted"}),
    Allocator("stook-inline", "shared", "stook", LOOPS | {"accounted"}),
    Allocator("stook", "static", "stook", CALLS | {"accounted"}, STOOK),
    Allocator("stook", "shared", "stook", CALLS | {"slub_bulk", "accounted", "columns", "memory"}, STOOK),
    Allocator("stook-malloc", "static", "stook", MALLOCS),
    Allocator("stook-malloc", "shared", "stook", MALLOCS | {"memory", "large"}),
    Allocator("dpdk", "shared", "pool", HANDOFFS | {"slab_bulk", "slub_bulk", "kmalloc"}, BULK),
    Allocator("glibc", "static", "peer", MALLOCS),
    Allocator("glibc", "shared", "peer", ONCE),
    Allocator("mimalloc", "shared", "peer", ONCE),
    Allocator("rpmalloc2", "shared", "peer", ONCE),
    Allocator("scudo", "shared", "peer", ONCE),
    *(Allocator(name, linked, "peer", MALLOCS if linked == "static" else ONCE)
      for name in ("jemalloc", "tcmalloc", "snmalloc", "mimalloc3", "jemalloc531", "mimalloc23", "rpmalloc", "tcg",
                   "hardened") for linked in ("static", "shared")),
)

# The setting, for the environment, that makes an allocator keep the memory of cases that need it warm.
KEEPS = {
    "stook-inline": "STOOK_RESERVE=512M",
    "stook": "STOOK_RESERVE=512M",
    "stook-malloc": "STOOK_RESERVE=512M",
    "glibc": "GLIBC_TUNABLES=glibc.malloc.trim_threshold=2147483648",
    "mimalloc": "MIMALLOC_ALLOW_DECOMMIT=0",
    "mimalloc23": "MIMALLOC_PURGE_DELAY=-1",
    "mimalloc3": "MIMALLOC_PURGE_DELAY=-1",
    "jemalloc": "MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1",
    "jemalloc531": "_RJEM_MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1",
    "tcmalloc": "TCMALLOC_RELEASE_RATE=0",
}

TOUCHED = ("touched", "untouched")
MODES = (*STOOK, "link-first", "pool", "memb", "qsbr", "off", "group", "tag", "both", *TOUCHED)
ORDERS = ("sequential", "random")
FREE_ORDERS = ("ordered", "shuffled")


class Variant(typing.NamedTuple):
    """One way of an allocator through a case, which makes a record of its own."""
    mode: str = ""
    order: str = ""
    free_order: str = ""
    align: int = 0  # 0: as the allocator has it
    rounds: int = 0  # in place of the case's
    raised: bool = False  # it keeps all the memory that it had: KEEPS


def slub_variants(allocator, quick):
    """Modes of whole slabs take the place of plain bulk, and plain bulk that of single calls."""
    slabs = [mode for mode in allocator.modes if mode not in BULK]
    modes = slabs or [allocator.modes[-1]]
    for order in ORDERS if slabs else ("",):
        for mode in modes:
            for free_order in FREE_ORDERS:
                # Shuffled frees of memory this cold take most of the time, and single calls take longer than bulk
                # calls: the slower they are, the fewer rounds.
                single, shuffled = mode == "single", free_order == "shuffled"
                if quick and single and shuffled:
                    continue
                if quick:
                    rounds = 1 if single or shuffled else 3
                else:
                    rounds = (1 if shuffled else 3) if single else (2 if shuffled else 7)
                yield Variant(mode, order, free_order, rounds=rounds, raised=True)
                if mode == "emit" and not shuffled and not quick:
                    yield Variant(mode, order, free_order, rounds=rounds)


def variants(case, allocator, quick):
    if case.kind == "slub_bulk":
        return list(slub_variants(allocator, quick))
    if case.kind in ("slab_bulk", "handoff-burst"):
        return [Variant(mode) for mode in BULK if mode in allocator.modes]
    if case.kind == "kmalloc":
        both = allocator.role == "stook" and not quick
        return [Variant("single", raised=True)] + [Variant("single")] * both
    if case.kind == "handoff-pool":
        # DPDK's mempool is a pool and has no single calls.  Floors and inlined code have no pool.
        pools = allocator.role != "floor" and allocator.name != "stook-inline"
        return [Variant("single")] * (allocator.role != "pool") + [Variant("pool")] * pools
    if case.kind == "handoff-rcu":
        return [Variant(mode, raised=True) for mode in ("memb", "qsbr")]
    if case.kind == "accounted":
        return [Variant(mode) for mode in ("off", "group", "tag", "both")]
    if case.kind == "large":
        return [Variant(mode) for mode in TOUCHED]
    if case.kind == "memory" and allocator.name == "stook" and case.name != "parked":
        return []  # those cases have objects of any size
    if case.kind == "columns":
        return [Variant(mode, align=align) for align in case.align for mode in ("off", "group", "both")]
    return [Variant()]
