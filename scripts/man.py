#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The man pages of section 3, from the comments of the public headers.

man.py SOURCE           writes SOURCE/man/*.3 but stook.3, and removes pages of calls that are gone
man.py --check SOURCE   says which pages differ from what it would write; exit status 1 if any does

The shape of a comment is written down at the head of include/stook/stook.h.  An entry is a comment and the
declarations behind it, up to a blank line; its page has the name of its first function, and the others'
pages refer to it.  Declarations without a function go to the next entry's page.
"""
import difflib
import pathlib
import re
import sys
import textwrap

HEADERS = ("stook", "reserve", "rcu", "urcu", "topology", "group", "stat", "debug",
           "kmalloc")
BY_HAND = {"stook.3"}
LABELS = ("returns", "errors", "context", "locks", "cost")
EXAMPLES = sorted(pathlib.Path(__file__).parents[1].glob("examples/*.c"),
                  key=lambda path: (not re.match("calls|rcu_calls", path.name), path.name))
HEADINGS = {"returns": "RETURN VALUE", "errors": "ERRORS", "context": "CONTEXT", "locks": "LOCKS", "cost": "COST"}
COMMENT = re.compile(r"^/\*(?:(?!\*/).)*\*/\n", re.M | re.S)


class Shape(Exception):
    """A comment that does not have the shape."""


def comment_lines(comment):
    """The text of a comment without its frame."""
    body = comment.strip()[2:-2].strip("\n")
    return [re.sub(r"^ ?\* ?", "", line).rstrip() if n or "\n" in comment.strip() else line.strip()
            for n, line in enumerate(body.split("\n"))]


def paragraphs(lines):
    """Paragraphs, each as one line; a table, whose lines are indented, keeps its lines."""
    out = [[]]
    for line in lines:
        if line.strip():
            out[-1].append(line)
        elif out[-1]:
            out.append([])
    return ["\n".join(part) if part[0].startswith("  ") else " ".join(line.strip() for line in part)
            for part in out if part]


def functions(code):
    return re.findall(r"^(?:STOOK_API|static inline) [^;(]*?(\w+)\(", code, re.M)


def parse(comment, code, where):
    """An entry: its names, summary, text and labelled parts."""
    lines = comment_lines(comment)
    while lines and not lines[0]:
        lines.pop(0)
    parts, text, current = {}, [], None
    for line in lines:
        label = re.match(r"(\w+):\s+(.*)", line)
        if label and label[1] in LABELS:
            current = label[1]
            if current in parts:
                raise Shape(f"{where}: two lines \"{current}:\"")
            parts[current] = [label[2]]
        elif current and (line.startswith("  ") or not line):
            parts[current].append(line)
        elif current:
            raise Shape(f"{where}: \"{line}\" follows \"{current}:\" and is not indented")
        else:
            text.append(line)
    whole = paragraphs(text)
    summary = whole[0] if whole else ""
    if not re.fullmatch(r"[^.]*(?:\.[^ .][^.]*)*\.", summary):
        raise Shape(f"{where}: the summary is not one sentence: \"{summary}\"")
    for label in ("context", "locks"):
        if label not in parts:
            raise Shape(f"{where}: \"{label}:\" is missing")
    return {"names": functions(code), "summary": summary[:-1], "text": whole[1:], "parts": parts, "code": code}


def entries(text, header):
    """The entries of a header without the library's marks, each with the declarations before it that have no function."""
    text = re.sub(r"\s*STOOK_(?:(?:NONNULL|MALLOC|SIZED)\([^)]*\)|WARN_UNUSED|NOTHROW)", "", text)
    before, at = [], 0
    started = header != "stook"
    while match := COMMENT.search(text, at):
        at = match.end()
        if match[0].startswith("/* SPDX"):
            continue
        if re.match(r"/\* ---- ", match[0]):
            started = True
            continue
        end = re.compile(r"\n\n|\Z").search(text, at - 1 if text[at:at + 1] == "\n" else at).start() + 1
        code = text[at:end].strip("\n")
        if functions(code):
            entry = parse(match[0], code, f"include/stook/{header}.h: {functions(code)[0]}()")
            entry["before"] = before
            entry["header"] = header
            before = []
            at = end
            yield entry
        elif started and code and not code.startswith(("#ifndef STOOK", "#ifdef STOOK_SITE", "#if ")):
            before.append(match[0] + code)
            at = end


def escape(text):
    text = re.sub(r"(^|\s)-(?=\d|\w)", r"\1\\-", text.replace("\\", "\\e").replace("…", "..."))
    return "\\&" + text if text[:1] in (".", "'") else text


def filled(text):
    """A paragraph, wrapped, with the names of calls in bold."""
    out = []
    for line in textwrap.wrap(text, 78, break_long_words=False, break_on_hyphens=False):
        line = escape(line)
        out.append(re.sub(r"\b(stook_\w+)\(\)", r"\\fB\1\\fP()", line))
    return out


def verbatim(code):
    return [escape(line) if line.strip() else "\\&" for line in code.split("\n")]


def prototypes(code):
    """What a program sees of the declarations."""
    code = re.sub(r"^STOOK_API ", "", code, flags=re.M)
    code = re.sub(r"^(?:static inline|STOOK_INLINE) ([^{;]*\))\n\{.*?^\}", r"\1;", code, flags=re.M | re.S)
    return re.sub(r"(\w+\([^;{}]*\));", lambda m: re.sub(r"\(\s+", "(", re.sub(r"\s*\n\s*", " ", m[1])) + ";", code)


def wrapped(line):
    """A prototype on as many lines as it needs, broken behind commas."""
    if len(line) <= 78 or "(" not in line:
        return [line]
    start = line.index("(") + 1
    indent = " " * (start if start < 50 else 4)
    out = [line[:start]]
    for part in re.split(r"(?<=,) ", line[start:]):
        if len(out[-1]) + len(part) > 78 and out[-1].strip():
            out.append(indent + part)
        else:
            out[-1] += part if out[-1].endswith("(") else " " + part
    return out


def errors(lines):
    """(name, text) of each error; name "" for prose."""
    out = []
    for line in lines:
        item = re.match(r"\s*(E[A-Z0-9]+|others)\s{2,}(.*)", line)
        if item:
            out.append([item[1], item[2]])
        elif line.strip() and out and out[-1][0]:
            out[-1][1] += " " + line.strip()
        elif line.strip():
            out.append(["", line.strip()])
    return out


def sentence(text, code=""):
    """With a capital, but for a name of the declarations, and a full stop."""
    text = text.strip()
    word = re.match(r"\w*", text)[0]
    if not (word.startswith("stook_") or (word and re.search(rf"\b{word}\b[,;)]", code))):
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def returns(entry):
    kinds = set(re.findall(r"^STOOK_API (\w+ ?\**)", entry["code"], re.M))
    if "returns" in entry["parts"]:
        return sentence(" ".join(line.strip() for line in entry["parts"]["returns"]), entry["code"])
    if kinds == {"int "} or kinds == {"int"}:
        return "0, or -1 with errno set."
    return ""


def page(entry, version, known):
    first, *others = entry["names"]
    # A struct or a constant among the functions stands below, where the text has spoken of it.
    plain, declarations = [], [part for part in entry["before"]]
    code = prototypes(entry["code"])
    struct = re.search(r"(?:^#define.*\n|^typedef [^;]*;\n|^struct \w+ \{.*?^\};\n)+", code, re.M | re.S)
    if struct:
        declarations.append(struct[0].rstrip("\n"))
        code = code.replace(struct[0], "")
    for line in code.split("\n"):
        plain += wrapped(line)
    out = [f'.\\" Made from include/stook/{entry["header"]}.h by scripts/man.py: change that.',
           f'.TH {first.upper()} 3 "" "Stook {version}" "Library Functions Manual"', ".SH NAME"]
    out += textwrap.wrap(", ".join([first, *others]), 78)
    summary = entry["summary"]
    out += [f"\\- {summary[:1].lower() + summary[1:] if summary[1:2].islower() else summary}"]
    out += [".SH SYNOPSIS", ".nf", f".B #include <stook/{entry['header']}.h>", ".PP"]
    out += [f".B {line}" if line[:1] != " " else f'.B "{line}"' for line in map(escape, plain) if line]
    out += [".fi"]
    if entry["header"] == "urcu":
        out += [".PP", "Link with", ".BR \\-lstook\\-urcu ."]
    out += [".SH DESCRIPTION"]
    for number, text in enumerate([summary + "."] + entry["text"]):
        out += [".PP"] * (number > 0)
        out += [".nf", *verbatim(text), ".fi"] if text.startswith("  ") else filled(text)
    for number, part in enumerate(declarations):
        out += [".SS Declarations"] * (number == 0) + [".PP"] * (number > 0) + [".nf"]
        out += verbatim(prototypes(part)) + [".fi"]
    if returns(entry):
        out += [".SH RETURN VALUE"] + filled(returns(entry))
    if "errors" in entry["parts"]:
        out += [".SH ERRORS"]
        for name, text in errors(entry["parts"]["errors"]):
            out += ([".TP", f".B {'Others' if name == 'others' else name}"] if name else []) + filled(sentence(text, entry["code"]))
    for label in ("context", "locks", "cost"):
        if label in entry["parts"]:
            out += [f".SH {HEADINGS[label]}"]
            out += filled(sentence(" ".join(line.strip() for line in entry["parts"][label])))
    mentioned = set(re.findall(r"\b(stook_\w+)\(\)", " ".join(
        [*entry["text"], *(" ".join(part) for part in entry["parts"].values())])))
    if example := next((path for path in EXAMPLES if re.search(rf"\b{first}\b", path.read_text(encoding="utf-8"))), None):
        out += [".SH EXAMPLE", f".I examples/{example.name}", "of the source has a program that makes the call."]
    also = sorted({known[name] for name in mentioned if name in known} - {first})
    out += [".SH SEE ALSO"] + [f".BR {name} (3)," for name in also] + [".BR stook (3)"]
    return "\n".join(out) + "\n"


def pages(source):
    """Name of each page and its text."""
    version = ".".join(re.findall(r"#define STOOK_VERSION_(?:MAJOR|MINOR) (\d+)",
                                  (source / "include/stook/stook.h").read_text(encoding="utf-8")))
    all_entries = [entry for header in HEADERS for entry in
                   entries((source / f"include/stook/{header}.h").read_text(encoding="utf-8"), header)]
    known = {name: entry["names"][0] for entry in all_entries for name in entry["names"]}
    out = {}
    for entry in all_entries:
        first, *others = entry["names"]
        out[f"{first}.3"] = page(entry, version, known)
        for name in others:
            out[f"{name}.3"] = f".so man3/{first}.3\n"
    return out


def main(arguments):
    check = arguments[:1] == ["--check"]
    source = pathlib.Path(arguments[-1])
    folder = source / "man"
    try:
        wanted = pages(source)
    except Shape as problem:
        print(problem)
        return 1
    there = {path.name for path in folder.glob("*.3")} - BY_HAND
    differ = 0
    for name in sorted(there | set(wanted)):
        old = (folder / name).read_text(encoding="utf-8") if name in there else ""
        new = wanted.get(name, "")
        if old == new:
            continue
        differ += 1
        if check:
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), f"man/{name}", "from the header"))
        elif new:
            (folder / name).write_text(new, encoding="utf-8")
        else:
            (folder / name).unlink()
    if check and differ:
        print(f"{differ} man pages differ from the headers: run scripts/man.py .")
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
