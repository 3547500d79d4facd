#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook plan: figures that were worked out by hand, its three ways to show them, a machine's caches from
each format, and what it says to bad input."""
import itertools
import json
import os
import re
import subprocess
import tempfile

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
DATA = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests/data")


def plan(*arguments, status=0):
    done = subprocess.run([STOOK, "plan", *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}: {done.stderr}"
    assert status == 0 or done.stdout == "", (arguments, done.stdout)
    return done.stdout if status == 0 else done.stderr


def layout(*arguments):
    return json.loads(plan(*arguments, "--json"))


def column(result, name):
    found = [c for c in result["columns"] if c["name"] == name]
    assert len(found) == 1, (name, result)
    return found[0]


def place(result, name):
    c = column(result, name)
    return c["place"], c["offset"], c["stride"]


def near(a, b):
    assert abs(a - b) < 1e-6, (a, b)


def check_hand_made():
    # xfs_inode of the document: 32 bytes of padding hold group, tag and link.
    r = layout("--size", 992, "--align", 64, "--columns", "link,group,tag")
    assert (r["stride"], r["order"], r["objects"], r["leftover"]) == (1024, 4, 64, 0), r
    assert r["extra_bytes_per_object"] == 0
    assert r["extra_bytes_per_object_outside"] == 18
    assert place(r, "group") == ("padding", 992, 1024)
    assert place(r, "tag") == ("padding", 1000, 1024)
    assert place(r, "link") == ("padding", 1008, 1024)
    for columns, outside in (("group,tag", 16), ("group", 8)):
        r = layout("--size", 992, "--align", 64, "--columns", columns)
        assert r["extra_bytes_per_object"] == 0, r
        forced = layout("--size", 992, "--align", 64, "--columns", columns, "--outside")
        assert forced["extra_bytes_per_object"] == outside, forced
        assert place(forced, "group") == ("outside", 32, 8)
        assert forced["outside_bytes"] == 64 * outside
    # The library's own links of such objects lie outside, whatever padding there is: 2 bytes.
    r = layout("--size", 992, "--align", 64, "--columns", "link,group,tag", "--library")
    assert place(r, "link") == ("outside", 32, 2) and r["extra_bytes_per_object"] == 2

    # 56 objects of 2304 bytes in 128 KiB leave 2048 bytes; 56 * (8 + 8 + 2) = 1008 are needed.
    r = layout("--size", 2304, "--align", 64, "--columns", "link,group,tag", "--order", 5)
    assert (r["objects"], r["leftover"], r["extra_bytes_per_object"]) == (56, 2048, 0), r
    assert place(r, "group") == ("leftover", 56 * 2304, 8)
    assert place(r, "tag") == ("leftover", 56 * 2304 + 448, 8)
    assert place(r, "link") == ("leftover", 56 * 2304 + 896, 2)
    assert r["waste"]["leftover"] == 2048 - 1008
    # At the minimum order there is one object, with its own places.
    assert r["min_objects"] == 1 and column(r, "tag")["min"]["offset"] == 2304 + 8

    # 32 objects of 128 bytes fill a page: nothing is left, 8 bytes an object lie outside.
    r = layout("--size", 128, "--align", 64, "--columns", "group", "--order", 0)
    assert place(r, "group") == ("outside", 32, 8), r
    assert r["extra_bytes_per_object"] == 8 and r["outside_bytes"] == 256

    # 102 objects of 640 bytes in 64 KiB leave 256; 101 leave 896, and 101 * 8 = 808 fit there: 65568 /
    # 101 are fewer bytes each than 65568 / 102 + 8.  An object for a column.
    r = layout("--size", 640, "--align", 64, "--columns", "group", "--order", 4)
    assert r["objects"] == 101 and place(r, "group") == ("dedicated", 101 * 640, 8), r
    near(r["extra_bytes_per_object"], 65568 / 101 - 65568 / 102)
    # Not so in a page: 19 of 192 bytes with 16 each, against 21 and an array outside.
    r = layout("--size", 192, "--align", 64, "--columns", "group:16", "--order", 0)
    assert r["objects"] == 21 and place(r, "group") == ("outside", 32, 16), r

    # A link in a free object costs nothing, unless its bytes must not change; 2048 objects of two
    # bytes' links are 4096 outside.
    r = layout("--size", 256, "--align", 16, "--columns", "link", "--order", 0)
    assert place(r, "link") == ("free-object", 0, 256) and r["extra_bytes_per_object"] == 0
    for forbids in ("--ctor", "--typesafe", "--poison"):
        r = layout("--size", 256, "--align", 16, "--columns", "link", "--order", 0, forbids)
        assert place(r, "link") == ("outside", 32, 2), r
        assert r["extra_bytes_per_object"] == 2
    # 17 of 236: 4096 - 4012 = 84 bytes of leftover hold 34 of links.
    r = layout("--size", 236, "--align", 4, "--columns", "link", "--order", 0, "--ctor")
    assert place(r, "link") == ("leftover", 4012, 2) and r["extra_bytes_per_object"] == 0

    # Elements lie at multiples of their alignment: 50 bytes, then 52 for 4 bytes, 56 for 8.
    r = layout("--size", 50, "--align", 64, "--columns", "group:4,tag")
    assert column(r, "group")["offset"] % 4 == 0 and column(r, "tag")["offset"] == 56, r
    assert r["extra_bytes_per_object"] == 0

    # Pages of 64 KiB, and a stride of more than 16 bits.
    r = layout("--size", 100000, "--align", 64, "--columns", "group", "--page-size", "64k")
    assert r["page_size"] == 65536 and r["stride"] == 100032
    assert place(r, "group") == ("padding", 100000, 100032)
    assert r["slab_bytes"] == 65536 << r["order"]

    # Everything adds up, for many objects.
    marked = 0
    for size in range(1, 3000, 331):
        for align, links in itertools.product((2, 8, 64, 512), ((), ("--library",))):
            r = layout("--size", size, "--align", align, "--columns", "group,tag,track,link", *links)
            marked += r["mark_bytes"]
            in_free = any(c["name"] == "link" and c["place"] == "free-object" for c in r["columns"])
            assert r["mark_bytes"] == (1 if links and in_free else 0), r
            inside = sum(c["bytes"] for c in r["columns"]
                         if c["base"] == "slab" and c["place"] != "free-object")
            outside = sum(c["bytes"] for c in r["columns"] if c["base"] == "descriptor")
            assert r["objects"] * (size + inside) + r["waste"]["alignment"] + \
                r["waste"]["leftover"] == r["slab_bytes"], r
            assert r["objects"] * (outside + r["mark_bytes"]) + r["waste"]["gaps_outside"] == r["outside_bytes"], r
            near(r["bytes_per_object"], (r["slab_bytes"] + r["outside_bytes"] + 32) / r["objects"])
            # The library's blocks may have no room for the arrays, which costs about the same.
            assert r["extra_bytes_per_object"] <= r["extra_bytes_per_object_outside"] + (0.5 if links else 1e-9), r
    assert marked > 0


def check_shown():
    text = plan("--size", 184, "--align", 8, "--columns", "link,group,tag", "--explain")
    for part in ("184 bytes aligned to 8", "free-object", "outside", "wasted by alignment", "why",
                 "the columns cost"):
        assert part in text, (part, text)
    assert "why" not in plan("--size", 184)
    for arguments in (["--size", 992, "--align", 64, "--columns", "link,group,tag"],
                      ["--size", 8, "--columns", "link,group:4"],
                      ["--size", 2304, "--columns", "group", "--page-size", 65536],
                      ["--size", 4194304, "--columns", "group,tag,track,link", "--ctor"],
                      ["--size", 50, "--align", 2, "--outside", "--columns", "link,track"]):
        lines = plan(*arguments).splitlines()
        bars = [line for line in lines if line.startswith("  |")]
        assert len(bars) == 3 and all(len(bar) == 76 for bar in bars), lines  # a stride, a slab, and what is outside
        assert lines[0].startswith(f"{arguments[1]} bytes aligned") and any("where the bytes are" in line for line in lines)


def check_costs():
    for size, align in itertools.product((8, 24, 40, 96, 184, 640, 992, 1016, 1240, 2048, 2304, 4096), (8, 16, 64)):
        padding = -size % align # of strides of 8 bytes and more
        for columns, outside in (("group", 8), ("tag", 8), ("group,tag", 16)):
            r = json.loads(plan("--size", size, "--align", align, "--columns", columns, "--json"))
            assert 0 <= r["extra_bytes_per_object"] <= outside + 1e-9 and r["extra_bytes_per_object_outside"] == outside, r
            assert padding < outside or r["extra_bytes_per_object"] == 0, r


def check_caches():
    r = json.loads(plan("--slabinfo", os.path.join(DATA, "slab_caches.tsv"), "--json"))
    caches = {c["name"]: c for c in r["caches"]}
    total = r["sum"]
    assert r["format"] == "table" and total["caches"] == len(r["caches"]) == 235
    # The document's rules by hand: 16 objects of 984 bytes need 32; no leftover; 40 of padding.
    c = caches["xfs_inode"]
    assert c["link_class"] == "objfreelist" and c["link_class_before"] == "off", c
    assert c["metadata_8"]["place"] == c["metadata_16"]["place"] == "padding"
    # A constructed object, seen by its stride: 14 of 576 in 8 KiB leave 128 bytes for 28.
    c = caches["radix_tree_node"]
    assert c["writable"] is False and c["link_class"] == "leftover", c
    assert c["link_place"] == "leftover" and c["metadata_8"]["place"] == "leftover", c
    assert c["metadata_8"]["saved_bytes"] == 8 * c["active"] == 8 * 51002
    # 128 of 32 bytes fill a page; 256 bytes of links fit no object.
    c = caches["lsm_inode_cache"]
    assert c["link_class"] == "off" and c["link_place"] == "free-object", c
    assert c["metadata_8"]["place"] == "outside" and c["metadata_8"]["saved_bytes"] == 0
    # 21 of 192 bytes leave 64: 42 for links, 8 bytes an object do not fit.
    c = caches["dentry"]
    assert c["link_class_before"] == "leftover" and c["metadata_8"]["place"] == "outside", c
    for name in ("link_classes_before", "link_classes", "link_places"):
        assert sum(total[name].values()) == 235, total
    assert total["link_classes_before"]["objfreelist"] == 0
    spared = {n: total[n]["leftover"] + total[n]["objfreelist"]
              for n in ("link_classes_before", "link_classes")}
    assert spared["link_classes"] > spared["link_classes_before"]
    for c in r["caches"]:
        # Links cost nothing wherever they may be written to free objects.
        assert c["link_extra"] == 0 or not c["writable"], c
        assert (c["link_class"] == "objfreelist") == \
            (c["writable"] and 2 * c["objects"] <= c["size"]), c
        assert c["stride"] * c["objects"] <= 4096 << c["order"]
    for m in ("metadata_8", "metadata_16"):
        assert sum(total[m]["places"].values()) == 235
        saved = sum(c[m]["saved_bytes"] for c in r["caches"])
        assert abs(saved - total[m]["saved_bytes"]) < 235, (saved, total[m])
        assert total[m]["outside_bytes"] == total["active"] * int(m[9:])

    r = json.loads(plan("--slabinfo=" + os.path.join(DATA, "slabinfo.txt"), "--json"))
    assert r["format"] == "slabinfo" and r["sum"]["caches"] == 235
    assert all(c["stride"] == c["listed_stride"] for c in r["caches"])
    assert "not seen" in plan("--slabinfo", os.path.join(DATA, "slabinfo.txt"))

    with tempfile.TemporaryDirectory() as folder: # like /sys/kernel/slab
        for name, ctor in ((":0000192", ""), ("node", "init+0x0/0x50\n")):
            os.mkdir(os.path.join(folder, name))
            for what, value in (("object_size", "184\n"), ("align", "64\n"), ("slab_size", "192\n"),
                                ("order", "0\n"), ("objs_per_slab", "21\n"), ("ctor", ctor),
                                ("objects", "100 N0=100\n"), ("destroy_by_rcu", "0\n")):
                with open(os.path.join(folder, name, what), "w") as file:
                    file.write(value)
        for alias in ("pid", "filp"):
            os.symlink(":0000192", os.path.join(folder, alias))
        os.mkdir(os.path.join(folder, "empty"))
        r = json.loads(plan("--slabinfo", folder, "--json"))
        assert [c["name"] for c in r["caches"]] == ["filp", "node"], r
        assert [c["writable"] for c in r["caches"]] == [True, False]
        assert [c["link_class"] for c in r["caches"]] == ["objfreelist", "leftover"]
        assert r["caches"][0]["active"] == 100 and r["caches"][0]["metadata_8"]["place"] == "padding"


def check_machine():
    done = subprocess.run([STOOK, "plan", "--slabinfo", "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0: # else the machine shows its caches to nobody here
        r = json.loads(done.stdout)
        assert len(r["caches"]) == r["sum"]["caches"] > 0
    else:
        assert done.returncode == 1 and re.search("slab", done.stderr), done.stderr


def check_refusals():
    for arguments, said in (
            ((), "--size"),
            (("--size", "0"), "--size 0"),
            (("--size", "-8"), "--size -8"),
            (("--size", "8x"), "--size 8x"),
            (("--size", "4194305"), "4194305"),
            (("--size", "99999999999999999999999"), "number"),
            (("--size", "64", "--align", "48"), "power of two"),
            (("--size", "64", "--align", "8192"), "4096"),
            (("--size", "64", "--columns", "owner"), "no column 'owner'"),
            (("--size", "64", "--columns", "group,group"), "twice"),
            (("--size", "64", "--columns", ""), "no column"),
            (("--size", "64", "--columns", "group:3"), "even"),
            (("--size", "64", "--columns", "group:x"), "number"),
            (("--size", "64", "--columns", "link:4"), "links"),
            (("--size", "64", "--page-size", "5000"), "power of two"),
            (("--size", "64", "--page-size", "2048"), "page-size"),
            (("--size", "64", "--order", "9"), "1 MiB"),
            (("--size", "64", "--order", "10"), "--order 10"),
            (("--size", "8192", "--order", "0"), "hold no object"),
            (("--size", "64", "--order", "8", "--page-size", "64k"), "1 MiB"),
            (("--size", "64", "--frobnicate"), "frobnicate"),
            (("--size", "64", "more"), "more"),
            (("--size", "64", "--slabinfo"), "--size cannot be combined with --slabinfo"),
            (("--slabinfo", "--explain"), "cannot be combined")):
        error = plan(*arguments, status=2)
        assert said in error, (arguments, error)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "list")
        assert "No such file" in plan("--slabinfo", path, status=1)
        assert "no folder" in plan("--slabinfo", folder, status=1)
        head = "slabinfo - version: 2.1\n# name ...\n"
        table = "name\tobject_size\talign\tslab_size\torder\tobjs_per_slab\tobjects\n"
        for text, said in (
                ("", "no caches"),
                ("hello\n", "neither"),
                (head, "no caches"),
                (head + "a 1 2 three\n", ":3: the line is not of"),
                (head + "a 1 1 64 64 3 : tunables 0 0 0\n", ":3: the line is not of"),
                (head + "a 1 1 64 65 1000000 : tunables 0 0 0\n", ":3"),
                (head + "a 1 1 0 64 1 : tunables 0 0 0\n", "no bytes"),
                (head + "a 1 1 64 0 1 : tunables 0 0 0\n", "no objects"),
                (head + "a 1 1 64 9999 1 : tunables 0 0 0\n", "do not fit"),
                (head + "a" * 2000 + "\n", "too long"),
                (table + "a\t8\t8\t8\t0\t512\n", ":2"),
                (table + "a\t8\t8\t8\t0\t512\t-1\n", ":2"),
                (table + "a\t8\t7\t8\t0\t512\t1\n", "alignment"),
                (table + "a\t16\t8\t8\t0\t256\t1\n", "stride"),
                (table.replace("align", "angle") + "a\t8\t8\t8\t0\t512\t1\n", "neither")):
            with open(path, "w") as file:
                file.write(text)
            error = plan("--slabinfo", path, status=1)
            assert said in error, (text[:80], error)
        # What is larger than this library's slabs is left out, and counted.
        with open(path, "w") as file:
            file.write(head + "huge 1 1 4194304 1 1024 : tunables 0 0 0\n"
                              "\"odd\\\x1b 1 1 64 64 1 : tunables 0 0 0\n")
        r = json.loads(plan("--slabinfo", path, "--json"))
        assert r["sum"]["left_out"] == 1 and [c["name"] for c in r["caches"]] == ['"odd\\?'], r


check_hand_made()
check_shown()
check_costs()
check_caches()
check_machine()
check_refusals()
