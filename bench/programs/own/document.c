/* SPDX-License-Identifier: MIT */
/* Documents of nested lists and tables: parsed from text into objects, printed again, and freed. */
#include "own.h"

struct value {
    enum { NUMBER, STRING, LIST } kind;
    union {
        double number;
        char *string;
        struct {
            struct value **item;
            size_t count, room;
        } list;
    };
};

struct text {
    char *at;
    size_t length, room;
};

static void text_put(struct text *text, const char *more, size_t length)
{
    while (text->length + length + 1 > text->room) {
        text->room = text->room ? text->room * 2 : 32;
        text->at = realloc(text->at, text->room);
        if (!text->at)
            exit(1);
    }
    memcpy(text->at + text->length, more, length);
    text->length += length;
    text->at[text->length] = '\0';
}

static void text_generate(struct text *text, struct own_random *random, unsigned depth)
{
    char word[32];

    if (depth == 0 || own_below(random, 8) == 0) {
        int length = own_below(random, 2)
                         ? snprintf(word, sizeof(word), "%u", own_below(random, 1000000))
                         : snprintf(word, sizeof(word), "\"%x\"", own_next(random));
        text_put(text, word, (size_t)length);
        return;
    }
    text_put(text, "[", 1);
    for (unsigned i = 0, n = 1 + own_below(random, 12); i < n; i++) {
        if (i > 0)
            text_put(text, ",", 1);
        text_generate(text, random, depth - 1);
    }
    text_put(text, "]", 1);
}

static struct value *value_parse(const char **text)
{
    struct value *value = own_alloc(sizeof(*value));

    if (**text == '[') {
        value->kind = LIST;
        value->list.item = NULL;
        value->list.count = value->list.room = 0;
        while (*(*text)++ != ']') {
            if (value->list.count == value->list.room) {
                value->list.room = value->list.room ? value->list.room * 2 : 2;
                value->list.item =
                    realloc(value->list.item, value->list.room * sizeof(struct value *));
                if (!value->list.item)
                    exit(1);
            }
            value->list.item[value->list.count++] = value_parse(text);
        }
    } else if (**text == '"') {
        size_t length = strcspn(++*text, "\"");
        value->kind = STRING;
        value->string = memcpy(own_alloc(length + 1), *text, length);
        value->string[length] = '\0';
        *text += length + 1;
    } else {
        value->kind = NUMBER;
        value->number = strtod(*text, (char **)text);
    }
    return value;
}

static void value_print(const struct value *value, struct text *text)
{
    char number[32];

    switch (value->kind) {
    case NUMBER:
        text_put(text, number, (size_t)snprintf(number, sizeof(number), "%.0f", value->number));
        break;
    case STRING:
        text_put(text, "\"", 1);
        text_put(text, value->string, strlen(value->string));
        text_put(text, "\"", 1);
        break;
    case LIST:
        text_put(text, "[", 1);
        for (size_t i = 0; i < value->list.count; i++) {
            if (i > 0)
                text_put(text, ",", 1);
            value_print(value->list.item[i], text);
        }
        text_put(text, "]", 1);
    }
}

static void value_free(struct value *value)
{
    if (value->kind == STRING)
        free(value->string);
    if (value->kind == LIST) {
        for (size_t i = 0; i < value->list.count; i++)
            value_free(value->list.item[i]);
        free(value->list.item);
    }
    free(value);
}

uint64_t own_document(unsigned scale)
{
    struct own_random random = {8};
    struct text text = {NULL, 0, 0};
    uint64_t sum = 0;

    text_generate(&text, &random, 6);
    while (text.length < 400000) {
        text.length = 0;
        text_generate(&text, &random, 6);
    }
    for (unsigned n = 0; n < scale * 2 / 3 + 1; n++) {
        struct text printed = {NULL, 0, 0};
        const char *at = text.at;
        struct value *value = value_parse(&at);
        value_print(value, &printed);
        if (printed.length != text.length || memcmp(printed.at, text.at, text.length) != 0)
            abort();
        sum += printed.length;
        value_free(value);
        free(printed.at);
    }
    free(text.at);
    return sum;
}
