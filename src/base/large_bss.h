/* SPDX-License-Identifier: MIT */
/*
 * large_bss.h - tables that few programs use: they lie behind all other zeroed data, so that what a start
 * writes is on few pages.  The linker sorts sections by name (CMakeLists.txt); where it does not, they lie
 * elsewhere and nothing else changes.
 */
#ifndef STOOK_BASE_LARGE_BSS_H
#define STOOK_BASE_LARGE_BSS_H

#define LARGE_BSS __attribute__((section(".bss.stook_large")))

#endif
