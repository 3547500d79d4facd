#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
# labels: more
"""A real Prometheus scrapes stook export; the dashboard is well formed, and Prometheus answers each of its queries with rows."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_seen")
with open(os.path.join(os.environ["STOOK_SOURCE_DIR"], "tools/export/dashboard.json"), encoding="utf-8") as file:
    dashboard = json.load(file)

# ---- the dashboard's form ------------------------------------------------------------------------------
for key, kind in (("title", str), ("uid", str), ("schemaVersion", int), ("panels", list), ("templating", dict), ("time", dict), ("annotations", dict)):
    assert isinstance(dashboard[key], kind), key
variables = [v["name"] for v in dashboard["templating"]["list"]]
assert variables[0] == "datasource" and dashboard["templating"]["list"][0]["query"] == "prometheus"
panels = dashboard["panels"]
assert len({p["id"] for p in panels}) == len(panels)
cells = [(x, y) for p in panels for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
assert len(set(cells)) == len(cells) and max(x for x, _ in cells) == 23, "panels overlap"
queries = []
for panel in panels:
    assert panel["type"] in ("row", "stat", "timeseries") and panel["title"], panel
    if panel["type"] != "row":
        assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}" and panel["fieldConfig"]["defaults"]["unit"], panel
        assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])
        queries += [t["expr"] for t in panel["targets"]]
known = set(variables) | {"__rate_interval"}
assert queries and all(set(re.findall(r"\$(\w+)", query)) <= known for query in queries)

# Grafana's own classes for dashboards, where they are installed (PyPI: grafana-foundation-sdk): they know each key and value.
try:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard
except ImportError:
    Dashboard = None


def lost(before, after, path=""):
    """What of a dashboard is not there, or different, after it went through the classes."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [one for key in before for one in (lost(before[key], after[key], f"{path}/{key}") if key in after else [f"{path}/{key}"])]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [one for i, (x, y) in enumerate(zip(before, after)) for one in lost(x, y, f"{path}/{i}")]
    return [] if before == after else [path]


if Dashboard:
    register_default_plugins()
    through = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    # Grafana writes a variable's query once more as its definition, which the classes leave out.
    assert not [path for path in lost(dashboard, through) if not re.fullmatch(r"/templating/list/\d+/definition", path)], lost(dashboard, through)
    print("the dashboard is one of Grafana's schema")

# ---- Prometheus ----------------------------------------------------------------------------------------
if not shutil.which("prometheus"):
    print("no prometheus: only the dashboard's form was looked at (scripts/deps.sh programs)")
    sys.exit(77)
target = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert target.stdout.readline() == "ready\n"
exporter = subprocess.Popen([STOOK, "export", "--listen", "127.0.0.1:0", "--pid", str(target.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
address = re.match(r"serving http://([^/]+)/metrics", exporter.stdout.readline() or "")
if not address:
    target.kill()
    print(exporter.communicate()[1])
    sys.exit(77)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
work = tempfile.TemporaryDirectory()
config = os.path.join(work.name, "prometheus.yml")
with open(config, "w", encoding="utf-8") as file:
    file.write(f"""global:
  scrape_interval: 1s
scrape_configs:
  - job_name: stook
    static_configs:
      - targets: ['{address[1]}']
  - job_name: found
    http_sd_configs:
      - url: http://{address[1]}/targets
        refresh_interval: 1s
""")
with open(os.path.join(work.name, "log"), "w", encoding="utf-8") as log:
    prometheus = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={work.name}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                  stdout=log, stderr=log)


def ask(what, **arguments):
    url = f"http://127.0.0.1:{port}/api/v1/{what}?" + urllib.parse.urlencode(arguments)
    with urllib.request.urlopen(url, timeout=60) as answer:
        said = json.load(answer)
    assert said["status"] == "success", said
    return said["data"]


def query(text):
    return ask("query", query=text)["result"]


try:
    for _ in range(600):
        try:
            scrapes = query("count_over_time(stook_export_processes[5m])")
            if len(scrapes) == 2 and all(int(s["value"][1]) >= 3 for s in scrapes):
                break
        except OSError:
            assert prometheus.poll() is None, "prometheus has ended"
        time.sleep(0.1)
    else:
        sys.exit("prometheus has not scraped three times")
    active = ask("targets")["activeTargets"]
    assert [(t["health"], t["lastError"]) for t in active] == [("up", "")] * 2, active
    # As scrapers of profiles do with /targets: one for each process, with its number in the URL.
    assert [t["scrapeUrl"] for t in active if t["labels"]["job"] == "found"] == [f"http://{address[1]}/metrics?pid={target.pid}"], active
    rows = query('stook_cache_in_use_bytes{cache="widgets",job="stook"}')
    assert [(r["metric"]["pid"], r["value"][1]) for r in rows] == [(str(target.pid), str(15429 * 200))], rows
    about = ask("metadata")
    assert about["stook_cache_events"][0]["type"] == "counter" and about["stook_process"][0]["type"] == "info", about
    assert about["stook_heap_in_use_bytes"][0]["unit"] == "bytes", about
    for text in queries:
        text = text.replace("$__rate_interval", "1m")
        text = re.sub(r"\$\w+", ".*", text)
        assert query(text), text
finally:
    for process in (prometheus, exporter, target):
        process.terminate()
        process.wait()
