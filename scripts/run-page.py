#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a page of the documentation as its reader would: in order, in an empty folder, with a clean environment.

  run-page.py PAGE [OPTIONS]   run it; the exit status is 0 if all of it does what it says, 77 if it cannot run here
  run-page.py --list PAGE      what would be done, a block a line
  run-page.py --self-test      planted pages whose errors must be found

Fenced blocks of the page, by their info string:

  ```sh              commands, run by `bash -euo pipefail`; folder, variables and functions stay for the next block
  ```LANGUAGE FILE   the text becomes FILE, below the present folder: ```cpp main.cpp, ```toml Cargo.toml
  ```text expected   what the commands before it wrote, standard error included
  ```LANGUAGE excerpt   shown only

Any other block is an error, as is an indented one: a page may show no command that is not run.  In expected output
a run of blanks equals any other, … stands for any text within a line, and a line of … alone for any lines, or none.
A line of commands that ends in & goes on behind the next blocks, and is ended with the page.

Options:

  --work DIR            the empty folder to work in (a new one below /tmp, removed afterwards); also HOME
  --keep                leave it there
  --env NAME=VALUE      one more variable; --env NAME: as it is here (PATH and the proxies of the network always are)
  --replace OLD=>NEW    in commands, NEW stands for OLD: where a page fetches what the test has already.  OLD must be
                        on the page.
  --need COMMAND        say so and exit with 77 if the command is missing
  --timeout SECONDS     for each block of commands (600)
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

PASSED = ("PATH", "LANG", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
          "SSL_CERT_FILE", "CURL_CA_BUNDLE")
SKIPPED = 77


class PageError(Exception):
    """What is wrong, with the line of the page."""


class Block:
    """kind is sh, file, expected or excerpt; name is a file's."""
    def __init__(self, kind, name, line, text):
        self.kind, self.name, self.line, self.text = kind, name, line, text


def classify(info, line):
    words = info.split()
    if words == ["sh"]:
        return "sh", ""
    if words == ["text", "expected"]:
        return "expected", ""
    if len(words) == 2 and words[1] == "excerpt":
        return "excerpt", ""
    if len(words) == 2 and words[1] != "expected":
        path = pathlib.PurePosixPath(words[1])
        if path.is_absolute() or ".." in path.parts:
            raise PageError(f"{line}: the file {words[1]} is outside the folder")
        return "file", words[1]
    raise PageError(f"{line}: a block of \"{info}\" is neither run nor called an excerpt")


def blocks_of(text):
    blocks, fence, before, listed = [], None, "", False
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if re.fullmatch(rf" *{fence[0]}+ *", line) and line.count("`") >= len(fence):
                blocks.append(Block(kind, name, start, "".join(body)))
                fence = None
            else:
                body.append(line[min(indent, len(line) - len(line.lstrip(" "))):] + "\n")
        elif match := re.match(r"( *)(```+)([^`]*)$", line):
            indent, fence, start, body = len(match[1]), match[2], number, []
            kind, name = classify(match[3], number)
        elif re.match(r"    +\S", line) and not before and not listed:
            raise PageError(f"{number}: an indented block; use ```sh, or ```text excerpt")
        # Behind an item of a list, an indented line goes on with the item.
        listed = bool(re.match(r" *([-*]|\d+\.) ", line)) or (listed and (not line.strip() or line.startswith(" ")))
        before = "" if fence is None and not line.strip() else line.strip()
    if fence:
        raise PageError(f"{start}: the block has no end")
    for i, block in enumerate(blocks):
        if block.kind == "expected" and not any(b.kind == "sh" for b in blocks[:i]):
            raise PageError(f"{block.line}: no commands stand before what is expected")
        if block.kind == "sh" and re.search(r"^\$ ", block.text, re.M):
            raise PageError(f"{block.line}: commands begin with a prompt")
    if not any(block.kind == "sh" for block in blocks):
        raise PageError("1: the page has no commands")
    return blocks


def pattern_of(expected):
    """A regular expression for the whole of what is expected."""
    out = ""
    for line in expected.splitlines():
        line = " ".join(line.split())
        if line == "…":
            out += r"(?:.*\n)*?"
        else:
            out += ".*?".join(re.escape(part).replace(r"\ ", " ") for part in line.split("…")) + r"\n"
    return out


def agrees(expected, said):
    said = "".join(" ".join(line.split()) + "\n" for line in said.rstrip().splitlines())
    return re.fullmatch(pattern_of(expected), said) is not None


class Runner:
    """The commands of one page: a shell for each block, which hands folder and variables to the next."""
    def __init__(self, work, environment, timeout):
        self.work, self.environment, self.timeout = work, environment, timeout
        self.state = tempfile.mkdtemp(prefix="run-page-state-")
        self.groups = []
        pathlib.Path(self.state, "cwd").write_text(str(work) + "\n")
        pathlib.Path(self.state, "variables").write_text("")

    def here(self):
        return pathlib.Path(pathlib.Path(self.state, "cwd").read_text().rstrip("\n"))

    def run(self, commands):
        """(status, output); the status is None where the time was over."""
        # Variables that bash does not let be set are not restored.
        script = ('source "$RUN_PAGE_STATE/variables" 2>/dev/null\ncd "$(<"$RUN_PAGE_STATE/cwd")"\n'
                  'trap \'status=$?; { declare -p; declare -f; } >"$RUN_PAGE_STATE/variables"; '
                  'pwd >"$RUN_PAGE_STATE/cwd"; exit $status\' EXIT\nset -euo pipefail\n'
                  'source "$RUN_PAGE_STATE/commands"\n')
        pathlib.Path(self.state, "commands").write_text(commands)
        with open(os.path.join(self.state, "output"), "w+", encoding="utf-8", errors="replace") as output:
            # A file and no pipe: what stays in the background would keep that open.
            shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-c", script], cwd=self.work,
                                     stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                                     env=self.environment | {"RUN_PAGE_STATE": self.state})
            self.groups.append(shell.pid)
            try:
                status = shell.wait(self.timeout)
            except subprocess.TimeoutExpired:
                status = None
                self.end()
                shell.wait()
            output.seek(0)
            return status, output.read()

    def end(self):
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.groups = []

    def close(self):
        self.end()
        shutil.rmtree(self.state, ignore_errors=True)


def run_page(blocks, work, environment, replace=(), timeout=600, say=print):
    """Raises PageError at the first block that does not do what it says."""
    for old, _ in replace:
        if not any(old in block.text for block in blocks if block.kind == "sh"):
            raise PageError(f"1: --replace: no command has \"{old}\"")
    runner = Runner(work, environment, timeout)
    said, was_compared, files, commands, compared = "", False, 0, 0, 0
    try:
        for block in blocks:
            if block.kind == "file":
                path = runner.here() / block.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
                files += 1
            elif block.kind == "sh":
                text = block.text
                for old, new in replace:
                    text = text.replace(old, new)
                status, output = runner.run(text)
                # Expected output is that of all commands since the last comparison.
                said = output if was_compared else said + output
                was_compared = False
                commands += 1
                if status != 0:
                    what = f"not ended after {timeout} s" if status is None else f"exit status {status}"
                    raise PageError(f"{block.line}: {what}\n{text}{output}")
            elif block.kind == "expected":
                was_compared = True
                compared += 1
                if not agrees(block.text, said):
                    raise PageError(f"{block.line}: other output than the page has; it was\n{said}")
    finally:
        runner.close()
    say(f"{commands} blocks of commands run, {files} files written, {compared} outputs compared")


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--replace", action="append", default=[])
    parser.add_argument("--need", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=600)
    if not arguments or "--help" in arguments:
        print(__doc__)
        return 2
    options = parser.parse_args(arguments)
    for command in options.need:
        if not shutil.which(command):
            print(f"{options.page}: skipped, {command} is missing")
            return SKIPPED
    work = None
    try:
        blocks = blocks_of(options.page.read_text(encoding="utf-8"))
        if options.list:
            for block in blocks:
                print(f"{options.page}:{block.line}: {block.kind} {block.name}".rstrip())
            return 0
        replace = [pair.split("=>", 1) for pair in options.replace]
        if any(len(pair) != 2 for pair in replace):
            parser.error("--replace needs OLD=>NEW")
        work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="run-page-"))
        work.mkdir(parents=True, exist_ok=True)
        if any(work.iterdir()):
            parser.error(f"{work} is not empty")
        environment = {name: os.environ[name] for name in PASSED if name in os.environ}
        environment |= {"HOME": str(work), "LC_ALL": "C.UTF-8"}
        for entry in options.env:
            name, is_set, value = entry.partition("=")
            if is_set or name in os.environ:
                environment[name] = value if is_set else os.environ[name]
        run_page(blocks, work.resolve(), environment, replace, options.timeout)
    except PageError as error:
        print(f"{options.page}:{error}")
        return 1
    finally:
        if work and not options.keep and not options.work:
            shutil.rmtree(work, ignore_errors=True)
    return 0


SELF_TESTS = [  # page, what the error says ("" for none)
    ("```sh\necho a   b\n```\n\n```text expected\na b\n```\n", ""),
    ("```sh\necho a\n```\n```text expected\nb\n```\n", "4: other output"),
    ("```sh\necho a; echo b\n```\n```text expected\na\n```\n", "4: other output"),
    ("```sh\nfalse\ntrue\n```\n", "1: exit status 1"),
    ("```sh\nfalse | true\n```\n", "1: exit status 1"),
    ("```sh\necho $none\n```\n", "1: exit status"),
    ("```sh\nmkdir d; cd d; v=1; f() { echo $v; }\n```\n```c x/a.c\nint a;\n```\n```sh\ncat x/a.c; f; pwd\n```\n"
     "```text expected\nint a;\n1\n…/d\n```\n", ""),
    ("```sh\nseq 9\n```\n```text expected\n1\n…\n9\n```\n", ""),
    ("```sh\nseq 9\n```\n```text expected\n2\n…\n9\n```\n", "4: other output"),
    ("```sh\necho one >&2\n```\nand\n```sh\necho two\n```\n```text expected\none\ntwo\n```\n"
     "```sh\necho three\n```\n```text expected\nthree\n```\n", ""),
    ("```sh\necho abcd\n```\n```text expected\na…d\n```\n```text expected\n…c…\n```\n", ""),
    ("```sh\ntrue\n```\n\n    make all\n", "5: an indented block"),
    ("```sh\ntrue\n```\n- an item\n\n      of a list\n", ""),
    ("```sh\ntrue\n```\n```\nmake all\n```\n", "4: a block of"),
    ("```sh\ntrue\n```\n```bash\nmake all\n```\n", "4: a block of"),
    ("```sh\ntrue\n```\n```c excerpt\nint a;\n```\n", ""),
    ("```c ../a.c\nint a;\n```\n```sh\ntrue\n```\n", "1: the file ../a.c is outside"),
    ("```c /tmp/a.c\nint a;\n```\n```sh\ntrue\n```\n", "1: the file /tmp/a.c is outside"),
    ("```text expected\na\n```\n```sh\ntrue\n```\n", "1: no commands stand before"),
    ("```sh\n$ ls\n```\n", "1: commands begin with a prompt"),
    ("```sh\ntrue\n", "1: the block has no end"),
    ("nothing\n", "1: the page has no commands"),
    ("```sh\nsleep 60\n```\n", "1: not ended after"),
    ("```sh\nsleep 60 &\necho on\n```\n```text expected\non\n```\n", ""),
    ("```sh\nfetch it\n```\n```text expected\nit\n```\n", ""),
    ("```sh\ntest \"${PLANTED:-}\" = \"\" && test \"$HOME\" = \"$PWD\"\n```\n", ""),
]


def self_test():
    os.environ["PLANTED"] = "must not arrive"
    wrong = 0
    for page, error in SELF_TESTS:
        with tempfile.TemporaryDirectory(prefix="run-page-") as work:
            environment = {"PATH": os.environ["PATH"], "HOME": work}
            replace = [("fetch", "echo")] if "fetch it" in page else []
            said = ""
            try:
                run_page(blocks_of(page), pathlib.Path(work).resolve(), environment, replace,
                         0.5 if "not ended" in error else 30, lambda _: None)
            except PageError as found:
                said = str(found)
            if bool(said) != bool(error) or error not in said:
                wrong += 1
                print(f"self-test: not \"{error}\" but \"{said}\" of\n{page}")
    with tempfile.TemporaryDirectory(prefix="run-page-") as work:
        path = pathlib.Path(work, "page.md")
        path.write_text(SELF_TESTS[-1][0], encoding="utf-8") # a clean environment
        for more, status in (([], 0), (["--need", "no-such-command"], SKIPPED), (["--replace", "nowhere=>x"], 1)):
            result = subprocess.run([sys.executable, __file__, str(path), *more], capture_output=True, check=False)
            if result.returncode != status:
                wrong += 1
                print(f"self-test: {more}: {result.returncode}")
    print(f"{len(SELF_TESTS) + 3} planted pages, {wrong} taken wrongly")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
