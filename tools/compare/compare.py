# SPDX-License-Identifier: MIT
"""Who was first, where it can be told.

Runs are compared in pairs of the same round, so that a machine that changes its pace meets both. The best of several
others is chosen in other rounds than the one that it is compared in: whoever was lucky in a round and is chosen for it
would make the subject of the comparison look worse than it is.
"""
import collections
import math
import statistics

LEAST = 0.01  # ratios nearer to 1 are never called a difference
SURE = 0.95  # of an interval


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def paired(ours, theirs):
    """The ratios ours / theirs, round by round; None where there is none."""
    return [a / b if a is not None and b else None for a, b in zip(ours, theirs)]


def interval(values, sure=SURE):
    """The narrowest pair of values between which their median lies with this probability, or None if there are too few.

    By the signs alone: a median is below all but k of n values as seldom as n coins show at most k heads.
    """
    values = sorted(value for value in values if value is not None)
    tail, left_out = 0.0, -1
    for k in range(len(values)):
        tail += math.comb(len(values), k) / 2 ** len(values)
        if 2 * tail > 1 - sure:
            break
        left_out = k
    return None if left_out < 0 else (values[left_out], values[-1 - left_out])


def verdict(ratios, less_is_better=True, sure=SURE):
    """'ahead', 'behind' or 'even' (within noise): a difference is more than one in a hundred, and 1 is outside of the
    interval."""
    bounds = interval(ratios, sure)
    if not bounds:
        return "too few runs"
    if abs(median(ratios) - 1) <= LEAST or bounds[0] <= 1 <= bounds[1]:
        return "even"
    return "ahead" if (bounds[1] < 1) == less_is_better else "behind"


def against_best(ours, others, less_is_better=True):
    """Ours beside the best of the others: (whom most rounds chose, the ratios round by round).

    A round is compared with the best of each other round; its ratio is the median of these. Where there is one round, or
    one other, nothing can be chosen elsewhere.
    """
    best = min if less_is_better else max
    chosen = {}
    for turn in range(len(ours)):
        there = {name: values[turn] for name, values in others.items() if values[turn]}
        if there:
            chosen[turn] = best(there, key=there.get)
    no_choice = len(ours) == 1 or len(others) == 1
    ratios = []
    for turn, mine in enumerate(ours):
        theirs = [others[name][turn] for choice, name in chosen.items() if choice != turn or no_choice]
        ratios.append(median(paired([mine] * len(theirs), theirs)))
    often = collections.Counter(chosen.values()).most_common(1)
    return (often[0][0] if often else None), ratios


def mean_by_rounds(columns):
    """The geometric mean of several programs' ratios, round by round."""
    turns = ([ratio for ratio in turn if ratio] for turn in zip(*columns))
    return [math.exp(statistics.fmean(map(math.log, turn))) if turn else None for turn in turns]
