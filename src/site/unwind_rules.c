/* SPDX-License-Identifier: MIT */
/*
 * unwind_rules.c - from the bytes of .eh_frame_hdr and .eh_frame to a rule.  It searches the header's table
 * for a function's entry (FDE) and that entry's common part (CIE).  unwind_cfa.h runs their programs up to the
 * address.
 */
#include "site/unwind.h"
#include "site/unwind_cfa.h"

/* Of the Linux Standard Base. */
enum {
    PE_ABSPTR = 0,
    PE_UDATA4 = 3,
    PE_UDATA8 = 4,
    PE_SDATA4 = 0xb,
    PE_SDATA8 = 0xc,
    PE_PCREL = 0x10,
    PE_DATAREL_SDATA4 = 0x3b,
    PE_ALIGNED = 0x50,
};

static uint64_t bytes_pointer(struct bytes *bytes, unsigned encoding)
{
    uint64_t base = encoding & PE_PCREL ? (uintptr_t)bytes->at : 0, value;

    switch (encoding & ~(unsigned)PE_PCREL) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        value = bytes_number(bytes, 8);
        break;
    case PE_UDATA4:
        value = bytes_number(bytes, 4);
        break;
    case PE_SDATA4:
        value = (uint64_t)(int32_t)bytes_number(bytes, 4);
        break;
    default:
        bytes->bad = true;
        return 0;
    }
    return value + base;
}

/* The bytes of an entry behind its length. */
static struct bytes rules_entry(const struct unwind_tables *tables, uint64_t address)
{
    struct bytes entry = {.bad = true};

    if (address >= (uintptr_t)tables->start && address < (uintptr_t)tables->end) {
        entry.at = tables->start + (address - (uintptr_t)tables->start);
        entry.end = tables->end;
        entry.bad = false;
        entry = bytes_take(&entry, bytes_number(&entry, 4)); /* 64-bit DWARF is too long */
    }
    return entry;
}

static bool rules_common(const struct unwind_tables *tables, uint64_t address,
                         struct unwind_common *common)
{
    struct bytes entry = rules_entry(tables, address), data;
    const char *letters;
    unsigned version;

    if (bytes_number(&entry, 4) != 0 || entry.bad)
        return false;
    version = (unsigned)bytes_number(&entry, 1);
    letters = (const char *)entry.at;
    while (bytes_number(&entry, 1) != 0)
        ;
    common->code_align = bytes_uleb(&entry);
    common->data_align = bytes_sleb(&entry);
    if ((version == 1 ? bytes_number(&entry, 1) : bytes_uleb(&entry)) != REGISTER_RETURN ||
        entry.bad || (version != 1 && version != 3) || common->code_align == 0)
        return false;
    common->encoding = PE_ABSPTR;
    common->signal = false;
    common->augmented = *letters == 'z';
    if (common->augmented) {
        data = bytes_take(&entry, bytes_uleb(&entry));
        while (*++letters) {
            if (*letters == 'R')
                common->encoding = (unsigned)bytes_number(&data, 1);
            else if (*letters == 'L')
                (void)bytes_number(&data, 1);
            else if (*letters == 'P') { /* the personality: not read, it may be indirect */
                unsigned encoding = (unsigned)bytes_number(&data, 1);
                (void)bytes_pointer(&data, encoding & 0x1f);
                if ((encoding & PE_ALIGNED) == PE_ALIGNED)
                    return false;
            } else if (*letters == 'S')
                common->signal = true;
            else if (!(REGISTERS_LINK && *letters == 'B'))
                return false;
        }
        if (data.bad)
            return false;
    } else if (*letters)
        return false;
    common->program = entry;
    return !entry.bad;
}

/* One of the header's table: both from the header on. */
struct indexed {
    int32_t code, entry;
};

static struct indexed rules_indexed(const unsigned char *table, uint64_t number)
{
    struct indexed one;

    memcpy(&one, table + number * sizeof(one), sizeof(one));
    return one;
}

/* The last of n whose code begins at or before `code`, or the first; n > 0. */
static struct indexed rules_bisect(const unsigned char *table, uint64_t n, int64_t code)
{
    uint64_t low = 0, high = n;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (rules_indexed(table, middle).code <= code)
            low = middle;
        else
            high = middle;
    }
    return rules_indexed(table, low);
}

/* The entry of the function that has `pc`, by the header's table; false: there is none, or *bad. */
static bool rules_search(const struct unwind_tables *tables, uint64_t pc, uint64_t *entry,
                         bool *bad)
{
    struct bytes header = {.at = tables->header, .end = tables->end};
    unsigned version = (unsigned)bytes_number(&header, 1),
             frame = (unsigned)bytes_number(&header, 1), count = (unsigned)bytes_number(&header, 1),
             table = (unsigned)bytes_number(&header, 1);
    int64_t code = (int64_t)(pc - (uintptr_t)tables->header);
    struct indexed one;
    uint64_t n;

    (void)bytes_pointer(&header, frame);
    n = bytes_number(&header, 4);
    *bad = header.bad || version != 1 || count != PE_UDATA4 || table != PE_DATAREL_SDATA4 ||
           n > (uint64_t)(header.end - header.at) / sizeof(one);
    if (*bad || n == 0)
        return false;
    one = rules_bisect(header.at, n, code);
    *entry = (uintptr_t)tables->header + (uint64_t)(int64_t)one.entry;
    return one.code <= code;
}

static bool rules_packs(int64_t offset, unsigned bits)
{
    int64_t most = (int64_t)8 << (bits - 1);

    return offset % 8 == 0 && offset < most && offset >= -most;
}

static uint64_t rules_pack(const struct unwind_state *state)
{
    int64_t ra = state->ra.offset, fp_at = state->fp.offset;
    enum unwind_kind kind = state->cfa_memory                    ? UNWIND_FP_MEM
                            : state->cfa_register == REGISTER_SP ? UNWIND_SP
                                                                 : UNWIND_FP;
    enum unwind_fp fp = state->fp.kind == PLACE_CFA  ? UNWIND_FP_CFA
                        : state->fp.kind == PLACE_FP ? UNWIND_FP_FP
                                                     : UNWIND_FP_SAME;
    bool link = REGISTERS_LINK && state->ra.kind == PLACE_SAME,
         low = kind != UNWIND_FP_MEM && !link && !rules_packs(ra, 16);

    if (low) {
        ra += state->cfa_offset;
        fp_at += fp == UNWIND_FP_CFA ? state->cfa_offset : 0;
    }

    if (state->ra.kind == PLACE_UNDEFINED)
        return UNWIND_END;
    if (state->cfa_unknown || (state->ra.kind != PLACE_CFA && !link) ||
        state->sp.kind != PLACE_SAME || state->fp.kind == PLACE_UNKNOWN ||
        (kind == UNWIND_FP && state->cfa_register != REGISTER_FP) ||
        !rules_packs(state->cfa_offset, 24) || !rules_packs(ra, 16) || !rules_packs(fp_at, 16))
        return UNWIND_UNKNOWN;
    return (uint64_t)kind | (uint64_t)fp << 3 |
           (state->is_signed ? (uint64_t)UNWIND_SIGNED : (uint64_t)0) |
           (link ? (uint64_t)UNWIND_LINK : (uint64_t)0) |
           (low ? (uint64_t)UNWIND_LOW : (uint64_t)0) | (uint64_t)(uint16_t)(fp_at / 8) << 8 |
           (uint64_t)(uint16_t)(ra / 8) << 24 | (uint64_t)(state->cfa_offset / 8) << 40;
}

uint64_t unwind_rules_find(const struct unwind_tables *tables, uint64_t pc)
{
    struct unwind_state first = {.cfa_unknown = true}, state;
    struct unwind_common common;
    struct bytes entry;
    uint64_t address, begin, size, id_at;
    bool bad;

    if (!rules_search(tables, pc, &address, &bad))
        return bad ? UNWIND_UNKNOWN : UNWIND_END;
    entry = rules_entry(tables, address);
    id_at = (uintptr_t)entry.at;
    if (!rules_common(tables, id_at - bytes_number(&entry, 4), &common))
        return UNWIND_UNKNOWN;
    begin = bytes_pointer(&entry, common.encoding);
    size = bytes_pointer(&entry, common.encoding & ~(unsigned)PE_PCREL);
    if (common.augmented)
        (void)bytes_take(&entry, bytes_uleb(&entry));
    if (entry.bad)
        return UNWIND_UNKNOWN;
    if (pc - begin >= size)
        return UNWIND_END;
    if (common.signal)
        return UNWIND_SIGNAL;
    if (!unwind_cfa_run(common.program, UINT64_MAX, &common, &first, &first))
        return UNWIND_UNKNOWN;
    state = first;
    return unwind_cfa_run(entry, (pc - begin) / common.code_align, &common, &state, &first)
               ? rules_pack(&state)
               : UNWIND_UNKNOWN;
}
