#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""A profile parses strictly, has the keys that docs/profile.md promises, and adds up; stook profile says
the same of it as a table, as JSON, as pprof's message and as collapsed stacks, resolves an address to its
line, compares two profiles, and says what is wrong with a file."""
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/support"))
import pprof

PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_profile")
SOURCE = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/unit/prog_profile.c")
DOCUMENT = os.path.join(os.environ["STOOK_SOURCE_DIR"], "docs/profile.md")
STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")

work = tempfile.TemporaryDirectory()
os.chdir(work.name)


def run(*command, status=0, **environment):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, **environment})
    assert result.returncode == status, (command, result)
    return result


def tool(*arguments, status=0):
    result = run(STOOK, "profile", *arguments, status=status)
    return result.stdout if status == 0 else result.stderr.decode()


def no_twins(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key stands twice in {keys}"
    return dict(pairs)


def parse(raw):
    return json.loads(raw.decode("utf-8"), object_pairs_hook=no_twins)


def load(name):
    with open(name, "rb") as file:
        return parse(file.read())


def paths(value, at=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, at + "[]")
    else:
        yield at


# --- the document: the keys are those of the page, no more and no fewer ---------------------------
with open("a", "wb") as file:
    file.write(run(PROGRAM).stdout)
profile = load("a")
with open(DOCUMENT, encoding="utf-8") as file:
    section = file.read().split("\n## The file\n")[1]
rows = [re.findall(r"`([a-z_.\[\]]+)`", cell) for cell in re.findall(r"^\| (`[^|]+) \|", section, re.M)]
promised = {key if key[0] != "." else row[0].rsplit(".", 1)[0] + key for row in rows for key in row}
written = set(paths(profile))
assert promised == written, sorted(promised ^ written)

sites = {site.get("function"): site for site in profile["sites"]}
assert len(sites) == 4
plain, odd, called = sites["plain"], sites["odd<int>"], sites[None]
assert (plain["file"], plain["line"]) == ("src/plain.c", 12)
assert (plain["live_objects"], plain["live_bytes"]) == (400, 400 * 256)
assert (plain["total_objects"], plain["total_bytes"]) == (500, 500 * 256)
assert odd["file"] == 'src/odd "name"\\\n\u00e9\ufffd.c' and odd["live_bytes"] == 48
assert (sites["gone"]["live_bytes"], sites["gone"]["total_bytes"], called["live_bytes"]) == (0, 900, 3 << 20)
assert profile["program"] == "prog_profile" and profile["exe"] == os.path.realpath(PROGRAM)
own = [m for m in profile["mappings"] if m["path"] == profile["exe"]]
assert len(own) == 1 and own[0]["start"] < called["address"] <= own[0]["end"]
with open(PROGRAM, "rb") as file:
    assert not own[0]["build_id"] or bytes.fromhex(own[0]["build_id"]) in file.read()

# --- as JSON: the address has become the line that the call stands in ------------------------------
shown = parse(tool("--json", "--top", "0", "a"))
assert shown["nr_sites"] == 4 and len(shown["sites"]) == 4
assert [s["counts"]["live_bytes"] for s in shown["sites"]] == [3 << 20, 102400, 48, 0]
top = shown["sites"][0]
assert top["module"] == profile["exe"] and top["frames"][-1]["function"] == "prog_caller", top
if top["frames"][0]["file"]: # with libdw
    with open(SOURCE, encoding="utf-8") as file:
        line = [n for n, text in enumerate(file, 1) if "the line that test_profile.py" in text]
    assert top["frames"][0]["line"] == line[0], top
    assert os.path.realpath(top["frames"][0]["file"]) == os.path.realpath(SOURCE)
assert shown["counts"]["live_bytes"] == (3 << 20) + 102400 + 48
assert len(parse(tool("--json", "--top", "2", "a"))["sites"]) == 2
by_calls = parse(tool("--json", "--by", "calls", "a"))["sites"]
assert [s["counts"]["total_objects"] for s in by_calls] == [500, 9, 3, 1]
by_total = parse(tool("--json", "--by", "total", "a"))["sites"]
assert [s["counts"]["total_bytes"] for s in by_total] == [3 << 20, 128000, 900, 48]

# --- as a table ---------------------------------------------------------------------------------
def table_of(*arguments):
    lines = tool(*arguments).decode().splitlines()
    assert lines[-2] == "" and lines[-1].startswith("next: ")
    lines = lines[:-2]
    return lines[:-2] if "without libdw" in lines[-1] else lines


table = tool("a").decode().splitlines()
assert table[0].startswith("prog_profile, process ") and "4 call sites, 513 allocations" in table[0]
assert re.match(r" 96\.8 +3\.00 MiB +3 +3 +3\.00 MiB +1\.00 MiB  prog_caller", table[4])
assert re.match(r"  3\.2 .* 100 KiB +400 +500 +125 KiB +256 B  plain  src/plain\.c:12$", table[5])
assert 'odd<int>  src/odd "name"\\?\u00e9' in table[6], table[6] # a line stays a line
table = table_of("--top", "1", "a")
assert len(table) == 6 and table[5].endswith("  3 others"), table
many = run(PROGRAM, "many", "3000").stdout
with open("many", "wb") as file:
    file.write(many)
assert len(parse(many)["sites"]) == 3004
assert table_of("--top", "3", "many")[-1].endswith("3001 others")

# --- snapshots at signals, the end, and what grew -------------------------------------------------
run(PROGRAM, "signals", "3", STOOK_PROFILE="SIGUSR2,s.%p.%%")
names = sorted(os.listdir("."), key=lambda name: (len(name), name))
names = [name for name in names if name.startswith("s.")]
assert re.fullmatch(r"s\.\d+\.%", names[0]) and names[1:] == [f"{names[0]}.{i}" for i in (1, 2, 3)]
live = [load(name)["sites"][0]["live_objects"] for name in names]
assert live == [700, 400, 500, 600], live
grown = parse(tool("--json", names[1], names[3]))
assert grown["by"] == "growth" and grown["growth"]["live_bytes"] == 200 * 256
assert grown["sites"][0]["frames"][0]["function"] == "plain"
assert grown["sites"][0]["growth"]["live_objects"] == 200
assert sum(bool(site["growth"]["live_bytes"]) for site in grown["sites"]) == 1
shrunk = tool(names[3], names[1]).decode()
assert "-50.0 KiB       -200" in shrunk and "-50.0 KiB live in -200 objects" in shrunk, shrunk
# Another process, mapped elsewhere: the same sites.
other = parse(tool("--json", "a", names[0]))
assert other["growth"]["live_objects"] == 300 and other["nr_sites"] == 4, other
# Only the process that is named, and nothing without being asked.
run(PROGRAM, STOOK_PROFILE="never", STOOK_PID="1")
assert not os.path.exists("never")
said = run(PROGRAM, STOOK_PROFILE="/nowhere/at/all").stderr.decode()
assert "stook: the profile cannot be written to /nowhere/at/all (No such file" in said, said
said = run(PROGRAM, STOOK_PROFILE="9,x").stderr.decode()
assert "STOOK_PROFILE=9,x is ignored: it takes [WORD,]FILE; WORD: a signal that can be handled" in said, said

# --- as collapsed stacks -------------------------------------------------------------------------
stacks = dict(line.rsplit(" ", 1) for line in tool("--collapsed", "-", "a").decode().splitlines())
assert stacks.pop("prog_profile;plain src/plain.c:12") == "102400"
assert len(stacks) == 2 and "0" not in stacks.values()
assert any(stack.startswith("prog_profile;prog_caller") for stack in stacks)
tool("--collapsed", "c", "--by", "calls", "a")
with open("c", encoding="utf-8") as file:
    assert sorted(int(line.rsplit(" ", 1)[1]) for line in file) == [1, 3, 9, 500]


# --- as pprof's message (proto/profile.proto) -----------------------------------------------------
def pprof_of(*arguments):
    tool("--pprof", "p.gz", *arguments)
    with open("p.gz", "rb") as file:
        return pprof.Profile(file.read())


def by_name(whole):
    """{function, or address: sample} of a profile without stacks."""
    assert len(whole.types) == 4 and all(len(sample.stack) == 1 for sample in whole.samples)
    return {sample.stack[0].lines[-1].function if sample.stack[0].lines else sample.stack[0].address: sample for sample in whole.samples}


whole = pprof_of("a")
samples = by_name(whole)
assert len(samples) == 4 and whole.default == "inuse_space"
[location] = samples["plain"].stack
assert samples["plain"].values == {"alloc_objects": 500, "alloc_space": 128000, "inuse_objects": 400, "inuse_space": 102400}
assert location.lines[0].number == 12 and location.mapping == 0
[location] = samples["prog_caller"].stack
mapping = whole.mappings[location.mapping]
assert mapping.file == profile["exe"] and mapping.start <= location.address == called["address"] - 1 < mapping.limit
samples = by_name(pprof_of(names[3], names[1])) # differences
assert samples["plain"].values["inuse_space"] == -200 * 256
assert samples["prog_caller"].values["inuse_space"] == 0
assert len(by_name(pprof_of("many"))) == 3004 # more than one block of gzip's

# --- samples: the stacks of a site, each with what it stands for -----------------------------------
symbols = subprocess.run(["nm", PROGRAM], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
symbols = {fields[2]: int(fields[0], 16) for fields in map(str.split, symbols) if len(fields) == 3}
here = {name: called["address"] - top["place"] - 1 + symbols[name] + 4 for name in ("main", "called")}


def sample(samples, live, *stack):
    return {"cache": "malloc-112", "kind": "object", "address": called["address"], "stack": [called["address"], *stack],
            "samples": samples, "live_objects": live // 100, "live_bytes": live,
            "total_objects": samples * 2000, "total_bytes": samples * 200000}


with open("stacks", "w", encoding="utf-8") as file:
    json.dump({**profile, "sites": [], "sample_every": 1000,
               "samples": [sample(3, 600000, here["called"], here["main"]), sample(1, 0, here["main"])]}, file)
inner = [site for site in parse(tool("--json", "--top", "0", "stacks"))["sites"] if site["stacks"]]
assert len(inner) == 1 and inner[0]["frames"][-1]["function"] == "prog_caller", inner
counts = inner[0]["counts"]
assert (counts["total_objects"], counts["total_bytes"]) == (8000, 800000), counts
assert (counts["live_objects"], counts["live_bytes"]) == (6000, 600000), counts
parts = {stack["functions"][0]: stack["counts"] for stack in inner[0]["stacks"]}
assert set(parts) == {"called", "main"}, inner[0]["stacks"]
assert all("main" in stack["functions"] for stack in inner[0]["stacks"])
assert (parts["called"]["live_bytes"], parts["called"]["total_bytes"]) == (600000, 600000), parts
assert (parts["main"]["live_bytes"], parts["main"]["total_bytes"]) == (0, 200000), parts
table = tool("--by", "calls", "stacks").decode()
assert re.search(r"^ +75 % from called < main$", table, re.M), table
assert re.search(r"^ +25 % from main$", table, re.M), table
assert "100 % from called < main" in tool("--by", "live", "stacks").decode()
# What a wrapper allocated is its callers', in the table alone; callers that differ further out are a tree.
table = tool("--by", "calls", "--wrappers", "nothing,prog_call*", "stacks").decode()
assert "prog_caller" not in table and re.search(r"^ *75\.0 .* called\b", table, re.M) and re.search(r"^ *25\.0 .* main\b", table, re.M), table
assert "prog_caller" in tool("--by", "calls", "--wrappers", "none", "stacks").decode()
assert "next: " in table
assert tool("--json", "--wrappers", "prog_call*", "stacks") == tool("--json", "stacks")
with open("tree", "w", encoding="utf-8") as file:
    json.dump({**profile, "sites": [], "sample_every": 1000,
               "samples": [sample(3, 600000, here["called"], here["main"]),
                           sample(2, 400000, here["called"], called["address"], here["main"])]}, file)
table = tool("--by", "calls", "tree").decode()
assert re.search(r"^ {11}100 % from called\n {15} 60 % from main\n {15} 40 % from prog_caller < main\n", table, re.M), table
stacks = tool("--collapsed", "-", "stacks").decode()
assert re.search(r"^prog_profile;main;called;prog_caller.* 600000$", stacks, re.M), stacks
assert stacks.count("\n") == 1, stacks # what has gone has no width
deep = [sample for sample in pprof_of("stacks").samples if len(sample.stack) > 1]
assert len(deep) == 2 and sum(sample.values["alloc_space"] for sample in deep) == 800000
assert len({sample.stack[0].number for sample in deep}) == 1

# --- another build of the file than the one that ran ------------------------------------------------
text = json.dumps(profile)
if own[0]["build_id"]:
    with open("other", "w", encoding="utf-8") as file:
        file.write(text.replace(own[0]["build_id"], "00" * 20))
    table = tool("other").decode()
    assert "1 site in" in table and "it is another build here than in the process." in table, table
    assert "prog_caller" not in table
with open("gone", "w", encoding="utf-8") as file:
    file.write(text.replace(profile["exe"], "/nowhere/prog_profile"))
table = tool("gone").decode()
assert "cannot be read: No such file or directory." in table, table
with open("no-elf", "w", encoding="utf-8") as file:
    file.write(text.replace(profile["exe"], "/etc/passwd"))
assert "it is no ELF file" in tool("no-elf").decode()

# --- what is no profile -------------------------------------------------------------------------
for bad, why in ((text[:-30], "is not JSON"), ("", "the file is empty"), ("{}", "has no"),
                 ('{"stook_profile": 3}', "is of format 3"), ("[" * 1000, "is not JSON"),
                 ('{"stook_profile": 2', "is not JSON"), (text + "x", "is not JSON")):
    with open("bad", "w", encoding="utf-8") as file:
        file.write(bad)
    assert why in tool("bad", status=1), (bad[:40], why)
assert "No such file" in tool("missing", status=1)
for arguments in ((), ("--by", "size", "a"), ("--top", "x", "a"), ("--top",), ("--color", "a"),
                  ("a", "a", "a"), ("--",)):
    tool(*arguments, status=2)
with open("least", "w", encoding="utf-8") as file:
    file.write('{"stook_profile": 2}')
assert "Nothing was counted" in tool("least").decode()
assert parse(tool("--json", "least"))["sites"] == []
pprof_whole = tool("--pprof", "-", "least")
assert gzip.decompress(pprof_whole)

# Whatever stands in the file, the tool ends by itself.
random.seed(5)
for _ in range(int(os.environ.get("STOOK_TEST_ROUNDS", "1")) * 12):
    broken = bytearray(text.replace(profile["exe"], "/nowhere/prog_profile").encode())
    for _ in range(random.randint(1, 8)):
        broken[random.randrange(len(broken))] = random.choice(b'"{}[],:0919\\u\xff\x00 ')
    with open("broken", "wb") as file:
        file.write(broken)
    code = subprocess.run([STOOK, "profile", "broken"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode
    assert code in (0, 1), (code, bytes(broken))
sys.exit(0)
