#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""One vocabulary (docs/report.md): in use, cached, wasted, resident, warm and peak of a process at rest are the same numbers in its
own report, table and JSON, and in stook list, top, caches, report and export."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

from tool import STOOK, do, start, stook

WORDS = ("resident", "in use", "cached", "wasted")
folder = tempfile.TemporaryDirectory()


def short(count):
    """As writer_size() writes bytes."""
    if count < 10000:
        return str(count)
    tenths, unit = count * 10, -1
    while tenths >= 10240:
        tenths, unit = (tenths + 512) // 1024, unit + 1
    return f"{tenths // 10}.{tenths % 10}{'KMGTPE'[unit]}"


def long(count):
    """As output_bytes() writes them."""
    value, unit = float(count), 0
    while value >= 999.5:
        value, unit = value / 1024, unit + 1
    return f"{value:.{0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2}f} {('B', 'KiB', 'MiB', 'GiB')[unit]}"


def row(text, name):
    """A row of a table whose cells are one word each, by its head."""
    head = next(line for line in text.splitlines() if "RESIDENT" in line or " resident " in line and line.startswith("cache "))
    head = re.sub(r"(?i)\bin use\b", "in_use", head).lower().split()
    line = next(line for line in text.splitlines() if line.split()[:1] == [name])
    return {word.replace("_", " "): cell for word, cell in zip(head, line.split())}


def same(what, found, of):
    wanted = {word: value for word, value in of.items() if word in found}
    assert wanted and {word: found[word] for word in wanted} == wanted, (what, found, wanted)
    print(what, len(wanted))


def read_by_all(target):
    pid = str(target.pid)

    # The truth is the process's own report, as JSON.
    path = os.path.join(folder.name, "report")
    do(target, f"report {path}")
    with open(path, encoding="utf-8") as file:
        own = json.load(file)
    truth = {word: own["totals"][word.replace(" ", "_") + "_bytes"] for word in WORDS}
    truth |= {"warm": own["arena"]["warm_bytes"], "peak": own["totals"]["peak_bytes"]}
    assert truth["resident"] == truth["in use"] + truth["cached"] + truth["wasted"], truth
    assert len(set(truth.values())) >= 5 and min(truth[word] for word in WORDS) > 0, truth
    widgets = next(cache for cache in own["caches"] if cache["name"] == "widgets")
    assert widgets["active_objects"] == sum(i % 10 and i % 7 and i >= 10000 and 1 for i in range(30000)), widgets
    library = [cache for cache in own["caches"] if cache["internal"]]

    shorts = {word: short(count) for word, count in truth.items()}
    shorts_of_widgets = {word: short(widgets[word.replace(" ", "_") + "_bytes"]) for word in (*WORDS, "peak")}

    do(target, f"table {path}")
    with open(path, encoding="utf-8") as file:
        table = file.read()
    same("report", row(table, "total"), shorts)
    same("report: a cache", row(table, "widgets"), shorts_of_widgets)
    heads = dict(re.findall(r"^(peak|resident|warm) +(\S+) ", table, re.M))
    assert heads == {word: shorts[word] for word in heads} and len(heads) == 3, table
    rows = [line.split()[0] for line in table.split("\n\n")[1].splitlines()]
    assert rows.index("(library)") < rows.index("(large)") < rows.index("total") and not any(name.startswith("stook-") for name in rows), rows
    assert row(table, "(library)")["resident"] == short(sum(cache["resident_bytes"] for cache in library))

    seen = json.loads(stook("caches", "--json", pid))
    same("caches --json", {word: seen["totals"][word.replace(" ", "_") + "_bytes"] for word in (*WORDS, "peak")} | {"warm": seen["arena"]["warm_bytes"]}, truth)
    text = stook("caches", pid)
    same("caches", row(text, "total"), shorts)
    same("caches: a cache", row(text, "widgets"), shorts_of_widgets)
    assert row(text, "(library)")["resident"] == short(sum(cache["resident_bytes"] for cache in library))
    assert text.rstrip().splitlines()[-1] == f"next: stook report --html FILE {pid}", text
    for key in ("resident", "in-use", "cached", "wasted", "peak", "objects"):
        text = stook("caches", "--all", "--sort", key, pid)
        names = [line.split()[0] for line in text.splitlines() if re.match(r"[\w-]+ +\S+ +\S+ +\S+ +\S+ +\S+ +\d+ +\d+ ", line)]
        names = [name for name in names if name != "total"]
        field = {"objects": "active_objects"}.get(key, key.replace("-", "_") + "_bytes")
        found = [next(c for c in seen["caches"] if c["name"].split()[0] == name)[field] for name in names]
        assert len(found) >= len(library) + 2 and found == sorted(found, reverse=True), (key, names, found)
        assert "stook-cache" in names and "(library)" not in text.split("(--all")[0], text

    listed = next(line for line in json.loads(stook("list", "--json")) if line["pid"] == target.pid)
    same("list --json", {word: listed[word.replace(" ", "_") + "_bytes"] for word in (*WORDS, "warm")}, truth)
    text = stook("list")
    same("list", row(text, pid), shorts)
    assert text.rstrip().splitlines()[-1].startswith("next: stook "), text

    page = os.path.join(folder.name, "page.html")
    stook("report", "--html", page, pid)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    tiles = {word: (int(count), said) for count, said, word in re.findall(r'<b title="(\d+) bytes">([^<]*)</b>([\w ]+)<', text)}
    same("page", tiles, {word: (count, long(count)) for word, count in truth.items()})
    assert len(tiles) == 6, tiles
    cells = re.findall(r'<th scope="row" title="widgets">.*?</tr>', text, re.S)[0]
    assert re.findall(r"<td>([^<]*)</td>", cells)[:5] == [long(widgets[word.replace(" ", "_") + "_bytes"]) for word in (*WORDS, "peak")], cells

    exporter = subprocess.Popen([STOOK, "export", "--listen", "127.0.0.1:0", "--pid", pid], stdout=subprocess.PIPE, text=True)
    with urllib.request.urlopen(exporter.stdout.readline().split()[1], timeout=60) as answer:
        metrics = dict(re.findall(r"^stook_heap_(\w+)_bytes\{[^}]*\} (\d+)$", answer.read().decode(), re.M))
    exporter.send_signal(signal.SIGTERM)
    exporter.communicate()
    same("export", {word.replace("_", " "): int(count) for word, count in metrics.items()}, truth)

    if shutil.which("tmux") and "built without" not in stook("top", pid, status=1):
        tmux = ["tmux", "-S", os.path.join(folder.name, "socket"), "-f", "/dev/null"]
        subprocess.run([*tmux, "new-session", "-d", "-x", "130", "-y", "30", f"{STOOK} top {pid}"], check=True)
        text = None
        for _ in range(200):
            before, text = text, subprocess.run([*tmux, "capture-pane", "-p"], check=True, stdout=subprocess.PIPE, text=True).stdout
            if "\nwidgets " in text and text == before:  # not half drawn
                break
            time.sleep(0.05)
        subprocess.run([*tmux, "kill-server"], check=True)
        said = {word: re.search(rf"\b{word} ([\d.]+[KMG]?)", text.splitlines()[1])[1] for word in (*WORDS, "warm")}
        same("top", said, shorts)
        same("top: a cache", row(text, "widgets"), shorts_of_widgets)
        assert row(text, "(library)")["resident"] == short(sum(cache["resident_bytes"] for cache in library)), text


# What a quarantine holds back is cached, not in use.
for settings in ({}, {"STOOK_HARDEN": "quarantine"}):
    process = start(**settings)
    read_by_all(process)
    process.kill()
