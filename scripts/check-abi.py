#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The binary interface of the shared libraries, against the list that the last release had: packaging/abi.txt.

  check-abi.py SOURCE LIBDIR           fails where a program that was built with that release would break
  check-abi.py --base COMMIT SOURCE LIBDIR   the same against the list of a commit
  check-abi.py --write SOURCE LIBDIR   writes the list: for a release, or with a new SONAME
  check-abi.py --self-test             planted changes are found

The list has SONAMEs, exported names with their versions, prototypes, structures with the places of their fields, values
of enumerations and constants, and the sections that stook/inline.h compiles into programs.  What is more than the list
has is no break.  docs/releases.md says what may change when.  clang reads the headers; a program that it compiles says
the sizes and values.
"""
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIST = "packaging/abi.txt"
LIBRARIES = ("libstook.so", "libstook-malloc.so", "libstook-urcu.so")
HEAD = """# The binary interface that programs may depend on (scripts/check-abi.py compares, docs/releases.md has the rules).
# Written with a release, by scripts/check-abi.py --write . build/lib: not by hand.
"""
# What stook/inline.h compiles into programs: another number of its layout may come with any change of these.
INLINED = re.compile(r"section |(struct|field) stook_cache_head\b|define STOOK_(INLINE_LAYOUT|AREA_SHIFT)$|call stook_inline_layout_")
VERSIONS = re.compile(r"STOOK_VERSION")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def exported(library):
    spec = importlib.util.spec_from_file_location("symbols", pathlib.Path(__file__).parent / "debian-symbols.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.exported(library)


def numbers(work, start, values):
    """What a program that is compiled with the headers says of these expressions, by name."""
    source = start + "#include <stdio.h>\n#include <stddef.h>\nint main(void)\n{\n"
    source += "".join(f'    printf("%lld\\n", (long long)({value}));\n' for value in values.values()) + "    return 0;\n}\n"
    (work / "values.c").write_text(source, encoding="utf-8")
    run("clang-16", "-w", "-O1", "-DSTOOK_INLINE_NO_PIN", f"-I{work}/include", "-o", work / "values", work / "values.c")
    return dict(zip(values, run(work / "values").split()))


def fields(record):
    return [node for node in record.get("inner", []) if node["kind"] == "FieldDecl" and "name" in node]


def declared(work, start):
    """Lines of what the public headers declare."""
    (work / "all.c").write_text(start, encoding="utf-8")
    tree = json.loads(run("clang-16", f"-I{work}/include", "-fsyntax-only", "-Xclang", "-ast-dump=json", work / "all.c"))
    nodes = [node for node in tree["inner"] if node.get("name", "").lower().startswith("stook_") or node["kind"] == "EnumDecl"]
    texts, values = {}, {}
    for node in nodes:
        if node["kind"] == "FunctionDecl" and not node.get("inline") and node.get("storageClass") != "static":
            texts[f"call {node['name']}"] = node["type"]["qualType"]
        elif node["kind"] == "TypedefDecl":
            texts[f"type {node['name']}"] = node["type"]["qualType"]
        elif node["kind"] == "RecordDecl" and node.get("completeDefinition"):
            name = f"{node['tagUsed']} {node['name']}"
            values[f"struct {node['name']}"] = f"sizeof({name})"
            for field in fields(node):
                key = f"field {node['name']}.{field['name']}"
                texts[key] = field["type"]["qualType"]
                values[key] = f"offsetof({name}, {field['name']})"
        elif node["kind"] == "EnumDecl":
            for constant in node.get("inner", []):
                if constant.get("name", "").startswith("STOOK_"):
                    values[f"enum {constant['name']}"] = constant["name"]
    macros = re.findall(r"^#define (STOOK_\w+) .*$", run("clang-16", f"-I{work}/include", "-E", "-dM", work / "all.c"), re.M)
    marked = start + "".join(f'"{name}" {name}\n' for name in macros)
    expanded = dict(re.findall(r'^"(\w+)" (.*)$', run("clang-16", f"-I{work}/include", "-E", "-P", "-", input=marked), re.M))
    # Of these words and numbers alone: a constant.
    constant = re.compile(r"(\b(0x[0-9a-f]+|\d+)[ul]*\b|[-+*/|&~<>()\s]|\b(sizeof|unsigned|int|long|size_t|uint\d+_t)\b)+", re.I)
    values |= {f"define {name}": text for name, text in expanded.items()
               if constant.fullmatch(text) and re.search(r"\d", text) and not VERSIONS.match(name)}
    known = numbers(work, start, values)
    return {key: " ".join(filter(None, (known.get(key), texts.get(key)))) for key in (*texts, *values)}


def sections(path):
    """The operations of each section that is compiled into programs."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.findall(r"^(stook_rseq_\w+)\(.*?__asm__ __volatile__ goto\((.*?)\n\s*:", text, re.M | re.S)
    return {f"section {name}": "; ".join(" ".join(re.findall(r"\w+", op)) for op in re.findall(r"STOOK_OP_(\w+\([^)]*\))", body))
            for name, body in found}


def listed(source, folder):
    rows = {}
    for library in LIBRARIES:
        path = folder / library
        said = run("readelf", "-dW", path)
        rows[f"soname {library}"] = re.search(r"SONAME.*\[(.*)\]", said)[1]
        rows |= {f"export {library}:{name}": "" for name in exported(path) if "STOOK_PRIVATE" not in name}
    headers = sorted(path.name for path in (source / "include/stook").glob("*.h") if not path.name.startswith("kmem"))
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        (work / "include").symlink_to((source / "include").resolve())
        rows |= declared(work, "".join(f"#include <stook/{header}>\n" for header in headers))
    rows |= sections(source / "include/stook/sections.h")
    return rows


def written(rows):
    return HEAD + "".join(f"{key}: {rows[key]}".rstrip() + "\n" for key in sorted(rows))


def read(text):
    return dict(re.match(r"(.*?[^:]):(?:$| (.*))", line).groups("") for line in text.splitlines() if line and line[0] != "#")


def grows(old, new, name):
    """Whether a structure only has more fields behind its old size, and its `size` says which one the caller has."""
    sized = [rows.get(f"field {name}.size", "").split(" ")[0] for rows in (old, new)]
    more = [key for key in new if key.startswith(f"field {name}.") and key not in old]
    return sized == ["0", "0"] and all(int(new[key].split(" ")[0]) >= int(old[f"struct {name}"]) for key in more)


def breaks(old, new):
    """What a program of `old` would miss in `new`."""
    relaid = new.get("define STOOK_INLINE_LAYOUT") != old.get("define STOOK_INLINE_LAYOUT")
    for key, value in old.items():
        name = key.split(" ")[1]
        if new.get(key) == value or (relaid and INLINED.match(key)):
            continue
        if key not in new:
            yield f"{key} is gone"
        elif not (key.startswith("struct ") and int(new[key]) > int(value) and grows(old, new, name)):
            yield f"{key} was {value}, and is {new[key]}"
    for key in new:
        name = key.split(" ")[1].split(".")[0]
        if key.startswith("field ") and key not in old and f"struct {name}" in old and not grows(old, new, name) and \
                not (relaid and INLINED.match(key)):
            yield f"{key} is new in a structure that programs have"


def check(source, folder, old):
    new = listed(source, folder)
    wrong = list(breaks(read(old), new))
    for line in wrong:
        print(f"check-abi.py: {line}")
    if wrong:
        print("check-abi.py: programs that were built with the last release break: docs/releases.md, SONAME")
    else:
        print(f"check-abi.py: {len(read(old))} rows hold, {len(set(new) - set(read(old)))} are new")
    return bool(wrong)


HEADER = """#pragma once
#include <stddef.h>
#define STOOK_API
#define STOOK_ONE 0x1u
#define STOOK_INLINE_LAYOUT 3
enum stook_kind { STOOK_FIRST, STOOK_SECOND };
struct stook_args { size_t size; int x; };
struct stook_plain { int a, b; };
struct stook_cache_head { void *slots; };
STOOK_API int stook_f(struct stook_args *args, struct stook_plain *plain, enum stook_kind kind);
STOOK_API void stook_inline_layout_3(int layout);
"""
SECTIONS = 'stook_rseq_pop(void)\n{\n    __asm__ __volatile__ goto(\n        STOOK_OP_LOAD("t", "m", "8")\n        : x);\n'
CODE = '#include <stook/stook.h>\nint stook_f(struct stook_args *a, struct stook_plain *p, enum stook_kind k) { return a->x + (int)k; }\n' \
       "void stook_inline_layout_3(int layout) { (void)layout; }\n"


def planted(work, change, soname="libstook.so.1"):
    """The rows of a small library whose header has that change."""
    (work / "include/stook").mkdir(parents=True, exist_ok=True)
    (work / "include/stook/stook.h").write_text(HEADER.replace(*change) if change[0] in HEADER else HEADER, encoding="utf-8")
    (work / "include/stook/sections.h").write_text(SECTIONS.replace(*change), encoding="utf-8")
    (work / "t.c").write_text(CODE.replace(*change), encoding="utf-8")
    # sections.h is read as text only.
    (work / "include/stook/sections.h").rename(work / "sections")
    run("clang-16", "-w", "-shared", "-fPIC", f"-I{work}/include", f"-Wl,-soname,{soname}", "-o", work / LIBRARIES[0], work / "t.c")
    for library in LIBRARIES[1:]:
        shutil.copy(work / LIBRARIES[0], work / library)
    rows = listed(work, work)
    return rows | sections(work / "sections")


def self_test():
    cases = [  # what is planted, and what of it is named; None: it breaks nothing
        (("", ""), None),
        (("int stook_f(", "int stook_g(void);\nSTOOK_API int stook_f("), None),
        (("STOOK_SECOND }", "STOOK_SECOND, STOOK_THIRD }"), None),
        (("size; int x;", "size; int x; long y;"), None),
        (("stook_f", "stook_g"), "call stook_f is gone"),
        (("void stook_inline_layout_3(int layout) {", "static void stook_other(int layout) {"), "export libstook.so:stook_inline_layout_3@Base is gone"),
        (("struct stook_plain *p", "void *p"), "call stook_f was "),
        (("int a, b;", "int a, b, c;"), "struct stook_plain was 8, and is 12"),
        (("int a, b;", "int b, a;"), "field stook_plain.a was 0 int, and is 4 int"),
        (("size; int x;", "size; int w, x;"), "field stook_args.w is new"),
        (("{ STOOK_FIRST, STOOK_SECOND }", "{ STOOK_SECOND, STOOK_FIRST }"), "enum STOOK_FIRST was 0, and is 1"),
        (("ONE 0x1u", "ONE 2"), "define STOOK_ONE was 1, and is 2"),
        (('"8"', '"16"'), "section stook_rseq_pop was LOAD t m 8, and is LOAD t m 16"),
        (("void *slots", "char x; void *slots"), "field stook_cache_head.slots was 0 void *, and is 8 void *"),
    ]
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        first = planted(work, ("", ""))
        assert read(written(first)) == first and len(first) > 20, first
        for change, wanted in cases:
            found = list(breaks(first, planted(work, change)))
            assert any(line.startswith(wanted) for line in found) if wanted else not found, (change, found)
        # Inlined code of another number may have another layout; the old name stays exported.
        relaid = planted(work, ("LAYOUT 3", "LAYOUT 4"))
        relaid |= {"section stook_rseq_pop": "", "field stook_cache_head.slots": "8 void *"}
        assert not list(breaks(first, relaid)), list(breaks(first, relaid))
        assert "soname libstook.so was libstook.so.1, and is libstook.so.2" in breaks(first, planted(work, ("", ""), "libstook.so.2"))
        said = subprocess.run([__file__, work, work], capture_output=True, text=True)
        assert said.returncode == 1 and "there is no packaging/abi.txt" in said.stdout, said
        (work / "packaging").mkdir()
        (work / LIST).write_text(written(planted(work, ("stook_f", "stook_g"))), encoding="utf-8")
        planted(work, ("", ""))
        said = subprocess.run([__file__, work, work], capture_output=True, text=True)
        assert said.returncode == 1 and "call stook_g is gone" in said.stdout, said
    print(f"{len(cases) + 4} planted trees")
    return 0


def main(arguments):
    if not shutil.which("clang-16"):
        print("check-abi.py: skipped, clang-16 is missing (scripts/deps.sh check)")
        return 77
    if arguments == ["--self-test"]:
        return self_test()
    base = arguments[1] if arguments[:1] == ["--base"] else ""
    write = arguments[:1] == ["--write"]
    places = [pathlib.Path(word) for word in arguments[2 if base else write:]]
    if len(places) != 2:
        print(__doc__)
        return 2
    for library in LIBRARIES:
        if not (places[1] / library).exists():
            print(f"check-abi.py: there is no {places[1] / library} (make check-abi builds it)")
            return 1
    path = places[0] / LIST
    if write:
        path.write_text(written(listed(*places)), encoding="utf-8")
        return 0
    if base:
        return check(*places, run("git", "-C", places[0], "show", f"{base}:{LIST}"))
    if not path.exists():
        print(f"check-abi.py: there is no {LIST} to compare with: a release writes it (docs/releases.md)")
        return 1
    return check(*places, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
