#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The man pages of stook's commands and the completion for shells, from the tables and helps in tools/stook.

commands.py SOURCE           writes SOURCE/man/stook-COMMAND.1, and SOURCE/tools/completion
commands.py --check SOURCE   says which of these differ from what it would write; exit status 1 if any does

A help has, in this order, its usage, paragraphs and lines of options, the exit statuses, and an example.  Every option of a table
stands in the help, and every option of the help in a table.
"""
import difflib
import pathlib
import re
import sys

import man

BY_HAND = {"lab", "plan", "profile"}  # their pages say more than their helps
STRING = r'"((?:[^"\\]|\\.)*)"'
LINE = re.compile(r"^  ((?:-\w, )?(?:--)?[\w(][^ ]*(?: [^ ]+)*?)(?:  +(.*))?$")


class Shape(Exception):
    """A help or a table that does not have the shape."""


def literal(expression, names):
    """The text of strings and of names of strings beside each other."""
    out = ""
    expression = re.sub(r'HELP_END\(\s*(".*?")\)', lambda m: names["HELP_END"].replace("@", m[1]), expression)
    for string, name in re.findall(STRING + r"|(\w+)", expression):
        out += names.get(name, name) if name else re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), string)
    return out


def fields(body):
    """Of an initialiser: by name, or by place."""
    parts = [""]
    for token in re.findall(STRING.replace("(", "(?:", 1) + r"|[^\",]+|,", body):
        if token == ",":
            parts.append("")
        else:
            parts[-1] += token
    out = {}
    for place, part in enumerate(p.strip() for p in parts if p.strip()):
        named = re.match(r"\.(\w+)\s*=\s*(.*)", part, re.S)
        out[named[1] if named else ("name", "summary", "help", "run")[place]] = named[2] if named else part
    return out


def options(text, words):
    """The rows of a file's tables: what each takes is None, "", a kind, or a list of words."""
    out = {}
    for name, kind, rest in re.findall(r'\{"([\w-]+)",\s*OPTION_(\w+)([^{}]*)\}', text):
        letter, list_name = re.search(r"\.letter = '(.)'", rest), re.search(r"\.words = (\w+)", rest)
        takes = None if kind == "FLAG" else words[list_name[1]] if list_name else "file" if kind == "TEXT" else ""
        out[name] = {"letter": letter[1] if letter else "", "takes": takes, "may": ".otherwise" in rest}
    if "LOOK_CORE_ROWS" in text:
        out |= {name: {"letter": "", "takes": "file", "may": False} for name in ("core", "exe")}
    return out


def help_parts(text):
    """(kind, text) of usage, paragraphs, items with their meaning, exit statuses and examples."""
    usage, _, rest = text.partition("\n\n")
    out, kind = [["usage", line[7:]] for line in usage.split("\n")], ""
    for line in rest.rstrip("\n").split("\n"):
        start = re.match(r"(exit status|example): *(.*)", line)
        item = None if kind in ("exit status", "example") else LINE.match(line)
        if not line:
            kind = ""
        elif start:
            kind = start[1]
            out += [[kind, start[2]]] * bool(start[2])
        elif kind == "example":
            out.append([kind, line.strip()])
        elif item:
            kind = "item"
            out.append([kind, item[2] or "", item[1]])
        elif kind:
            out[-1][1] += " " + line.strip()
        else:
            kind = "paragraph"
            out.append([kind, line])
    return out


def commands(source):
    """Each command in the order of the overview."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted((source / "tools").rglob("*.[ch]"))}
    whole = "\n".join(files.values())
    names = {}
    for name, body in re.findall(r"^#define (\w+)[ \\\n]+(\"(?:.*\\\n)*.*)$", whole, re.M):
        names[name] = literal(body.replace("\\\n", "\n"), {})
    names["HELP_END"] = re.search(r"#define HELP_END\(example\)((?:.*\\\n)*.*)", whole)[1].replace("\\\n", "\n").replace("example \"", "@ \"")
    for name, body in re.findall(r"char (\w+_help)\[\] =(.*?[\")]);\n", whole, re.S):
        names[name] = literal(body, names)
    words = {name: re.findall(STRING, body) for name, body in
             re.findall(r"const char \*const (\w+)\[[^]]*\] =\s*\{(.*?)\}", whole, re.S)}
    out = {}
    for path, text in files.items():
        for body in re.findall(r"^const struct command command_\w+ = \{(.*?)\n?\};", text, re.M | re.S):
            command = {key: literal(value, names) for key, value in fields(body).items() if key != "run"}
            near = [t for p, t in files.items() if p.parent == path.parent] if path.parent.name == "lab" else [text]
            command["options"] = options("\n".join(near), words)
            command["parts"] = help_parts(command["help"])
            out[command["name"]] = command
            told = set(re.findall(r"--([\w-]+)", command["help"]))
            for name in command["options"]:
                if name not in told:
                    raise Shape(f"stook help {command['name']} does not have --{name}")
            for kind, _, *item in command["parts"]:
                for name in re.findall(r"--([\w-]+)", "".join(item)) if kind == "item" else []:
                    if name not in command["options"]:
                        raise Shape(f"stook {command['name']} has no --{name}")
            for kind in ("usage", "exit status", "example"):
                if kind not in [part[0] for part in command["parts"]]:
                    raise Shape(f"stook help {command['name']} has no {kind}")
    order = re.findall(r"&command_(\w+)", re.search(r"main_commands\[\] = \{.*?\};", whole, re.S)[0])
    return [out[name] for name in order]


def page(command, version):
    title = f"stook-{command['name']}"
    out = ['.\\" Made from the help in tools/stook by scripts/commands.py: change that.',
           f'.TH {title.upper()} 1 "" "Stook {version}" "User Commands"', ".SH NAME",
           f"{man.escape(title)} \\- {man.escape(command['summary'])}", ".SH SYNOPSIS", ".nf"]
    out += [".B " + man.escape(part[1]) for part in command["parts"] if part[0] == "usage"] + [".fi"]
    section, titles = "", {"exit status": "EXIT STATUS", "example": "EXAMPLES"}
    for kind, text, *item in command["parts"]:
        if kind == "usage":
            continue
        wanted = titles.get(kind, "DESCRIPTION")
        if wanted != section:
            out += [f".SH {wanted}"]
        elif kind == "paragraph":
            out += [".PP"]
        section = wanted
        if kind == "item":
            out += [".TP", ".B " + man.escape(item[0])]
        out += [".nf", man.escape(text), ".fi"] if kind == "example" else man.filled(text)
    return "\n".join(out + [".SH SEE ALSO", ".BR stook (1)"]) + "\n"


def names_of(name, option):
    return [f"--{name}"] + [f"-{option['letter']}"] * bool(option["letter"])


def bash(all_commands):
    """The completion of bash, and what it knows of each command."""
    named = " ".join(command["name"] for command in all_commands)
    known, values, processes = [], {}, []
    for command in all_commands:
        flags = [word for name, option in command["options"].items() for word in names_of(name, option)]
        known.append(f'    {command["name"]}) options="{" ".join(flags)} --help" ;;')
        for name, option in command["options"].items():
            if option["takes"] is not None and not option["may"]:
                reply = "-f" if option["takes"] == "file" else f'-W "{" ".join(option["takes"])}"'
                values.setdefault(reply, []).extend(f'"{command["name"]} {word}"' for word in names_of(name, option))
        if any("PID" in part[1] for part in command["parts"] if part[0] == "usage"):
            processes.append(command["name"])
    values = [f"    {' | '.join(cases)})\n        COMPREPLY=($(compgen {reply} -- \"$now\"))\n        return\n        ;;"
              for reply, cases in values.items()]
    return f"""# SPDX-License-Identifier: MIT
# Completion of stook's command line for bash.  Made by scripts/commands.py from the tables of options: change these.
_stook()
{{
    local now=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}} options=
    if ((COMP_CWORD == 1)) || {{ [ "$command" = help ] && ((COMP_CWORD == 2)); }}; then
        COMPREPLY=($(compgen -W "{named} help --help --version" -- "$now"))
        return
    fi
    case $command in
{chr(10).join(known)}
    esac
    case "$command $before" in
{chr(10).join(values)}
    esac
    case $command in
    {"|".join(processes)}) options+=" $(stook list 2>/dev/null | awk '$1 ~ /^[0-9]+$/ {{ print $1, $2 }}')" ;;
    esac
    case $now,$command in
    -*) COMPREPLY=($(compgen -W "$options" -- "$now")) ;;
    *,run|*,profile) COMPREPLY=($(compgen -cf -W "$options" -- "$now")) ;;
    *) COMPREPLY=($(compgen -f -W "$options" -- "$now")) ;;
    esac
}}
complete -o filenames -F _stook stook
"""


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh(all_commands):
    cases = []
    for command in all_commands:
        means = {name: part[1] for part in command["parts"] if part[0] == "item" for name in re.findall(r"--([\w-]+)", part[2])}
        lines = []
        for name, option in command["options"].items():
            takes = option["takes"]
            value = "" if takes is None else ":file:_files" if takes == "file" else f":word:({' '.join(takes)})" if takes else ":value:"
            mark = "" if takes is None else "=-" if option["may"] else "="
            said = zsh_text(re.split(r"[;:(]|, (?=or|and|such)", means.get(name, name))[0].strip())
            lines.append(f"'--{name}{mark}[{said}]{':' if option['may'] else ''}{value}'")
            if option["letter"]:
                lines.append(f"'-{option['letter']}{'+' if value else ''}[{said}]{value}'")
        usage = " ".join(part[1] for part in command["parts"] if part[0] == "usage")
        rest = "_stook_processes" if "PID" in usage else "_normal" if "PROGRAM" in usage else "_files"
        lines.append("'*::program:_normal'" if rest == "_normal" else f"'*:argument:{rest}'")
        cases.append(f"{command['name']})\n    _arguments -S \\\n        " + " \\\n        ".join(lines) + "\n    ;;")
    described = "\n".join(f"    '{c['name']}:{zsh_text(c['summary'])}'" for c in all_commands)
    return f"""#compdef stook
# SPDX-License-Identifier: MIT
# Completion of stook's command line for zsh.  Made by scripts/commands.py from the tables of options: change these.
_stook_processes()
{{
    local -a processes
    processes=(${{=$(stook list 2>/dev/null | awk '$1 ~ /^[0-9]+$/ {{ print $1, $2 }}')}})
    compadd -a processes
}}

local command=$words[2]
local -a commands=(
{described}
    'help:what a command does and takes'
)
if (( CURRENT == 2 )) || [[ $command = help ]]; then
    _describe command commands
    return
fi
shift words
(( CURRENT-- ))
case $command in
{chr(10).join(cases)}
esac
"""


def files(source):
    """Each file's path below SOURCE, and its text."""
    version = ".".join(re.findall(r"#define STOOK_VERSION_(?:MAJOR|MINOR) (\d+)",
                                  (source / "include/stook/stook.h").read_text(encoding="utf-8")))
    every = commands(source)
    out = {f"man/stook-{c['name']}.1": page(c, version) for c in every if c["name"] not in BY_HAND}
    overview = (source / "man/stook.1").read_text(encoding="utf-8")
    for command in every:
        if f"stook\\-{command['name']} (1)" not in overview:
            raise Shape(f"man/stook.1 does not name stook-{command['name']}(1)")
    return out | {"tools/completion/stook.bash": bash(every), "tools/completion/_stook": zsh(every)}


def main(arguments):
    check = arguments[:1] == ["--check"]
    source = pathlib.Path(arguments[-1])
    differ = 0
    try:
        wanted = files(source)
    except Shape as problem:
        print(problem)
        return 1
    for name, new in wanted.items():
        path = source / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == new:
            continue
        differ += 1
        if check:
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "from the tables"))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new, encoding="utf-8")
    if check and differ:
        print(f"{differ} files differ from the tables of commands: run scripts/commands.py .")
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
