#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stook-bench CASE: every allocator in a process of its own, and the runs of all of them interleaved.

With --against two builds of Stook run instead.  The build links build/bin/stook-bench to this file.
"""
import argparse
import os
import sys

import against
import cases
import machine
import runs
import tables

LITTERED = ("loop", "slab_bulk", "slub_bulk", "kmalloc")  # kinds of cases for --litter
PROGRAMS = {"programs": "main.py", "long": "long.py"}  # cases that are scripts of bench/programs, with their own options


def words_of(known):
    """A comma list of nothing but these words."""
    def read(text):
        for word in text.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"there is no {word}")
        return text.split(",")
    return read


def number(text):
    if not text.isdecimal() or not 0 < int(text) <= 1 << 40:
        raise argparse.ArgumentTypeError(f"{text}: not a number above zero")
    return int(text)


def share(text):
    if not 0 < float(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text}: not a share")
    return float(text)


def numbers(text):
    return tuple(number(one) for one in text.split(","))


def case_list():
    for case in cases.CASES:
        part = f" --case {case.name}" if case.name != case.family else ""
        yield f"  {case.family + part:<31} {case.what}"
    yield "  all"
    yield "  programs                        whole programs; options of its own: stook-bench programs --help"
    yield "  long                            programs that live long: resident memory over live bytes; also with"
    yield "                                  options of its own"


def command_line():
    parser = argparse.ArgumentParser(
        prog="stook-bench", usage="stook-bench CASE [options]", epilog="cases:\n" + "\n".join(case_list()),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    split = lambda text: text.split(",")
    parser.add_argument("case", metavar="CASE")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of tables")
    parser.add_argument("--repeats", type=number, metavar="N",
                        help="runs of each allocator, interleaved; medians are shown")
    parser.add_argument("--quick", action="store_true", help="one run of each, no records with the default reserve; "
                        "slub_bulk: fewer rounds, and mallocs free in order only")
    parser.add_argument("--case", dest="cases", type=split, metavar="LIST", help="of a family of cases only these")
    parser.add_argument("--against", metavar="LIBDIR",
                        help="run each row of Stook with another build of the library too, in turns, and show both "
                        "medians and the ratio of neighbouring runs; LIBDIR holds its libstook.so, and "
                        "../libexec/stook-bench beside it its workers")
    parser.add_argument("--allocators", type=split, metavar="LIST", help="only these, for example stook,glibc")
    parser.add_argument("--linked", choices=("static", "shared"))
    parser.add_argument("--mode", type=words_of(cases.MODES), metavar="LIST",
                        help="slab_bulk, handoff-burst: single, bulk; slub_bulk: emit, link-first, link-inside, bulk, "
                        "single; handoff-pool: single, pool; handoff-rcu: memb, qsbr; tags, groups: off, group, tag, "
                        "both; columns: off, group, both; large: touched, untouched")
    parser.add_argument("--order", type=words_of(cases.ORDERS), metavar="LIST", help="slub_bulk: sequential, random")
    parser.add_argument("--free-order", type=words_of(cases.FREE_ORDERS), metavar="LIST",
                        help="slub_bulk: ordered, shuffled")
    parser.add_argument("--size", type=numbers, metavar="LIST", help="bytes of an object")
    parser.add_argument("--n", type=numbers, metavar="LIST",
                        help="objects a batch (idle: a thread; kmalloc, columns: in all)")
    parser.add_argument("--align", type=numbers, metavar="LIST", help="columns: of these alignments of a table only")
    parser.add_argument("--threads", type=number, metavar="N", help="threads of idle and remote-*")
    parser.add_argument("--mib", type=number, metavar="N",
                        help="live MiB of slub_bulk and the memory cases; handoff-rcu: of a round")
    parser.add_argument("--rounds", type=number, metavar="N", help="inner rounds; breaths; rounds of replacement")
    parser.add_argument("--ms", type=number, metavar="N", help="milliseconds of an inner round")
    parser.add_argument("--settle", type=float, default=0, metavar="SECONDS",
                        help="returned: wait before reading what is resident (0)")
    parser.add_argument("--in-order", action="store_true", help="returned: free in the order of allocation")
    parser.add_argument("--litter", type=share, metavar="SHARE", help="pair, batch, slab_bulk, slub_bulk, kmalloc: in a heap "
                        "of 100000 more objects, of which this share (0 to 1) was freed at random")
    machine.add_options(parser)
    return parser.parse_args()


def sizes_and_ns(options, case):
    """Each size and n of a case; 0 where it has none."""
    sizes = options.size if options.size and case.sizes else case.sizes
    # Cases of one object, and those of mixed sizes, have no n to set.
    ns = options.n if options.n and case.n not in ((), (1,)) else case.n
    for size in sizes or (0,):
        if case.paired and not options.n:
            # A size that is not the case's own has the batch of the last one.
            yield size, dict(zip(case.sizes, case.n)).get(size, case.n[-1])
        else:
            yield from ((size, n) for n in ns or (0,))


def run_case(options, case, size, n, libraries):
    if libraries:
        return against.run_case(options, case, size, n, libraries)
    found = runs.records(options, case, size, n)
    failures = runs.run_all(options, case, found)
    (tables.show_json if options.json else tables.show)(case, found)
    return failures


def main():
    machine.enter_root()
    if len(sys.argv) > 1 and sys.argv[1] in PROGRAMS:
        os.environ["STOOK_BENCH_LIBEXEC"] = runs.WORKERS
        here = os.path.dirname(os.path.realpath(__file__))
        os.environ["PYTHONPATH"] = here + ":" + os.path.join(here, "../../tools/compare")  # machine.py; what stook compare is
        script = os.path.join(here, "../programs", PROGRAMS[sys.argv[1]])
        os.execv(sys.executable, [sys.executable, script, *sys.argv[2:]])
    options = command_line()
    libraries = against.open_libraries(options.against) if options.against else None
    chosen = [case for case in cases.CASES
              if options.case == "all" or (options.case in (case.name, case.family) and
                                           runs.listed(options.cases, case.name))
              and (not options.litter or case.kind in LITTERED)]
    if not chosen:
        print("stook-bench: no such case:", options.case, *(options.cases or ()), file=sys.stderr)
        return 2
    machine.set_thp(options.thp)
    machine.say_facts(sys.stderr if options.json else sys.stdout)
    failures = [run_case(options, case, size, n, libraries)
                for case in chosen for size, n in sizes_and_ns(options, case)]
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(main())
