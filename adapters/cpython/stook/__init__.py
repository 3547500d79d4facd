# SPDX-License-Identifier: MIT
"""Python's memory from Stook.

  PYTHONSTOOK=1 python3 program.py         from the start (stook.pth)
  PYTHONSTOOK=mem,obj python3 program.py   these domains only
  import stook; stook.install()             from here on

Objects from before the install stay with the allocator that made them, and so do requests above 8 KiB.  An install
lasts until the process ends.
"""
import os
import sys

from stook import _alloc

DOMAINS = ("raw", "mem", "obj")


def install(domains=DOMAINS):
    """Makes Stook the allocator of these domains; the same again is a no-op.

    RuntimeError: tracemalloc is on (it would put the old allocator back when it stops), or Python's debug hooks
    are (PYTHONMALLOC=debug, -X dev): they lie below, and would check nothing any more.
    """
    unknown = set(domains) - set(DOMAINS)
    if unknown:
        raise ValueError(f"no such domain: {', '.join(sorted(unknown))} (there are raw, mem, obj)")
    tracing = sys.modules.get("_tracemalloc")
    if tracing is None and "_tracemalloc" in sys.builtin_module_names:
        import _tracemalloc as tracing
    if tracing is not None and tracing.is_tracing():
        raise RuntimeError("stook: stop tracemalloc before the install")
    if sys.flags.dev_mode or not sys.flags.ignore_environment and "debug" in os.environ.get("PYTHONMALLOC", ""):
        raise RuntimeError("stook: not with Python's debug hooks (-X dev, PYTHONMALLOC=debug)")
    _alloc.install(*(name in domains for name in DOMAINS))


def installed():
    """The domains that are installed."""
    return tuple(_alloc.domains())


def live():
    """Live objects by the size of their cache."""
    return _alloc.live()


def _start(value):
    """PYTHONSTOOK: 0 or nothing, 1, or domains.  A failure is reported, and the program runs without."""
    if value in ("", "0"):
        return
    try:
        install(DOMAINS if value == "1" else tuple(value.split(",")))
    except (RuntimeError, ValueError, OSError) as error:
        print(f"stook: PYTHONSTOOK={value}: {error}", file=sys.stderr)
