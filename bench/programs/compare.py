# SPDX-License-Identifier: MIT
"""Who was first, where it can be told: runs are compared in pairs of the same round, so that a machine that
changes its pace meets both."""
import statistics

# Ratios nearer to 1 than this are never called a difference, nor what fewer pairs show.
LEAST, PAIRS = 0.01, 3


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def paired(ours, theirs):
    """The ratios ours / theirs, round by round."""
    return [a / b for a, b in zip(ours, theirs) if a is not None and b]


def verdict(ratios, less_is_better=True):
    """'ahead', 'behind' or 'even' (within noise): which of ours and theirs, by pairs of runs.

    A difference is one that all pairs but a tenth show in the same direction, and whose median is more than one
    in a hundred.
    """
    if len(ratios) < PAIRS:
        return "too few runs"
    middle = statistics.median(ratios)
    below = sum(ratio < 1 for ratio in ratios)
    above = sum(ratio > 1 for ratio in ratios)
    spare = len(ratios) // 10
    if abs(middle - 1) <= LEAST or max(below, above) < len(ratios) - spare:
        return "even"
    is_less = below > above
    return "ahead" if is_less == less_is_better else "behind"
