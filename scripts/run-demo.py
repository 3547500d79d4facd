#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program that `make run` serves: it loads what this machine has installed into SQLite, in
memory and on disk, indexes it, queries both from several threads, and prints what it found.

The data are Debian's list of installed packages where there is one, else the modules of Python's
own library with what they import.  The output depends on nothing else, so that two runs can be
compared.
"""
import ast
import collections
import json
import os
import re
import sqlite3
import sys
import sysconfig
import tempfile
import threading

DPKG = "/var/lib/dpkg/status"


def packages(path):
    """(name, group, bytes, description, needs) of every installed package."""
    with open(path, encoding="utf-8") as file:
        for paragraph in file.read().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.M))
            if "installed" in fields.get("Status", "").split():
                needs = re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)",
                                   ",".join((fields.get("Pre-Depends", ""),
                                             fields.get("Depends", ""))))
                yield (fields["Package"], fields.get("Section", "none"),
                       1024 * int(fields.get("Installed-Size", 0)),
                       fields.get("Description", ""), needs)


def modules(root):
    """The same of the modules of a Python library."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - {"site-packages", "dist-packages", "__pycache__"})
        for name in sorted(file for file in files if file.endswith(".py")):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8") as file:
                    tree = ast.parse(file.read())
            except (SyntaxError, UnicodeDecodeError):
                continue
            needs = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
                     for alias in node.names}
            needs |= {node.module for node in ast.walk(tree)
                      if isinstance(node, ast.ImportFrom) and node.module}
            place = os.path.relpath(path, root)[:-3].replace(os.sep, ".")
            yield (place.removesuffix(".__init__"), place.split(".")[0], os.path.getsize(path),
                   ast.get_docstring(tree) or "", sorted(needs))


def load(database, items):
    database.executescript("""
        CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, part TEXT, bytes INTEGER, text TEXT);
        CREATE TABLE need (item INTEGER, name TEXT);
        CREATE TABLE word (item INTEGER, word TEXT);""")
    for number, (name, part, size, text, needs) in enumerate(items):
        database.execute("INSERT INTO item VALUES (?, ?, ?, ?, ?)",
                         (number, name, part, size, text))
        database.executemany("INSERT INTO need VALUES (?, ?)", ((number, n) for n in needs))
        database.executemany("INSERT INTO word VALUES (?, ?)",
                             ((number, w.lower()) for w in re.findall(r"[A-Za-z]{4,}", text)))
    database.executescript("""
        CREATE INDEX item_name ON item (name);
        CREATE INDEX item_part ON item (part, bytes);
        CREATE INDEX need_name ON need (name);
        CREATE INDEX word_word ON word (word, item);""")
    database.commit()


QUESTIONS = {
    "items, bytes, needs, words":
        "SELECT (SELECT count(*) FROM item), (SELECT sum(bytes) FROM item),"
        " (SELECT count(*) FROM need), (SELECT count(*) FROM word)",
    "largest":
        "SELECT name, bytes FROM item ORDER BY bytes DESC, name LIMIT 3",
    "largest groups":
        "SELECT part, count(*), sum(bytes) FROM item GROUP BY part ORDER BY 3 DESC, 1 LIMIT 3",
    "most needed":
        "SELECT item.name, count(DISTINCT need.item) FROM need JOIN item USING (name)"
        " GROUP BY item.name ORDER BY 2 DESC, 1 LIMIT 3",
    "commonest words":
        "SELECT word, count(DISTINCT item) FROM word GROUP BY word ORDER BY 2 DESC, 1 LIMIT 5",
    "neighbours by words":
        "SELECT a.name, b.name, count(*) FROM"
        " (SELECT DISTINCT item, word FROM word WHERE length(word) > 7) x JOIN"
        " (SELECT DISTINCT item, word FROM word WHERE length(word) > 7) y"
        " ON x.word = y.word AND x.item < y.item"
        " JOIN item a ON a.id = x.item JOIN item b ON b.id = y.item"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 3",
}


def ask(database):
    return {name: database.execute(query).fetchall() for name, query in QUESTIONS.items()}


def main():
    if os.path.exists(DPKG):
        source, items = DPKG, list(packages(DPKG))
    else:
        source = sysconfig.get_paths()["stdlib"]
        items = list(modules(source))
    if not items:
        sys.exit(f"{source} has nothing to load")
    memory = sqlite3.connect(":memory:")
    load(memory, items)
    answers = ask(memory)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "items.db")
        disk = sqlite3.connect(path)
        memory.backup(disk)
        disk.close()
        others = [None] * 4

        def worker(number):
            database = sqlite3.connect(path)
            others[number] = ask(database)
            database.close()

        threads = [threading.Thread(target=worker, args=(n,)) for n in range(len(others))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # A round through JSON, and objects that stay until the end: what the report counts.
    again = json.loads(json.dumps(items))
    parts = collections.Counter(item[1] for item in again)
    if [tuple(item) for item in again] != items or any(other != answers for other in others):
        sys.exit("the database on disk, the one in memory and the list do not agree")
    print(f"{source}: {len(items)} items in {len(parts)} groups")
    for name, rows in answers.items():
        print(f"  {name}:", "; ".join(" ".join(map(str, row)) for row in rows))


if __name__ == "__main__":
    main()
