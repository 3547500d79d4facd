/* SPDX-License-Identifier: MIT */
/*
 * json.h - reads a JSON document into a tree.  Numbers are integers, of 64 bits with or without a sign:
 * the library writes no others.
 */
#ifndef STOOK_TOOL_JSON_H
#define STOOK_TOOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_type type;
    const char *key;           /* of a member of an object */
    uint64_t number;           /* and of a boolean; negative ones as their two's complement */
    const char *string;        /* NUL-terminated UTF-8 */
    struct json *first, *next; /* of an array or object; behind this one */
};

/*
 * The document in `text`, which is changed and must stay as long as the tree; NULL: it is none, and
 * *line says where.  json_free() takes the tree, not the text.
 */
struct json *json_read(char *text, unsigned *line);
void json_free(struct json *json);

/* The member of that name, or NULL; of an object or of NULL. */
const struct json *json_member(const struct json *object, const char *key);
/* Its value where it has the type, else the other. */
uint64_t json_number(const struct json *object, const char *key, uint64_t otherwise);
const char *json_string(const struct json *object, const char *key, const char *otherwise);

#endif
