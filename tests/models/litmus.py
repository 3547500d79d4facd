# SPDX-License-Identifier: MIT
"""Tests for arm.py: their files, and how these become programs.

  test NAME                     begins a test; lines from // on are comments
  init x=0 s=1,2 m=s            words of memory; several values: an array of words; a name: its address
  fault NAME  TEXT              a fault that can be planted: with it a `forbid` must be reached
  cpu NAME                      a thread on a CPU of its own; then an instruction a line
  @NAME: LINE, @-NAME: LINE     a line with, and without, that fault
  forbid COND, allow COND       no execution, and at least one, ends like this.
                                COND: cpu.x0=1 /\\ [s+8]!=2, with /\\, \\/ and parentheses

Instructions are aarch64's on 64-bit registers, in lower case; an address may be a variable, [m+8], a
constant may be stored, and these stand for more than one:

  cas.ORDER xOLD, WAS, NEW, [AT], LABEL    compare and swap; to LABEL if it was another value
  swp.ORDER xOLD, NEW, [AT]                exchange         (ORDER: rlx, acq, rel, acq_rel, which
  add.ORDER xOLD, #N, [AT]                 add              seq_cst is compiled to as well)
  section … commit LINE                    a restartable section, whose last instruction is LINE
  fence CPU                                membarrier(PRIVATE_EXPEDITED_RSEQ) on that CPU

The three atomics become an exclusive pair in one variant of the test and an instruction (LSE) in the
other.  `fence` becomes, in this thread, what the kernel does: a full barrier, an interrupt sent, its answer
awaited, a full barrier; in the other CPU's thread the interrupt is taken before each line in turn, one
variant each: a full barrier, and a section that it interrupts goes on at `end`.
"""

import itertools
import re

import arm

EXCLUSIVE = {"rlx": ("ldxr", "stxr"), "acq": ("ldaxr", "stxr"), "rel": ("ldxr", "stlxr"), "acq_rel": ("ldaxr", "stlxr")}
LSE = {"rlx": "", "acq": "a", "rel": "l", "acq_rel": "al"}
SIGNED = {"b.lo": "b.lt", "b.hs": "b.ge", "b.hi": "b.gt", "b.ls": "b.le"}
INTERRUPT, ANSWER, ADDRESS, STATUS, SCRATCH, DONE = "x20", "x21", 10, "x27", "x28", "x29"


class Test:
    def __init__(self, name, path, line):
        self.name, self.path, self.line = name, path, line
        self.init, self.faults, self.cpus = {}, {}, {}
        self.forbid, self.allow = [], []


def value(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else (text, 0)


def read(path):
    tests, test, cpu = [], None, None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.split("//")[0].strip()
            word, _, rest = line.partition(" ")
            rest = rest.strip()
            if not line:
                continue
            if word == "test":
                test, cpu = Test(rest, path, number), None
                tests.append(test)
            elif word == "init":
                for part in rest.split():
                    name, _, values = part.partition("=")
                    for i, text in enumerate(values.split(",")):
                        test.init[name, 8 * i] = value(text)
            elif word == "fault":
                name, _, text = rest.partition(" ")
                test.faults[name] = text.strip()
            elif word == "cpu":
                cpu = test.cpus[rest] = []
            elif word in ("forbid", "allow"):
                getattr(test, word).append(rest)
            else:
                cpu.append(line)
    return tests


# ---- from lines to instructions -----------------------------------------------------------------

def planted(lines, fault):
    """The lines of one thread with a fault, or with none."""
    out = []
    for line in lines:
        mark = re.match(r"@(-?)([a-z_]+):\s*(.*)", line)
        if not mark:
            out.append(line)
        elif (mark[2] == fault) != bool(mark[1]):
            out.append(mark[3])
    return [line for line in out if line]


def constant(operand, out):
    """A register that holds the operand: only registers can be stored."""
    if operand.startswith("#"):
        out.append(f"mov {SCRATCH}, {operand}")
        return SCRATCH
    return operand


def expand(line, lse, out):
    """One line as instructions at the end of `out`."""
    name, _, rest = line.partition(" ")
    args = arm.split(rest)
    op, _, order = name.partition(".")
    if name == "fence":
        raise AssertionError("done before")
    if op == "cas":
        old, was, new, at, label = args
        if lse:
            new = constant(new, out)
            out += [f"mov {old}, {was}", f"cas{LSE[order]} {old}, {new}, {at}", f"cmp {old}, {was}", f"b.ne {label}"]
        else:
            load, store = EXCLUSIVE[order]
            out += [f"{load} {old}, {at}", f"cmp {old}, {was}", f"b.ne {label}"]
            new = constant(new, out)
            out += [f"{store} {STATUS}, {new}, {at}", f"cbnz {STATUS}, fail"]
    elif op == "swp":
        old, new, at = args
        new = constant(new, out)
        if lse:
            out.append(f"swp{LSE[order]} {new}, {old}, {at}")
        else:
            load, store = EXCLUSIVE[order]
            out += [f"{load} {old}, {at}", f"{store} {STATUS}, {new}, {at}", f"cbnz {STATUS}, fail"]
    elif op == "add" and order:
        old, more, at = args
        if lse:
            out.append(f"ldadd{LSE[order]} {constant(more, out)}, {old}, {at}")
        else:
            load, store = EXCLUSIVE[order]
            add = f"sub {SCRATCH}, {old}, #{more[2:]}" if more.startswith("#-") else f"add {SCRATCH}, {old}, {more}"
            out += [f"{load} {old}, {at}", add,
                    f"{store} {STATUS}, {SCRATCH}, {at}", f"cbnz {STATUS}, fail"]
    elif name in ("str", "stlr"):
        register = constant(args[0], out)
        out.append(f"{name} {register}, {args[1]}")
    elif line.endswith(":") or name in arm.FENCES or line in arm.FENCES:
        out.append(line)
    else:
        out.append(f"{name} {', '.join(args)}")


def interrupted(lines, at, number):
    """The lines of a thread in which an interrupt comes before line `at`."""
    inside = False
    for line in lines[:at]:
        inside = line == "section" or (inside and not line.startswith("commit"))
    handler = [f"ldr {INTERRUPT}, [ipi{number}]", f"cbz {INTERRUPT}, fail", "dmb ish", f"str #1, [ack{number}]"]
    return lines[:at] + handler + (["b end"] if inside else []) + lines[at:]


class Variant:
    """One program of a test."""

    def __init__(self, test, threads, init, what):
        self.test, self.init, self.what = test, init, what
        self.names = list(test.cpus)
        self.threads, self.marked = [], []
        for name, lines in zip(self.names, threads):
            lines = [line.split(None, 1)[1] if line.startswith("commit") else line
                     for line in lines if line != "section"]
            out = []
            for line in lines:
                expand(line, what.startswith("lse"), out)
            out.append("end:")
            if any(line.endswith(" fail") for line in out):
                out.append(f"mov {DONE}, #1")
                self.marked.append(name)
            out.append("fail:")
            self.threads.append(out)

    def complete(self, condition):
        """The condition, and that no thread gave up."""
        return " /\\ ".join([f"({condition})"] + [f"{name}.{DONE}=1" for name in self.marked])

    def reaches(self, condition):
        """Whether an allowed execution ends so."""
        condition = self.complete(condition)
        test = compile(python(condition, self.names), condition, "eval")
        alone = {i: [python(atom, self.names) for atom in atoms]
                 for i, atoms in enumerate(self._alone(condition))}

        def wanted(i):
            conditions = [compile(text, text, "eval") for text in alone[i]]
            return lambda registers: all(
                eval(c, {"reg": lambda n, x: registers.get(x, (0, 0))[0]}) for c in conditions)

        program = arm.Program(self.threads, self.init)
        for outcome in program.outcomes({i: wanted(i) for i in range(len(self.threads))}):
            if eval(test, {"reg": lambda n, x: outcome.registers[n].get(x, 0), "mem": outcome.memory.get}):
                return True
        return False

    def _alone(self, condition):
        """Of a pure conjunction: by thread, what speaks of its registers only."""
        atoms = [[] for _ in self.names]
        inner = condition.replace("(", "").replace(")", "")
        if "\\/" in condition or "~" in condition:
            return atoms
        for atom in inner.split("/\\"):
            name = atom.strip().partition(".")[0]
            if name in self.names:
                atoms[self.names.index(name)].append(atom.strip())
        return atoms

    # ---- for herd7 -------------------------------------------------------------------------------

    def herd(self, condition):
        """The program and one condition in herd7's own format."""
        columns, init = [], []
        sizes = {}
        for (name, offset), v in self.init.items():
            sizes.setdefault(name, []).append(v)
        for name, values in sizes.items():
            text = ["".join(str(x) for x in v[:1]) if isinstance(v, tuple) else str(v) for v in values]
            init.append(f"int64_t {name}={text[0]};" if len(values) == 1 else
                        f"int64_t {name}[{len(values)}]={{{','.join(text)}}};")
        for i, lines in enumerate(self.threads):
            used, column = {}, []

            def register(match):
                name = match[0]
                if name not in sizes:
                    return name.upper() if re.fullmatch(r"x\d+|xzr", name) else name
                used.setdefault(name, f"X{ADDRESS + len(used)}")
                return used[name]

            for line in lines:
                if line.endswith(":"):
                    column.append(f"{line[:-1].upper()}{i}:")
                    continue
                name, _, rest = line.partition(" ")
                if name in ("dmb", "isb"):
                    column.append(line.upper())
                    continue
                rest = re.sub(r"[a-z_][a-z_0-9]*", register, rest)
                rest = re.sub(r"\+(\d+)\]", r",#\1]", rest)
                rest = re.sub(r"\+(X\d+)\]", r",\1]", rest)
                if name in ("b", "cbz", "cbnz") or name.startswith("b."):
                    parts = [p.strip() for p in rest.split(",")]
                    rest = ",".join(parts[:-1] + [f"{parts[-1].upper()}{i}"])
                if name in ("stxr", "stlxr") or (name == "cbnz" and "FAIL" in rest):
                    rest = "W" + rest[1:]  # its status has 32 bits
                if name == "mov" and rest.split(",")[1].strip() == "XZR":
                    rest = rest.split(",")[0] + ",#0"
                name = SIGNED.get(name, name)  # herd7 has no unsigned ones; no value is negative
                column.append(f"{name.upper()} {rest}")
            init += [f"{i}:{r}={name};" for name, r in used.items()]
            columns.append(column)
        height = max(map(len, columns))
        rows = [" | ".join(f"P{i}" for i in range(len(columns)))]
        for k in range(height):
            rows.append(" | ".join(c[k] if k < len(c) else "" for c in columns))
        name = re.sub(r"\W+", "_", f"{self.test.name}_{self.what}")
        return (f"AArch64 {name}\n{{\n" + "\n".join(init) + "\n}\n" +
                "\n".join(row + " ;" for row in rows) + f"\nexists ({herd(self.complete(condition), self.names)})\n")


ATOM = re.compile(r"(?:(?P<cpu>\w+)\.(?P<reg>x\d+)|\[(?P<var>\w+)(?:\+(?P<off>\d+))?\])\s*(?P<op>!?=)\s*(?P<val>-?\w+)")


def python(condition, names):
    def atom(m):
        left = f"reg({names.index(m['cpu'])}, '{m['reg']}')" if m["cpu"] else f"mem(('{m['var']}', {int(m['off'] or 0)}))"
        return f"{left} {'!=' if m['op'] == '!=' else '=='} {value(m['val'])!r}"
    return ATOM.sub(atom, condition).replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ").strip()


def herd(condition, names):
    def atom(m):
        if m["cpu"]:
            left = f"{names.index(m['cpu'])}:{m['reg'].upper()}"
        else:
            left = m["var"] + (f"[{int(m['off']) // 8}]" if m["off"] else "")
        return f"~({left}={m['val']})" if m["op"] == "!=" else f"{left}={m['val']}"
    return ATOM.sub(atom, condition)


def variants(test, fault=None):
    """All programs that a test stands for."""
    threads = {name: planted(lines, fault) for name, lines in test.cpus.items()}
    fences = [(name, i) for name, lines in threads.items() for i, line in enumerate(lines) if line.startswith("fence ")]
    init = dict(test.init)
    for number, (name, i) in enumerate(fences):
        init["ipi%d" % number, 0] = init["ack%d" % number, 0] = 0
    places = [range(len(threads[threads[name][i].split()[1]]) + 1) for name, i in fences]
    atomics = any(re.match(r"(commit )?(cas|swp|add)\.", line) for lines in threads.values() for line in lines)
    for place in itertools.product(*places):
        now = dict(threads)
        order = sorted(range(len(fences)), key=lambda k: -place[k])
        for k in order:  # from the back, so that places stay true
            target = threads[fences[k][0]][fences[k][1]].split()[1]
            now[target] = interrupted(now[target], place[k], k)
        numbers = iter(range(len(fences)))
        for name, _ in fences:
            k = next(numbers)
            at = next(i for i, line in enumerate(now[name]) if line.startswith("fence "))
            now[name] = (now[name][:at] + ["dmb ish", f"str #1, [ipi{k}]", f"ldr {ANSWER}, [ack{k}]",
                                           f"cbz {ANSWER}, fail", "dmb ish"] + now[name][at + 1:])
        for kind in ("exclusive", "lse") if atomics else ("plain",):
            what = kind + "".join(f" interrupt {p}" for p in place)
            yield Variant(test, list(now.values()), init, what)
