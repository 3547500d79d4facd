#!/bin/bash
# SPDX-License-Identifier: MIT
# Names of Rust's mangling (RFC 2603) as tools/stook/profile/profile_rust.c makes them readable; and names that are none,
# cut, or built to take forever, which stay as they are.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
cat >"$work/main.c" <<'C'
#include "stook/profile/profile_code.h"
#include <stdio.h>
#include <string.h>
int main(void)
{
    char line[1 << 16], text[RUST_TEXT];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        puts(rust_demangle(line, text) ? text : line);
    }
    return 0;
}
C
"${CC:-cc}" -std=gnu17 -O1 -Wall -Wextra -Werror -I"$STOOK_SOURCE_DIR/tools" -I"$STOOK_SOURCE_DIR/src" "$work/main.c" \
    "$STOOK_SOURCE_DIR/tools/stook/profile/profile_rust.c" -o "$work/names"
forever=_RIC1xTC1aMB4_B4_MB7_B7_MBe_Be_MBl_Bl_MBs_Bs_MBz_Bz_MBG_BG_MBN_BN_MBU_BU_MB11_B11_MB18_B18_MB1h_B1h_MB1q_B1q_MB1z_B1z_EE
cat >"$work/given" <<C
_RNvCs1a2b_1m4main m::main
_RNvMs_NtCs1a2b_1m5storeINtB4_5TableplE3addB6_ <m::store::Table<_, i32>>::add
_RNvXCs1a2b_1mNtB2_1SNtNtCs3_4core3fmt5Debug3fmt <m::S as core::fmt::Debug>::fmt
_RNCNvC1m1fs_0B3_ m::f::{closure#1}
_RINvC1m1fRShQbTmxEAjj4_PuFhEvE m::f::<&[u8], &mut bool, (u32, i64), [usize; 4], *const (), fn(u8) -> ...>
_RINvC1m1fKb1_Kin2a_E m::f::<true, -42>
_RINvC1m1fDNtC1a1TEL_FUKCEuE m::f::<dyn a::T, unsafe extern "C" fn()>
_RNvNCNvC1m1f03MIN m::f::{closure#0}::MIN
_RNvC1m99short _RNvC1m99short
_RNvC1m _RNvC1m
_R _R
_ZN1m1fE _ZN1m1fE
_RIC1aB_E _RIC1aB_E
$(printf '_R%0.sR' {1..200})C1a $(printf '_R%0.sR' {1..200})C1a
C
cut -d' ' -f1 "$work/given" | "$work/names" >"$work/got"
cut -d' ' -f2- "$work/given" | diff - "$work/got" || fail "expected, and got"
echo "$forever" | timeout 20 "$work/names" >/dev/null || fail "a name that repeats itself takes forever"
