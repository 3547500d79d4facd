# SPDX-License-Identifier: MIT
"""Records of one case as tables, or as JSON objects, one a line."""
import json
import sys

import runs


def over(value, by):
    return value / by if value is not None and by else None


def less(value, by):
    return value - by if value is not None and by is not None else None


def cell(value, width, decimals):
    return f" {'-':>{width}}" if value is None else f" {value:{width}.{decimals}f}"


def find(records, key, allocator, **wanted):
    """A figure of the first record of that allocator, in that linking and variant."""
    for record in records:
        having = {**record.variant._asdict(), "linked": record.allocator.linked}
        if not record.missing and record.allocator.name == allocator and all(
                having[name] == value for name, value in wanted.items()):
            return record.values.get(key)
    return None


def pair(record):
    return record.values.get("pair_ns")


def is_apart(record):
    """Inlined code, floors and pools have no peers of the same linking."""
    return record.allocator.name == "stook-inline" or record.allocator.role in ("floor", "pool")


def best(record, records):
    """The fastest peer, asked the same way; by single calls where it has no others."""
    mode = "single" if record.variant.mode == "bulk" else record.variant.mode
    return min((pair(peer) for peer in records
                if peer.allocator.role == "peer" and not peer.missing and peer.variant.mode == mode
                and (is_apart(record) or peer.allocator.linked == record.allocator.linked)), default=None)


def to_best(record, records):
    return over(pair(record), best(record, records))


def to_single(record, records):
    return None if record.variant.mode == "single" else over(pair(record), find(
        records, "pair_ns", record.allocator.name, linked=record.allocator.linked, mode="single"))


def to_floor(record, records):
    floor = find(records, "pair_ns", "floor-ring", mode=record.variant.mode)
    return over(pair(record), floor or find(records, "pair_ns", "floor-ring", mode="single"))


def to_dpdk(record, records):
    dpdk = find(records, "pair_ns", "dpdk", mode=record.variant.mode)
    return over(pair(record), dpdk or find(records, "pair_ns", "dpdk", mode="pool"))


def if_bulk(figure):
    return lambda record, records: figure(record, records) if record.variant.mode == "bulk" else None


def extra(key):
    """By how much a figure exceeds that of the same allocator with nothing kept about objects."""
    return lambda record, records: less(record.values.get(key), find(
        records, key, record.allocator.name, linked=record.allocator.linked, mode="off", align=record.variant.align))


def extra_ns(record, records):
    """Of an operation, half a pair."""
    return over(extra("pair_ns")(record, records), 2)


# A column: the title, the decimals, and a metric or what computes it from a record and all of them.
SPREAD = [("pair", 2, "pair_ns"), ("min", 2, "pair_min"), ("max", 2, "pair_max")]
TIMES = [("alloc", 2, "alloc_ns"), ("free", 2, "free_ns"), *SPREAD]
RESERVE = ("reserve", 0, "reserve_mib")
BEST = ("/ best", 2, to_best)
PERCENTILES = (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("p99.99", "p9999"), ("p99.999", "p99999"),
               ("largest", "max"))
HANDOFF = (("mode",), [("defer", 2, "free_ns"), *SPREAD, ("/ floor", 2, to_floor), ("/ dpdk", 2, to_dpdk), BEST,
                       ("/ single", 2, to_single)])
# The tables of each kind of case: what of the variant stands in the rows, and the columns.
TABLES = {
    "loop": [((), [*TIMES, BEST])],
    "handoff": [((), [*TIMES, BEST])],
    "handoff-burst": [HANDOFF], "handoff-pool": [HANDOFF], "handoff-rcu": [HANDOFF],
    "idle": [((), [("in turn", 2, "kib_per_thread"), ("at once", 2, "kib_at_once"), ("reserve", 1, "reserve_mib")])],
    "memory": [((), [("/ live", 3, "resident_over_live"), ("MiB", 1, "resident_mib"), ("flt/1000", 3, "faults_per_1000"),
                     ("reserve", 1, "reserve_mib")])],
    "latency": [((), [(f"{half} {title}", 0, f"{half}_{key}") for title, key in PERCENTILES])
                for half in ("alloc", "free")] +
               [((), [("10us more", 0, "slow"), ("faults", 0, "slow_faults"), ("switches", 0, "slow_switches")])],
    # The target: what a pair of bulk calls for n objects is to cost at most.
    "slab_bulk": [(("mode",), [
        *TIMES, ("n pairs", 2, lambda record, _: pair(record) * record.n),
        ("target", 1, if_bulk(lambda record, _: 4 + 0.2 * record.n)), ("/ dpdk", 2, if_bulk(to_dpdk)),
        ("/ single", 2, if_bulk(to_single))])],
    "slub_bulk": [(("mode", "order", "free_order"), [RESERVE, *TIMES])],
    "kmalloc": [((), [RESERVE, *TIMES, BEST])],
    "large": [(("mode",), [*SPREAD, ("flt/1000", 0, "faults_per_1000"), ("peak MiB", 1, "resident_mib"), BEST])],
    "accounted": [(("mode",), [*TIMES, ("operation", 2, extra_ns)])],
    "columns": [(("align", "mode"), [
        ("resident", 3, "resident_bytes"), ("extra", 3, extra("resident_bytes")), ("counted", 3, "counted_bytes"),
        ("extra", 3, extra("counted_bytes"))])],
}
NOTES = {"accounted": "  operation: what an allocation or a free takes more than with nothing kept"}


def value_of(source, record, records):
    return source(record, records) if callable(source) else record.values.get(source)


def table(words, columns, records):
    widths = [max(9, len(title)) for title, *_ in columns]
    print(f"  {'allocator':<14} {'linked':<7}", *(f"{word:<11}" for word in words), end="")
    print("".join(f" {title:>{width}}" for width, (title, *_) in zip(widths, columns)))
    for record in records:
        if not record.missing:
            print(f"  {record.allocator.name:<14} {record.allocator.linked:<7}",
                  *(f"{getattr(record.variant, word) or '-':<11}" for word in words), end="")
            print("".join(cell(value_of(source, record, records), width, decimals)
                          for width, (_, decimals, source) in zip(widths, columns)))


def compare(what, key, records, one, other, unit):
    """A line beside another record of the same order; nothing where one of them was not measured."""
    values = [find(records, key, name, raised=True, mode=mode, **unit) for name, mode in (one, other)]
    if None not in values:
        ratio = (f"x {over(*values):.2f}" if key == "free_ns" else f"{100 * (1 - over(*values)):.0f} % less")
        print(f"  {what:<28} {one[1]} {values[0]:.2f}, {other[1]} {values[1]:.2f}: {ratio}")


def slub_bulk_notes(records):
    emit = ("stook", "emit")
    for order in ("sequential", "random"):
        compare(f"alloc, {order}", "alloc_ns", records, emit, ("floor-link", "link-first"),
                {"order": order, "free_order": "ordered"})
        for freed in ("ordered", "shuffled"):
            compare(f"free {freed}, {order}", "free_ns", records, emit, ("stook", "link-inside"),
                    {"order": order, "free_order": freed})


def addition_ns():
    """How long one addition of a chain takes now: a cycle of the core, in which no allocator has part."""
    return runs.start(f"{runs.WORKERS}/floor-ring.static", "pace", {})[0]["addition_ns"]


def handoff_notes(records, addition):
    target, scaled = 3.3, 3.3 * addition * 4.4
    dpdk = find(records, "pair_ns", "dpdk")
    print(f"  single calls are to cost {target:.1f} ns where an addition takes {1 / 4.4:.2f}, {scaled:.2f} here, or what"
          " DPDK's do")
    for record in records:
        if not record.missing and record.allocator.role == "stook":
            beside = f", x {over(pair(record), dpdk):.2f} of DPDK's {dpdk:.2f}" if dpdk else ""
            print(f"  {record.allocator.name:<14} {record.allocator.linked:<7} x {over(pair(record), scaled):.2f} of that"
                  f"{beside}")


def says_missing(records):
    """Those whose reason is to be said: variants of one allocator lack for the same one."""
    before = None
    for record in records:
        if record.missing and (record.allocator, record.missing) != before:
            yield record
        before = (record.allocator, record.missing)


def show(case, records):
    print(f"{case.name}: {case.what}")
    addition = None
    if records and case.kind == "columns":
        print(f"  ({records[0].size} bytes, {records[0].values.get('objects', 0):.0f} objects)")
    elif records and case.kind not in ("idle", "memory", "latency"):
        addition = addition_ns()
        print(f"  ({records[0].size} bytes, n = {records[0].n}; an addition takes {addition:.2f} ns now)")
    for words, columns in TABLES[case.kind]:
        table(words, columns, records)
    if case.kind == "slub_bulk":
        slub_bulk_notes(records)
    if case.kind == "handoff" and records:
        handoff_notes(records, addition)
    if case.kind in NOTES:
        print(NOTES[case.kind])
    for record in says_missing(records):
        print(f"  {record.allocator.name:<14} {record.allocator.linked:<7} missing: {record.missing}")
    print(flush=True)


# ---- JSON ---------------------------------------------------------------------------------------

TIME_KEYS = ("alloc_ns", "free_ns", "pair_ns", "pair_min", "pair_max")
COLUMN_KEYS = {"resident_bytes": "resident_bytes", "counted_bytes": "counted_bytes",
               "extra_resident": extra("resident_bytes"), "extra_counted": extra("counted_bytes")}
LATENCY_KEYS = (*(f"{half}_{key}" for half in ("alloc", "free") for _, key in PERCENTILES),
                "clock_ns", "slow", "slow_faults", "slow_switches")


def rounded(value, digits=3):
    return None if value is None else round(value, digits)


def json_of(case, record, records):
    """The keys of a record behind its case and allocator."""
    variant, values = record.variant, record.values
    if case.kind == "columns":
        return {"object_size": record.size, "align": variant.align, "n": round(values["objects"]), "mode": variant.mode,
                **{key: rounded(value_of(source, record, records)) for key, source in COLUMN_KEYS.items()}}
    if case.kind == "latency":
        return {"linked": record.allocator.linked, "n": record.n, **{key: round(values[key]) for key in LATENCY_KEYS}}
    keys = {"linked": record.allocator.linked, "object_size": record.size, "n": record.n,
            **{key: rounded(values.get(key)) for key in TIME_KEYS}}
    if case.kind == "memory":
        keys = {key: rounded(values.get(key)) for key in ("resident_over_live", "resident_mib", "faults_per_1000")}
    if case.kind == "idle":
        keys.update((key, rounded(values.get(key))) for key in ("kib_per_thread", "kib_at_once"))
    elif case.kind not in ("loop", "handoff", "memory"):
        keys["mode"] = variant.mode
    if case.kind == "large":
        keys.update((key, rounded(values.get(key))) for key in ("faults_per_1000", "resident_mib"))
    if case.kind == "accounted":
        keys["extra_ns"] = rounded(extra_ns(record, records))
    if case.kind == "slub_bulk":
        keys.update(order=variant.order or None, free_order=variant.free_order)
    if case.kind in ("slub_bulk", "kmalloc", "handoff-rcu") or (
            case.kind in ("idle", "memory") and "reserve_mib" in values):
        keys["reserve_mib"] = rounded(values.get("reserve_mib"))
    return keys


def show_json(case, records):
    for record in says_missing(records):  # not among the records: their readers may rely on the keys
        print(f"missing: {case.name}: {record.allocator.name} ({record.allocator.linked}): {record.missing}",
              file=sys.stderr)
    for record in records:
        if not record.missing:
            print(json.dumps({"case": case.name, "allocator": record.allocator.name, **json_of(case, record, records)}))
    sys.stdout.flush()
