#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Inserts the change of this folder into a Linux source tree (7.2): mm/slub.c and mm/Kconfig.

    apply.py [--check | --diff] SOURCE_TREE

The lines to insert are in pieces/.  Each place is named by the function or type that it is in and an
identifier there; no text of the kernel is in this folder.  A place that is not found, or found twice, ends
the program with status 1, and nothing is written.  A tree that has the change already is left alone.

    --check   only look for the places
    --diff    print the change as a diff for `patch -p1`, write nothing
"""
import argparse
import difflib
import os
import re
import sys

PIECES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pieces")


class Misplaced(Exception):
    pass


def piece(name):
    with open(os.path.join(PIECES, name), encoding="utf-8") as file:
        return file.read()


class Source:
    """A C file as text; places are looked for in a copy of it without comments and strings."""

    def __init__(self, path, text):
        self.path, self.text = path, text

    def code(self):
        def blank(match):
            return re.sub(r"[^\n]", " ", match.group(0))

        return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, self.text, flags=re.S)

    def one(self, matches, what):
        if len(matches) != 1:
            found = "not found" if not matches else f"found {len(matches)} times"
            raise Misplaced(f"{self.path}: {what}: {found}")
        return matches[0]

    def extent(self, name):
        """Start and end of a definition: `function`, `struct NAME`, `enum NAME`, or the whole file (None)."""
        code = self.code()
        if name is None:
            return 0, len(code)
        if name.startswith(("struct ", "enum ")):
            found = [m for m in re.finditer(rf"^{name} \{{$", code, re.M)]
            start = self.one(found, name).start()
            return start, code.index("\n};", start) + len("\n};\n")
        found = []
        for match in re.finditer(rf"^(?:[A-Za-z_][^\n;=#]*[\s*])?{name}\(", code, re.M):
            depth, at = 0, match.end() - 1
            while at < len(code):
                depth += {"(": 1, ")": -1}.get(code[at], 0)
                at += 1
                if depth == 0:
                    break
            if re.match(r"\s*\{", code[at:]):
                found.append(match.start())
        start = self.one(found, f"definition of {name}()")
        return start, code.index("\n}", start) + len("\n}\n")

    def find(self, within, pattern):
        start, end = self.extent(within)
        found = list(re.compile(pattern).finditer(self.code(), start, end))
        return self.one(found, f"{within or 'file'}: {pattern}")

    def insert(self, at, lines):
        self.text = self.text[:at] + lines + self.text[at:]

    def after_definition(self, name, lines):
        _, end = self.extent(name)
        if lines.endswith("\n\n") and self.text.startswith("\n", end):
            end += 1  # a piece that brings the empty line after it
        self.insert(end, lines)

    def before(self, within, pattern, lines):
        """Before the line that has the place, and before a comment on it."""
        at = self.text.rindex("\n", 0, self.find(within, pattern).start()) + 1
        if self.text[:at].endswith("*/\n"):
            at = self.text.rindex("\n", 0, self.text.rindex("/*", 0, at)) + 1
        self.insert(at, lines)

    def after(self, within, pattern, lines):
        """After the line on which the statement that has the place ends."""
        code, end = self.code(), self.find(within, pattern).end()
        self.insert(code.index("\n", code.index(";", end)) + 1, lines)

    def after_line(self, within, pattern, lines):
        """After the line that has the place."""
        self.insert(self.code().index("\n", self.find(within, pattern).end()) + 1, lines)

    def rename(self, within, old, new):
        """One identifier in a function, by another or an expression."""
        match = self.find(within, rf"\b{old}\b")
        self.text = self.text[: match.start()] + new + self.text[match.end():]


def change_slub(slub):
    # Counters
    slub.before("enum stat_item", r"\bNR_SLUB_STAT_ITEMS\b",
                "\tFREE_REMOTE,\t\t/* Free to a percpu sheaf of another node's objects */\n"
                "\tBARN_RAISE,\t\t/* Barn's limit of full sheaves grew by one */\n")
    slub.after_line(None, r"\bSTAT_ATTR\(SHEAF_RETURN_SLOW\b",
                    "STAT_ATTR(FREE_REMOTE, free_remote);\n"
                    "STAT_ATTR(BARN_RAISE, barn_raise);\n")
    slub.after_line(None, r"&sheaf_return_slow_attr\b",
                    "\t&free_remote_attr.attr,\n"
                    "\t&barn_raise_attr.attr,\n")

    # What there is
    slub.after_line(None, r"#define\s+MAX_EMPTY_SHEAVES\b", piece("limits.c"))
    slub.after("struct node_barn", r"\bnr_empty\b", piece("barn_fields.c"))
    slub.after("struct slab_sheaf", r"\bbarn_list\b", piece("sheaf_field.c"))
    slub.after("struct slub_percpu_sheaves", r"\*rcu_free\b", piece("pcs_field.c"))
    slub.after_definition("get_barn", piece("home.c") + "\n" + piece("barn_limit.c").rstrip("\n") + "\n")

    # Barns: limits that follow use, and the home's barn after one's own
    slub.after("barn_init", r"\bnr_full\b", "\tbarn_reset_limit(barn);\n")
    slub.after("barn_shrink", r"\bnr_full\b", "\tbarn_reset_limit(barn);\n")
    slub.after_definition("barn_replace_full_sheaf", "\n" + piece("home_barn.c").rstrip("\n") + "\n")
    for function in ("barn_replace_full_sheaf", "kmem_cache_return_sheaf", "rcu_free_sheaf"):
        slub.rename(function, "MAX_FULL_SHEAVES", "barn_limit(barn)")
    for function in ("__pcs_replace_empty_main", "alloc_from_pcs_bulk"):
        slub.rename(function, "barn_replace_empty_sheaf", "home_replace_empty_sheaf")
    for function in ("__pcs_replace_full_main", "free_to_pcs_bulk"):
        slub.rename(function, "barn_replace_full_sheaf", "home_replace_full_sheaf")
    slub.before("__pcs_replace_full_main", r"\bsheaf_flush_unused\b",
                "\t\tto_flush = home_put_full_sheaf(s, to_flush);\n")
    slub.after("__pcs_replace_full_main", r"\bsheaf_flush_unused\b", "\t\tbarn_trim(s, barn);\n")
    slub.rename("refill_objects", "numa_mem_id", "slab_home_node")

    # Frees of other nodes' objects
    slub.after_definition("free_to_pcs", "\n" + piece("remote.c").rstrip("\n") + "\n")
    slub.before("can_free_to_pcs", r"\bnode_state\b",
                "\t/* what is not of the nearest node with memory goes to its own */\n"
                "\tif (IS_ENABLED(CONFIG_SLUB_REMOTE_SHEAVES) &&\n"
                "\t    slab_node != slab_home_node())\n"
                "\t\treturn false;\n\n")
    slub.before("slab_free", r"\b__slab_free\b",
                "\tif (free_to_remote(s, slab, object, true))\n\t\treturn;\n\n")
    slub.before("kfree_nolock", r"\bdefer_free\b",
                "\tif (free_to_remote(s, slab, x, false))\n\t\treturn;\n\n")
    slub.before("free_to_pcs_bulk", r"\bremote_objects\[remote_nr\]",
                "\t\t\tif (free_to_remote(s, slab, p[i], true)) {\n"
                "\t\t\t\tp[i] = p[--size];\n"
                "\t\t\t\tcontinue;\n"
                "\t\t\t}\n\n")

    # Where sheaves leave their cpu
    slub.after_definition("rcu_free_sheaf_nobarn", "\n" + piece("remote_flush.c").rstrip("\n") + "\n")
    slub.before("pcs_flush_all", r"\bsheaf_flush_main\b", "\tpcs_flush_remote(s);\n\n")
    slub.before("__pcs_flush_all_cpu", r"\bif \(pcs->rcu_free\b",
                "\t__pcs_flush_remote(s, pcs->remote);\n\tpcs->remote = NULL;\n\n")
    slub.after("pcs_destroy", r"\bWARN_ON\(pcs->rcu_free\b", "\t\tWARN_ON(pcs->remote);\n")
    slub.before("has_pcs_used", r"\breturn \(pcs->spare\b", "\tif (pcs->remote)\n\t\treturn true;\n\n")

    # Which node is a memoryless node's home
    slub.before("kmem_cache_init", r"\bcreate_boot_cache\(kmem_cache_node\b",
                "\tslab_update_homes();\n\n")
    slub.before("slub_cpu_setup", r"\bif \(node_isset\(nid, slab_barn_nodes\)\)\s+return\b",
                "\tslab_update_homes();\n\n")
    slub.before("slab_memory_callback", r"\bcase NODE_REMOVING_LAST_MEMORY\b",
                "\tcase NODE_ADDED_FIRST_MEMORY:\n"
                "\tcase NODE_REMOVED_LAST_MEMORY:\n"
                "\t\tslab_update_homes();\n"
                "\t\tbreak;\n")


def change_kconfig(kconfig):
    at = kconfig.one(list(re.finditer(r"^config SLUB_STATS$", kconfig.text, re.M)), "config SLUB_STATS")
    kconfig.insert(at.start(), piece("Kconfig"))


CHANGES = {"mm/slub.c": change_slub, "mm/Kconfig": change_kconfig}
MARK = "SLUB_REMOTE_SHEAVES"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tree")
    parser.add_argument("--check", action="store_true", help="only look for the places")
    parser.add_argument("--diff", action="store_true", help="print the change, write nothing")
    args = parser.parse_args()

    before, after = {}, {}
    for name in CHANGES:
        with open(os.path.join(args.tree, name), encoding="utf-8") as file:
            before[name] = file.read()
    marked = [name for name in CHANGES if MARK in before[name]]
    if marked:
        if len(marked) < len(CHANGES):
            raise Misplaced(f"{marked[0]} has the change, and not all of {', '.join(CHANGES)}")
        print("apply.py: the tree has the change already", file=sys.stderr)
        return
    for name, change in CHANGES.items():
        source = Source(name, before[name])
        change(source)
        after[name] = source.text
    if args.diff:
        for name in CHANGES:
            sys.stdout.writelines(difflib.unified_diff(before[name].splitlines(True), after[name].splitlines(True),
                                                       "a/" + name, "b/" + name))
    elif not args.check:
        for name in CHANGES:
            with open(os.path.join(args.tree, name), "w", encoding="utf-8") as file:
                file.write(after[name])


if __name__ == "__main__":
    try:
        main()
    except (Misplaced, OSError) as error:
        sys.exit(f"apply.py: {error}")
