/* SPDX-License-Identifier: MIT */
/*
 * unwind_cfa.h - the programs of .eh_frame: runs an entry's call frame instructions, to find the caller's registers at
 * an address.  unwind_rules.c finds the entries.
 *
 * Every read is checked against the bounds given: a field beyond them makes the rule unknown.  Of the registers only
 * the stack pointer, the frame pointer and the return address count.
 */
#ifndef STOOK_SITE_UNWIND_CFA_H
#define STOOK_SITE_UNWIND_CFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* REGISTERS_LINK: calls leave the return address in a register, which may be signed. */
#if defined(__x86_64__)
enum { REGISTER_FP = 6, REGISTER_SP = 7, REGISTER_RETURN = 16, REGISTERS_LINK = 0 };
#else
enum { REGISTER_FP = 29, REGISTER_SP = 31, REGISTER_RETURN = 30, REGISTERS_LINK = 1 };
#endif

struct bytes {
    const unsigned char *at, *end;
    bool bad;
};

/* Where a register of the caller is. */
struct unwind_place {
    enum { PLACE_SAME, PLACE_CFA, PLACE_FP, PLACE_UNDEFINED, PLACE_UNKNOWN } kind;
    int64_t offset;
};

struct unwind_state {
    struct unwind_place fp, ra, sp;
    bool cfa_unknown, cfa_memory, is_signed;
    uint64_t cfa_register;
    int64_t cfa_offset;
};

struct unwind_common {
    uint64_t code_align;
    int64_t data_align;
    unsigned encoding;
    bool augmented, signal;
    struct bytes program;
};

static inline uint64_t bytes_number(struct bytes *bytes, size_t size)
{
    uint64_t value = 0;

    if (bytes->bad || (size_t)(bytes->end - bytes->at) < size) {
        bytes->bad = true;
        return 0;
    }
    memcpy(&value, bytes->at, size); /* both machines are little-endian */
    bytes->at += size;
    return value;
}

/* LEB128: seven bits a byte, the least first; the last byte's highest one is the sign, if there is one. */
static inline uint64_t bytes_leb(struct bytes *bytes, bool sign)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;

    do {
        byte = bytes_number(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (sign && shift < 64 && byte & 0x40)
        value |= ~(uint64_t)0 << shift;
    return value;
}

static inline uint64_t bytes_uleb(struct bytes *bytes)
{
    return bytes_leb(bytes, false);
}

static inline int64_t bytes_sleb(struct bytes *bytes)
{
    return (int64_t)bytes_leb(bytes, true);
}

/* The next so many bytes, for themselves. */
static inline struct bytes bytes_take(struct bytes *bytes, uint64_t size)
{
    struct bytes taken = {.at = bytes->at, .bad = true};

    if (bytes->bad || size > (uint64_t)(bytes->end - bytes->at)) {
        bytes->bad = true;
        taken.end = taken.at;
        return taken;
    }
    bytes->at += size;
    taken.end = bytes->at;
    taken.bad = false;
    return taken;
}

/* Runs a program as far as an address that lies `left` units of code from where it begins.  `first` is what the common
 * part says, for instructions that restore it.  false: unknown. */
bool unwind_cfa_run(struct bytes program, uint64_t left, const struct unwind_common *common,
                    struct unwind_state *state, const struct unwind_state *first);

#endif
