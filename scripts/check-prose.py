#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the English of README.md, CONTRIBUTING.md, docs/, man/ and the comments of C sources (SOURCES).

  check-prose.py SOURCE            spelling everywhere; constructions in every file, names in src/
  check-prose.py --all [SOURCE]    how many findings each file has, by rule; exit status 0
  check-prose.py --file FILE...    the findings of these files
  check-prose.py --self-test       planted violations must be found, and plain sentences pass

The rules find sentences that a reader must decode: a subject that names no actor, a word with several
meanings, more than 35 words.  No file is exempt.  Spelling is codespell's business; scripts/spelling.txt lists our
words that it takes for mistakes.  docs/decisions/ tells what was thought at the time and is left alone.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WORDS_MAX = 35
SOURCES = ("include", "src", "tools", "bench", "examples", "adapters", "bindings", "fuzz", "tests")

# (name, pattern, what to do).  A pattern sees one sentence, code and links replaced by words.
RULES = [
    ("actor", r"^(who|whoever|whom|whose|somebody|someone|nobody|anybody|everybody)\b(?!.*\?$)",
     "name the thread, the caller, the library, the kernel"),
    ("actor", r"\b(whoever|whomever|somebody|someone|nobody|anybody|one's)\b",
     "name the thread, the caller, the library, the kernel"),
    ("actor", r"\b(for|and|of|to|than|by|from|with|or|but|if|as|because|where|so that|until) who\b",
     "name the actor: a thread that ..., a caller that ..."),
    ("actor", r"^one (who|that|which|can|may|must|would|should|has|is)\b", "name the actor"),
    ("what", r"^what\b(?! (for|if|it is|happens)\b)(?=(\W+\w+){6})(?!.*[?:]$)",
     "begin with the thing itself, not with \"what\""),
    ("settle", r"\bsettl(e|es|ed|ing)\b", "give each its own verb: decide, drain, count, wait for"),
    ("told", r"\b(is|are|was|were|be|been|gets?|not) told\b|\btellings?\b", "scan, poll, notify, report"),
    ("look", r"\b(a|an|the|each|every|next|last|first|one) looks?\b|\blooks\b(?= (again|once|now|only))",
     "scan, poll, check"),
    ("way", r"\b(fast|slow|cold|hot|straight|rseq|locked|inlined|accounted) ways?\b|\bgoes? the way\b",
     "the field's word is path"),
    ("idiom", r"\b(hard times|gets? on\b(?! the)|got on\b|to be had|rather none|is so already|"
              r"in one go|makes? do\b|for ever\b|by the hand|by hand of)", "say it plainly"),
    ("butfor", r"\bbut for\b", "except, except for"),
]
RULES = [(name, re.compile(pattern, re.IGNORECASE), advice) for name, pattern, advice in RULES]
NAMES = re.compile(r"\b(\w*_)?(settle|told|heed|straight|beside|loose|drawn|look|mail)(_\w*)?\b\s*[(=;,\[]")
ADVICE_LONG = f"more than {WORDS_MAX} words: one fact a sentence"


class Paragraph:
    """Lines of running text; `whole` unless it is a heading, a cell or a fragment."""

    def __init__(self, whole=True):
        self.lines = []  # (number, text)
        self.whole = whole

    def sentences(self):
        """(number of the line where it begins, text)."""
        text, starts = "", []
        for number, line in self.lines:
            starts.append((len(text), number))
            text += line.strip() + " "
        begin = 0
        for match in re.finditer(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)[.!?:;]+[)\"'”]*\s+(?=[\"'“(A-Z0-9`]|CODE)|$",
                                 text):
            if match.start() < begin:
                continue
            # A colon and a semicolon end a clause, which may begin small.
            sentence = text[begin:match.end()].strip()
            if sentence:
                yield max(number for start, number in starts if start <= begin), sentence
            begin = match.end()


def markdown(lines):
    paragraph, fenced = None, False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            paragraph = None
            continue
        if fenced or line.startswith("    ") and paragraph is None:
            continue
        line = re.sub(r"``.*?``|`[^`]*`", "CODE", line)
        line = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", line)
        line = re.sub(r"[*_]{1,2}(\S[^*_]*)[*_]{1,2}", r"\1", line)
        if line.startswith("|"):
            paragraph = None
            for cell in line.strip().strip("|").split("|"):
                part = Paragraph(False)
                part.lines.append((number, cell))
                yield part
            continue
        item = re.match(r"\s*([-*+]|\d+\.|#+|>)\s+(.*)", line)
        if not line.strip():
            paragraph = None
        elif item:
            paragraph = Paragraph(not item[1].startswith("#"))
            paragraph.lines.append((number, item[2]))
            yield paragraph
            if item[1].startswith("#"):
                paragraph = None
        else:
            if paragraph is None:
                paragraph = Paragraph()
                yield paragraph
            paragraph.lines.append((number, line))


def manual(lines):
    paragraph, literal = None, False
    for number, line in enumerate(lines, 1):
        if re.match(r"\.(nf|EX|TS)\b", line):
            literal = True
        if re.match(r"\.(fi|EE|TE)\b", line):
            literal = False
            paragraph = None
            continue
        if literal or line.startswith((".\\\"", "'\\\"")):
            continue
        macro = re.match(r"\.(\w+)\s*(.*)", line)
        text = line
        if macro:
            if macro[1] not in ("B", "I", "BR", "IR", "RB", "RI", "BI", "IB"):
                paragraph = None
                continue
            text = "CODE" + re.sub(r"^[^.,;:]*", "", macro[2].split()[-1] if macro[2] else "")
        text = re.sub(r"\\f[BI].*?\\f[RP]", "CODE", text)
        text = re.sub(r"\\[-&]", lambda m: m[0][1:].strip("&"), text)
        if paragraph is None:
            paragraph = Paragraph()
            yield paragraph
        paragraph.lines.append((number, text))


def comments(lines):
    text = "\n".join(lines)
    for match in re.finditer(r"/\*(.*?)\*/", text, re.DOTALL):
        number = text.count("\n", 0, match.start()) + 1
        body = match[1].split("\n")
        paragraph = None
        for line in body:
            plain = re.sub(r"^\s*\*? ?", "", line) if len(body) > 1 else line.strip()
            if re.match(r"\s{2,}|\s*[|+-]{2}|\S+:\s{2,}|SPDX|.*  <-", plain) or not plain.strip():
                paragraph = None  # a table, a picture, a list of steps
            else:
                if paragraph is None:
                    paragraph = Paragraph(len(body) > 1)
                    yield paragraph
                plain = re.sub(r"`[^`]*`|\b\w+\(\)|\b\w+_\w+\b", "CODE", plain)
                plain = re.sub(r"^\w[\w/.-]*\.[ch] - ", "", plain)
                paragraph.lines.append((number, plain))
            number += 1


def findings(path, text=None):
    """(line, rule, advice, sentence) of a file."""
    if text is None:
        text = path.read_text()
    lines = text.splitlines()
    kind = markdown if path.suffix == ".md" else comments if path.suffix in (".c", ".h") else manual
    for paragraph in list(kind(lines)):  # lines join it after it was yielded
        for line, sentence in paragraph.sentences():
            # Subjects of clauses count as those of sentences.
            for clause in re.split(r"(?<=[;:])\s+", sentence):
                bare = clause.strip(" \"'“(*")
                seen = set()
                for name, pattern, advice in RULES:
                    if name == "what" and not paragraph.whole:
                        continue  # a heading or a cell may name a thing by a question
                    if name not in seen and pattern.search(bare):
                        seen.add(name)
                        yield line, name, advice, clause
            if paragraph.whole and len(re.findall(r"[\w'/-]*\w[\w'/-]*", sentence)) > WORDS_MAX:
                yield line, "long", ADVICE_LONG, sentence


def files(source):
    found = [source / "README.md", source / "CONTRIBUTING.md"]
    found += sorted((source / "docs").glob("*.md")) + sorted((source / "man").glob("*.[137]"))
    for folder in SOURCES:
        found += sorted(path for path in (source / folder).rglob("*") if path.suffix in (".c", ".h", ".md"))
    return [path for path in found if path.is_file()]


def report(path, source):
    count = 0
    for line, name, advice, sentence in findings(path):
        count += 1
        name_of = path.relative_to(source) if path.is_relative_to(source) else path
        shown = sentence if len(sentence) < 110 else sentence[:107] + "..."
        print(f"{name_of}:{line}: {name}: {advice}\n    {shown}")
    return count


def names(path, source):
    """Identifiers with a word that the field has another one for."""
    count = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for found in NAMES.findall(re.sub(r"/?\*.*", "", line)):
            print(f"{path.relative_to(source)}:{number}: name: {''.join(found)}: call it by what it does")
            count += 1
    return count


def spelling(source):
    """How many; None without codespell."""
    if not shutil.which("codespell"):
        return None
    paths = [str(source / name) for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs",
                                             "man", "include", "src", "tools", "scripts", "tests",
                                             "bench", "examples") if (source / name).exists()]
    said = subprocess.run(["codespell", "-q", "34", "-I", str(HERE / "spelling.txt"), "--skip",
                           "*.svg,*/tests/data/*,*/peers/*,spelling.txt,check-prose.py,*.min.js", *paths],
                          capture_output=True, text=True, check=False).stdout
    print(said, end="")
    return len(said.splitlines())


def check(source):
    bad = 0
    for path in files(source):
        bad += report(path, source)
        if path.is_relative_to(source / "src"):
            bad += names(path, source)
    wrong = spelling(source)
    if wrong is None:
        print("skipped: no codespell (Debian: codespell)")
    return 1 if bad or wrong else 0


def show_all(source):
    names = sorted({name for name, _, _ in RULES} | {"long"})
    rows = {str(path.relative_to(source)): [rule for _, rule, _, _ in findings(path)] for path in files(source)}
    rows["all"] = sum(rows.values(), [])
    print(f"{'':44}" + "".join(f"{name:>8}" for name in names))
    for row, found in rows.items():
        if found:
            print(f"{row:44}" + "".join(f"{found.count(name) or '':>8}" for name in names))
    return 0


def self_test():
    planted = {
        "actor": ["Who frees twice is reported.", "The lock is for whoever comes next.",
                  "Nobody reads it then.", "Memory is kept for who must proceed.",
                  "One can pass NULL here."],
        "what": ["What the last slab had too much goes back under the lock."],
        "settle": ["The cache settles the count at the next refill."],
        "told": ["The thread is told that memory is short."],
        "look": ["The next look finds nothing."],
        "way": ["A full sheaf takes the slow way."],
        "idiom": ["The emergency pool helps in hard times."],
        "butfor": ["All fields are constant but for the lock."],
        "long": ["The " + "very " * WORDS_MAX + "long sentence ends."],
    }
    good = ["The thread that frees an object twice is reported.", "Who owns the field?",
            "What happens when the limit is reached is decided by the flags of the call.",
            "The slow path takes the lock; the fast path does not.", "One lock protects both lists.",
            "The caller looks the object up by its address.", "Use `settle()` for it."]
    dress = {
        "a.md": lambda text: f"# Title\n\nA plain sentence stands\nhere. {text}\n\n```\nwho settles\n```\n",
        "a.3": lambda text: f".SH NAME\nA plain sentence of\n.BR stook_alloc (3)\nstands here. {text}\n"
                            ".nf\nwho settles\n.fi\n",
        "a.c": lambda text: "int who, settle; /* plain */\n/*\n * A plain sentence stands here.\n"
                            f" * {text}\n *\n *    who    settles\n */\n",
    }
    status = 0
    for name, make in dress.items():
        for text in good:
            if name == "a.3":
                text = text.replace("`settle()`", "\\fBsettle\\fR()")
            for _, rule, _, sentence in findings(pathlib.Path(name), make(text)):
                print(f"self-test: {name}: {rule} found in: {sentence}")
                status = 1
        for rule, texts in planted.items():
            for text in texts:
                if rule not in [found for _, found, _, _ in findings(pathlib.Path(name), make(text))]:
                    print(f"self-test: {name}: {rule} not found in: {text}")
                    status = 1
        numbers = [line for line, _, _, _ in findings(pathlib.Path(name), make(planted["told"][0]))]
        if numbers != [4]:
            print(f"self-test: {name}: line {numbers} instead of 4")
            status = 1
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work)
        page, source = root / "README.md", root / "src" / "a" / "b.c"
        source.parent.mkdir(parents=True)
        unclean = f"/*\n * {planted['actor'][0]}\n */\n"
        for text, comment, expected, what in (
                ("A plain sentence.\n", "", 0, "a clean tree does not pass"),
                (planted["actor"][0] + "\n", "", 1, "a finding in a page passes"),
                ("A plain sentence.\n", unclean, 1, "a finding in a comment passes"),
                ("A plain sentence.\n", "void zone_settle_warm(void);\n", 1, "a name passes"),
                ("A plain sentence.\n", "void zone_lookup(void); /* look (see) */\n", 0, "a lookup does not pass"),
                ("It occured twice.\n", "", 1 if shutil.which("codespell") else 0, "a misspelt word passes")):
            page.write_text(text)
            source.write_text(comment)
            if check(root) != expected:
                print(f"self-test: {what}")
                status = 1
    return status


def main(arguments):
    if arguments[:1] == ["--self-test"]:
        return self_test()
    if arguments[:1] == ["--file"]:
        return 1 if sum(report(pathlib.Path(name).resolve(), HERE.parent)
                        for name in arguments[1:]) else 0
    act = show_all if arguments[:1] == ["--all"] else check
    paths = arguments[act is not check:]
    return act(pathlib.Path(paths[0]).resolve() if paths else HERE.parent)


sys.exit(main(sys.argv[1:]))
