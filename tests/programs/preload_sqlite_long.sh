#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 900
# A million rows into SQLite, indexes over them, queries, in memory and in a file: the same answers.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need sqlite3

cat >"$work/load.sql" <<'SQL'
PRAGMA cache_size = -200000;
CREATE TABLE reading (id INTEGER PRIMARY KEY, name TEXT, place INTEGER, value REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
INSERT INTO reading SELECT i, printf('sensor-%d-%s', i % 5003, substr('abcdefghijklmnop', i % 16)),
    i * 7919 % 1009, (i * 104729 % 1000003) / 7.0 FROM n;
CREATE INDEX by_name ON reading (name);
CREATE INDEX by_place ON reading (place, value);
SELECT count(*), round(sum(value), 3) FROM reading;
SELECT name, count(*), round(max(value), 3) FROM reading GROUP BY name ORDER BY name LIMIT 2000;
SELECT place, round(avg(value), 6) FROM reading GROUP BY place ORDER BY 2 DESC LIMIT 100;
SELECT group_concat(id) FROM (SELECT id FROM reading WHERE name LIKE 'sensor-77-%' ORDER BY value);
DELETE FROM reading WHERE id % 3 = 0;
SELECT count(*), round(sum(value), 3) FROM reading WHERE place BETWEEN 100 AND 300;
PRAGMA integrity_check;
SQL
same memory sqlite3 sqlite3 -bail :memory: ".read $work/load.sql"
tail -n 1 "$work/memory.with"
grep -q '^1000000|' "$work/memory.with"
served memory sqlite3 1000
same file sqlite3 bash -c "rm -f '$work/db' && exec sqlite3 -bail '$work/db' '.read $work/load.sql'"
served file sqlite3 1000
