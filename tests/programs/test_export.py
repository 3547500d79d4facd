#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook export: OpenMetrics that a parser takes and whose numbers are those of stook caches; rows within their bounds, with
"other" for the rest; processes that may not be read; a pprof profile; and what HTTP clients may ask."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from tool import STOOK, do, start

sys.path.insert(0, os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/support"))
import pprof

sys.path.append("/usr/lib/python3/dist-packages")
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

OPEN, TEXT = "application/openmetrics-text; version=1.0.0; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"
SECRET = "correct-horse-battery"
SAMPLE = re.compile(r'^([a-z_]+)\{?((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\}? (\d+(?:\.\d+)?)$')


class Exporter:
    def __init__(self, *arguments, tool=STOOK, user=None):
        self.process = subprocess.Popen([tool, "export", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True, user=user)
        said = re.fullmatch(r"serving http://(127\.0\.0\.1):(\d+)/metrics\n", self.process.stdout.readline())
        self.address = said.groups()

    def ask(self, path, method="GET", body=None, headers=None):
        connection = http.client.HTTPConnection(*self.address, timeout=100)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def metrics(self):
        status, headers, body = self.ask("/metrics", headers={"Accept": "application/openmetrics-text"})
        assert status == 200 and headers["Content-Type"] == OPEN, headers
        return parse(body.decode())

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(100) == 0
        self.process.stdout.close()


def parse(text):
    """{(name, label, ...): value}; each family in one piece, each row once, the end where it is."""
    assert text.endswith("\n# EOF\n") and SECRET not in text, text
    rows, family, families = {}, None, set()
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            family = line.split()[2]
            kind = line.split()[3]
            assert family not in families, line
            families.add(family)
        elif line.startswith("# UNIT "):
            assert line.split()[2] == family and family.endswith("_" + line.split()[3]), line
        elif line.startswith("# HELP "):
            assert line.split()[2] == family, line
        else:
            found = SAMPLE.match(line)
            assert found and found[1] == family + {"counter": "_total", "info": "_info", "gauge": ""}[kind], line
            labels = re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', found[2])
            key = (found[1], *(re.sub(r"\\(.)", r"\1", value) for name, value in labels if name != "program"))
            assert key not in rows, line
            rows[key] = float(found[3])
    if text_string_to_metric_families:
        read = [sample for one in text_string_to_metric_families(text) for sample in one.samples]
        assert len(read) == len(rows) and sum(s.value for s in read) == sum(rows.values())
    return rows


def caches_of(pid):
    return json.loads(subprocess.run([STOOK, "caches", "--json", "--all", str(pid)], stdout=subprocess.PIPE, check=True).stdout)


if subprocess.run([STOOK, "export", "--max-caches", "-1"], stderr=subprocess.DEVNULL, check=False).returncode != 2:
    sys.exit("a wrong number is taken")
for wrong in ("localhost:1", "1.2.3.4:70000", "::1:80", ":80", "1.2.3.4:", "x"):
    assert subprocess.run([STOOK, "export", "--listen", wrong], stderr=subprocess.DEVNULL, check=False).returncode == 2, wrong
without = subprocess.run([STOOK, "export", "--listen", "192.0.2.1:1"], stderr=subprocess.PIPE, text=True, check=False)
assert without.returncode == 1 and "cannot listen on 192.0.2.1:1: " in without.stderr, without

# ---- the numbers ---------------------------------------------------------------------------------------
targets = [start(SECRET, PASSWORD=SECRET) for _ in range(3)]
pids = [str(target.pid) for target in targets]
every = [word for pid in pids for word in ("--pid", pid)]
exporter = Exporter(*every)
rows = exporter.metrics()
assert rows["stook_export_processes",] == 3 and rows["stook_export_unreadable_processes",] == 0, rows
for pid in pids:
    seen = caches_of(pid)
    assert rows["stook_process_info", pid, seen["stook"], seen["mode"]] == 1
    for column in ("resident", "in_use", "cached", "wasted"):
        total = rows[f"stook_heap_{column}_bytes", pid]
        assert total == seen["totals"][column + "_bytes"], (column, total, seen["totals"])
        assert total == sum(v for k, v in rows.items() if k[:2] == (f"stook_cache_{column}_bytes", pid)), column
    for cache in seen["caches"]:
        if cache["slabs"] == 0:
            continue
        name = cache["name"]
        for column in ("resident", "in_use", "cached", "wasted"):
            assert rows[f"stook_cache_{column}_bytes", pid, name] == cache[column + "_bytes"], (name, column)
        for state, key in (("in_use", "active_objects"), ("sheaves", "sheaf_objects"), ("slabs", "slab_free_objects")):
            assert rows["stook_cache_objects", pid, name, state] == cache[key], (name, state)
        states = [rows["stook_cache_slabs", pid, name, state] for state in ("full", "partial", "empty")]
        assert sum(states) == cache["slabs"] and states[1:] == [cache["slabs_partial"], cache["slabs_empty"]], (name, states)
        made, gone = (rows["stook_cache_events_total", pid, name, event] for event in ("slab_made", "slab_given_back"))
        assert made - gone == cache["slabs"], (name, made, gone)
    assert rows["stook_cache_in_use_bytes", pid, 'gadgets "é€"'] > 0
    tenants = [k for k in rows if k[:3] == ("stook_group_limit_bytes", pid, "tenants")]
    assert len(tenants) == 1 and rows[tenants[0]] == 1 << 30, tenants
names = Exporter("--no-group-names", "--pid", pids[0])
assert not any("tenants" in key for key in names.metrics())

# The dashboard asks for nothing that there is not: each word of a query that is no label, function or keyword of PromQL is a
# metric of the scrape, and each label is one of it.
with open(os.path.join(os.environ["STOOK_SOURCE_DIR"], "tools/export/dashboard.json"), encoding="utf-8") as file:
    dashboard = json.load(file)
queries = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
queries += [q for v in dashboard["templating"]["list"] for q in re.findall(r"label_values\((.*), *\w+\)", str(v.get("query")))]
said = exporter.ask("/metrics")[2].decode()
metrics = set(re.findall(r"^(\w+)[ {]", said, re.M))
assert len(queries) > 10 and len(metrics) > 20
for query in queries:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
    asked = set(re.findall(r"\b(stook_\w+)", bare))
    assert asked and asked <= metrics, (query, asked - metrics)
    for name, selector in re.findall(r"\b(stook_\w+)\{([^}]*)\}", bare):
        labels = set(re.findall(r'(\w+)="', "".join(line for line in said.splitlines(keepends=True) if re.match(rf"{name}[ {{]", line))))
        wanted = set(re.findall(r"(\w+)\s*[=!]", selector)) - {"job", "instance"}
        assert wanted <= labels, (query, wanted - labels)

# ---- the profile ---------------------------------------------------------------------------------------

status, headers, body = names.ask("/debug/pprof/heap")  # the only one that it serves
assert status == 200 and headers["Content-Type"] == "application/octet-stream", (status, headers, body)
profile = pprof.Profile(body)
assert profile.types == ("inuse_objects", "inuse_space") and profile.units == ("count", "bytes") and profile.default == "inuse_space"
found = {}
for sample in profile.samples:
    stack = [location.lines[0].function for location in sample.stack]
    assert sample.labels == {"cache": stack[0]} and stack[1:] == ["prog_seen"], sample
    found[stack[0]] = tuple(sample.values.values())
expected = {k[2]: (v, rows["stook_cache_in_use_bytes", pids[0], k[2]]) for k, v in rows.items()
            if k[:2] == ("stook_cache_objects", pids[0]) and k[3] == "in_use" and v > 0}
assert found == expected and found["widgets"][0] == 15429, (found, expected)

# By call site: the sums are those by cache, and an object stands where it was allocated.
process = subprocess.Popen([STOOK, "run", "--", os.path.join(os.environ["STOOK_TEST_DIR"], "prog_leaks"), "wait"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, env={**os.environ, "STOOK_TAGS": "1"})
assert process.stdout.readline() == "ready\n"
tagged = Exporter("--pid", str(process.pid))
status, _, body = tagged.ask("/debug/pprof/heap?by=site")
assert status == 200, (status, body)
profile = pprof.Profile(body)
by_cache = pprof.Profile(tagged.ask("/debug/pprof/heap")[2])
sums = [[sum(sample.values[name] for sample in of.samples) for name in of.types] for of in (profile, by_cache)]
assert sums[0] == sums[1], sums
symbols = subprocess.run(["nm", "-S", "--defined-only", os.path.join(os.environ["STOOK_TEST_DIR"], "prog_leaks")], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
[(begin, size)] = re.findall(r"^(\w+) (\w+) t lose_string$", symbols, re.M)
[mapping] = [m for m in profile.mappings.values() if m.file.endswith("/prog_leaks")]
# The file's build ID, so that no reader takes the functions of another file of that name.
notes = subprocess.run(["readelf", "-n", mapping.file], stdout=subprocess.PIPE, text=True, check=True).stdout
assert mapping.build_id and f"Build ID: {mapping.build_id}\n" in notes, (mapping, notes)
where = [sample for sample in profile.samples for location in sample.stack[:1]
         if location.mapping and profile.mappings[location.mapping] == mapping and
         int(begin, 16) <= location.address - mapping.start + mapping.offset < int(begin, 16) + int(size, 16)]
assert [sample.values["inuse_objects"] for sample in where] == [1], (begin, size, mapping, profile.samples)
assert tagged.ask("/debug/pprof/heap?by=all")[0] == 400
tagged.end()
process.communicate()
status, _, body = exporter.ask(f"/debug/pprof/heap?pid={pids[0]}&by=site")
assert status == 404 and b"counts no call sites" in body, (status, body)

# ---- HTTP ----------------------------------------------------------------------------------------------
assert exporter.ask("/debug/pprof/heap")[0] == 400 and exporter.ask("/debug/pprof/heap?pid=1x")[0] == 400
assert names.ask(f"/debug/pprof/heap?pid={pids[1]}")[0] == 403
status, _, body = names.ask("/debug/pprof/heap?pid=4194304999")
assert status == 400, (status, body)
assert exporter.ask("/metrics", "POST", "x" * 100000)[0] == 405 and exporter.ask("/../etc/passwd")[0] == 404
status, headers, body = exporter.ask("/metrics", "HEAD")
assert status == 200 and body == b"" and int(headers["Content-Length"]) > 1000, headers
assert exporter.ask("/")[0] == 200
status, headers, body = exporter.ask("/targets")
listed = json.loads(body)
assert status == 200 and headers["Content-Type"] == "application/json" and all(t["targets"] == [":".join(exporter.address)] for t in listed), body
assert sorted(t["labels"]["__param_pid"] for t in listed) == sorted(pids) and {t["labels"]["program"] for t in listed} == {"prog_seen"}, body
names.end()

# ---- the form that a client asks for ---------------------------------------------------------------------
PROMETHEUS = ("application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
              "text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
for accept, kind in ((None, TEXT), ("text/plain", TEXT), ("*/*", TEXT), ("application/json", TEXT), (PROMETHEUS, OPEN),
                     ("application/openmetrics-text; version=0.0.1, text/plain", TEXT), ("Application/OpenMetrics-Text;Version=1.0.0", OPEN),
                     ("application/openmetrics-text;q=0.2, text/plain;q=0.9", TEXT), ("application/openmetrics-text;q=0", TEXT)):
    status, headers, body = exporter.ask("/metrics", headers={"Accept": accept} if accept else None)
    assert status == 200 and headers["Content-Type"] == kind and body.endswith(b"# EOF\n") == (kind == OPEN), (accept, headers)
plain = exporter.ask("/metrics")[2].decode()
assert "# TYPE stook_cache_events_total counter\n" in plain and "# TYPE stook_process_info gauge\n" in plain and "# UNIT" not in plain, plain


def samples(text):
    return [line for line in text.splitlines() if line[0] != "#" and "reading_seconds" not in line]


assert samples(plain) == samples(exporter.ask("/metrics", headers={"Accept": PROMETHEUS})[2].decode())
if shutil.which("promtool"):
    checked = subprocess.run(["promtool", "check", "metrics"], input=plain, capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and not checked.stderr, checked

# A group has in use what it says itself, without what CPUs took in advance.
charged = start(SECRET, PASSWORD=SECRET)
do(charged, "charge")
with tempfile.NamedTemporaryFile() as file:
    do(charged, f"report {file.name}")
    groups = {group["name"]: group for group in json.load(file)["groups"]}
seen = Exporter("--pid", str(charged.pid))
now = {k[0].removeprefix("stook_group_") + " " + k[2]: v for k, v in seen.metrics().items() if k[0].startswith("stook_group_")}
seen.end()
charged.communicate()
assert groups["tenants"]["usage_bytes"] > groups["subtenant"]["usage_bytes"] > 0 and groups["subtenant"]["stocked_bytes"] > 0, groups
for name in ("tenants", "subtenant"):
    assert now[f"in_use_bytes {name}"] == groups[name]["usage_bytes"], (groups, now)
    assert now[f"stocked_bytes {name}"] == groups[name]["stocked_bytes"], (groups, now)

# ---- bounds, and counters of what has no row -------------------------------------------------------------
few = Exporter("--max-processes", "1", "--max-caches", "2", "--max-groups", "0", *every)
rest = few.metrics()
assert sum(k[0] == "stook_process_info" for k in rest) == 1 and rest["stook_export_processes",] == 3
with_row = next(k[1] for k in rest if k[0] == "stook_process_info")
assert {k[2] for k in rest if k[:2] == ("stook_cache_in_use_bytes", with_row)} == {"large objects", 'gadgets "é€"', "other"}
assert {k[2] for k in rest if k[:2] == ("stook_cache_in_use_bytes", "other")} == {"other"}
assert {k[2:4] for k in rest if k[0] == "stook_group_in_use_bytes"} == {("other", "other")}
for column in ("resident", "in_use", "cached", "wasted"):
    name = f"stook_cache_{column}_bytes"
    assert sum(v for k, v in rest.items() if k[0] == name) == sum(v for k, v in rows.items() if k[0] == name), column


def events(of):
    return {k: v for k, v in of.items() if k[0].endswith("_total") and "other" in k}


assert sum(v for k, v in events(rest).items() if "slab_made" in k) == sum(
    v for k, v in rows.items() if "slab_made" in k and not (k[1] == with_row and k[2].startswith("gadgets"))), events(rest)
without_row = next(t for t in targets if str(t.pid) != with_row)
do(without_row, "fork 3")
without_row.kill()
without_row.communicate()
later = few.metrics()
assert later["stook_export_processes",] == 2
assert later["stook_heap_in_use_bytes", "other"] < rest["stook_heap_in_use_bytes", "other"]
assert events(later).keys() == events(rest).keys()
assert all(later[k] >= v for k, v in events(rest).items()), (events(later), events(rest))
assert next(k[1] for k in later if k[0] == "stook_process_info") == with_row
few.end()

# ---- processes that it may not read, and those that are gone -----------------------------------------------
if os.geteuid() == 0 and hasattr(os, "setresuid"):
    with tempfile.TemporaryDirectory() as folder: # of a tree that only its owner may read
        os.chmod(folder, 0o755)
        nobody = Exporter("--pid", with_row, tool=shutil.copy(STOOK, folder), user=65534)
        refused = nobody.metrics()
        assert refused["stook_export_unreadable_processes",] == 1 and refused["stook_export_processes",] == 0, refused
        status, _, body = nobody.ask(f"/debug/pprof/heap?pid={with_row}")
        assert status == 403 and b"CAP_SYS_PTRACE" in body, (status, body)
        nobody.end()
for target in targets:
    target.kill()
    target.communicate()
assert exporter.metrics()["stook_export_processes",] == 0
assert exporter.ask(f"/debug/pprof/heap?pid={pids[0]}")[0] == 404
exporter.end()
everything = Exporter()
assert everything.metrics()["stook_export_processes",] >= 0
everything.end()
