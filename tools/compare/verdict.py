# SPDX-License-Identifier: MIT
"""What the runs of stook compare come to: sentences, and a table."""
import math

import compare

# What is compared: its name in a sentence, words for less and more, and in the table the title and the digits.
COMPARED = {"cpu_s": ("CPU", "less", "more", "CPU s", 3), "wall_s": ("time", "less", "more", "elapsed s", 3),
            "peak_mib": ("peak memory", "less", "more", "peak MiB", 1),
            "mean_pss_mib": ("memory over time", "less", "more", "mean PSS", 1),
            "percentile": ("percentile", "lower", "higher", "percentile", 3)}
RISK = 0.05  # that any difference which is stated is none
TOO_FEW = "too few rounds to tell"
NOISE = "this machine is too noisy to tell"
EVEN = "no difference beyond noise"
NOISY = 0.10  # wider intervals around 1 tell nothing


def fewest_rounds(comparisons):
    """With these a difference that all rounds show is by chance only in RISK of runs, whichever comparison it is of."""
    return 1 + math.ceil(math.log2(comparisons / RISK))


def words(ratios_by_key, sure):
    """A malloc beside the one it is compared with, in a sentence."""
    said, noisy = [], []
    if not any(compare.interval(ratios, sure) for ratios in ratios_by_key.values()):
        return TOO_FEW
    for key, ratios in ratios_by_key.items():
        noun, less, more, *_ = COMPARED[key]
        bounds, ratio, found = compare.interval(ratios, sure), compare.median(ratios), compare.verdict(ratios, True, sure)
        if not bounds:
            continue
        if found == "even" and bounds[0] <= 1 <= bounds[1] and max(1 / bounds[0], bounds[1]) - 1 > NOISY:
            noisy.append(f"{noun} ({bounds[0]:.2f} to {bounds[1]:.2f} of it)")
        elif found != "even" and ratio >= 1.995:
            said.append(f"{ratio:.1f} times the {noun}")
        elif found != "even":
            said.append(f"{100 * abs(ratio - 1):.0f} % {less if ratio < 1 else more} {noun}")
    if noisy:
        said.append(f"{NOISE}: " + ", ".join(noisy))
    return ", ".join(said) or EVEN


def compared(taken, base):
    """For each malloc but the first, by figure the ratios to it, round by round; and how sure an interval has to be."""
    keys = [key for key in COMPARED if any(one.get(key) for one in taken[base])]
    ratios = {name: {key: compare.paired(*([one.get(key) for one in runs] for runs in (taken[name], taken[base])))
                     for key in keys} for name in taken if name != base}
    ratios = {name: {key: of_key for key, of_key in of_malloc.items() if any(of_key)} for name, of_malloc in ratios.items()}
    return ratios, 1 - RISK / max(1, sum(map(len, ratios.values())))


def headline(ratios, base, sure):
    """Which malloc, in one sentence."""
    said = []
    for key in ("cpu_s", "peak_mib", "percentile"):
        verdicts = {name: compare.verdict(of_malloc[key], True, sure) for name, of_malloc in ratios.items() if key in of_malloc}
        ahead = [name for name in verdicts if verdicts[name] == "ahead"]
        if ahead:
            said.append(f"least {COMPARED[key][0]}: {min(ahead, key=lambda name: compare.median(ratios[name][key]))}")
        elif verdicts:
            said.append(f"no malloc has {COMPARED[key][1]} {COMPARED[key][0]} than {base}")
    every = [words(of_malloc, sure) for of_malloc in ratios.values()]
    if set(every) == {TOO_FEW}:
        return f"{TOO_FEW}: {fewest_rounds(sum(map(len, ratios.values())))} are enough"
    if set(every) == {EVEN}:
        return f"malloc does not matter for this command: {EVEN}"
    if all(one == EVEN or one.startswith(NOISE) for one in every):
        return f"{NOISE} which malloc is better"
    return "; ".join(said)


def table(taken, ratios, base, sure):
    keys = [key for key in COMPARED if any(one.get(key) for runs in taken.values() for one in runs)]
    yield f"{'':<14}" + "".join(f"{COMPARED[key][3]:>11}{'':<19}" for key in keys) + f"{'faults':>10}"
    for name, runs in taken.items():
        line = f"{name:<14}"
        for key in keys:
            value, of_key = compare.median([one.get(key) for one in runs]), ratios.get(name, {}).get(key)
            bounds = of_key and compare.interval(of_key, sure)
            beside = f" {compare.median(of_key):.2f}" if of_key else ""
            beside += f" [{bounds[0]:.2f}-{bounds[1]:.2f}]" if bounds else ""
            line += (f"{value:>11.{COMPARED[key][4]}f}" if value is not None else f"{'-':>11}") + f"{beside:<19}"
        yield line + f"{compare.median([one['faults_minor'] for one in runs]) or 0:>10.0f}"


def differing(results, base):
    """The mallocs whose output is not that of the first one, if that is always the same."""
    sums = {name: {one.get("sum") for one in runs} for name, runs in results.items()}
    if len(sums[base]) != 1:
        return [], len(sums[base]) > 1
    return [name for name, those in sums.items() if those - sums[base]], False
