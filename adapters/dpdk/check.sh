#!/bin/bash
# SPDX-License-Identifier: MIT
# DPDK's own mempool tests on the driver, from Debian's source package.
#
#   check.sh BUILD-FOLDER [perf]     perf: its performance test beside the ring and the stack, ROUNDS (5) rounds, two minutes
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
driver=$build/lib/librte_mempool_stook.so
[ -e "$driver" ] || {
    echo "dpdk: skipped, the driver is not built (Debian: libdpdk-dev)"
    exit 77
}
"$here/../../scripts/debian-source.sh" dpdk "$build/sources"
source=$build/sources/dpdk
work=$build/adapters/dpdk/suite
rm -rf "$work"
mkdir -p "$work/include"
# Two headers that Debian does not install.
cp "$source"/lib/eal/include/{rte_eal_paging.h,rte_test.h} "$work/include"

compile() {
    # shellcheck disable=SC2046
    cc -O3 -march=native -w $(pkg-config --cflags libdpdk) -DALLOW_EXPERIMENTAL_API -DALLOW_INTERNAL_API \
        -I"$source/app/test" -I"$work/include" -Drte_mempool_create=suite_mempool_create "$1" \
        "$here/suite_main.c" -o "$2" -lrte_mempool -lrte_eal -lrte_mbuf -lrte_ring
}

# suite PROGRAM DRIVER TEST
suite() {
    "$1" --no-huge -m 512 --no-pci --no-shconf -l 0,1 --mbuf-pool-ops-name="$2" -d librte_mempool_ring.so \
        -d librte_mempool_stack.so -d "$driver" -- "$2" "$3"
}

if [ "${2:-}" != perf ]; then
    compile "$source/app/test/test_mempool.c" "$work/test"
    suite "$work/test" stook mempool_autotest >"$work/log" 2>&1 || {
        tail -20 "$work/log"
        exit 1
    }
    grep '^suite:' "$work/log"
    exit 0
fi

python3 - "$source/app/test/test_mempool_perf.c" "$work/perf.c" <<'END'
import re
import sys
text = open(sys.argv[1], encoding="utf-8").read()
for old, new in (("#define TIME_S 5", "#define TIME_S 0.02"), ("#define N 65536", "#define N 1024"),
                 ("time_diff/hz < TIME_S", "time_diff < TIME_S * hz"),
                 ('"\\n", rate)', '" moved=%lu\\n", rate, suite_moved())'),
                 ("static int use_constant_values;", "static int use_constant_values; unsigned long suite_moved(void);")):
    assert old in text, old
    text = text.replace(old, new)
# On two lcores the third of each kind repeats the second, and default_pool the first pool.
for twice in (r"\w+, rte_lcore_count\(\)", r"default_pool, \d"):
    text = re.sub(r"\n\tif \(do_one_mempool_test\(" + twice + r"\) < 0\)\n\t\tgoto err;\n", "\n", text)
open(sys.argv[2], "w", encoding="utf-8").write(text)
END
compile "$work/perf.c" "$work/perf"
# All drivers in turn, so that a slow second of the machine is not one driver's alone.
for round in $(seq "${ROUNDS:-5}"); do
    for name in ring_mp_mc stack stook; do
        suite "$work/perf" $name mempool_perf_autotest >"$work/$name.$round" 2>&1
    done
done
SUITE_MOVED=1 suite "$work/perf" stook mempool_perf_autotest >"$work/moved" 2>&1
"$here/perf_table.py" ring="$work/ring_mp_mc" stack="$work/stack" stook="$work/stook" moved="$work/moved"
