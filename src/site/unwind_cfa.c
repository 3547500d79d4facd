/* SPDX-License-Identifier: MIT */
/*
 * unwind_cfa.c - runs call frame instructions.  A table says which operands each has, so that those without a meaning here
 * are skipped as well.
 */
#include "site/unwind_cfa.h"

/*
 * The instructions of the DWARF standard, from code 0 on, and their operands; "": it is not supported.  A digit: a number
 * of so many bytes; Unsigned; unsigned Times the data alignment; Signed times that; a Block; - none.
 */
#define CFA_INSTRUCTIONS(X)                                                                        \
    X(NOP, "-")                                                                                    \
    X(SET_LOC, "")                                                                                 \
    X(ADVANCE1, "1")                                                                               \
    X(ADVANCE2, "2")                                                                               \
    X(ADVANCE4, "4")                                                                               \
    X(OFFSET, "UT")                                                                                \
    X(RESTORE, "U")                                                                                \
    X(UNDEFINED, "U")                                                                              \
    X(SAME_VALUE, "U")                                                                             \
    X(REGISTER, "UU")                                                                              \
    X(REMEMBER_STATE, "-")                                                                         \
    X(RESTORE_STATE, "-")                                                                          \
    X(DEF_CFA, "UU")                                                                               \
    X(DEF_CFA_REGISTER, "U")                                                                       \
    X(DEF_CFA_OFFSET, "U")                                                                         \
    X(DEF_CFA_EXPRESSION, "B")                                                                     \
    X(EXPRESSION, "UB")                                                                            \
    X(OFFSET_SF, "US")                                                                             \
    X(DEF_CFA_SF, "US")                                                                            \
    X(DEF_CFA_OFFSET_SF, "S") X(VAL_OFFSET, "UU") X(VAL_OFFSET_SF, "US") X(VAL_EXPRESSION, "UB")

#define X(name, operands) CFA_##name,
enum { CFA_INSTRUCTIONS(X) CFA_NEGATE_RA_STATE = 0x2d, CFA_ARGS_SIZE, CFA_CODES };
#undef X
enum { OP_DEREF = 6, OP_BREG0 = 0x70, CFA_DEPTH = 8 /* of remembered states */ };

#define X(name, operands) operands,
static const char cfa_operands[CFA_CODES][3] = {
    CFA_INSTRUCTIONS(X)[CFA_NEGATE_RA_STATE] = "-", [CFA_ARGS_SIZE] = "U"};
#undef X

/* An instruction and its operands; `number` is the register, if the first one is. */
struct cfa_step {
    unsigned code;
    uint64_t number;
    int64_t offset; /* the last operand */
    struct bytes block;
};

/* False: an unknown instruction. */
static bool cfa_read(struct bytes *program, int64_t align, struct cfa_step *step)
{
    static const unsigned char packed[] = {0, CFA_ADVANCE1, CFA_OFFSET, CFA_RESTORE};
    unsigned byte = (unsigned)bytes_number(program, 1), skip = byte >> 6 ? 1 : 0;

    /* The code may be in the upper two bits, and the first operand in the others. */
    *step = (struct cfa_step){.code = skip ? packed[byte >> 6] : byte, .offset = byte & 0x3f};
    if (step->code >= CFA_CODES || !*cfa_operands[step->code])
        return false;
    step->number = skip ? byte & 0x3f : 0;
    for (const char *operand = cfa_operands[step->code] + skip; *operand; operand++) {
        switch (*operand) {
        case 'U':
            step->offset = (int64_t)bytes_uleb(program);
            break;
        case 'T':
            step->offset = (int64_t)(bytes_uleb(program) * (uint64_t)align);
            break;
        case 'S':
            step->offset = (int64_t)((uint64_t)bytes_sleb(program) * (uint64_t)align);
            break;
        case 'B':
            step->block = bytes_take(program, bytes_uleb(program));
            break;
        case '-':
            break;
        default:
            step->offset = (int64_t)bytes_number(program, (size_t)(*operand - '0'));
        }
        if (operand == cfa_operands[step->code])
            step->number = (uint64_t)step->offset;
    }
    return true;
}

/* The state's place of a register; `other`: of one that does not count. */
static struct unwind_place *cfa_place(struct unwind_state *state, uint64_t number,
                                      struct unwind_place *other)
{
    return number == REGISTER_FP       ? &state->fp
           : number == REGISTER_RETURN ? &state->ra
           : number == REGISTER_SP     ? &state->sp
                                       : other;
}

/* An expression of a realigned stack: what lies at the frame pointer + offset, or this sum. */
static bool cfa_expression(struct bytes expression, bool deref, int64_t *offset)
{
    if (bytes_number(&expression, 1) != OP_BREG0 + REGISTER_FP)
        return false;
    *offset = bytes_sleb(&expression);
    if (deref && bytes_number(&expression, 1) != OP_DEREF)
        return false;
    return !expression.bad && expression.at == expression.end;
}

/* Instructions about the CFA; false: it is none of them. */
static bool cfa_define(const struct cfa_step *step, struct unwind_state *state)
{
    switch (step->code) {
    case CFA_DEF_CFA:
    case CFA_DEF_CFA_SF:
        state->cfa_offset = step->offset;
        __attribute__((fallthrough));
    case CFA_DEF_CFA_REGISTER:
        state->cfa_unknown = state->cfa_memory = false;
        state->cfa_register = step->number;
        return true;
    case CFA_DEF_CFA_OFFSET:
    case CFA_DEF_CFA_OFFSET_SF:
        state->cfa_offset = step->offset;
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        state->cfa_offset = 0;
        state->cfa_memory = cfa_expression(step->block, true, &state->cfa_offset);
        state->cfa_unknown = !state->cfa_memory;
        return true;
    default:
        return false;
    }
}

/* Instructions about a register. */
static void cfa_register(const struct cfa_step *step, struct unwind_state *state,
                         const struct unwind_state *first)
{
    struct unwind_place other = {0}, *place = cfa_place(state, step->number, &other);
    struct unwind_state begin = *first;

    switch (step->code) {
    case CFA_OFFSET:
    case CFA_OFFSET_SF:
        *place = (struct unwind_place){PLACE_CFA, step->offset};
        break;
    case CFA_RESTORE:
        *place = *cfa_place(&begin, step->number, &other);
        break;
    case CFA_UNDEFINED:
    case CFA_SAME_VALUE:
        place->kind = step->code == CFA_UNDEFINED ? PLACE_UNDEFINED : PLACE_SAME;
        place->offset = 0;
        break;
    default:
        place->offset = 0;
        place->kind =
            step->code == CFA_EXPRESSION && cfa_expression(step->block, false, &place->offset)
                ? PLACE_FP
                : PLACE_UNKNOWN;
    }
}

bool unwind_cfa_run(struct bytes program, uint64_t left, const struct unwind_common *common,
                    struct unwind_state *state, const struct unwind_state *first)
{
    struct unwind_state remembered[CFA_DEPTH];
    struct cfa_step step;
    unsigned depth = 0;

    while (!program.bad && program.at < program.end) {
        if (!cfa_read(&program, common->data_align, &step))
            return false;
        switch (step.code) {
        case CFA_ADVANCE1:
        case CFA_ADVANCE2:
        case CFA_ADVANCE4:
            if ((uint64_t)step.offset > left)
                return !program.bad;
            left -= (uint64_t)step.offset;
            break;
        case CFA_REMEMBER_STATE:
            if (depth == CFA_DEPTH)
                return false;
            remembered[depth++] = *state;
            break;
        case CFA_RESTORE_STATE:
            if (depth == 0)
                return false;
            *state = remembered[--depth];
            break;
        case CFA_NEGATE_RA_STATE:
            if (!REGISTERS_LINK)
                return false;
            state->is_signed = !state->is_signed;
            break;
        case CFA_NOP:
        case CFA_ARGS_SIZE:
            break;
        default:
            if (!cfa_define(&step, state))
                cfa_register(&step, state, first);
        }
    }
    return !program.bad;
}
