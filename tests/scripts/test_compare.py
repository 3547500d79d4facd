#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stook-bench programs and stook compare, with planted figures: what is called a difference, whom the best of the others is, which peaks
are marked, and the suite's form of results."""
import os
import random
import statistics
import sys

SOURCE = os.environ["STOOK_SOURCE_DIR"]
sys.path[:0] = [os.path.join(SOURCE, "bench/programs"), os.path.join(SOURCE, "bench/driver"),
                os.path.join(SOURCE, "tools/compare")]
import compare  # pylint: disable=wrong-import-position
import measure  # pylint: disable=wrong-import-position
import report  # pylint: disable=wrong-import-position
import suite  # pylint: disable=wrong-import-position
import verdict  # pylint: disable=wrong-import-position

failures = 0


def expect(found, wanted, what):
    global failures
    if found != wanted:
        failures += 1
        print(f"FAILED: {what}: {found}, not {wanted}")


# Between which of n values their median lies with 95 %: binomial sums, from a table.
for n, left_out in ((5, None), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5)):
    wanted = None if left_out is None else (left_out, n - 1 - left_out)
    expect(compare.interval(random.Random(1).sample(range(n), n)), wanted, f"the interval of {n}")
expect(compare.interval([3, None, 1, 4, 1, 5, 9]), (1, 9), "an interval without what was not measured")

for ratios, less, wanted in (
        ([0.9, 0.95, 0.93, 0.91, 0.92, 0.94], True, "ahead"), ([0.9, 0.95, 0.93, 0.91, 0.92, 0.94], False, "behind"),
        ([1.2, 1.1, 1.3, 1.2, 1.2, 1.2], True, "behind"), ([0.9, 1.1, 0.95, 0.9, 0.9, 0.9, 0.9], True, "even"),
        ([0.995, 0.993, 0.991, 0.992, 0.994, 0.993], True, "even"), ([0.5] * 5, True, "too few runs"),
        ([0.9] * 8 + [1.1], True, "ahead"), ([0.9] * 7 + [1.1] * 2, True, "even")):
    expect(compare.verdict(ratios, less), wanted, f"the verdict of {ratios}")
expect(compare.paired([1, None, 3], [2, 2, 0]), [0.5, None, None], "pairs")

# Each of seven others is lucky in one round.  Whoever takes the best of each round finds ours twice as slow.
lucky = {f"m{i}": [0.5 if turn == i else 1.0 for turn in range(7)] for i in range(7)}
expect(compare.against_best([1.0] * 7, lucky)[1], [1.0] * 7, "luck in one round")
expect(compare.against_best([1.0] * 7, {"a": [1.0] * 7, "b": [0.8] * 7}), ("b", [1.25] * 7), "one that is better")
expect(compare.against_best([2.0] * 3, {"a": [1.0] * 3, "b": [4.0] * 3}, False), ("b", [0.5] * 3), "more is better")
expect(compare.against_best([1.0, 1.0], {"a": [None, 2.0]})[1], [None, 0.5], "a run that was not measured")
expect(compare.against_best([1.0], {"a": [2.0], "b": [4.0]}), ("a", [0.5]), "one round")
expect(compare.against_best([1.0], {}), (None, [None]), "no others")

# Each runs once a round, and behind each other one as often.
for n in range(1, 9):
    orders = [measure.order_of(turn, n) for turn in range(2 * n)]
    expect([sorted(order) for order in orders], [list(range(n))] * 2 * n, f"rounds of {n}")
    behind = [pair for order in orders for pair in zip(order, order[1:])]
    expect(sorted(behind), sorted((a, b) for a in range(n) for b in range(n) if a != b for _ in range(2)), f"orders of {n}")

# Ten mallocs that are all the same, of which one is ours, with noise of 3 %: no bias.
chance = random.Random(2)
columns, naive = [], []
for _ in range(400):
    taken = [[chance.gauss(1, 0.03) for _ in range(7)] for _ in range(10)]
    columns.append(compare.against_best(taken[0], dict(enumerate(taken[1:])))[1])
    naive.append(statistics.median(taken[0]) / min(map(statistics.median, taken[1:])))
means = compare.mean_by_rounds(columns)
sure = compare.interval(means)
expect(sure[0] < 1 < sure[1] and abs(compare.median(means) - 1) < 0.003, True, f"mallocs that are the same: {means}")
expect(statistics.mean(naive) > 1.01, True, f"the bias that is avoided: {statistics.mean(naive)}")
expect([round(one, 6) for one in compare.mean_by_rounds([[2, 1], [8, None]])], [4, 1], "geometric means")

# What stook compare says of ratios in all rounds, and how many rounds it needs.
for ratios, wanted in (
        ({"cpu_s": [0.94] * 9, "peak_mib": [1.15] * 9}, "6 % less CPU, 15 % more peak memory"),
        ({"cpu_s": [2.1] * 9}, "2.1 times the CPU"), ({"percentile": [0.5] * 9}, "50 % lower percentile"),
        ({"cpu_s": [0.98, 1.01] * 5, "peak_mib": [1.005] * 10}, verdict.EVEN), ({"cpu_s": [1.1] * 8}, verdict.TOO_FEW),
        ({"cpu_s": [0.8, 1.3] * 5}, "this machine is too noisy to tell: CPU (0.80 to 1.30 of it)")):
    expect(verdict.words(ratios, 0.995), wanted, f"the words for {ratios}")
expect(verdict.fewest_rounds(12), 9, "rounds for 12 comparisons")
expect([compare.interval([1.1] * n, 1 - verdict.RISK / 12) for n in (8, 9)], [None, (1.1, 1.1)], "so many are enough, and fewer not")
# Five mallocs that are the same: any difference at all is stated in at most one run of twenty.
stated = 0
for _ in range(300):
    taken = {name: [{key: chance.gauss(1, 0.05) for key in ("cpu_s", "wall_s", "peak_mib")} for _ in range(9)] for name in "abcde"}
    ratios, sure = verdict.compared(taken, "a")
    stated += any(verdict.words(one, sure) != verdict.EVEN and "%" in verdict.words(one, sure) for one in ratios.values())
expect(stated <= 15 * 2, True, f"differences that are none: {stated} of 300")
expect(verdict.headline({"b": {"cpu_s": [0.9] * 9, "peak_mib": [1.2] * 9}}, "a", 0.99),
       "least CPU: b; no malloc has less peak memory than a", "the first line")
expect(verdict.headline({"b": {"cpu_s": [0.5, 1.5] * 5}}, "a", 0.99), f"{verdict.NOISE} which malloc is better", "a noisy machine")
expect("does not matter" in verdict.headline({"b": {"cpu_s": [1.0] * 9}}, "a", 0.99), True, "no difference")
expect(verdict.differing({"a": [{"sum": 1}] * 2, "b": [{"sum": 1}, {"sum": 2}]}, "a"), (["b"], False), "another output")

# The form of results, there and back; what failed has no time.
run = {"wall_s": 1.25, "peak_mib": 2.0, "user_s": 1.0, "system_s": 0.25, "cpu_s": 1.25, "faults_major": 0, "faults_minor": 77}
line = suite.line_of("cfrac", "stook", run, False)
expect(line, "cfrac stook 1.250 2048 1.000 0.250 0 77", "a line of results")
expect(list(suite.read([line, "# a b 1 2 3 4 5 6", "Command exited with non-zero status 1", "cfrac sn 0:00.00 80 0.00 0.00 0 1"])),
       [("cfrac", "stook", run)], "lines of results")
more = dict(zip(suite.MORE, (1.5, 2.5, None, None, None, None)))
expect(next(suite.read([suite.line_of("redis", "sn", run | more, True)]))[2], run | more, "a line of ours")
expect([suite.seconds_of(text) for text in ("12.5", "0:.345", "1:02.50", "1:00:01")], [12.5, 0.345, 62.5, 3601], "times")

# Marks and what failed.
runs = {name: [run | {"peak_mib": peak}] * 7 for name, peak in (("stook", 10), ("level", 10.9), ("large", 11.2), ("broken", 1))}
records = report.records_of("cfrac", list(runs), report.by_figure(runs, {"broken": "it died"}), {"broken": "it died"},
                            report.COMPARED)
expect([record.get("marked", record.get("failed")) for record in records], [False, False, True, "it died"], "marks")
best = records[0]["against_best"]
expect((best["peak_mib"]["allocator"], best["peak_mib"]["interval"], best["cpu_s"]["verdict"], "p99_us" in best),
       ("level", (10 / 10.9, 10 / 10.9), "even", False), "beside the best")
expect([name for name in ("redis", "own-mixed") if report.is_real(name, report.COMPARED)], ["redis"], "real programs")
sys.exit(failures != 0)
