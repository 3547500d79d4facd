#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: whole
"""The JSON report parses strictly, has the keys that docs/report.md promises, and adds up."""
import json
import os
import pathlib
import re
import subprocess

PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_report")
DOCS = pathlib.Path(os.environ["STOOK_SOURCE_DIR"], "docs")
BYTES = ("in_use_bytes", "cached_bytes", "wasted_bytes")


def no_twins(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key stands twice in {keys}"
    return dict(pairs)


def paths(value, at=""):
    """All keys, as caches[].name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, at + "[]")
    else:
        yield at


report = json.loads(subprocess.check_output([PROGRAM]).decode("utf-8"), object_pairs_hook=no_twins)
caches = {cache["name"]: cache for cache in report["caches"]}

# The keys are those of the document, no more and no fewer.
section = (DOCS / "report.md").read_text(encoding="utf-8").split("\n## JSON\n")[1].split("\n## ")[0]
rows = [re.findall(r"`([a-zA-Z_.\[\]]+)`", cell) for cell in re.findall(r"^\| (`[^|]+) \|", section, re.M)]
promised = {key if key[0] != "." else row[0].rsplit(".", 1)[0] + key for row in rows for key in row}
found = {re.sub(r"\.counters\.\w+", ".counters.NAME", path) for path in paths(report)}
assert promised == found, sorted(promised ^ found)

# Of the cache that counts, and of no other: all events that docs/statistics.md has.
section = (DOCS / "statistics.md").read_text(encoding="utf-8").split("\n## Counters\n")[1].split("\n## ")[0]
events = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", section, re.M))))
assert [name for name, cache in caches.items() if "counters" in cache] == ["plain"]
counters = caches["plain"]["counters"]
assert set(counters) == events, sorted(set(counters) ^ events)
assert counters["alloc_fastpath"] + counters["alloc_slowpath"] == 500
assert counters["alloc_slab"] == caches["plain"]["slabs"] and counters["free_slab"] == 0

assert report["format"] == 1 and report["mode"] in ("rseq", "locked") and report["mode_why"]
assert caches["plain"]["active_objects"] == 500
assert caches["plain"]["object_size"] == 256
assert caches["plain"]["in_use_bytes"] == 500 * 256
assert not caches["plain"]["internal"]
assert any(cache["internal"] for cache in report["caches"])
odd = caches['odd "name"\\\n\u00e9\ufffd']
assert odd["active_objects"] == 0 and odd["total_objects"] > 0
assert "n" * 63 in caches and len(caches) > 300

top, part = report["groups"]
assert (top["name"], top["limit_bytes"], top["parent"]) == ("all", 1 << 20, 0)
assert (part["name"], part["limit_bytes"], part["parent"]) == ('part "one"', None, top["number"])
assert top["usage_bytes"] == top["peak_bytes"] == top["refused"] == 0

for cache in report["caches"]:
    assert cache["resident_bytes"] == sum(cache[key] for key in BYTES), cache
    assert cache["peak_bytes"] >= cache["resident_bytes"], cache
    assert cache["total_objects"] == (cache["active_objects"] + cache["sheaf_objects"] +
                                      cache["slab_free_objects"]), cache
totals = report["totals"]
assert totals["peak_bytes"] >= totals["resident_bytes"]
for key in totals.keys() - {"peak_bytes"}:
    large = {"active_objects": "objects", "total_objects": "objects",
             "resident_bytes": "resident_bytes", "in_use_bytes": "resident_bytes"}.get(key)
    expected = sum(cache[key] for cache in report["caches"])
    assert totals[key] == expected + (report["large"][large] if large else 0), key
assert totals["resident_bytes"] == report["arena"]["used_bytes"]
print(f"{len(report['caches'])} caches, {len(promised)} keys")
