# SPDX-License-Identifier: MIT
"""Helpers of drgn for a program that runs on Stook, live or from a core file.

    $ drgn -p PID stook_drgn.py caches                        # or slabs, sheaves, objects CACHE; whatis ADDRESS
    $ drgn -c CORE
    >>> from stook_drgn import *
    >>> for cache in for_each_cache(prog): print(cache.name)
    >>> stook_whatis(prog, 0x24d83244c5e0)

They read the library's own structures by the types in its debug information, and call nothing in the program.  The
words are those of tools/gdb/stook-gdb.py.
"""
import collections
import struct
import sys

import drgn

__all__ = ("for_each_cache", "find_cache", "for_each_slab", "for_each_sheaf", "for_each_object", "Slab", "Sheaf",
           "stook_caches", "stook_slabs", "stook_sheaves", "stook_objects", "stook_whatis")

PAGE_SHIFT, BLOCK_SHIFT, BLOCK_META = 12, 21, 320 << 10
SLAB_NONE, SLAB_OUT, SLAB_MIN = 0xffff, 0x8000, 1
INTERNAL, DEBUG_USER = 1 << 31, 0x8000
COLUMN_TRACK = 2
RUN_EDGES = 1 << 15  # beside the pages of a large object
DEPOT_CHUNK, DEPOT_DEPTH = 1 << 17, 24  # words of a chunk
NO_DATA = "stook: the library has not started; or this is a core file without its data: those have it of programs that run with " \
          "STOOK_CORE_DUMP=all, and gdb's after `set dump-excluded-mappings on`"

Sheaf = collections.namedtuple("Sheaf", "place address objects")


class StookError(Exception):
    pass


def moved(prog, variable):
    """Old drgn (0.0.22) takes zeroed variables of a live process's library where the file has them: here where they are."""
    known = prog["pagemap"].address_
    if variable.address_ >= 1 << 32 or known < 1 << 32:
        return variable
    with open(f"/proc/{next(iter(prog.threads())).tid}/maps", encoding="utf-8") as maps:
        spans = [(int(line.split("-")[0], 16), line.split()[-1]) for line in maps]
    path = [path for begin, path in spans if begin <= known and path.startswith("/")][-1]
    return drgn.Object(prog, variable.type_, address=min(begin for begin, of in spans if of == path) + variable.address_)


def variable_of(prog, name):
    try:
        return moved(prog, prog.variable(name))
    except LookupError:
        raise StookError(f"stook: no variable {name}: the program has no libstook, or its debug information is missing") from None


class Heap:
    """What all readings need.  Made anew for each: the program may have gone on."""

    def __init__(self, prog):
        self.prog = prog
        self.map = variable_of(prog, "pagemap")
        try:
            self.base, self.zones = int(self.map.base), int(self.map.zones)
            self.begin = self.base + int(self.map.high)
            self.end = int(self.map.middle) + int(self.map.low)
            self.list_end = int(variable_of(prog, "cache_list").end)
            self.table = variable_of(prog, "cache_table")
            if int(self.map.size) == 0 or self.list_end == 0:
                raise StookError(NO_DATA)
            int(self.table[1])  # it may lie on a page that is not in the file, where the rest is
        except drgn.FaultError:
            raise StookError(NO_DATA) from None
        self.slab_type = prog.type("struct slab")
        self.link_size = self.slab_type.size
        self.entries = None

    def words(self, address, count, form="Q"):
        return struct.unpack(f"<{count}{form}", self.prog.read(address, count * struct.calcsize(form)))

    def entry(self, page):
        return self.words(int(self.map.entry) + 4 * page, 1, "I")[0]

    def slab(self, cache, page, entry):
        block = page >> (BLOCK_SHIFT - PAGE_SHIFT)
        return Slab(self, cache, int(self.map.meta) + block * BLOCK_META + 32 * (entry >> 16))

    def pages(self):
        """The first page of each run of pages with one descriptor, and its entry."""
        if self.entries is None:
            first, last = ((at - self.base) >> PAGE_SHIFT for at in (self.begin, self.end))
            self.entries, before, step = [], None, 1 << 18
            for start in range(first, last, step):
                n = min(step, last - start)
                for page, entry in enumerate(self.words(int(self.map.entry) + 4 * start, n, "I"), start):
                    if entry & 0xffff and (entry != before or page % 512 == 0):
                        self.entries.append((page, entry))
                    before = entry
        return self.entries

    def lead(self, cache):
        """Where the first object lies, in libraries whose layouts have that."""
        return int(cache.layout.lead) if any(m.name == "lead" for m in cache.layout.type_.members) else 0


class Slab:
    """base, page, state (full, partial, empty), node, order, objects, inuse"""

    def __init__(self, heap, cache, address):
        self.heap, self.cache, self.address = heap, cache, address
        value = drgn.Object(heap.prog, heap.slab_type, address=address)
        word, self.page = int(value.state), int(value.page)
        self.inuse, self.flags = word >> 16 & 0xffff, word >> 56
        self.base = heap.base + (self.page << PAGE_SHIFT)
        layout = cache.layout
        small = self.flags & SLAB_MIN
        self.objects = int(layout.min_objects if small else layout.objects)
        self.order = int(layout.min_order if small else layout.order)
        self.state = "empty" if self.inuse == 0 else "full" if word & 0xffff == SLAB_NONE else "partial"
        self.stride, self.lead = int(layout.stride), heap.lead(cache)
        self.node = heap.prog.read(int(heap.map.zone) + 4 * ((self.base - heap.base) >> BLOCK_SHIFT), 1)[0] & (heap.zones // 2 - 1)

    def object(self, index):
        return self.base + self.lead + index * self.stride

    def index(self, address):
        return (address - self.base - self.lead) // self.stride

    def out(self):
        """Whether each object has left the slab: it is a user's, or in a sheaf."""
        layout = self.cache.layout
        if self.inuse == 0:
            return [False] * self.objects
        if int(layout.marks):
            return [b == 1 for b in self.heap.prog.read(self.address + self.heap.link_size, self.objects)]
        at = (self.address if layout.link_outside else self.base) + int(layout.link_offset)
        step, mark = int(layout.link_stride), int(self.cache.secret) ^ SLAB_OUT
        raw = self.heap.prog.read(at, step * (self.objects - 1) + 2)
        return [struct.unpack_from("<H", raw, step * i)[0] == mark for i in range(self.objects)]


# ---- helpers ------------------------------------------------------------------------------------------------


def for_each_cache(prog):
    """struct stook_cache objects, the library's own too."""
    heap = Heap(prog)
    for i in range(1, heap.list_end):
        if int(heap.table[i]) and int(heap.table[i].alive):
            yield heap.table[i][0]


def cache_name(cache):
    return cache.name.string_().decode(errors="replace")


def find_cache(prog, name):
    for cache in for_each_cache(prog):
        if name in (cache_name(cache), str(int(cache.index))):
            return cache
    raise StookError(f"stook: there is no cache {name}")


def for_each_slab(cache, heap=None):
    heap = heap or Heap(cache.prog_)
    for page, entry in heap.pages():
        if entry & 0xffff == int(cache.index):
            slab = heap.slab(cache, page, entry)
            if slab.page == page:
                yield slab


def for_each_sheaf(cache):
    """What CPUs and barns hold; rests in threads' hands are not seen."""
    prog, index = cache.prog_, int(cache.index)
    heap = Heap(prog)

    def sheaf(place, at):
        size, = heap.words(at + 8, 1, "I")
        return Sheaf(place, at, heap.words(at + 16, size) if size < 1 << 16 else ())

    percpu = variable_of(prog, "percpu")
    nothing = {0, *(variable_of(prog, name).address_ for name in ("sheaf_closed", "sheaf_none"))}
    for cpu, used in enumerate(heap.words(percpu.used.address_, int(percpu.rows), "B")):
        if not used:
            continue
        slot, mine = drgn.Object(prog, "struct slot", address=int(percpu.areas) + (cpu << 18) + (index << 6)), set(nothing)
        for name in ("main", "held", "spare", "rcu"):
            at = int(getattr(slot, name))
            if at not in mine:
                mine.add(at)
                yield sheaf(f"CPU {cpu}, {'main' if name == 'held' else name}", at)
        at = int(slot.remote)
        while at:
            yield sheaf(f"CPU {cpu}, remote", at)
            at, = heap.words(at, 1)
    for node in range(int(variable_of(prog, "topology").nodes)):
        at = int(cache.nodes[node].barn.full)
        while at:
            yield sheaf(f"barn of node {node}", at)
            at, = heap.words(at, 1)


def for_each_object(cache):
    """The address of each object that a user has."""
    cached = {at for sheaf in for_each_sheaf(cache) for at in sheaf.objects}
    for slab in for_each_slab(cache):
        for index, out in enumerate(slab.out()):
            if out and slab.object(index) not in cached:
                yield slab.object(index)


# ---- what an address is -------------------------------------------------------------------------------------


def frames(heap, stack):
    """The return addresses of a stack in the depot (src/debug/depot.c)."""
    if stack == 0:
        return ()
    try:
        record = int(variable_of(heap.prog, "depot").chunk[stack // DEPOT_CHUNK]) + 8 * (stack % DEPOT_CHUNK)
        depth, = heap.words(record + 8, 1)
        return heap.words(record + 16, depth) if depth <= DEPOT_DEPTH else ()
    except (drgn.FaultError, StookError):
        return ()


def tracks(heap, slab, index):
    """The calls that allocated and freed the object last, where the cache keeps that (STOOK_DEBUG=U)."""
    cache = slab.cache
    if not int(cache.flags) & DEBUG_USER:
        return
    column = cache.layout.column[slab.flags & SLAB_MIN][COLUMN_TRACK]
    at = (slab.address if column.outside else slab.base) + int(column.offset) + index * int(column.stride)
    requested, _, *raw = struct.unpack("<II" + "QIIII" * 2, heap.prog.read(at, 56))
    if requested:
        yield f"  {requested} bytes were asked for"
    for name, (time, stack, thread, cpu, _) in (("allocated", raw[:5]), ("freed", raw[5:])):
        if time == 0:
            continue
        yield f"  {name} by thread {thread} on CPU {cpu}, {time / 1e9:.6f} s after the machine's start"
        for frame in frames(heap, stack):
            at = frame & ~(1 << 63)
            try:
                symbol = heap.prog.symbol(at - 1)
                where = f"{symbol.name} + {at - symbol.address}"
            except LookupError:
                where = "a call that names its site" if frame >> 63 else "?"
            yield f"    {hex(at)} {where}"


def run_text(address, start, size):
    return f"is {address - start} bytes into the large object at {hex(start)}, of {size} bytes"


def large_text(heap, address):
    """A large object begins at its first page: in the page map's entry, the block's header or the word of its span."""
    block = (address - heap.base) >> BLOCK_SHIFT
    first = (heap.begin - heap.base) >> BLOCK_SHIFT
    zone = heap.words(int(heap.map.zone) + 4 * first, block + 1 - first, "I")
    for b in range(block, first - 1, -1):
        blocks = zone[b - first] >> 8
        if blocks:
            if b + blocks > block:
                return run_text(address, heap.base + (b << BLOCK_SHIFT), blocks << BLOCK_SHIFT)
            break
    page = (address - heap.base) >> PAGE_SHIFT
    for p in range(page, (page & ~511) - 1, -1):
        entry = heap.entry(p)
        pages = entry >> 16 & ~RUN_EDGES
        if entry & 0xffff or pages and p + pages <= page:
            break
        if pages:
            return run_text(address, heap.base + (p << PAGE_SHIFT), pages << PAGE_SHIFT)
    header = drgn.Object(heap.prog, "struct block", address=int(heap.map.header) + 256 * block)
    for big in map(int, header.big):
        at, pages = big >> 16, big & 0xffff & ~RUN_EDGES
        if pages and at <= page % 512 < at + pages:
            return run_text(address, heap.base + (((page & ~511) + at) << PAGE_SHIFT), pages << PAGE_SHIFT)
    return "is a free page of Stook's, or the library's own"


def address_text(prog, address):
    heap = Heap(prog)
    if not heap.begin <= address < heap.end:
        return "is not of Stook"
    page = (address - heap.base) >> PAGE_SHIFT
    entry = heap.entry(page)
    if entry & 0xffff == 0:
        return large_text(heap, address)
    pointer = heap.table[entry & 0xffff]
    if not int(pointer) or not int(pointer.alive):
        return f"is of a slab of cache {entry & 0xffff}, which is being made or destroyed"
    cache = pointer[0]
    slab = heap.slab(cache, page, entry)
    index = slab.index(address)
    place = f"slab {hex(slab.base)} ({slab.state}, node {slab.node})"
    if index < 0 or index >= slab.objects:
        return f"is between the objects of {place} of cache {cache_name(cache)}"
    start = slab.object(index)
    text = f"is {address - start} bytes into" if address != start else "is"
    text += f" object {index} ({int(cache.object_size)} bytes from {hex(start)}) of cache {cache_name(cache)}, {place}: "
    if not slab.out()[index]:
        text += "free, in its slab"
    else:
        text += next((sheaf.place for sheaf in for_each_sheaf(cache) if start in sheaf.objects), "in use")
    return "\n".join([text, *tracks(heap, slab, index)])


# ---- commands -----------------------------------------------------------------------------------------------


def table(rows, left=1):
    """Columns, the first `left` of them to the left."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(c).ljust(w) if i < left else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())


def stook_caches(prog, every=False):
    """Each cache, its objects and slabs; `every`: the library's own, too."""
    heap = Heap(prog)
    rows = [("cache", "number", "size", "stride", "slabs", "objects", "in use", "in sheaves", "free", "bytes")]
    for cache in for_each_cache(prog):
        if int(cache.flags) & INTERNAL and not every:
            continue
        slabs = list(for_each_slab(cache, heap))
        total, out = sum(s.objects for s in slabs), sum(s.inuse for s in slabs)
        held = sum(len(sheaf.objects) for sheaf in for_each_sheaf(cache))
        rows.append((cache_name(cache), int(cache.index), int(cache.object_size), int(cache.layout.stride), len(slabs), total, out - held,
                     held, total - out, sum(4096 << s.order for s in slabs)))
    table(rows)


def stook_slabs(prog, name):
    """Each slab of a cache: its state, node and objects."""
    table([("slab", "state", "descriptor", "node", "pages", "objects", "out", "free")] +
          [(hex(s.base), s.state, hex(s.address), s.node, 1 << s.order, s.objects, s.inuse, s.objects - s.inuse)
           for s in for_each_slab(find_cache(prog, name))], 3)


def stook_sheaves(prog, name):
    """What CPUs and barns hold, and how many objects each sheaf has."""
    table([("place", "sheaf", "objects")] + [(s.place, hex(s.address), len(s.objects)) for s in for_each_sheaf(find_cache(prog, name))], 2)


def stook_objects(prog, name):
    """The address of each object that a user has."""
    for at in for_each_object(find_cache(prog, name)):
        print(hex(at))


def stook_whatis(prog, address):
    """Which cache's object it is, or lies in, and where that object is."""
    address = int(address, 0) if isinstance(address, str) else int(address)
    print(hex(address), address_text(prog, address))


def main(prog, words):
    commands = {"caches": stook_caches, "slabs": stook_slabs, "sheaves": stook_sheaves, "objects": stook_objects, "whatis": stook_whatis}
    if not words or words[0] not in commands or len(words) < 2 and words[0] != "caches":
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if words[0] == "caches":
            stook_caches(prog, "-a" in words)
        for word in words[1:] if words[0] != "caches" else ():
            commands[words[0]](prog, word)
    except (StookError, LookupError) as error:
        print(error if isinstance(error, StookError) else f"stook: the debug information of libstook is missing: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(prog, sys.argv[1:]))  # noqa: F821  (drgn gives it to scripts)
