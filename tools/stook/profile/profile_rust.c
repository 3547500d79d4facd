/* SPDX-License-Identifier: MIT */
/*
 * profile_rust.c - makes names of Rust's mangling readable, as its standard (RFC 2603, "v0") has them.  Lifetimes and the
 * numbers of crates are left out.  A name comes from a file that is not trusted, and its parts may name earlier parts: their
 * depth, their number and the length of the text are limited.
 */
#include "stook/profile/profile_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUST_DEPTH = 64, RUST_PARTS = 1 << 16 };

struct rust {
    const char *name, *at; /* behind "_R" */
    char *text;
    size_t length;
    unsigned depth, parts;
    bool bad;
};

typedef void (*rust_part)(struct rust *r);

static void rust_put(struct rust *r, const char *text, size_t n)
{
    if (r->bad || n >= RUST_TEXT - r->length) {
        r->bad = true;
        return;
    }
    memcpy(r->text + r->length, text, n);
    r->length += n;
}

static void rust_say(struct rust *r, const char *text)
{
    rust_put(r, text, strlen(text));
}

static bool rust_take(struct rust *r, char c)
{
    if (r->bad || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* "_" is 0, "0_" 1, ... */
static uint64_t rust_number(struct rust *r)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t n = 0;
    const char *digit;

    if (rust_take(r, '_'))
        return 0;
    for (; *r->at && (digit = strchr(digits, *r->at)) != NULL; r->at++)
        n = n * 62 + (uint64_t)(digit - digits);
    r->bad |= !rust_take(r, '_');
    return n + 1;
}

/* Behind a letter that says so: the same number, or nothing. */
static uint64_t rust_option(struct rust *r, char c)
{
    return rust_take(r, c) ? rust_number(r) + 1 : 0;
}

/* A part that stands here, or, by its place, earlier in the name. */
static void rust_do(struct rust *r, rust_part part)
{
    const char *here = r->at;
    bool back = rust_take(r, 'B');
    uint64_t place = back ? rust_number(r) : 0;
    const char *then = r->at;

    if (r->bad || ++r->depth > RUST_DEPTH || ++r->parts > RUST_PARTS ||
        place > (uint64_t)(here - r->name)) {
        r->bad = true;
        return;
    }
    r->at = back ? r->name + place : here;
    part(r);
    if (back)
        r->at = then;
    r->depth--;
}

static void rust_list(struct rust *r, rust_part part)
{
    for (const char *before = ""; !r->bad && !rust_take(r, 'E'); before = ", ") {
        rust_say(r, before);
        rust_do(r, part);
    }
}

/* A word, and which of several of that name it is. */
static uint64_t rust_word(struct rust *r, const char **word, size_t *n)
{
    uint64_t which = rust_option(r, 's');
    char *end;

    (void)rust_take(r, 'u'); /* of other letters than ASCII's, which it spells with these */
    r->bad |= *r->at < '0' || *r->at > '9';
    *n = strtoul(r->at, &end, 10);
    if (*r->at == '0') { /* no word; digits may follow */
        end = (char *)(uintptr_t)r->at + 1;
        *n = 0;
    }
    *word = end + (*end == '_');
    if (*n > strlen(*word))
        r->bad = true;
    else
        r->at = *word + *n;
    return which;
}

static void rust_type(struct rust *r);
static void rust_value(struct rust *r);

/* Of a number up to 64 bits; and its type, which is not said. */
static void rust_constant(struct rust *r)
{
    char text[24] = "_", *end;
    bool minus, is_bool;

    if (!rust_take(r, 'p')) {
        is_bool = *r->at == 'b';
        r->at += *r->at != '\0';
        minus = rust_take(r, 'n');
        snprintf(text, sizeof(text), "%s%" PRIu64, minus ? "-" : "",
                 (uint64_t)strtoull(r->at, &end, 16));
        if (is_bool)
            snprintf(text, sizeof(text), "%s", *r->at == '1' ? "true" : "false");
        r->at = end;
        r->bad |= !rust_take(r, '_');
    }
    rust_say(r, text);
}

static void rust_argument(struct rust *r)
{
    if (rust_option(r, 'L'))
        rust_say(r, "'_");
    else if (rust_take(r, 'K'))
        rust_do(r, rust_constant);
    else
        rust_type(r);
}

/* A word in a path; those of closures and the like have a kind and a number instead. */
static void rust_element(struct rust *r, char kind)
{
    const char *word;
    char number[32];
    size_t n;
    uint64_t which = rust_word(r, &word, &n);
    bool special = kind >= 'A' && kind <= 'Z';

    if (n > 0 || special)
        rust_say(r, "::");
    if (special)
        rust_say(r, kind == 'C' ? "{closure" : kind == 'S' ? "{shim" : "{");
    rust_say(r, special && n > 0 ? ":" : "");
    rust_put(r, word, r->bad ? 0 : n);
    snprintf(number, sizeof(number), "#%" PRIu64 "}", which);
    rust_say(r, special ? number : "");
}

/* Inherent and other implementations: where they stand is not said. */
static void rust_implementation(struct rust *r, char kind)
{
    size_t length = r->length;

    if (kind != 'Y') {
        (void)rust_option(r, 's');
        rust_do(r, rust_value);
        r->length = length;
    }
    rust_say(r, "<");
    rust_do(r, rust_type);
    if (kind != 'M') {
        rust_say(r, " as ");
        rust_do(r, rust_type); /* a path */
    }
    rust_say(r, ">");
}

static void rust_path(struct rust *r, rust_part same)
{
    const char *word;
    char kind = *r->at, inner;
    size_t n;

    r->at += kind != '\0';
    switch (kind) {
    case 'C':
        (void)rust_word(r, &word, &n);
        rust_put(r, word, r->bad ? 0 : n);
        break;
    case 'N':
        inner = *r->at;
        r->at += inner != '\0';
        rust_do(r, same);
        rust_element(r, inner);
        break;
    case 'M':
    case 'X':
    case 'Y':
        rust_implementation(r, kind);
        break;
    case 'I':
        rust_do(r, same);
        rust_say(r, same == rust_value ? "::<" : "<");
        rust_list(r, rust_argument);
        rust_say(r, ">");
        break;
    default:
        r->bad = true;
    }
}

static void rust_value(struct rust *r)
{
    rust_path(r, rust_value);
}

static void rust_function(struct rust *r)
{
    (void)rust_option(r, 'G');
    rust_say(r, rust_take(r, 'U') ? "unsafe " : "");
    if (rust_take(r, 'K')) {
        const char *word = "C";
        size_t n = 1;
        if (!rust_take(r, 'C'))
            (void)rust_word(r, &word, &n);
        rust_say(r, "extern \"");
        rust_put(r, word, r->bad ? 0 : n);
        rust_say(r, "\" ");
    }
    rust_say(r, "fn(");
    rust_list(r, rust_type);
    rust_say(r, ")");
    if (!rust_take(r, 'u')) {
        rust_say(r, " -> ");
        rust_do(r, rust_type);
    }
}

/* The traits, with the types that they name. */
static void rust_dynamic(struct rust *r)
{
    const char *before = "dyn ", *word;
    size_t n;

    (void)rust_option(r, 'G');
    for (; !r->bad && !rust_take(r, 'E'); before = " + ") {
        rust_say(r, before);
        rust_do(r, rust_type);
        while (rust_take(r, 'p')) {
            (void)rust_word(r, &word, &n);
            rust_say(r, "<");
            rust_put(r, word, r->bad ? 0 : n);
            rust_say(r, " = ");
            rust_do(r, rust_type);
            rust_say(r, ">");
        }
    }
    (void)rust_option(r, 'L');
}

/* A type, or a path. */
static void rust_type(struct rust *r)
{
    static const char *const basic[] = {"i8",   "bool",  "char",  "f64", "str", "f32", NULL,
                                        "u8",   "isize", "usize", NULL,  "i32", "u32", "i128",
                                        "u128", "_",     NULL,    NULL,  "i16", "u16", "()",
                                        "...",  NULL,    "i64",   "u64", "!"};
    char kind = *r->at;

    if (kind >= 'a' && kind <= 'z') {
        r->at++;
        rust_say(r, basic[kind - 'a'] ? basic[kind - 'a'] : "?");
        return;
    }
    if (!kind || !strchr("ASTRQPOFD", kind)) {
        rust_path(r, rust_type);
        return;
    }
    r->at++;
    if (kind == 'F' || kind == 'D') {
        (kind == 'F' ? rust_function : rust_dynamic)(r);
        return;
    }
    rust_say(r, kind == 'R'   ? "&"
                : kind == 'Q' ? "&mut "
                : kind == 'P' ? "*const "
                : kind == 'O' ? "*mut "
                : kind == 'T' ? "("
                              : "[");
    if (kind == 'R' || kind == 'Q')
        (void)rust_option(r, 'L');
    if (kind == 'T')
        rust_list(r, rust_type);
    else
        rust_do(r, rust_type);
    if (kind == 'A') {
        rust_say(r, "; ");
        rust_do(r, rust_constant);
    }
    rust_say(r, kind == 'T' ? ")" : kind == 'A' || kind == 'S' ? "]" : "");
}

bool rust_demangle(const char *name, char *text)
{
    struct rust r = {.name = name + 2, .at = name + 2, .text = text};

    if (strncmp(name, "_R", 2) != 0)
        return false;
    rust_do(&r, rust_value);
    text[r.length] = '\0';
    return !r.bad;
}
