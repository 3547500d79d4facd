#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# SQLite in python3: a small load with indexes and queries, in memory and in a file; same answers.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need python3

cat >"$work/load.py" <<'PYTHON'
import os, sqlite3, sys

path = sys.argv[1]
if os.path.exists(path):
    os.remove(path)
db = sqlite3.connect(path)
db.execute("CREATE TABLE reading (id INTEGER PRIMARY KEY, name TEXT, place INTEGER, value REAL)")
db.executemany("INSERT INTO reading VALUES (?, ?, ?, ?)",
               ((i, f"sensor-{i % 503}-{'x' * (i % 40)}", i * 7919 % 1009, i * 104729 % 10007 / 7)
                for i in range(1, 40001)))
db.execute("CREATE INDEX by_name ON reading (name)")
db.execute("CREATE INDEX by_place ON reading (place, value)")
db.commit()
for query in ("SELECT count(*), round(sum(value), 3) FROM reading",
              "SELECT name, count(*), max(value) FROM reading GROUP BY name ORDER BY name LIMIT 300",
              "SELECT place, avg(value) FROM reading GROUP BY place ORDER BY 2 DESC, 1 LIMIT 100",
              "SELECT group_concat(id) FROM (SELECT id FROM reading WHERE name LIKE 'sensor-7-%' ORDER BY id)",
              "SELECT a.id, b.id FROM reading a JOIN reading b ON a.place = b.place AND a.id < b.id"
              " WHERE a.value > 1400 ORDER BY 1, 2 LIMIT 500"):
    print(db.execute(query).fetchall())
db.execute("DELETE FROM reading WHERE id % 3 = 0")
db.rollback() if path == ":memory:" else db.commit()
print(db.execute("SELECT count(*), round(sum(value), 3) FROM reading WHERE place BETWEEN 100 AND 300").fetchall())
print(db.execute("PRAGMA integrity_check").fetchall())
PYTHON
export PYTHONMALLOC=malloc
same memory 'python*' "$python" "$work/load.py" :memory:
same file 'python*' "$python" "$work/load.py" "$work/db"
