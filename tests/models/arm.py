# SPDX-License-Identifier: MIT
"""The memory model of aarch64, and all executions that it allows a few short threads.

The model is Arm's (Deacon, Alglave, Maranget: aarch64.cat), as far as plain loads and stores, acquire
and release, exclusives, atomic instructions, DMB and ISB go; accesses are whole words of one size.
An execution is: what each thread does (a trace: events in program order, with values), for each read
the write that it reads from (rf), and for each location the order of its writes (co).  It is allowed
if and only if

  internal   program order on each location, rf, co and fr (a read, then the writes co-behind the one it
             read) have no cycle: each location alone is sequentially consistent
  external   ob has no cycle: rf, co and fr between threads, and in a thread (Trace.order): dependencies
             (dob), what belongs to an atomic instruction (aob), and barriers (bob)
  atomic     no other thread's write stands in co between the two halves of an exclusive pair or an
             atomic instruction

All traces are found by trying, for each read, each value that any write can bring.  A store-exclusive
succeeds: one that fails only repeats its loop, and ends the trace.  tests/models/aarch64/known.litmus
has outcomes that are known; `check-models.py --herd` compares all tests with herd7.
"""

import itertools
import re

FENCES = {"dmb sy": "full", "dmb ish": "full", "dmb ishld": "ld", "dmb ishst": "st", "isb": "isb"}
CONDITIONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lo": lambda a, b: a < b,
    "hs": lambda a, b: a >= b,
    "hi": lambda a, b: a > b,
    "ls": lambda a, b: a <= b,
}
ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "eor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
}


class Stuck(Exception):
    """A path that cannot be: a load from no address, arithmetic on an address."""


class Event:
    """kind: R, W or F (fence).  Dependencies are positions of reads in the trace."""

    __slots__ = ("kind", "loc", "value", "acquire", "release", "addr", "data", "ctrl", "rmw", "amo", "fence")

    def __init__(self, kind, loc=None, value=None, acquire=False, release=False,
                 addr=frozenset(), data=frozenset(), ctrl=frozenset(), rmw=None, amo=False, fence=None):
        self.kind, self.loc, self.value = kind, loc, value
        self.acquire, self.release = acquire, release
        self.addr, self.data, self.ctrl = addr, data, ctrl
        self.rmw = rmw  # of a write: the position of its read
        self.amo, self.fence = amo, fence


class Trace:
    """What one thread did: its events, and its registers at the end."""

    def __init__(self, events, registers):
        self.events, self.registers = events, registers
        self.order = self._order()

    def _order(self):
        """(earlier, later) positions that are locally ordered before one another."""
        e, n, pairs = self.events, len(self.events), set()
        for j in range(n):
            b = e[j]
            for i in b.addr | b.data:
                pairs.add((i, j))
            if b.kind == "W":
                for i in b.ctrl:
                    pairs.add((i, j))
                if b.rmw is not None:
                    pairs.add((b.rmw, j))
            for i in range(j):
                if self._before(i, j):
                    pairs.add((i, j))
        return pairs

    def _before(self, i, j):
        e = self.events
        a, b = e[i], e[j]
        if b.kind == "F":
            return False
        between = e[i + 1:j]
        if a.kind == "F":
            return False
        # bob
        if a.acquire and a.kind == "R" or b.release and b.kind == "W":
            return True
        if a.kind == "W" and a.release and b.kind == "R" and b.acquire:
            return True
        if a.kind == "W" and a.amo and a.release and e[a.rmw].acquire:
            return True
        fences = {f.fence for f in between if f.kind == "F"}
        if "full" in fences or ("ld" in fences and a.kind == "R"):
            return True
        if "st" in fences and a.kind == "W" and b.kind == "W":
            return True
        # lws: a write behind an access of the same location
        if b.kind == "W" and a.loc == b.loc:
            return True
        # dob and aob through later events
        if a.kind == "R":
            for k in range(i + 1, j):
                m = e[k]
                if i in m.addr and b.kind == "W":  # addr; po; [W]
                    return True
                if m.kind == "W" and (i in m.addr or i in m.data) and self._local_read(k, j):
                    return True
                if m.kind == "F" and m.fence == "isb" and b.kind == "R":  # (ctrl | addr; po); [ISB]; po; [R]
                    if i in m.ctrl or any(i in x.addr for x in e[i + 1:k]):
                        return True
        elif a.rmw is not None and b.acquire and self._local_read(i, j):  # from the write of an rmw
            return True
        if a.kind == "R" and b.kind == "R" and b.acquire:  # rmw; lrs; [A]
            return any(m.kind == "W" and m.rmw == i and self._local_read(i + 1 + k, j)
                       for k, m in enumerate(between))
        return False

    def _local_read(self, w, r):
        """lrs: a read whose last write before it in the thread is this one."""
        e = self.events
        return (e[r].kind == "R" and e[r].loc == e[w].loc and
                not any(m.kind == "W" and m.loc == e[w].loc for m in e[w + 1:r]))


# ---- traces of one thread -----------------------------------------------------------------------

def split(operands):
    return [o.strip() for o in re.findall(r"\[[^]]*\]|[^,]+", operands)]


def parse(lines):
    """Instructions as (operation, operands), and labels."""
    code, labels = [], {}
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif line in FENCES:
            code.append(("fence", [FENCES[line]]))
        else:
            name, _, rest = line.partition(" ")
            code.append((name, split(rest)))
    return code, labels


class Thread:
    """One thread's program.  variables: names of memory words, for operands like [main+8]."""

    def __init__(self, lines, variables):
        self.code, self.labels = parse(lines)
        self.variables = variables

    def traces(self, domain, wanted=lambda registers: True):
        self.domain, self.found, self.wanted = domain, {}, wanted
        self._run(0, {}, None, frozenset(), [], None)
        return list(self.found.values())

    def _value(self, operand, registers):
        """A constant, the address of a variable, or a register with the reads that it comes from."""
        if operand.startswith("#"):
            return int(operand[1:]), frozenset()
        if operand in self.variables:
            return (operand, 0), frozenset()
        if operand == "xzr":
            return 0, frozenset()
        return registers.get(operand, (0, frozenset()))

    def _address(self, operand, registers):
        base, _, offset = operand[1:-1].partition("+")
        value, deps = self._value(base.strip(), registers)
        if not isinstance(value, tuple):
            raise Stuck
        if offset.strip().startswith("x"):  # an index register, for dependencies
            more, more_deps = self._value(offset.strip(), registers)
            return (value[0], value[1] + more), deps | more_deps
        return (value[0], value[1] + int(offset or 0)), deps

    def _run(self, pc, registers, flags, ctrl, events, exclusive):
        """From here to the end, once for each choice of what is read."""
        registers, events = dict(registers), list(events)
        try:
            while pc < len(self.code):
                name, args = self.code[pc]
                pc += 1
                if name == "fence":
                    events.append(Event("F", fence=args[0], ctrl=ctrl))
                elif name == "mov":
                    registers[args[0]] = self._value(args[1], registers)
                elif name in ARITHMETIC:
                    (a, da), (b, db) = (self._value(x, registers) for x in args[1:])
                    if isinstance(a, tuple) or isinstance(b, tuple):
                        if a != b or name != "eor":
                            raise Stuck
                        a = b = 0
                    registers[args[0]] = (ARITHMETIC[name](a, b), da | db)
                elif name == "cmp":
                    (a, da), (b, db) = (self._value(x, registers) for x in args)
                    flags = (a, b, da | db)
                elif name == "b":
                    pc = self.labels[args[0]]
                elif name.startswith("b."):
                    a, b, deps = flags
                    if name[2:] not in ("eq", "ne") and (isinstance(a, tuple) or isinstance(b, tuple)):
                        raise Stuck
                    ctrl = ctrl | deps
                    if CONDITIONS[name[2:]](a, b):
                        pc = self.labels[args[0]]
                elif name in ("cbz", "cbnz"):
                    value, deps = self._value(args[0], registers)
                    ctrl = ctrl | deps
                    if (value == 0) == (name == "cbz"):
                        pc = self.labels[args[1]]
                elif name in ("str", "stlr"):
                    loc, addr = self._address(args[1], registers)
                    value, data = self._value(args[0], registers)
                    events.append(Event("W", loc, value, release=name == "stlr", addr=addr, data=data, ctrl=ctrl))
                elif name in ("stxr", "stlxr"):
                    loc, addr = self._address(args[2], registers)
                    value, data = self._value(args[1], registers)
                    if exclusive is None or events[exclusive].loc != loc:
                        raise Stuck
                    events.append(Event("W", loc, value, release=name == "stlxr", addr=addr, data=data, ctrl=ctrl,
                                        rmw=exclusive))
                    registers[args[0]] = (0, frozenset())
                    exclusive = None
                else:  # it reads: once for each value
                    loc, addr = self._address(args[-1], registers)
                    for value in self.domain.get(loc, ()):
                        self._read(name, args, loc, addr, value, pc, registers, flags, ctrl, events, exclusive)
                    return
        except Stuck:
            return
        if not self.wanted(registers):
            return
        key = (tuple((e.kind, e.loc, e.value) for e in events), tuple(sorted((k, v[0]) for k, v in registers.items()
                                                                           if not isinstance(v[0], tuple))))
        key = (key, tuple((e.addr, e.data, e.ctrl) for e in events))
        self.found.setdefault(key, Trace(events, {k: v[0] for k, v in registers.items()}))

    def _read(self, name, args, loc, addr, value, pc, registers, flags, ctrl, events, exclusive):
        registers, at, op = dict(registers), len(events), name
        got = (value, frozenset([at]))
        if name in ("ldr", "ldar", "ldxr", "ldaxr"):
            read = Event("R", loc, value, acquire="a" in name[2:], addr=addr, ctrl=ctrl)
            if "x" in name:
                exclusive = at
            registers[args[0]] = got
            self._run(pc, registers, flags, ctrl, events + [read], exclusive)
            return
        for op in ("cas", "swp", "ldadd"):
            if name.startswith(op):
                order = name[len(op):]
                break
        else:
            raise ValueError(f"no such instruction: {name}")
        read = Event("R", loc, value, acquire="a" in order, addr=addr, ctrl=ctrl, amo=True)
        if op == "ldadd":
            more, deps = self._value(args[0], registers)
            if isinstance(value, tuple):
                return
            new, data = value + more, deps | got[1]
            registers[args[1]] = got
        elif op == "swp":
            new, data = self._value(args[0], registers)
            registers[args[1]] = got
        else:  # the register with what is expected gets what was there
            expected, deps = self._value(args[0], registers)
            new, data = self._value(args[1], registers)
            registers[args[0]] = got
            if expected != value:
                self._run(pc, registers, flags, ctrl, events + [read], exclusive)
                return
        write = Event("W", loc, new, release="l" in order, addr=addr, data=data, ctrl=ctrl, rmw=at, amo=True)
        self._run(pc, registers, flags, ctrl, events + [read, write], exclusive)


# ---- executions ---------------------------------------------------------------------------------

def cyclic(successors):
    """Whether a graph, a list of bit masks, has a cycle."""
    state = [0] * len(successors)
    for root in range(len(successors)):
        if state[root]:
            continue
        stack = [(root, successors[root])]
        state[root] = 1
        while stack:
            node, left = stack.pop()
            if not left:
                state[node] = 2
                continue
            low = left & -left
            stack.append((node, left ^ low))
            at = low.bit_length() - 1
            if state[at] == 1:
                return True
            if state[at] == 0:
                state[at] = 1
                stack.append((at, successors[at]))
    return False


class Outcome:
    """Registers of each thread and the memory at the end; what conditions are evaluated on."""

    def __init__(self, registers, memory):
        self.registers, self.memory = registers, memory


class Program:
    """threads: lists of instructions; init: (name, offset) -> value."""

    def __init__(self, threads, init):
        self.init = init
        self.variables = {name for name, _ in init}
        self.threads = [Thread(lines, self.variables) for lines in threads]

    def _domain(self):
        """All values that each location may ever have: each step of a chain needs one more write."""
        domain = {loc: {value} for loc, value in self.init.items()}
        steps = sum(name.startswith(("st", "cas", "swp", "ldadd")) for t in self.threads for name, _ in t.code)
        for _ in range(steps + 1):
            before = sum(map(len, domain.values()))
            for thread in self.threads:
                for trace in thread.traces(domain):
                    for e in trace.events:
                        if e.kind == "W":
                            domain.setdefault(e.loc, set()).add(e.value)
            if sum(map(len, domain.values())) == before:
                break
        return domain

    def outcomes(self, wanted=None):
        """Each allowed execution's outcome.  wanted: by thread, what its registers must be like."""
        domain = self._domain()
        choices = [t.traces(domain, (wanted or {}).get(i, lambda registers: True))
                   for i, t in enumerate(self.threads)]
        for traces in itertools.product(*choices):
            yield from self._executions(traces)

    def _executions(self, traces):
        events, start = [], []
        for trace in traces:
            start.append(len(events))
            events += trace.events
        init = len(events)
        locs = list(self.init)
        events = events + [Event("W", loc, self.init[loc]) for loc in locs]
        owner = [i for i, trace in enumerate(traces) for _ in trace.events] + [-1] * len(locs)
        reads = [i for i in range(init) if events[i].kind == "R"]
        writes = {}
        for i, e in enumerate(events):
            if e.kind == "W":
                writes.setdefault(e.loc, []).append(i)
        sources = []
        for r in reads:
            fit = [w for w in writes.get(events[r].loc, ()) if events[w].value == events[r].value and
                   not (owner[w] == owner[r] and w > r)]
            if not fit:
                return
            sources.append(fit)
        base = [0] * len(events)
        same = [0] * len(events)
        for trace, at in zip(traces, start):
            for i, j in trace.order:
                base[at + i] |= 1 << (at + j)
            for j in range(len(trace.events)):
                for i in range(j):
                    if trace.events[i].loc is not None and trace.events[i].loc == trace.events[j].loc:
                        same[at + i] |= 1 << (at + j)
        orders = [self._coherence(ws, owner, init) for ws in writes.values()]
        for rf in itertools.product(*sources):
            for co in itertools.product(*orders):
                if self._allowed(events, owner, reads, rf, co, base, same, start):
                    memory = {events[order[-1]].loc: events[order[-1]].value for order in co}
                    yield Outcome([t.registers for t in traces], memory)

    @staticmethod
    def _coherence(ws, owner, init):
        """Orders of a location's writes that begin with the first value and keep each thread's order."""
        first = [w for w in ws if w >= init]
        rest = [w for w in ws if w < init]
        return [first + list(p) for p in itertools.permutations(rest)
                if all(not (owner[a] == owner[b] and a > b) for a, b in itertools.combinations(p, 2))]

    @staticmethod
    def _allowed(events, owner, reads, rf, co, base, same, start):
        place = {}
        for order in co:
            for k, w in enumerate(order):
                place[w] = (order, k)
        inside, outside = list(same), list(base)

        def edge(a, b):
            inside[a] |= 1 << b
            if owner[a] != owner[b]:
                outside[a] |= 1 << b

        source = dict(zip(reads, rf))
        for order in co:
            for a, b in zip(order, order[1:]):
                edge(a, b)
                # co is transitive, and what is of one thread in between is no edge outside
                for c in order[order.index(b):]:
                    edge(a, c)
        for r, w in source.items():
            edge(w, r)
            order, k = place[w]
            for later in order[k + 1:]:
                edge(r, later)
        for w, e in enumerate(events):
            if e.kind == "W" and e.rmw is not None and owner[w] >= 0:
                r = start[owner[w]] + e.rmw
                order, k = place[source[r]]
                until = place[w][1]
                if until <= k or any(owner[x] != owner[w] for x in order[k + 1:until]):
                    return False
        return not cyclic(inside) and not cyclic(outside)
