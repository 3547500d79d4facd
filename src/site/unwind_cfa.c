/* SPDX-License-Identifier: MIT */
/*
 * unwind_cfa.c - interprets the call frame instructions of one entry of .eh_frame.
 */
#include "site/unwind_cfa.h"

/* Of the DWARF standard. */
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
    CFA_DEPTH = 8, /* of remembered states */
};

static void cfa_place(struct unwind_state *state, uint64_t number, struct unwind_place place)
{
    if (number == REGISTER_FP)
        state->fp = place;
    else if (number == REGISTER_RETURN)
        state->ra = place;
    else if (number == REGISTER_SP)
        state->sp = place;
}

static void cfa_restore(struct unwind_state *state, uint64_t number,
                        const struct unwind_state *first)
{
    cfa_place(state, number,
              number == REGISTER_FP       ? first->fp
              : number == REGISTER_RETURN ? first->ra
                                          : first->sp);
}

/* An expression of a realigned stack: what lies at the frame pointer + offset, or this sum. */
static bool cfa_expression(struct bytes *bytes, bool deref, int64_t *offset)
{
    struct bytes expression = bytes_take(bytes, bytes_uleb(bytes));

    if (bytes_number(&expression, 1) != OP_BREG0 + REGISTER_FP)
        return false;
    *offset = bytes_sleb(&expression);
    if (deref && bytes_number(&expression, 1) != OP_DEREF)
        return false;
    return !expression.bad && expression.at == expression.end;
}

static void cfa_define(struct unwind_state *state, uint64_t number, int64_t offset)
{
    state->cfa_unknown = state->cfa_memory = false;
    state->cfa_register = number;
    state->cfa_offset = offset;
}

/* Instructions that define the CFA; false: it is none of them. */
static bool cfa_step(struct bytes *program, unsigned code, const struct unwind_common *common,
                     struct unwind_state *state)
{
    uint64_t number;
    int64_t offset = 0;

    switch (code) {
    case CFA_DEF_CFA:
        number = bytes_uleb(program);
        cfa_define(state, number, (int64_t)bytes_uleb(program));
        return true;
    case CFA_DEF_CFA_SF:
        number = bytes_uleb(program);
        cfa_define(state, number,
                   (int64_t)((uint64_t)bytes_sleb(program) * (uint64_t)common->data_align));
        return true;
    case CFA_DEF_CFA_REGISTER:
        cfa_define(state, bytes_uleb(program), state->cfa_offset);
        return true;
    case CFA_DEF_CFA_OFFSET:
        state->cfa_offset = (int64_t)bytes_uleb(program);
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        state->cfa_offset = (int64_t)((uint64_t)bytes_sleb(program) * (uint64_t)common->data_align);
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        state->cfa_memory = cfa_expression(program, true, &offset);
        state->cfa_unknown = !state->cfa_memory;
        state->cfa_offset = offset;
        return true;
    default:
        return false;
    }
}

/* Instructions about a register; false: it is none of them. */
static bool cfa_register_step(struct bytes *program, unsigned code,
                              const struct unwind_common *common, struct unwind_state *state,
                              const struct unwind_state *first)
{
    struct unwind_place place = {.kind = PLACE_UNKNOWN};
    uint64_t number = bytes_uleb(program), scale = (uint64_t)common->data_align;

    switch (code) {
    case CFA_OFFSET_EXTENDED:
        place = (struct unwind_place){PLACE_CFA, (int64_t)(bytes_uleb(program) * scale)};
        break;
    case CFA_OFFSET_EXTENDED_SF:
        place = (struct unwind_place){PLACE_CFA, (int64_t)((uint64_t)bytes_sleb(program) * scale)};
        break;
    case CFA_RESTORE_EXTENDED:
        cfa_restore(state, number, first);
        return true;
    case CFA_UNDEFINED:
        place.kind = PLACE_UNDEFINED;
        break;
    case CFA_SAME_VALUE:
        place.kind = PLACE_SAME;
        break;
    case CFA_EXPRESSION:
        if (cfa_expression(program, false, &place.offset))
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
    cfa_place(state, number, place);
    return true;
}

bool unwind_cfa_run(struct bytes program, uint64_t left, const struct unwind_common *common,
                    struct unwind_state *state, const struct unwind_state *first)
{
    struct unwind_state remembered[CFA_DEPTH];
    unsigned depth = 0;

    while (!program.bad && program.at < program.end) {
        unsigned byte = (unsigned)bytes_number(&program, 1), low = byte & 0x3f;
        uint64_t advance = 0;

        switch (byte >> 6) {
        case CFA_ADVANCE:
            advance = low;
            break;
        case CFA_OFFSET:
            cfa_place(state, low,
                      (struct unwind_place){PLACE_CFA, (int64_t)(bytes_uleb(&program) *
                                                                 (uint64_t)common->data_align)});
            continue;
        case CFA_RESTORE:
            cfa_restore(state, low, first);
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
                if (depth == CFA_DEPTH)
                    return false;
                remembered[depth++] = *state;
                continue;
            case CFA_RESTORE_STATE:
                if (depth == 0)
                    return false;
                *state = remembered[--depth];
                continue;
            case CFA_NEGATE_RA_STATE:
                if (!REGISTERS_LINK)
                    return false;
                state->is_signed = !state->is_signed;
                continue;
            case CFA_ARGS_SIZE:
                (void)bytes_uleb(&program);
                continue;
            default:
                if (!cfa_step(&program, byte, common, state) &&
                    (byte < CFA_OFFSET_EXTENDED || byte > CFA_VAL_EXPRESSION ||
                     !cfa_register_step(&program, byte, common, state, first)))
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
