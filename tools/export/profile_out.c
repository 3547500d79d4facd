/* SPDX-License-Identifier: MIT */
/*
 * profile_out.c - writes a pprof Profile message, with each string, function and place once.
 */
#include "export/profile_out.h"

#include "look/target.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROFILE_ROOM = 256, PROFILE_KEY = 1024 };

/* ---- texts ------------------------------------------------------------------------------------ */

static uint32_t *texts_place(const struct texts *texts, const char *text)
{
    uint64_t hash = 0;

    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
    for (size_t at = (size_t)(hash >> 20);; at++) {
        uint32_t *place = &texts->table[at & (texts->room - 1)];
        if (*place == 0 || strcmp(texts->text[*place - 1], text) == 0)
            return place;
    }
}

static void texts_grow(struct texts *texts)
{
    free(texts->table);
    texts->room = texts->room ? 2 * texts->room : PROFILE_ROOM;
    texts->table = target_need(calloc(texts->room, sizeof(*texts->table)));
    texts->text = target_need(realloc(texts->text, texts->room / 2 * sizeof(*texts->text)));
    for (size_t i = 0; i < texts->texts; i++)
        *texts_place(texts, texts->text[i]) = (uint32_t)i + 1;
}

/* True: it is new, with the next number. */
static bool texts_add(struct texts *texts, const char *text, uint64_t *number)
{
    uint32_t *place;
    bool fresh;

    if (texts->texts >= texts->room / 2)
        texts_grow(texts);
    place = texts_place(texts, text);
    fresh = *place == 0;
    if (fresh) {
        texts->text[texts->texts++] = target_need(strdup(text));
        *place = (uint32_t)texts->texts;
    }
    *number = *place;
    return fresh;
}

static void texts_free(struct texts *texts)
{
    for (size_t i = 0; i < texts->texts; i++)
        free(texts->text[i]);
    free(texts->text);
    free(texts->table);
}

/* ---- the message ------------------------------------------------------------------------------ */

static uint64_t profile_out_string(struct profile_out *profile, const char *text)
{
    uint64_t number;

    if (texts_add(&profile->strings, text, &number))
        proto_block(&profile->out, 6, text, strlen(text));
    return number - 1;
}

static void profile_out_type(struct profile_out *profile, unsigned field, const char *type,
                             const char *unit)
{
    uint64_t number = profile_out_string(profile, type);

    proto_number(&profile->message, 1, number);
    proto_number(&profile->message, 2, profile_out_string(profile, unit));
    proto_message(&profile->out, field, &profile->message);
}

void profile_out_begin(struct profile_out *profile)
{
    *profile = (struct profile_out){0};
    (void)profile_out_string(profile, ""); /* is number 0 */
    profile_out_type(profile, 1, "inuse_objects", "count");
    profile_out_type(profile, 1, "inuse_space", "bytes");
}

static uint64_t profile_out_function(struct profile_out *profile, const char *function,
                                     const char *file)
{
    uint64_t number, name = profile_out_string(profile, function),
                     path = profile_out_string(profile, file);
    char key[PROFILE_KEY];

    (void)snprintf(key, sizeof(key), "%s\n%s", function, file);
    if (texts_add(&profile->functions, key, &number)) {
        proto_number(&profile->message, 1, number);
        proto_number(&profile->message, 2, name);
        proto_number(&profile->message, 3, name);
        proto_number(&profile->message, 4, path);
        proto_message(&profile->out, 5, &profile->message);
    }
    return number;
}

uint64_t profile_out_line(struct profile_out *profile, const char *function, const char *file,
                          uint64_t line)
{
    uint64_t of = profile_out_function(profile, function, file), number;
    char key[64];

    (void)snprintf(key, sizeof(key), "%lu:%lu", of, line);
    if (texts_add(&profile->places, key, &number)) {
        proto_number(&profile->inner, 1, of);
        proto_number(&profile->inner, 2, line);
        proto_number(&profile->message, 1, number);
        proto_message(&profile->message, 4, &profile->inner);
        proto_message(&profile->out, 4, &profile->message);
    }
    return number;
}

uint64_t profile_out_address(struct profile_out *profile, uint64_t address, uint64_t mapping)
{
    uint64_t number;
    char key[64];

    (void)snprintf(key, sizeof(key), "@%lx", address);
    if (texts_add(&profile->places, key, &number)) {
        proto_number(&profile->message, 1, number);
        proto_number(&profile->message, 2, mapping);
        proto_number(&profile->message, 3, address);
        proto_message(&profile->out, 4, &profile->message);
    }
    return number;
}

void profile_out_mapping(struct profile_out *profile, uint64_t number, uint64_t start,
                         uint64_t limit, uint64_t offset, const char *file, const char *build)
{
    uint64_t name = profile_out_string(profile, file), id = profile_out_string(profile, build);

    proto_number(&profile->message, 1, number);
    proto_number(&profile->message, 2, start);
    proto_number(&profile->message, 3, limit);
    proto_number(&profile->message, 4, offset);
    proto_number(&profile->message, 5, name);
    proto_number(&profile->message, 6, id);
    proto_message(&profile->out, 3, &profile->message);
}

void profile_out_sample(struct profile_out *profile, const uint64_t *place, unsigned depth,
                        uint64_t objects, uint64_t bytes, const char *cache)
{
    for (unsigned i = 0; i < depth; i++)
        proto_varint(&profile->inner, place[i]);
    proto_message(&profile->message, 1, &profile->inner);
    proto_varint(&profile->inner, objects);
    proto_varint(&profile->inner, bytes);
    proto_message(&profile->message, 2, &profile->inner);
    if (cache) {
        uint64_t key = profile_out_string(profile, "cache"),
                 value = profile_out_string(profile, cache);
        proto_number(&profile->inner, 1, key);
        proto_number(&profile->inner, 2, value);
        proto_message(&profile->message, 3, &profile->inner);
    }
    proto_message(&profile->out, 2, &profile->message);
}

void profile_out_free(struct profile_out *profile)
{
    free(profile->out.data);
    free(profile->message.data);
    free(profile->inner.data);
    texts_free(&profile->strings);
    texts_free(&profile->functions);
    texts_free(&profile->places);
}

bool profile_out_end(struct profile_out *profile, const char *comment, FILE *to)
{
    struct timespec now;
    bool good;

    clock_gettime(CLOCK_REALTIME, &now);
    proto_number(&profile->out, 9, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
    profile_out_type(profile, 11, "space", "bytes");
    proto_number(&profile->out, 12, 1); /* every byte is counted */
    proto_number(&profile->out, 13, profile_out_string(profile, comment));
    proto_number(&profile->out, 14, profile_out_string(profile, "inuse_space"));
    good = !profile->out.failed && !profile->message.failed && !profile->inner.failed &&
           gzip_write(&profile->out, to);
    profile_out_free(profile);
    return good;
}
