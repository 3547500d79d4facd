#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the lab's scenarios on real kernels, in an emulated machine of 64 CPUs, and compares what they
# counted with what the lab's designs count of the same calls.  docs/kernel.md explains the tables.
#
#   check.sh                                     all of it: half an hour with the builds
#   check.sh --kernels 7.2 --topologies ublk     a part of it
#
# First, mm/mempool.c and lib/rhashtable.c of 7.2 run in a program over stook/kmem.h (tests/kernel/).
# Each scenario runs twice: freely, recording the order of its calls, and once more in exactly that order,
# one call at a time.  The lab replays the order.  The second run is compared row by row with the lab;
# the first is shown beside the lab, and only its sums are checked.
# The report's workload itself, ublk, comes last: its bios' cache is shown, and checked for its sums.
# Then a 7.2 with the change of slub/ follows the orders of the ublk scenarios, and its counters are shown
# beside those of the kernel without it.
# The last line is "N passed, N failed".
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${STOOK_KERNEL_CACHE:-$root/build-kernel}
stook=${STOOK:-$root/build/bin/stook}
kernels="7.2 6.12"
topologies="ublk two-sockets"
scenarios="adjacent cross local random-walk fork-exec producer-consumer"
seconds=900
reads=65536

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || set -- --help ''
    case $1 in
    --kernels) kernels=$2 ;;
    --topologies) topologies=$2 ;;
    --scenarios) scenarios=$2 ;;
    --seconds) seconds=$2 ;;
    *)
        echo "usage: check.sh [--kernels LIST] [--topologies LIST] [--scenarios LIST] [--seconds N]" >&2
        exit 2
        ;;
    esac
    shift 2
done

passed=0
failed=0

# Says one check's result.
check() {
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $2"
    fi
}

# A table of compare.py, whose last line has its sums.
compare() {
    local out last p f
    out=$("$here/compare.py" "$@" 2>&1) || true
    last=${out##*$'\n'}
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        p=${BASH_REMATCH[1]}
        f=${BASH_REMATCH[2]}
        passed=$((passed + p))
        failed=$((failed + f))
        echo "${out%$'\n'*}"
    else
        echo "$out"
        check 1 "compare.py $*"
    fi
    echo
}

# The design of the lab that imitates a kernel.
design_of() {
    case $1 in
    6.*) echo cpu-partial ;;
    *) echo upstream ;;
    esac
}

# What the module is told to run for a scenario.
command_of() {
    case $1 in
    adjacent) echo "ublk operations=480256" ;;
    cross) echo "ublk cross=1 operations=480256" ;;
    *) echo "$1 operations=200000" ;;
    esac
}

# The options of `stook lab` for a scenario of its own order.
lab_of() {
    case $1 in
    adjacent) echo "ublk --kept 0 --operations 480256" ;;
    cross) echo "ublk --kept 0 --operations 480256 --pairing cross-node" ;;
    *) echo "$1 --operations 200000" ;;
    esac
}

# One machine: all scenarios on one kernel and one topology, into the folder $out.
machine() {
    local kernel=$1 topology=$2 out=$3 design scenario options plan=()
    design=$(design_of "$kernel")
    mkdir -p "$out"
    for scenario in $scenarios; do
        plan+=("run $scenario $(command_of "$scenario")" "again $scenario-again")
    done
    # An order of the lab's own, by another player than the machine's scheduler.
    read -ra options <<<"$(lab_of cross)"
    "$stook" lab "${options[@]}" --design "$design" --topology "$root/topologies/$topology.topo" \
        --order-out "$out/given.order" >/dev/null
    plan+=("follow lab-cross=$out/given.order" "ublk ublk $reads" "ublk ublk-cross $reads 8")
    "$here/machine.py" "$bzimage" "$root/topologies/$topology.topo" "$out" "${plan[@]}" \
        --seconds "$seconds"
}

# The lab's counters of an order, as JSON, with several seeds.
replay() {
    local seed
    for seed in 1 2 3 4 5; do
        "$stook" lab order "$1.order" --design "$2" --topology "$root/topologies/$3.topo" \
            --seed $seed --json >"$1.lab$seed" || return
    done
}

judge() {
    local kernel=$1 topology=$2 out=$3 design scenario key
    design=$(design_of "$kernel")
    for scenario in $scenarios; do
        key=$design/$topology/$scenario
        compare "$out/$scenario" --key "$key, freely"
        compare "$out/$scenario-again" --same "$out/$scenario" --key "$key, call by call"
        replay "$out/$scenario" "$design" "$topology" || {
            check 1 "$key: the lab's replay"
            continue
        }
        "$here/compare.py" "$out/$scenario" "$out/$scenario".lab[1-5] --show --key "$key, freely"
        echo
        compare "$out/$scenario-again" "$out/$scenario".lab[1-5] --expected "$here/expected.txt" --key "$key"
        "$here/compare.py" "$out/$scenario-again" "$out/$scenario".lab[1-5] --key "$key" --json \
            >"$out/$scenario.json" || true
    done
    key=$design/$topology/lab-cross
    compare "$out/lab-cross" --same "$out/given" --key "$key"
    replay "$out/lab-cross" "$design" "$topology" || check 1 "$key: the lab's replay"
    compare "$out/lab-cross" "$out"/lab-cross.lab[1-5] --expected "$here/expected.txt" --key "$key"
    compare "$out/ublk" --bios "$reads" --key "Linux $kernel, $topology, the block layer's bios"
    compare "$out/ublk-cross" --bios "$reads" --key "Linux $kernel, $topology, the same across nodes"
}

# The same calls on the kernel $bzimage, which has the change of slub/, as in the results in $2.
changed() {
    local topology=$1 before=$2 out=$2-changed scenario plan=()
    for scenario in adjacent cross; do
        [ ! -e "$before/$scenario-again.order" ] ||
            plan+=("follow $scenario=$before/$scenario-again.order")
    done
    [ ${#plan[@]} != 0 ] || return 0
    rm -rf "$out"
    mkdir -p "$out"
    "$here/machine.py" "$bzimage" "$root/topologies/$topology.topo" "$out" "${plan[@]}" --seconds "$seconds" || {
        check 1 "the changed kernel on $topology: the machine"
        return
    }
    for scenario in adjacent cross; do
        [ -e "$out/$scenario.order" ] || continue
        compare "$out/$scenario" --same "$before/$scenario-again" --key "slub/, $topology, $scenario"
        compare "$out/$scenario" --before "$before/$scenario-again" --key "slub/, $topology, $scenario"
    done
}

# The kernel's memory pools and hash table in a program, over stook/kmem.h.
if [[ " $kernels " = *" 7.2 "* ]]; then
    result=0
    tree=$("$here/build.sh" 7.2 --source) && "$root/tests/kernel/port.sh" "$tree" "$root/build" || result=1
    check $result "tests/kernel/port.sh"
fi

for kernel in $kernels; do
    bzimage=$("$here/build.sh" "$kernel") || {
        check 1 "Linux $kernel could not be built"
        continue
    }
    check 0
    for topology in $topologies; do
        out=$cache/results/$kernel-$topology
        rm -rf "$out"
        status=0
        machine "$kernel" "$topology" "$out" || status=$?
        check $status "Linux $kernel on $topology: the machine"
        [ $status != 0 ] || judge "$kernel" "$topology" "$out"
    done
done
if [[ " $kernels " == *" 7.2 "* ]]; then
    if bzimage=$("$here/build.sh" 7.2 --apply "$here/slub"); then
        for topology in $topologies; do
            changed "$topology" "$cache/results/7.2-$topology"
        done
    else
        check 1 "Linux 7.2 with the change of slub/ could not be built"
    fi
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
