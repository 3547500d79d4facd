# SPDX-License-Identifier: MIT
"""What the programs work on: made in a folder from fixed random numbers, so the same in every run.

Each function gets the folder and a size (1 is about a second of work) and gives the command's words and
options.
"""
import os
import random
import subprocess


def text_file(folder, name, lines):
    path = folder / name
    with open(path, "w", encoding="ascii") as out:
        for line in lines:
            out.write(line)
            out.write("\n")
    return path


def words_of(chance, number):
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    kinds = ["".join(chance.choice(letters) for _ in range(chance.randint(2, 11))) for _ in range(20000)]
    for _ in range(number):
        yield " ".join(kinds[int(len(kinds) * chance.random() ** 3)] for _ in range(12))


def prose(folder, size, name="text"):
    return text_file(folder, name, words_of(random.Random(1), max(50, int(size))))


def gcc(folder, size):
    chance = random.Random(2)
    lines = ["#include <stdlib.h>", "struct item { struct item *next; int key, value[8]; };"]
    for i in range(max(5, int(400 * size))):
        a, b, c = (chance.randint(1, 99) for _ in range(3))
        lines += [
            f"static int step_{i}(struct item *item, int n)", "{", f"    int sum = {a};",
            f"    for (int i = 0; i < n; i++, item = item->next) {{",
            f"        if (item->key % {b} == {c % b}) sum += item->value[i & 7] * {c};",
            f"        else switch (item->key & 7) {{ case 1: sum ^= i; break; case 2: sum -= {a}; break;",
            f"            case 5: sum = sum * {b} + item->key; break; default: item->value[i & 7] = sum; }}",
            "    }", "    return sum;", "}",
            f"int call_{i}(struct item *item) {{ return step_{i}(item, {b}) + step_{chance.randint(0, i)}(item, {a}); }}",
        ]
    source = text_file(folder, "many.c", lines)
    return ["gcc", "-O2", "-c", source, "-o", folder / "many.o"], {}


def gxx(folder, size):
    lines = ["#include <map>", "#include <string>", "#include <vector>", "#include <algorithm>",
             "#include <functional>", "#include <memory>", "#include <unordered_map>"]
    for i in range(max(1, int(12 * size))):
        lines += [
            f"struct k{i} {{ int a; std::string b; bool operator<(const k{i} &o) const {{ return a < o.a; }} }};",
            f"std::map<k{i}, std::vector<std::shared_ptr<k{i}>>> m{i};",
            f"int f{i}(std::vector<k{i}> v) {{ std::sort(v.begin(), v.end());",
            f"  std::unordered_map<std::string, std::function<int(int)>> t;",
            f"  for (auto &x : v) {{ m{i}[x].push_back(std::make_shared<k{i}>(x));",
            f"    t[x.b] = [x](int n) {{ return n + x.a; }}; }}",
            f"  int s = 0; for (auto &[k, g] : t) s += g((int)k.size()); return s; }}",
        ]
    source = text_file(folder, "many.cc", lines)
    return ["g++", "-std=c++17", "-O1", "-c", source, "-o", folder / "many.o"], {}


def rustc(folder, size):
    lines = ["use std::collections::{BTreeMap, HashMap};"]
    for i in range(max(1, int(25 * size))):
        lines += [
            f"#[derive(Clone, Debug, PartialEq)] pub struct K{i} {{ a: u32, b: String, c: Vec<Option<u64>> }}",
            f"pub fn f{i}(v: &[K{i}]) -> usize {{ let mut m: HashMap<String, Vec<K{i}>> = HashMap::new();",
            f"  for x in v {{ m.entry(x.b.clone()).or_default().push(x.clone()); }}",
            f"  let t: BTreeMap<usize, String> = m.iter().map(|(k, v)| (v.len(), format!(\"{{k}}{{:?}}\", v))).collect();",
            f"  t.values().map(|s| s.len()).sum() }}",
        ]
    source = text_file(folder, "many.rs", lines)
    return ["rustc", "--crate-type=lib", "-O", "-o", folder / "many.rlib", source], {}


def cmake(folder, size):
    script = text_file(folder, "script.cmake", [
        "set(all)", f"foreach(i RANGE {max(10, int(4000 * size))})",
        '  string(MD5 sum "x${i}")', '  string(SUBSTRING "${sum}" 0 6 part)',
        "  list(APPEND all ${part})", '  string(REGEX REPLACE "[0-9]+" "<\\\\0>" marked "${sum}")',
        "  set(table_${part} ${marked})", "endforeach()", "list(SORT all)", "list(REMOVE_DUPLICATES all)",
        "foreach(part IN LISTS all)", '  string(REPLACE "<" "{" table_${part} "${table_${part}}")',
        "endforeach()", "list(LENGTH all n)", 'message(STATUS "${n}")'])
    return ["cmake", "-P", script], {}


PYTHON_JSON = """
import json, random, sys
chance = random.Random(1)
rows = [{"id": i, "name": "name %d" % chance.randrange(10**6), "tags": ["t%d" % chance.randrange(999) for _ in range(6)],
         "at": [chance.random() for _ in range(4)], "more": {"a": i * 3, "b": None, "c": i % 2 == 0}} for i in range(4000)]
total = 0
for _ in range(int(sys.argv[1])):
    text = json.dumps(rows)
    back = json.loads(text)
    total += len(text) + sum(row["more"]["a"] for row in back)
print(total)
"""

PYTHON_OBJECTS = """
import random, sys
class Node:
    def __init__(self, key):
        self.key, self.near, self.seen = key, [], {}
chance = random.Random(2)
total = 0
for turn in range(int(sys.argv[1])):
    nodes = [Node(i) for i in range(20000)]
    for node in nodes:
        for _ in range(4):
            other = nodes[chance.randrange(len(nodes))]
            node.near.append(other)
            node.seen[other.key] = str(other.key) * 3
    total += sum(len(node.seen) for node in nodes)
print(total)
"""


def python_json(folder, size):
    (folder / "json.py.txt").write_text(PYTHON_JSON)
    return (["python3", "-s", folder / "json.py.txt", max(1, int(12 * size))],
            {"env": {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}})


def python_objects(folder, size):
    (folder / "objects.py.txt").write_text(PYTHON_OBJECTS)
    return (["python3", "-s", folder / "objects.py.txt", max(1, int(6 * size))],
            {"env": {"PYTHONHASHSEED": "0"}})


def perl(folder, size):
    text = prose(folder, 40000 * size)
    script = text_file(folder, "count.pl", [
        "my (%count, %after, $last);", "while (<>) {", "  for my $word (split) {",
        "    $count{$word}++; push @{$after{$last}}, $word if defined $last && @{$after{$last} // []} < 20;",
        "    $last = $word;", "  }", "}",
        "my @order = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;",
        'print "$_ $count{$_} ", join(",", @{$after{$_} // []}), "\\n" for @order;'])
    return ["perl", script, text], {}


def awk(folder, size):
    text = prose(folder, 60000 * size)
    program = ("{ for (i = 1; i <= NF; i++) { n[$i]++; k = substr($i, 1, 3) \"-\" NF; s[k] = s[k] + length($i); "
               "if (n[$i] % 100 == 0) t[$i] = t[$i] \" \" NR } } "
               "END { for (w in n) sum += n[w] * length(w); for (k in s) more += s[k]; for (w in t) l += length(t[w]);"
               " print sum, more, l }")
    return ["awk", program, text], {}


def sort(folder, size):
    chance = random.Random(3)
    lines = text_file(folder, "lines", (f"{chance.randrange(10**9):x} {chance.randrange(10**6)} {i % 977}"
                                        for i in range(max(100, int(600000 * size)))))
    return (["sort", "-k2", "--parallel=1", "-S", "64M", lines, "-o", folder / "sorted"],
            {"env": {"LC_ALL": "C"}})


def bash(folder, size):
    script = text_file(folder, "loops.sh", [
        "declare -A count", "add() { local key=$1; count[$key]=$((${count[$key]:-0} + $2)); }",
        f"for ((i = 0; i < {max(50, int(40000 * size))}; i++)); do",
        '  word="w$((i * 7919 % 1009))"', '  add "${word/w/v}" $i', "  list+=(\"$word-$i\")",
        "  if ((${#list[@]} > 500)); then joined=\"${list[*]}\"; total=$((total + ${#joined})); list=(); fi",
        "done", "echo ${#count[@]} $total"])
    return ["bash", script], {}


def processes(folder, size):
    script = text_file(folder, "start.sh", [
        "i=0", f"while [ $i -lt {max(10, int(1000 * size))} ]; do", "  /bin/true", "  i=$((i + 1))", "done"])
    return ["sh", script], {}


def xz(folder, size):
    return ["xz", "-6", "-c", "-T1", prose(folder, 40000 * size)], {}


def zstd(folder, size):
    return ["zstd", "-q", "-12", "-c", "--single-thread", prose(folder, 200000 * size)], {}


def sqlite(folder, size):
    rows = max(100, int(120000 * size))
    script = text_file(folder, "script.sql", [
        "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INT, price REAL);",
        "CREATE TABLE sale(item INT, day INT, amount INT);", "BEGIN;",
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})",
        "INSERT INTO item SELECT i, 'name ' || (i * 7919 % 100003), i % 97, i * 0.37 FROM n;",
        "INSERT INTO sale SELECT id * 31 % 50021, id % 365, id % 7 FROM item;", "COMMIT;",
        "CREATE INDEX by_name ON item(name);", "CREATE INDEX by_item ON sale(item);",
        "SELECT kind, count(*), sum(price * amount) FROM item JOIN sale ON item.id = sale.item GROUP BY kind ORDER BY kind;",
        "SELECT substr(name, 1, 8) AS s, count(DISTINCT kind), group_concat(id) FROM item GROUP BY s ORDER BY s LIMIT 50;",
        "UPDATE item SET name = name || '!' WHERE kind < 40;", "DELETE FROM sale WHERE day < 60;",
        "SELECT count(*), sum(length(name)) FROM item;"])
    return ["sqlite3", ":memory:"], {"stdin": script}


def repository(folder, size):
    """A repository of commits that change some of many files."""
    chance = random.Random(4)
    where = folder / "repository"
    if where.exists():
        return where
    subprocess.run(["git", "init", "-q", "-b", "main", str(where)], check=True, env=quiet_git())
    texts = [list(words_of(random.Random(i), 60)) for i in range(40)]
    stream = []
    for commit in range(max(20, int(1200 * size))):
        stream += ["commit refs/heads/main", f"mark :{commit + 1}",
                   f"committer A <a@example.org> {1600000000 + commit * 60} +0000",
                   "data 8", f"c{commit:07d}"]
        if commit:
            stream.append(f"from :{commit}")
        for _ in range(3):
            which = chance.randrange(len(texts))
            texts[which][chance.randrange(60)] = " ".join(chance.sample(texts[which][0].split(), 6)) + f" {commit}"
            data = "\n".join(texts[which]) + "\n"
            stream += [f"M 644 inline d{which % 7}/f{which}.txt", f"data {len(data)}", data]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=where, input="\n".join(stream) + "\n", text=True,
                   check=True, env=quiet_git())
    return where


def quiet_git():
    return {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"}


def git_repack(folder, size):
    return (["git", "-c", "pack.threads=1", "-c", "core.commitGraph=false", "repack", "-adfq", "--depth=50"],
            {"cwd": repository(folder, size), "env": GIT})


def git_log(folder, size):
    return ["git", "log", "-p", "--stat"], {"cwd": repository(folder, 1.5 * size), "env": GIT}


def z3(folder, size):
    holes = max(3, min(9, int(7 + size)))
    lines = ["(set-logic QF_UF)"]
    lines += [f"(declare-const p{p}_{h} Bool)" for p in range(holes + 1) for h in range(holes)]
    lines += [f"(assert (or {' '.join(f'p{p}_{h}' for h in range(holes))}))" for p in range(holes + 1)]
    lines += [f"(assert (not (and p{p}_{h} p{q}_{h})))" for h in range(holes) for p in range(holes + 1)
              for q in range(p)]
    return ["z3", text_file(folder, "pigeons.smt2", lines + ["(check-sat)"])], {}


def node(folder, size):
    script = text_file(folder, "objects.js", [
        "let total = 0;", f"for (let turn = 0; turn < {max(1, int(8 * size))}; turn++) {{",
        "  const map = new Map();", "  for (let i = 0; i < 60000; i++) {",
        "    const key = 'k' + (i * 7919 % 20011);", "    const list = map.get(key) || [];",
        "    list.push({id: i, text: key + turn, buffer: i % 50 ? null : Buffer.alloc(3000)});", "    map.set(key, list);",
        "  }", "  const text = JSON.stringify([...map.entries()].slice(0, 3000));",
        "  total += JSON.parse(text).length + text.length;", "}", "console.log(total);"])
    return ["node", script], {}


def java(folder, size):
    source = text_file(folder, "Objects.java", [
        "import java.util.*;", "public class Objects {", "  public static void main(String[] args) {", "    long total = 0;",
        f"    for (int turn = 0; turn < {max(1, int(10 * size))}; turn++) {{",
        "      Map<String, List<int[]>> map = new TreeMap<>();", "      for (int i = 0; i < 50000; i++)",
        '        map.computeIfAbsent("k" + (i * 7919 % 20011), k -> new ArrayList<>()).add(new int[i % 30]);',
        "      for (var list : map.values()) total += list.size();", "    }", "    System.out.println(total);", "  }", "}"])
    if not (folder / "Objects.class").exists() and subprocess.run(
            ["javac", "-d", str(folder), str(source)], check=False, stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL).returncode != 0:
        return ["java", "-Xmx256m", source], {}
    return ["java", "-Xmx256m", "-cp", folder, "Objects"], {}
