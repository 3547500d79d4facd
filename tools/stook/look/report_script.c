/* SPDX-License-Identifier: MIT */
/*
 * report_script.c - the script of the page, as it stands in tools/flame.
 */
__asm__(".section .rodata\n"
        ".global report_script, report_script_end\n"
        ".hidden report_script, report_script_end\n"
        "report_script:\n"
        ".incbin \"" STOOK_FLAME "\"\n"
        "report_script_end:\n"
        ".byte 0\n"
        ".previous\n");
