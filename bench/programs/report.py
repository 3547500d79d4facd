# SPDX-License-Identifier: MIT
"""What runs of programs come to: records, tables, and where Stook stands among the others."""
import json

import compare
import suite

FIGURES = ("cpu_s", "user_s", "system_s", "wall_s", "peak_mib", "mean_pss_mib", "peak_pss_mib", "faults_minor",
           "faults_major", "requests_per_s", "p50_us", "p99_us", "p999_us")
# What is compared, and whether less is better.
COMPARED = {"cpu_s": True, "peak_mib": True, "mean_pss_mib": True, "requests_per_s": False, "p99_us": True}
LITTERED = "~"  # behind the name of a malloc in whose heap there is litter
MARKED = 1.10  # a malloc whose peak is above ours by this factor is marked: it may have bought its time with memory


def by_figure(runs, failed):
    """Lists of figures by malloc and key, without what failed later."""
    return {name: {key: [one.get(key) for one in of_malloc] for key in FIGURES}
            for name, of_malloc in runs.items() if name not in failed}


def records_of(row, names, taken, failed, compared):
    """A record a malloc. Ratios of Stook's are to the best of the others, round by round."""
    made = []
    for name in names:
        record = {"case": "programs", "program": row, "allocator": name}
        if name not in taken:
            made.append(record | {"failed": failed.get(name, "it has no row")})
            continue
        figures = taken[name]
        record |= {"runs": sum(time is not None for time in figures["cpu_s"])}
        record |= {key: compare.median(figures[key]) for key in FIGURES}
        times = [time for time in figures["cpu_s"] if time is not None]
        record |= {"cpu_min": min(times), "cpu_max": max(times)}
        record["marked"] = is_marked(taken, name)
        if name == "stook":
            record["against_best"] = against_best(taken, compared)
        made.append(record)
    return made


def is_marked(taken, name):
    return (compare.median(over(name, "stook")(taken, "peak_mib")) or 0) > MARKED


def to_best(taken, name, key, less):
    """Whom most rounds take for the best of the others, and the ratios to the best, round by round."""
    others = {other: figures[key] for other, figures in taken.items()
              if other != name and other.endswith(LITTERED) == name.endswith(LITTERED)}
    return compare.against_best(taken[name][key], others, less)


def against_best(taken, compared):
    """For each compared figure the best other malloc, the median of the paired ratios, its interval, and the verdict."""
    found = {}
    for key, less in compared.items():
        best, ratios = to_best(taken, "stook", key, less)
        known = [ratio for ratio in ratios if ratio]
        if known:
            found[key] = {"allocator": best, "ratio": compare.median(known), "ratio_min": min(known), "ratio_max": max(known),
                          "interval": compare.interval(known), "verdict": compare.verdict(known, less)}
    return found


def show_row(row, what, names, taken, failed, compared, is_json):
    records = records_of(row, names, taken, failed, compared)
    if is_json:
        for record in records:
            say(json.dumps(record))
    else:
        show(row, what, records, any(record.get("requests_per_s") for record in records))


def say(text):
    print(text, flush=True)


def cell(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def show(row, what, records, server):
    columns = [("cpu_s", "cpu s", 3), ("user_s", "user", 3), ("system_s", "system", 3), ("wall_s", "wall", 3),
               ("peak_mib", "peak MiB", 1), ("mean_pss_mib", "mean PSS", 1), ("faults_minor", "faults", 0)]
    if server:
        columns += [("requests_per_s", "requests/s", 0), ("p50_us", "p50 us", 0), ("p99_us", "p99", 0), ("p999_us", "p99.9", 0)]
    say(f"\n{row}: {what}")
    say(f"  {'':<14}" + "".join(f"{title:>11}" for _, title, _ in columns))
    for record in records:
        if "failed" in record:
            say(f"  {record['allocator']:<14} failed: {record['failed']}")
            continue
        name = record["allocator"] + " *" * record["marked"]
        say(f"  {name:<14}" + "".join(f"{cell(record[key], digits):>11}" for key, _, digits in columns))
    for record in records:
        for key, found in record.get("against_best", {}).items():
            word = {"even": "within noise"}.get(found["verdict"], found["verdict"])
            say(f"  stook {key}: {ratio_cell(found['ratio'], found['interval'])} of the best other, most often "
                f"{found['allocator']} (rounds {found['ratio_min']:.3f} to {found['ratio_max']:.3f}): {word}")


def ratio_cell(value, sure):
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" [{sure[0]:.3f}, {sure[1]:.3f}]" if sure else "")


def beside_best(name):
    return lambda taken, key: to_best(taken, name, key, True)[1] if name in taken else []


def over(one, other):
    return lambda taken, key: compare.paired(taken[one][key], taken[other][key]) if {one, other} <= taken.keys() else []


def mean(rows, key, ratios):
    """The geometric mean over the rows that have such ratios: its median, as a cell, and the number of these rows."""
    columns = [column for column in (ratios(taken, key) for taken in rows.values()) if any(column)]
    turns = compare.mean_by_rounds(columns)
    return compare.median(turns), ratio_cell(compare.median(turns), compare.interval(turns)), len(columns)


def league(rows, names, keys, title):
    """Each malloc beside the best of all others, and Stook beside it: geometric means with their intervals."""
    clean = [name for name in names if not name.endswith(LITTERED)]
    for what, ratios, those in ((f"\n{title}: each malloc / the best other of it", beside_best, names),
                                ("Stook / the malloc", lambda name: over("stook", name), set(clean) - {"stook"}),
                                ("Littered / clean", lambda name: over(name + LITTERED, name), clean)):
        lines = []
        for name in those:
            cells = [mean(rows, key, ratios(name)) for key in keys]
            mark = " *" if (mean(rows, "peak_mib", over(name, "stook"))[0] or 0) > MARKED else ""
            if cells[0][0]:
                lines.append((cells[0][0], f"  {name + mark:<14}{cells[0][2]:>5}" + "".join(f"{cell:>24}" for _, cell, _ in cells)))
        if lines:
            say(f"{what}; geometric means [95 %]\n  {'':<14}{'rows':>5}" + "".join(f"{key:>24}" for key in keys))
            say("\n".join(line for _, line in sorted(lines)))


def summary(rows, names, compared):
    """How often Stook was where, by compared figure, and how it and the others do in the mean."""
    every = {row: against_best(taken, compared) for row, taken in rows.items() if "stook" in taken}
    say("\nstook beside the best other of each program, by pairs of runs:")
    for key in compared:
        words = {"ahead": [], "even": [], "behind": []}
        for name, found in every.items():
            if key in found and found[key]["verdict"] in words:
                words[found[key]["verdict"]].append(name)
        if any(words.values()):
            say(f"  {key:<15} ahead {len(words['ahead'])}, within noise {len(words['even'])}, "
                f"behind {len(words['behind'])}" + (f": {', '.join(words['behind'])}" if words["behind"] else ""))
    real = {row: taken for row, taken in rows.items() if is_real(row, compared)}
    keys = [key for key in ("cpu_s", "wall_s", "peak_mib", "mean_pss_mib") if key in compared and any(
        any(figures[key]) for taken in rows.values() for figures in taken.values())]
    if 0 < len(real) < len(rows):
        league(real, names, keys, "Programs that people use")
    league(rows, names, keys, "All programs")
    say(f"*: its peak is more than {MARKED:.2f} of Stook's")


def is_real(row, compared):
    return row in suite.REAL if "wall_s" in compared else not row.startswith("own-")
