# SPDX-License-Identifier: MIT
"""Commands of gdb for a program that runs on Stook, live or from a core file.

    (gdb) source stook-gdb.py
    (gdb) stook caches
    (gdb) stook slabs CACHE
    (gdb) stook sheaves CACHE
    (gdb) stook objects CACHE
    (gdb) stook whatis ADDRESS

It reads the library's own structures by the types in its debug information, and calls no function of the
program, so that a core file and a process that hangs in a lock are served alike.
"""
import struct

import gdb

PAGE_SHIFT, BLOCK_SHIFT = 12, 21
SLAB_NONE, SLAB_OUT, SLAB_MIN = 0xffff, 0x8000, 1
INTERNAL, DEBUG_USER = 1 << 31, 0x8000
COLUMN_TRACK = 2
RUN_EDGES = 1 << 15  # beside the pages of a large object
DEPOT_CHUNK, DEPOT_DEPTH = 1 << 17, 24  # words of a chunk


def symbol(name):
    """A variable of the library, also where the program has another one of the same name."""
    for lookup in (gdb.lookup_static_symbols, lambda n: [gdb.lookup_global_symbol(n)]):
        for found in lookup(name):
            if found is not None and "stook" in (found.type.tag or "") + found.symtab.fullname() + \
                    found.symtab.objfile.filename:
                return found.value()
    raise gdb.GdbError(f"stook: no variable {name}: the program has no libstook, or its debug information is missing")


def number(value):
    """Of an atomic as of a plain one."""
    return int(value)


class Heap:
    """One reading of the whole heap: commands make a new one, since the program may have gone on."""

    def __init__(self):
        try:
            self._begin()
        except gdb.MemoryError:  # of data that were left out some read as zeros, and some not at all
            raise gdb.GdbError(self.NO_DATA) from None

    NO_DATA = "stook: the library has not started; or this is a core file without its data: those have it of " \
              "programs that run with STOOK_CORE_DUMP=all, and gdb's after `set dump-excluded-mappings on`"

    def _begin(self):
        self.map = symbol("pagemap")
        self.base, self.middle = number(self.map["base"]), number(self.map["middle"])
        if number(self.map["size"]) == 0 or number(symbol("percpu")["slots"]) < 2:
            raise gdb.GdbError(self.NO_DATA)
        number(symbol("cache_table")[1])  # it may lie on a page that is not in the file, where the rest is
        self.begin = self.base + number(self.map["high"])
        self.end = self.middle + number(self.map["low"])
        self.meta, self.block_meta = number(self.map["meta"]), 320 << 10
        self.inferior = gdb.selected_inferior()
        self.slab_type = gdb.lookup_type("struct slab")
        self.link_size = self.slab_type.sizeof
        self.slab_offset = {f.name: f.bitpos // 8 for f in self.slab_type.fields()}
        self.caches = self._caches()
        self.entries = None

    def read(self, address, size):
        return bytes(self.inferior.read_memory(address, size))

    def _caches(self):
        table = symbol("cache_table")
        end = number(symbol("percpu")["slots"])
        found = {}
        for i in range(1, end):
            pointer = table[i]
            if number(pointer) and number(pointer["alive"]):
                found[i] = Cache(self, i, pointer)
        return found

    def cache(self, name):
        if not name:
            raise gdb.GdbError("stook: which cache?  `stook caches` lists them")
        for cache in self.caches.values():
            if cache.name == name or name == str(cache.index) or name == hex(cache.address):
                return cache
        raise gdb.GdbError(f"stook: there is no cache {name}; `stook caches` lists them")

    def entry(self, address):
        at = number(self.map["entry"]) + 4 * ((address - self.base) >> PAGE_SHIFT)
        return struct.unpack("<I", self.read(at, 4))[0]

    def covers(self, address):
        return self.begin <= address < self.end

    def slab_at(self, address, entry):
        block = (address - self.base) >> BLOCK_SHIFT
        return self.meta + block * self.block_meta + 32 * ((entry >> 16 ^ 0x8000) - 0x8000)

    def pages(self):
        """The first page of each run of pages with one descriptor, and its entry."""
        if self.entries is None:
            first = (self.begin - self.base) >> PAGE_SHIFT
            last = (self.end - self.base) >> PAGE_SHIFT
            at = number(self.map["entry"])
            self.entries = []
            before = None
            step = 1 << 18
            for start in range(first, last, step):
                n = min(step, last - start)
                for i, entry in enumerate(struct.unpack(f"<{n}I", self.read(at + 4 * start, 4 * n))):
                    page = start + i
                    if entry & 0xffff and (entry != before or page % 512 == 0):
                        self.entries.append((page, entry))
                    before = entry
        return self.entries

    def slabs(self, cache):
        for page, entry in self.pages():
            if entry & 0xffff == cache.index:
                address = self.base + (page << PAGE_SHIFT)
                slab = Slab(self, cache, self.slab_at(address, entry))
                if slab.page == page:
                    yield slab


class Cache:
    def __init__(self, heap, index, pointer):
        self.heap, self.index, self.address = heap, index, number(pointer)
        value = pointer.dereference()
        self.value = value
        self.name = value["name"].string()
        layout = value["layout"]
        self.size, self.stride = number(value["object_size"]), number(layout["stride"])
        self.flags, self.secret = number(value["flags"]), number(value["secret"])
        self.objects = [number(layout["objects"]), number(layout["min_objects"])]
        self.order = [number(layout["order"]), number(layout["min_order"])]
        self.marks = number(layout["marks"])
        self.outside = bool(layout["link_outside"])
        self.link_offset, self.link_stride = number(layout["link_offset"]), number(layout["link_stride"])
        # Where the first object lies, in libraries whose layouts have that.
        self.lead = number(layout["lead"]) if any(f.name == "lead" for f in layout.type.fields()) else 0

    def sheaves(self):
        """(place, sheaf's address, size, objects) of all that CPUs and barns hold; rests in threads' hands are not seen."""
        percpu = symbol("percpu")
        areas = number(percpu["areas"])
        slot_type = gdb.lookup_type("struct slot")
        none = number(symbol("sheaf_none").address)
        objects = next(field.bitpos // 8 for field in gdb.lookup_type("struct sheaf").fields() if field.name == "object")
        used = self.heap.read(number(percpu["used"].address), number(percpu["rows"]))
        for cpu, state in enumerate(used):
            if not state:
                continue
            slot = gdb.Value(areas + (cpu << 18) + (self.index << 6)).cast(slot_type.pointer()).dereference()
            begin, top = number(slot["begin"]), number(slot["top"])
            if begin and begin != (1 << 64) - 1:
                yield self.sheaf(f"CPU {cpu}, main", begin - objects, (top - begin) // 8)
            for name in ("held", "spare", "rcu"):
                at = number(slot[name])
                if at and at != none:
                    yield self.sheaf(f"CPU {cpu}, {'main' if name == 'held' else name}", at)
            at = number(slot["remote"])
            while at:
                yield self.sheaf(f"CPU {cpu}, remote", at)
                at = struct.unpack("<Q", self.heap.read(at, 8))[0]
        for node in range(number(symbol("topology")["nodes"])):
            at = number(self.value["nodes"][node]["barn"]["full"])
            while at:
                yield self.sheaf(f"barn of node {node}", at)
                at = struct.unpack("<Q", self.heap.read(at, 8))[0]
        if number(self.value["held"]):
            yield from self.held()

    def held(self):
        """The objects of a CPU's queue of freed ones (src/harden/quarantine.c), as a sheaf."""
        queues = symbol("quarantine_of")
        for cpu in range(queues.type.range()[1] + 1):
            if not number(queues[cpu]):
                continue
            queue = queues[cpu].dereference()
            most, size = queue["object"].type.range()[1] + 1, number(queue["end"]) - number(queue["first"])
            objects = struct.unpack(f"<{most}Q", self.heap.read(number(queue["object"].address), 8 * most))
            objects = [objects[(number(queue["first"]) + i) % most] for i in range(size)]
            own = [o for o in objects if self.heap.entry(o) & 0xffff == self.index]
            yield f"quarantine of CPU {cpu}", number(queues[cpu]), len(own), own

    def sheaf(self, place, at, size=None):
        if size is None:  # of an open slot's main sheaf the slot says it
            size = struct.unpack("<I", self.heap.read(at + 8, 4))[0]
        objects = struct.unpack(f"<{size}Q", self.heap.read(at + 16, 8 * size)) if size < 1 << 16 else ()
        return place, at, size, objects

    def cached(self):
        """object -> the place that holds it"""
        return {o: place for place, _, _, objects in self.sheaves() for o in objects}


class Slab:
    def __init__(self, heap, cache, address):
        self.heap, self.cache, self.address = heap, cache, address
        raw = heap.read(address, heap.slab_type.sizeof)
        word, = struct.unpack_from("<Q", raw, heap.slab_offset["state"])
        self.page, = struct.unpack_from("<I", raw, heap.slab_offset["page"])
        self.head, self.inuse, self.flags = word & 0xffff, word >> 16 & 0xffff, word >> 56
        self.base = heap.base + (self.page << PAGE_SHIFT)
        small = self.flags & SLAB_MIN
        self.objects, self.order = cache.objects[small], cache.order[small]
        self.node = heap.read(number(heap.map["zone"]) + 4 * ((self.base - heap.base) >> BLOCK_SHIFT), 1)[0]
        self.node &= number(heap.map["zones"]) // 2 - 1

    def state(self):
        return "empty" if self.inuse == 0 else "full" if self.head == SLAB_NONE else "partial"

    def object(self, index):
        return self.base + self.cache.lead + index * self.cache.stride

    def index(self, address):
        return (address - self.base - self.cache.lead) // self.cache.stride

    def out(self):
        """Whether each object has left the slab: it is a user's, or in a sheaf.  None: this build keeps no marks."""
        if self.inuse == 0:
            return [False] * self.objects
        if self.cache.marks:
            return [b == 1 for b in self.heap.read(self.address + self.heap.link_size, self.objects)]
        links = self.address if self.cache.outside else self.base
        step = self.cache.link_stride
        raw = self.heap.read(links + self.cache.link_offset, step * (self.objects - 1) + 2)
        mark = self.cache.secret ^ SLAB_OUT
        return [struct.unpack_from("<H", raw, step * i)[0] == mark for i in range(self.objects)]


def table(rows, left=1):
    """Columns, the first `left` of them to the left."""
    if not rows:
        return
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (str(c).ljust(w) if i < left else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        gdb.write("  ".join(cells).rstrip() + "\n")


class StookCommand(gdb.Command):
    """Look into the slab caches of a program that runs on Stook."""

    def __init__(self):
        super().__init__("stook", gdb.COMMAND_DATA, prefix=True)


class Caches(gdb.Command):
    """stook caches [-a]: each cache, its objects and slabs.  -a: the library's own, too."""

    def __init__(self):
        super().__init__("stook caches", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        heap = Heap()
        rows = [("cache", "number", "size", "stride", "slabs", "objects", "in use", "in sheaves", "free", "bytes")]
        for cache in heap.caches.values():
            if cache.flags & INTERNAL and argument.strip() != "-a":
                continue
            slabs = list(heap.slabs(cache))
            total = sum(s.objects for s in slabs)
            out = sum(s.inuse for s in slabs)
            held = sum(size for _, _, size, _ in cache.sheaves())
            rows.append((cache.name, cache.index, cache.size, cache.stride, len(slabs), total, out - held, held,
                         total - out, sum(4096 << s.order for s in slabs)))
        table(rows)


class Slabs(gdb.Command):
    """stook slabs CACHE: each slab, its state, node and objects."""

    def __init__(self):
        super().__init__("stook slabs", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        heap = Heap()
        cache = heap.cache(argument.strip())
        rows = [("slab", "state", "descriptor", "node", "pages", "objects", "out", "free")]
        for slab in heap.slabs(cache):
            rows.append((hex(slab.base), slab.state(), hex(slab.address), slab.node, 1 << slab.order, slab.objects,
                         slab.inuse, slab.objects - slab.inuse))
        table(rows, 3)


class Sheaves(gdb.Command):
    """stook sheaves CACHE: what CPUs and barns hold, and how many objects each sheaf has."""

    def __init__(self):
        super().__init__("stook sheaves", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        cache = Heap().cache(argument.strip())
        table([("place", "sheaf", "objects")] + [(place, hex(at), size) for place, at, size, _ in cache.sheaves()], 2)


class Objects(gdb.Command):
    """stook objects CACHE: the address of each object that a user has."""

    def __init__(self):
        super().__init__("stook objects", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        heap = Heap()
        cache = heap.cache(argument.strip())
        cached = cache.cached()
        for slab in heap.slabs(cache):
            for index, out in enumerate(slab.out()):
                if out and slab.object(index) not in cached:
                    gdb.write(hex(slab.object(index)) + "\n")


class WhatIs(gdb.Command):
    """stook whatis ADDRESS: which cache's object it is, or lies in, and where that object is."""

    def __init__(self):
        super().__init__("stook whatis", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            raise gdb.GdbError("stook: which address?")
        address = int(gdb.parse_and_eval(argument)) & (1 << 64) - 1
        gdb.write(f"{hex(address)} {self.what(Heap(), address)}\n")

    @staticmethod
    def what(heap, address):
        if not heap.covers(address):
            return "is not of Stook"
        entry = heap.entry(address)
        if entry & 0xffff == 0:
            return large(heap, address)
        cache = heap.caches.get(entry & 0xffff)
        if cache is None:
            return f"is of a slab of cache {entry & 0xffff}, which is being made or destroyed"
        slab = Slab(heap, cache, heap.slab_at(address, entry))
        index = slab.index(address)
        place = f"slab {hex(slab.base)} ({slab.state()}, node {slab.node})"
        if index < 0 or index >= slab.objects:
            return f"is between the objects of {place} of cache {cache.name}"
        start = slab.object(index)
        text = f"is {address - start} bytes into" if address != start else "is"
        text += f" object {index} ({cache.size} bytes from {hex(start)}) of cache {cache.name}, {place}: "
        free = not slab.out()[index]
        text += "free, in its slab" if free else cache.cached().get(start, "in use")
        return text + "".join("\n" + line for line in tracks(heap, cache, slab, index))


def tracks(heap, cache, slab, index):
    """Who allocated and freed the object last, where the cache keeps that (STOOK_DEBUG=U)."""
    if not cache.flags & DEBUG_USER:
        return
    column = cache.value["layout"]["column"][slab.flags & SLAB_MIN][COLUMN_TRACK]
    at = (slab.address if column["outside"] else slab.base) + number(column["offset"]) + index * number(column["stride"])
    requested, _, *raw = struct.unpack("<II" + "QIIII" * 2, heap.read(at, 56))
    if requested:
        yield f"  {requested} bytes were asked for"
    for name, (time, stack, thread, cpu, _) in (("allocated", raw[:5]), ("freed", raw[5:])):
        if time == 0:
            continue
        yield f"  {name} by thread {thread} on CPU {cpu}, {time / 1e9:.6f} s after the machine's start"
        for frame in frames(heap, stack):
            where = gdb.execute(f"info symbol {frame - 1}", to_string=True).strip() if not frame >> 63 else "a call that names its site"
            yield f"    {hex(frame & ~(1 << 63))} {where}"


def frames(heap, stack):
    """The return addresses of a stack in the depot (src/debug/depot.c)."""
    if stack == 0:
        return ()
    try:
        record = number(symbol("depot")["chunk"][stack // DEPOT_CHUNK]) + 8 * (stack % DEPOT_CHUNK)
        depth, = struct.unpack("<Q", heap.read(record + 8, 8))
        return struct.unpack(f"<{depth}Q", heap.read(record + 16, 8 * depth)) if depth <= DEPOT_DEPTH else ()
    except (gdb.error, gdb.MemoryError):
        return ()


def large(heap, address):
    """A large object begins at its first page: in the page map's entry, the block's header or the word of its span."""
    block_type = gdb.lookup_type("struct block")
    block = (address - heap.base) >> BLOCK_SHIFT
    for b in range(block, ((heap.begin - heap.base) >> BLOCK_SHIFT) - 1, -1):
        blocks = struct.unpack("<I", heap.read(number(heap.map["zone"]) + 4 * b, 4))[0] >> 8
        if blocks:
            if b + blocks > block:
                start = heap.base + (b << BLOCK_SHIFT)
                return f"is {address - start} bytes into the large object at {hex(start)}, of {blocks << BLOCK_SHIFT} bytes"
            break
    page = (address - heap.base) >> PAGE_SHIFT
    for p in range(page, (page & ~511) - 1, -1):
        entry = heap.entry(heap.base + (p << PAGE_SHIFT))
        if entry & 0xffff:
            break
        pages = entry >> 16 & ~RUN_EDGES
        if pages and p + pages > page:
            return describe_run(heap, address, p, pages)
        if pages:
            break
    header = gdb.Value(number(heap.map["header"]) + 256 * block).cast(block_type.pointer()).dereference()
    for i in range(header["big"].type.range()[1] + 1):
        big = number(header["big"][i])
        at, pages = big >> 16, big & 0xffff & ~RUN_EDGES
        if pages and at <= page % 512 < at + pages:
            return describe_run(heap, address, (page & ~511) + at, pages)
    return "is a free page of Stook's, or the library's own"


def describe_run(heap, address, page, pages):
    start = heap.base + (page << PAGE_SHIFT)
    return f"is {address - start} bytes into the large object at {hex(start)}, of {pages << PAGE_SHIFT} bytes"


for command in (StookCommand, Caches, Slabs, Sheaves, Objects, WhatIs):
    command()
