# SPDX-License-Identifier: MIT
"""What a malloc serves of a command: read from the maps that its processes had when they ended."""
import functools
import json
import mmap
import os
import re
import stat
import struct

ALLOCATORS = ((r"python[0-9.]*$", "PYTHONMALLOC", "Python serves objects up to 512 bytes itself; PYTHONMALLOC=malloc makes it use malloc"),
              (r"php[0-9.]*$|php-fpm", "USE_ZEND_ALLOC", "PHP has memory of its own; USE_ZEND_ALLOC=0 makes it use malloc"))


def processes(text):
    """(program, files mapped) of each process, from what launch.c writes."""
    found = []
    for line in text.splitlines():
        if line.startswith("= "):
            found.append((line[2:], set()))
        elif found:
            path = line.split(maxsplit=5)[5:]
            if path and path[0].startswith("/"):
                found[-1][1].add(path[0])
    return found


def unserved(those, library):
    """A sentence on each program that did not have the library."""
    library = os.path.realpath(library)
    return [f"{exe} {why_not(exe, files)}" for exe, files in dict((exe, files) for exe, files in those if library not in files).items()
            if exe not in {one for one, mapped in those if library in mapped}] + [
                f"{exe} gains privileges, so that the loader ignores LD_PRELOAD" for exe in
                sorted({exe for exe, files in those if library in files and gains(exe)})]


def gains(exe):
    """Whether the loader distrusts the environment; a process that is looked at does not gain what it otherwise does."""
    try:
        mode = os.stat(exe)
        return (mode.st_mode & stat.S_ISUID and mode.st_uid != os.geteuid()) or (
            mode.st_mode & stat.S_ISGID and mode.st_gid != os.getegid()) or (
                os.geteuid() != 0 and "security.capability" in os.listxattr(exe))
    except OSError:
        return False


def why_not(exe, files):
    if gains(exe):
        return "gains privileges, so that the loader ignores LD_PRELOAD"
    if not any(re.match(r"ld[-.].*so", os.path.basename(path)) for path in files):
        return "is linked statically"
    return "did not load it: it is started without LD_PRELOAD, or by another loader"


def malloc_of(exe, files):
    """The file whose malloc a process without preloads has: the first that defines it, breadth first as the loader searches."""
    known = {}
    for path in files:
        name, needed, defines = dynamic(path)
        known[exe if path == exe else name] = path, needed, defines
    names = [exe]
    for name in names:  # it grows
        path, needed, defines = known.get(name, (None, (), False))
        if defines:
            return path
        names += [one for one in needed if one not in names]
    return None


def own_mallocs(those):
    """Programs that run without the C library's malloc, and the files that have theirs."""
    found = {exe: malloc_of(exe, files) for exe, files in those}
    return {exe: path for exe, path in found.items() if path and not re.match(r"(libc|ld)[-.]", os.path.basename(path))}


@functools.lru_cache(None)
def dynamic(path):
    """Of a 64-bit ELF file: its name for the loader, the names of those that it needs, and whether it defines malloc."""
    name, needed, defines = os.path.basename(path), [], False
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:5] != b"\x7fELF\x02":
                return name, needed, defines
            table, = struct.unpack_from("<Q", data, 40)
            size, count = struct.unpack_from("<HH", data, 58)
            sections = [struct.unpack_from("<IIQQQQII", data, table + i * size) for i in range(count)]
            for _, kind, _, _, offset, length, link, _ in sections:
                for at in range(offset, offset + length, 24) if kind == 11 else ():  # SHT_DYNSYM
                    of_name, _, _, section = struct.unpack_from("<IBBH", data, at)
                    defines = defines or section and text(data, sections[link][4] + of_name) == "malloc"
                for at in range(offset, offset + length, 16) if kind == 6 else ():  # SHT_DYNAMIC
                    tag, of_name = struct.unpack_from("<QQ", data, at)
                    if tag == 1:  # DT_NEEDED
                        needed.append(os.path.basename(text(data, sections[link][4] + of_name)))
                    elif tag == 14:  # DT_SONAME
                        name = text(data, sections[link][4] + of_name)
    except (OSError, ValueError, struct.error, IndexError):
        pass
    return name, needed, bool(defines)


def text(data, at):
    return data[at:data.find(b"\0", at)].decode(errors="replace")


def peak_of_reports(folder):
    """The most that Stook held for a process, in bytes, or None."""
    peaks = []
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                peaks.append(json.load(file)["totals"]["peak_bytes"])
        except (OSError, ValueError, KeyError):
            pass
    return max(peaks, default=None)


def hints(command, stook_peak, peak_mib):
    """What to know of the figures."""
    said = [hint for pattern, variable, hint in ALLOCATORS
            if re.search(pattern, os.path.realpath(command[0])) and not os.environ.get(variable)
            and not any(word.startswith(variable + "=") for word in command)]
    if stook_peak is not None and peak_mib and peak_mib > 16 and stook_peak / 2**20 < peak_mib / 4:
        said.append(f"{stook_peak / 2**20:.1f} MiB of its peak of {peak_mib:.0f} MiB are from malloc: the rest is memory that no "
                    "malloc can change (its own allocator, mmap, files)")
    return said
