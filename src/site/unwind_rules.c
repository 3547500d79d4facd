/* SPDX-License-Identifier: MIT */
/*
 * unwind_rules.c - from the bytes of .eh_frame_hdr and .eh_frame to a rule: the search of the header's table, the
 * entry of a function (FDE), its common part (CIE), and a run of both programs up to the address.
 *
 * Every read is checked against the bounds given: a field beyond them makes the rule unknown.  Of the registers only
 * the stack pointer, the frame pointer and the return address count.
 */
#include "site/unwind.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
enum { REGISTER_FP = 6, REGISTER_SP = 7, REGISTER_RETURN = 16, REGISTERS_SIGNED = 0 };
#else
enum { REGISTER_FP = 29, REGISTER_SP = 31, REGISTER_RETURN = 30, REGISTERS_SIGNED = 1 };
#endif

/* Of the DWARF and Linux Standard Base standards. */
enum {
    CFA_ADVANCE = 1, /* in the upper two bits: the operand in the others */
    CFA_OFFSET = 2,
    CFA_RESTORE = 3,
    CFA_NOP = 0,
    CFA_ADVANCE1 = 2,
    CFA_ADVANCE2 = 3,
    CFA_ADVANCE4 = 4,
    CFA_OFFSET_EXTENDED = 5,
    CFA_RESTORE_EXTENDED = 6,
    CFA_UNDEFINED = 7,
    CFA_SAME_VALUE = 8,
    CFA_REGISTER = 9,
    CFA_REMEMBER_STATE = 10,
    CFA_RESTORE_STATE = 11,
    CFA_DEF_CFA = 12,
    CFA_DEF_CFA_REGISTER = 13,
    CFA_DEF_CFA_OFFSET = 14,
    CFA_DEF_CFA_EXPRESSION = 15,
    CFA_EXPRESSION = 16,
    CFA_OFFSET_EXTENDED_SF = 17,
    CFA_DEF_CFA_SF = 18,
    CFA_DEF_CFA_OFFSET_SF = 19,
    CFA_VAL_OFFSET = 20,
    CFA_VAL_OFFSET_SF = 21,
    CFA_VAL_EXPRESSION = 22,
    CFA_NEGATE_RA_STATE = 0x2d,
    CFA_ARGS_SIZE = 0x2e,
    OP_DEREF = 6,
    OP_BREG0 = 0x70,
    PE_ABSPTR = 0,
    PE_UDATA4 = 3,
    PE_UDATA8 = 4,
    PE_SDATA4 = 0xb,
    PE_SDATA8 = 0xc,
    PE_PCREL = 0x10,
    PE_DATAREL_SDATA4 = 0x3b,
    PE_ALIGNED = 0x50,
    RULES_DEPTH = 8, /* of remembered states */
    RULES_GUESSES = 6,
};

struct bytes {
    const unsigned char *at, *end;
    bool bad;
};

/* Where a register of the caller is. */
struct place {
    enum { PLACE_SAME, PLACE_CFA, PLACE_FP, PLACE_UNDEFINED, PLACE_UNKNOWN } kind;
    int64_t offset;
};

struct state {
    struct place fp, ra, sp;
    bool cfa_unknown, cfa_memory, is_signed;
    uint64_t cfa_register;
    int64_t cfa_offset;
};

struct common {
    uint64_t code_align;
    int64_t data_align;
    unsigned encoding;
    bool augmented;
    struct bytes program;
};

static uint64_t bytes_number(struct bytes *bytes, size_t size)
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

static uint64_t bytes_uleb(struct bytes *bytes)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;

    do {
        byte = bytes_number(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    return value;
}

static int64_t bytes_sleb(struct bytes *bytes)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;

    do {
        byte = bytes_number(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && byte & 0x40)
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

/* The next so many bytes, for themselves. */
static struct bytes bytes_take(struct bytes *bytes, uint64_t size)
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

/* ---- a run of a program ---------------------------------------------------------------------- */

static void rules_place(struct state *state, uint64_t number, struct place place)
{
    if (number == REGISTER_FP)
        state->fp = place;
    else if (number == REGISTER_RETURN)
        state->ra = place;
    else if (number == REGISTER_SP)
        state->sp = place;
}

static void rules_restore(struct state *state, uint64_t number, const struct state *first)
{
    rules_place(state, number,
                number == REGISTER_FP       ? first->fp
                : number == REGISTER_RETURN ? first->ra
                                            : first->sp);
}

/* An expression of a realigned stack: what lies at the frame pointer + offset, or this sum. */
static bool rules_expression(struct bytes *bytes, bool deref, int64_t *offset)
{
    struct bytes expression = bytes_take(bytes, bytes_uleb(bytes));

    if (bytes_number(&expression, 1) != OP_BREG0 + REGISTER_FP)
        return false;
    *offset = bytes_sleb(&expression);
    if (deref && bytes_number(&expression, 1) != OP_DEREF)
        return false;
    return !expression.bad && expression.at == expression.end;
}

static void rules_cfa(struct state *state, uint64_t number, int64_t offset)
{
    state->cfa_unknown = state->cfa_memory = false;
    state->cfa_register = number;
    state->cfa_offset = offset;
}

/* Instructions that define the CFA; false: it is none of them. */
static bool rules_cfa_step(struct bytes *program, unsigned code, const struct common *common,
                           struct state *state)
{
    uint64_t number;
    int64_t offset = 0;

    switch (code) {
    case CFA_DEF_CFA:
        number = bytes_uleb(program);
        rules_cfa(state, number, (int64_t)bytes_uleb(program));
        return true;
    case CFA_DEF_CFA_SF:
        number = bytes_uleb(program);
        rules_cfa(state, number,
                  (int64_t)((uint64_t)bytes_sleb(program) * (uint64_t)common->data_align));
        return true;
    case CFA_DEF_CFA_REGISTER:
        rules_cfa(state, bytes_uleb(program), state->cfa_offset);
        return true;
    case CFA_DEF_CFA_OFFSET:
        state->cfa_offset = (int64_t)bytes_uleb(program);
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        state->cfa_offset = (int64_t)((uint64_t)bytes_sleb(program) * (uint64_t)common->data_align);
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        state->cfa_memory = rules_expression(program, true, &offset);
        state->cfa_unknown = !state->cfa_memory;
        state->cfa_offset = offset;
        return true;
    default:
        return false;
    }
}

/* Instructions about a register; false: it is none of them. */
static bool rules_register_step(struct bytes *program, unsigned code, const struct common *common,
                                struct state *state, const struct state *first)
{
    struct place place = {.kind = PLACE_UNKNOWN};
    uint64_t number = bytes_uleb(program), scale = (uint64_t)common->data_align;

    switch (code) {
    case CFA_OFFSET_EXTENDED:
        place = (struct place){PLACE_CFA, (int64_t)(bytes_uleb(program) * scale)};
        break;
    case CFA_OFFSET_EXTENDED_SF:
        place = (struct place){PLACE_CFA, (int64_t)((uint64_t)bytes_sleb(program) * scale)};
        break;
    case CFA_RESTORE_EXTENDED:
        rules_restore(state, number, first);
        return true;
    case CFA_UNDEFINED:
        place.kind = PLACE_UNDEFINED;
        break;
    case CFA_SAME_VALUE:
        place.kind = PLACE_SAME;
        break;
    case CFA_EXPRESSION:
        if (rules_expression(program, false, &place.offset))
            place.kind = PLACE_FP;
        break;
    case CFA_REGISTER:
    case CFA_VAL_OFFSET:
        (void)bytes_uleb(program);
        break;
    case CFA_VAL_OFFSET_SF:
        (void)bytes_sleb(program);
        break;
    case CFA_VAL_EXPRESSION:
        (void)bytes_take(program, bytes_uleb(program));
        break;
    default:
        return false;
    }
    rules_place(state, number, place);
    return true;
}

/* Runs a program as far as `pc`, which lies `left` units of code from where it begins; false: unknown. */
static bool rules_run(struct bytes program, uint64_t left, const struct common *common,
                      struct state *state, const struct state *first)
{
    struct state remembered[RULES_DEPTH];
    unsigned depth = 0;

    while (!program.bad && program.at < program.end) {
        unsigned byte = (unsigned)bytes_number(&program, 1), low = byte & 0x3f;
        uint64_t advance = 0;

        switch (byte >> 6) {
        case CFA_ADVANCE:
            advance = low;
            break;
        case CFA_OFFSET:
            rules_place(state, low,
                        (struct place){PLACE_CFA, (int64_t)(bytes_uleb(&program) *
                                                            (uint64_t)common->data_align)});
            continue;
        case CFA_RESTORE:
            rules_restore(state, low, first);
            continue;
        default:
            switch (byte) {
            case CFA_NOP:
                continue;
            case CFA_ADVANCE1:
            case CFA_ADVANCE2:
            case CFA_ADVANCE4:
                advance = bytes_number(&program, (size_t)1 << (byte - CFA_ADVANCE1));
                break;
            case CFA_REMEMBER_STATE:
                if (depth == RULES_DEPTH)
                    return false;
                remembered[depth++] = *state;
                continue;
            case CFA_RESTORE_STATE:
                if (depth == 0)
                    return false;
                *state = remembered[--depth];
                continue;
            case CFA_NEGATE_RA_STATE:
                if (!REGISTERS_SIGNED)
                    return false;
                state->is_signed = !state->is_signed;
                continue;
            case CFA_ARGS_SIZE:
                (void)bytes_uleb(&program);
                continue;
            default:
                if (!rules_cfa_step(&program, byte, common, state) &&
                    (byte < CFA_OFFSET_EXTENDED || byte > CFA_VAL_EXPRESSION ||
                     !rules_register_step(&program, byte, common, state, first)))
                    return false;
                continue;
            }
        }
        if (advance > left)
            return !program.bad;
        left -= advance;
    }
    return !program.bad;
}

/* ---- entries --------------------------------------------------------------------------------- */

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
                         struct common *common)
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
    common->augmented = *letters == 'z';
    if (common->augmented) {
        data = bytes_take(&entry, bytes_uleb(&entry));
        while (*++letters) {
            if (*letters == 'R')
                common->encoding = (unsigned)bytes_number(&data, 1);
            else if (*letters == 'L')
                (void)bytes_number(&data, 1);
            else if (*letters == 'P') { /* whose address is not looked at: it may be indirect */
                unsigned encoding = (unsigned)bytes_number(&data, 1);
                (void)bytes_pointer(&data, encoding & 0x1f);
                if ((encoding & PE_ALIGNED) == PE_ALIGNED)
                    return false;
            } else if (!(REGISTERS_SIGNED && *letters == 'B'))
                return false; /* S: a signal's frame */
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

/*
 * The last of n whose code begins at or before `code`; n > 0.  Functions are of similar sizes, so the place is
 * guessed from both ends' codes first: a table of 30,000 is read in six lines instead of fifteen, which nothing else has
 * brought to the CPU's cache.
 */
static uint64_t rules_bisect(const unsigned char *table, uint64_t n, int64_t code)
{
    uint64_t low = 0,
             high = n; /* the first is at or before it, unless low is 0; high is behind it */
    int64_t from = rules_indexed(table, 0).code, to = rules_indexed(table, n - 1).code;

    for (unsigned guesses = RULES_GUESSES; high - low > 1;) {
        uint64_t middle = low + (high - low) / 2;
        int64_t found;
        if (guesses > 0 && from < to && code >= from && code <= to) {
            middle = low + (uint64_t)((double)(code - from) / (double)(to - from) *
                                      (double)(high - low - 1));
            middle = middle <= low ? low + 1 : middle >= high ? high - 1 : middle;
            guesses--;
        }
        found = rules_indexed(table, middle).code;
        if (found <= code) {
            low = middle;
            from = found;
        } else {
            high = middle;
            to = found;
        }
    }
    return low;
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
    one = rules_indexed(header.at, rules_bisect(header.at, n, code));
    *entry = (uintptr_t)tables->header + (uint64_t)(int64_t)one.entry;
    return one.code <= code;
}

static bool rules_packs(int64_t offset, unsigned bits)
{
    int64_t most = (int64_t)8 << (bits - 1);

    return offset % 8 == 0 && offset < most && offset >= -most;
}

static uint64_t rules_pack(const struct state *state)
{
    enum unwind_kind kind = state->cfa_memory                    ? UNWIND_FP_MEM
                            : state->cfa_register == REGISTER_SP ? UNWIND_SP
                                                                 : UNWIND_FP;
    enum unwind_fp fp = state->fp.kind == PLACE_CFA  ? UNWIND_FP_CFA
                        : state->fp.kind == PLACE_FP ? UNWIND_FP_FP
                                                     : UNWIND_FP_SAME;

    if (state->ra.kind == PLACE_UNDEFINED)
        return UNWIND_END;
    if (state->cfa_unknown || state->ra.kind != PLACE_CFA || state->sp.kind != PLACE_SAME ||
        state->fp.kind == PLACE_UNKNOWN ||
        (kind == UNWIND_FP && state->cfa_register != REGISTER_FP) ||
        !rules_packs(state->cfa_offset, 24) || !rules_packs(state->ra.offset, 16) ||
        !rules_packs(state->fp.offset, 16))
        return UNWIND_UNKNOWN;
    return (uint64_t)kind | (uint64_t)fp << 3 |
           (state->is_signed ? (uint64_t)UNWIND_SIGNED : (uint64_t)0) |
           (uint64_t)(uint16_t)(state->fp.offset / 8) << 8 |
           (uint64_t)(uint16_t)(state->ra.offset / 8) << 24 |
           (uint64_t)(state->cfa_offset / 8) << 40;
}

uint64_t unwind_rules_find(const struct unwind_tables *tables, uint64_t pc)
{
    struct state first = {.cfa_unknown = true}, state;
    struct common common;
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
    if (!rules_run(common.program, UINT64_MAX, &common, &first, &first))
        return UNWIND_UNKNOWN;
    state = first;
    return rules_run(entry, (pc - begin) / common.code_align, &common, &state, &first)
               ? rules_pack(&state)
               : UNWIND_UNKNOWN;
}
