/* SPDX-License-Identifier: MIT */
/*
 * parse.c - reads numbers, sizes, signals, lists of numbers and the blocks of STOOK_DEBUG from
 * text.
 */
#include "base/parse.h"

#include "base/placed.h"

#include <signal.h>
#include <string.h>

static unsigned parse_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* Digits of that base; the text behind them, or NULL without a digit or beyond SIZE_MAX. */
static const char *parse_digits(const char *text, unsigned base, size_t *value)
{
    const char *from = text;

    for (*value = 0; parse_digit(*text) < base; text++)
        if (__builtin_mul_overflow(*value, base, value) ||
            __builtin_add_overflow(*value, parse_digit(*text), value))
            return NULL;
    return text > from ? text : NULL;
}

bool parse_number(const char *text, size_t *number)
{
    bool hexadecimal = text[0] == '0' && (text[1] | 0x20) == 'x';
    size_t value;
    const char *end = parse_digits(hexadecimal ? text + 2 : text, hexadecimal ? 16 : 10, &value);

    if (!end || *end != '\0')
        return false;
    *number = value;
    return true;
}

bool parse_size(const char *text, size_t *size)
{
    static const char suffixes[] = "kmg";
    size_t value;
    const char *end = parse_digits(text, 10, &value), *suffix;
    unsigned shift = 0;

    if (!end)
        return false;
    if (*end != '\0' && (suffix = strchr(suffixes, *end | 0x20))) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        end++;
    }
    if (*end != '\0' || value > SIZE_MAX >> shift)
        return false;
    *size = value << shift;
    return true;
}

__attribute__((cold)) int parse_signal(const char *text)
{
    static const struct {
        char name[8];
        int number;
    } known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP},
                 {"ALRM", SIGALRM}, {"PROF", SIGPROF}, {"VTALRM", SIGVTALRM}};
    size_t number;

    if (parse_number(text, &number))
        return number > 0 && number < NSIG && number != SIGKILL && number != SIGSTOP ? (int)number
                                                                                     : 0;
    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, text) == 0)
            return known[i].number;
    return 0;
}

SECOND_TEXT int parse_list(const char *text, unsigned end, uint64_t *set)
{
    int highest = -1;

    while (parse_digit(*text) < 10) {
        size_t first, last;
        text = parse_digits(text, 10, &first);
        last = first;
        if (text && *text == '-')
            text = parse_digits(text + 1, 10, &last);
        if (!text || last < first || last >= end)
            return -1;
        for (unsigned n = (unsigned)first; n <= last; n++) {
            if (set)
                set[n / 64] |= (uint64_t)1 << n % 64;
            if ((int)n > highest)
                highest = (int)n;
        }
        if (*text == ',')
            text++;
    }
    return *text == '\0' || *text == '\n' ? highest : -1;
}

/* ---- debug flags ------------------------------------------------------------------------------ */

__attribute__((cold)) bool parse_block(const char **text, struct parse_block *block)
{
    const char *at = *text + strspn(*text, ";"), *letter;

    *block = (struct parse_block){0};
    if (*at == '\0')
        return false;
    for (; *at && !strchr(",;-", *at); at++) {
        char upper = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
        letter = strchr(PARSE_LETTERS, upper);
        if (!letter)
            return false;
        block->letters |= 1u << (letter - PARSE_LETTERS);
    }
    if (*at == '-' && block->letters == 0)
        at++;
    else if (*at == '-')
        return false;
    else if (block->letters == 0)
        block->letters = 1 | 2 | 4 | 8; /* FZPU */
    if (*at == ',') {
        block->names = ++at;
        block->length = strcspn(at, ";");
        for (const char *end = at + block->length; at <= end;) {
            size_t n = strcspn(at, ",;");
            const char *star = memchr(at, '*', n);
            if (n == 0 || (star && star != at + n - 1))
                return false;
            at += n + 1;
        }
        at = block->names + block->length;
    }
    if (*at != '\0' && *at != ';')
        return false;
    *text = at;
    return true;
}

__attribute__((cold)) bool parse_letters(const char *text)
{
    struct parse_block block;

    if (strlen(text) > PARSE_LETTERS_MAX)
        return false;
    while (parse_block(&text, &block))
        ;
    return text[strspn(text, ";")] == '\0';
}

__attribute__((cold)) bool parse_block_names(const struct parse_block *block, const char *name)
{
    size_t length = strlen(name);

    if (!block->names)
        return false;
    for (const char *at = block->names, *end = at + block->length; at < end;) {
        size_t n = strcspn(at, ",;");
        bool star = n > 0 && at[n - 1] == '*';
        if (star ? length >= n - 1 && memcmp(at, name, n - 1) == 0
                 : length == n && memcmp(at, name, n) == 0)
            return true;
        at += n + 1;
    }
    return false;
}
