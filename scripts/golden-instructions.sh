#!/bin/bash
# SPDX-License-Identifier: MIT
# Counts the instructions of the inlined fast path by class and compares them with the golden
# table, whose diff is the performance review: a change of it must say why.
#
#   golden-instructions.sh SOURCE            compare; 77 when the table has nothing for $CC
#   golden-instructions.sh --update SOURCE   write the rows of $CC
#   golden-instructions.sh --self-test       a changed count, and an instruction more, must be found
set -euo pipefail

CC=${CC:-cc}
flags=(-std=gnu17 -O2 -march=x86-64 -mtune=generic -fPIE -fcf-protection=none
    -fno-stack-protector -fomit-frame-pointer)

skip() {
    echo "skipped: $*"
    exit 77
}

# From the entry to the first ret, no conditional branch taken, jumps within the function followed.
# An instruction that reads and writes memory is an update; one with a lock prefix, and an xchg
# with memory, is atomic.
count() { # OBJECT FUNCTION: total load store update branch atomic other
    objdump -d --no-show-raw-insn --disassemble="$2" "$1" | awk -v function_name="$2" '
    BEGIN { n = 0 }
    /^ +[0-9a-f]+:\t/ {
        address = $1
        sub(/:/, "", address)
        sub(/^[^\t]*\t/, "")
        sub(/ *(#.*)?$/, "")
        text[n] = $0
        index_of[address] = n++
    }
    function memory(operand) { return operand ~ /\(|%[fg]s:/ }
    function class(line,    op, operands, first, last) {
        op = line
        sub(/[ ].*/, "", op)
        operands = line
        sub(/^[^ ]+ */, "", operands)
        if (op == "lock") return "atomic"
        if (op ~ /^(j|call|ret)/) return "branch"
        if (op ~ /^(lea|nop)/ || !memory(operands)) return op ~ /^(push|pop)/ ? "store" : "other"
        # operands: memory references hold commas inside parentheses
        last = operands
        gsub(/\([^)]*\)/, "()", last)
        first = last
        sub(/.*,/, "", last)
        if (op ~ /^xchg/) return "atomic"
        if (op ~ /^(cmp|test)/ || !memory(last)) return "load"
        if (op ~ /^(mov|set)/) return "store"
        return index(first, ",") || op ~ /^(inc|dec|neg|not|add|sub)/ ? "update" : "load"
    }
    END {
        for (i = 0; i < n && steps++ < 1000; i++) {
            found[class(text[i])]++
            total++
            if (text[i] ~ /^ret/) {
                done = 1
                break
            }
            if (text[i] ~ /^jmp/) {
                split(text[i], word, / +/)
                if (!(word[2] in index_of)) break
                i = index_of[word[2]] - 1
            }
        }
        if (!done) {
            print function_name ": no way to a ret" > "/dev/stderr"
            exit 1
        }
        print total, found["load"] + 0, found["store"] + 0, found["update"] + 0,
            found["branch"] + 0, found["atomic"] + 0, found["other"] + 0
    }'
}

rows() { # SOURCE-FILE INCLUDE: the rows of the table for $CC
    local object function counts
    object=$work/golden.o
    "$CC" "${flags[@]}" -I"$2" -c "$1" -o "$object"
    for function in golden_pop golden_push; do
        counts=$(count "$object" "$function")
        # shellcheck disable=SC2086  # a list of words
        printf '%-8s %-12s %5d %5d %6d %7d %7d %7d %6d\n' "$compiler" "$function" $counts
    done
}

compare() { # TABLE SOURCE-FILE INCLUDE
    local golden
    golden=$(grep "^$compiler " "$1") || skip "$1 has no rows for $compiler"
    diff <(echo "$golden") <(rows "$2" "$3") || {
        echo "the fast path is not what the golden table (<) says; --update writes it anew (>)"
        return 1
    }
}

self_test() {
    local source
    source=$(dirname "$(dirname "$(realpath "$0")")")
    local file=$source/tests/golden/inline_pair.c
    rows "$file" "$source/include" >"$work/table"
    compare "$work/table" "$file" "$source/include"
    awk 'NR == 1 {$4 = $4 + 1} {print}' "$work/table" >"$work/changed"
    ! compare "$work/changed" "$file" "$source/include" >/dev/null || {
        echo "self-test: a changed count was not found"
        exit 1
    }
    for slower in '__asm__ volatile("lock; incl (%0)" :: "r"(cache) : "memory");' \
        '*(volatile char *)cache = 0;' '(void)*(volatile char *)cache;' '__asm__ volatile("nop");'; do
        sed "s|    return stook_alloc_inline|    $slower\n&|" "$file" >"$work/slower.c"
        ! compare "$work/table" "$work/slower.c" "$source/include" >/dev/null || {
            echo "self-test: one instruction more was not found: $slower"
            exit 1
        }
    done
    # One of each class on the way, a cold call beside it.
    cat >"$work/classes.s" <<-'END'
	.globl golden_pop
	.type golden_pop, @function
	golden_pop:
	    movq %fs:4(%rax), %rdx
	    cmpl 4(%rdx), %ecx
	    jae 2f
	    movq %rax, 16(%rdx, %rcx, 8)
	    movl $1, (%rdx)
	    addl $1, (%rdx)
	    lock cmpxchgq %rdx, (%rax)
	    leaq 3(%rdx, %rcx), %rax
	    jmp 3f
	2:  call other
	3:  ret
	END
    "$CC" -c "$work/classes.s" -o "$work/classes.o"
    [ "$(count "$work/classes.o" golden_pop)" = "10 2 2 1 3 1 1" ] || {
        echo "self-test: the classes are counted wrongly: $(count "$work/classes.o" golden_pop)"
        exit 1
    }
}

[ "$(uname -m)" = x86_64 ] || skip "the golden table is of x86-64"
command -v objdump >/dev/null || skip "no objdump"
"$CC" --version | grep -qi 'gcc\|Free Software' || skip "the golden table is of GCC"
compiler=gcc-$("$CC" -dumpversion | cut -d. -f1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $1 in
--self-test) self_test ;;
--update)
    table=$2/tests/golden/inline_pair.txt
    {
        echo "# Instructions of the inlined fast path; scripts/golden-instructions.sh --update"
        printf '# %-6s %-12s %5s %5s %6s %7s %7s %7s %6s\n' compiler function total load store \
            update branch atomic other
        { grep -v "^#\|^$compiler " "$table" 2>/dev/null || true; rows \
            "$2/tests/golden/inline_pair.c" "$2/include"; } | sort
    } >"$work/table"
    cp "$work/table" "$table"
    ;;
*) compare "$1/tests/golden/inline_pair.txt" "$1/tests/golden/inline_pair.c" "$1/include" ;;
esac
