/* SPDX-License-Identifier: MIT */
/*
 * json.c - parses a JSON document in place into a tree.
 */
#include "stook/profile/json.h"

#include <stdlib.h>
#include <string.h>

enum { JSON_DEPTH = 64 };

struct json_reader {
    char *at;
    unsigned line, depth;
};

static struct json *json_value(struct json_reader *reader);

static void json_space(struct json_reader *reader)
{
    for (; *reader->at && strchr(" \t\r\n", *reader->at); reader->at++)
        reader->line += *reader->at == '\n';
}

static bool json_take(struct json_reader *reader, const char *text)
{
    size_t length = strlen(text);

    if (strncmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool json_hex(const char *text, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *digit;
        if (!text[i] || !(digit = strchr(digits, text[i] | 0x20)))
            return false;
        *code = *code << 4 | (unsigned)(digit - digits);
    }
    return true;
}

/* A character as UTF-8, which is never longer than its escape. */
static char *json_put(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* Behind "\u"; NULL: no character. */
static char *json_unicode(struct json_reader *reader, char *to)
{
    unsigned code, low;

    if (!json_hex(reader->at, &code) || code == 0)
        return NULL;
    reader->at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        if (reader->at[0] != '\\' || reader->at[1] != 'u' || !json_hex(reader->at + 2, &low) ||
            low < 0xdc00 || low >= 0xe000)
            return NULL;
        reader->at += 6;
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    return json_put(to, code);
}

/* A string in place: what it becomes is not longer than what it was. */
static const char *json_text(struct json_reader *reader)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char *start, *to;

    if (!json_take(reader, "\""))
        return NULL;
    for (start = to = reader->at; *reader->at != '"';) {
        const char *escape;
        if ((unsigned char)*reader->at < 0x20) /* the end, too */
            return NULL;
        if (*reader->at != '\\') {
            *to++ = *reader->at++;
            continue;
        }
        reader->at++;
        if (*reader->at == 'u') {
            reader->at++;
            if (!(to = json_unicode(reader, to)))
                return NULL;
        } else if (*reader->at && (escape = strchr(from, *reader->at)) != NULL) {
            *to++ = into[escape - from];
            reader->at++;
        } else {
            return NULL;
        }
    }
    reader->at++;
    *to = '\0';
    return start;
}

static bool json_members(struct json_reader *reader, struct json *json, char end)
{
    struct json **last = &json->first;

    json_space(reader);
    if (*reader->at == end) {
        reader->at++;
        return true;
    }
    for (;;) {
        const char *key = NULL;
        json_space(reader);
        if (json->type == JSON_OBJECT) {
            if (!(key = json_text(reader)))
                return false;
            json_space(reader);
            if (!json_take(reader, ":"))
                return false;
        }
        if (!(*last = json_value(reader)))
            return false;
        (*last)->key = key;
        last = &(*last)->next;
        json_space(reader);
        if (*reader->at == end) {
            reader->at++;
            return true;
        }
        if (!json_take(reader, ","))
            return false;
    }
}

static bool json_digits(struct json_reader *reader, struct json *json)
{
    bool minus = json_take(reader, "-");
    char *end;

    if (*reader->at < '0' || *reader->at > '9')
        return false;
    json->number = strtoull(reader->at, &end, 10);
    if (minus)
        json->number = -json->number;
    reader->at = end;
    return !*end || !strchr(".eE", *end);
}

static bool json_fill(struct json_reader *reader, struct json *json)
{
    if (json_take(reader, "null"))
        return true;
    if (json_take(reader, "true") || json_take(reader, "false")) {
        json->type = JSON_BOOL;
        json->number = reader->at[-2] == 'u';
        return true;
    }
    switch (*reader->at) {
    case '"':
        json->type = JSON_STRING;
        return (json->string = json_text(reader)) != NULL;
    case '[':
        json->type = JSON_ARRAY;
        reader->at++;
        return json_members(reader, json, ']');
    case '{':
        json->type = JSON_OBJECT;
        reader->at++;
        return json_members(reader, json, '}');
    default:
        json->type = JSON_NUMBER;
        return json_digits(reader, json);
    }
}

static struct json *json_value(struct json_reader *reader)
{
    struct json *json = calloc(1, sizeof(*json));
    bool good;

    if (!json || reader->depth >= JSON_DEPTH) {
        free(json);
        return NULL;
    }
    json_space(reader);
    reader->depth++;
    good = json_fill(reader, json);
    reader->depth--;
    if (good)
        return json;
    json_free(json);
    return NULL;
}

struct json *json_read(char *text, unsigned *line)
{
    struct json_reader reader = {.at = text, .line = 1};
    struct json *json = json_value(&reader);

    json_space(&reader);
    *line = reader.line;
    if (!json || !*reader.at)
        return json;
    json_free(json);
    return NULL;
}

void json_free(struct json *json)
{
    while (json) {
        struct json *next = json->next;
        json_free(json->first);
        free(json);
        json = next;
    }
}

const struct json *json_member(const struct json *object, const char *key)
{
    for (const struct json *member = object ? object->first : NULL; member; member = member->next)
        if (member->key && strcmp(member->key, key) == 0)
            return member;
    return NULL;
}

uint64_t json_number(const struct json *object, const char *key, uint64_t otherwise)
{
    const struct json *member = json_member(object, key);

    return member && member->type == JSON_NUMBER ? member->number : otherwise;
}

const char *json_string(const struct json *object, const char *key, const char *otherwise)
{
    const struct json *member = json_member(object, key);

    return member && member->type == JSON_STRING ? member->string : otherwise;
}
