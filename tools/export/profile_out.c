/* SPDX-License-Identifier: MIT */
/*
 * profile_out.c - writes a pprof Profile message, with each string, function and place once.
 */
#include "export/profile_out.h"

#include "look/target.h"

#include <stdlib.h>
#include <string.h>

enum { PROFILE_ROOM = 256 };

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

uint64_t profile_out_string(struct profile_out *profile, const char *text)
{
    uint64_t number;

    text = text ? text : "";
    if (texts_add(&profile->strings, text, &number))
        proto_block(&profile->out, 6, text, strlen(text));
    return number - 1;
}

void profile_out_comment(struct profile_out *profile, const char *text)
{
    proto_number(&profile->out, 13, profile_out_string(profile, text));
}

static void profile_out_type(struct profile_out *profile, unsigned field, const char *type,
                             const char *unit)
{
    uint64_t number = profile_out_string(profile, type);

    proto_number(&profile->message, 1, number);
    proto_number(&profile->message, 2, profile_out_string(profile, unit));
    proto_message(&profile->out, field, &profile->message);
}

void profile_out_begin(struct profile_out *profile, const struct profile_type *types, unsigned n)
{
    *profile = (struct profile_out){0};
    (void)profile_out_string(profile, ""); /* is number 0 */
    for (unsigned i = 0; i < n; i++)
        profile_out_type(profile, 1, types[i].type, types[i].unit);
}

static uint64_t profile_out_function(struct profile_out *profile, const char *function,
                                     const char *file)
{
    uint64_t number, name = profile_out_string(profile, function),
                     path = profile_out_string(profile, file);
    struct bytes message = {0};
    char key[48];

    (void)snprintf(key, sizeof(key), "%lu:%lu", name, path);
    if (texts_add(&profile->functions, key, &number)) {
        proto_number(&message, 1, number);
        proto_number(&message, 2, name);
        proto_number(&message, 3, name);
        proto_number(&message, 4, path);
        proto_message(&profile->out, 5, &message);
        free(message.data);
    }
    return number;
}

void profile_out_frame(struct profile_out *profile, const char *function, const char *file,
                       uint64_t line)
{
    proto_number(&profile->inner, 1, profile_out_function(profile, function, file));
    proto_number(&profile->inner, 2, line);
    proto_message(&profile->message, 4, &profile->inner);
}

void profile_out_frames(struct profile_out *profile, const struct profile_site *place)
{
    for (unsigned i = 0; i < place->nr_frames; i++) {
        const struct profile_frame *frame = &place->frames[i];
        profile_out_frame(profile, frame->function ? frame->function : "?", frame->file,
                          frame->line);
    }
}

void profile_out_place(struct profile_out *profile, uint64_t number, uint64_t mapping,
                       uint64_t address)
{
    proto_number(&profile->message, 1, number);
    proto_number(&profile->message, 2, mapping);
    proto_number(&profile->message, 3, address);
    proto_message(&profile->out, 4, &profile->message);
}

uint64_t profile_out_line(struct profile_out *profile, const char *function, const char *file,
                          uint64_t line)
{
    uint64_t number;
    char key[64];

    (void)snprintf(key, sizeof(key), "%lu:%lu", profile_out_function(profile, function, file),
                   line);
    if (texts_add(&profile->places, key, &number)) {
        profile_out_frame(profile, function, file, line);
        profile_out_place(profile, number, 0, 0);
    }
    return number;
}

uint64_t profile_out_address(struct profile_out *profile, uint64_t address, uint64_t mapping,
                             const struct profile_site *known)
{
    uint64_t number;
    char key[64];

    (void)snprintf(key, sizeof(key), "@%lx", address);
    if (texts_add(&profile->places, key, &number)) {
        if (known)
            profile_out_frames(profile, known);
        profile_out_place(profile, number, mapping, address);
    }
    return number;
}

void profile_out_mapping(struct profile_out *profile, uint64_t number, uint64_t start,
                         uint64_t limit, uint64_t offset, const char *file, const char *build,
                         bool resolved)
{
    proto_number(&profile->message, 1, number);
    proto_number(&profile->message, 2, start);
    proto_number(&profile->message, 3, limit);
    proto_number(&profile->message, 4, offset);
    proto_number(&profile->message, 5, profile_out_string(profile, file));
    proto_number(&profile->message, 6, profile_out_string(profile, build));
    for (unsigned field = 7; field <= 10; field++)
        proto_number(&profile->message, field, resolved);
    proto_message(&profile->out, 3, &profile->message);
}

void profile_out_label(struct profile_out *profile, const char *key, const char *text)
{
    struct bytes message = {0};

    if (!text)
        return;
    proto_number(&message, 1, profile_out_string(profile, key));
    proto_number(&message, 2, profile_out_string(profile, text));
    proto_message(&profile->message, 3, &message);
    free(message.data);
}

void profile_out_at(struct profile_out *profile, uint64_t place)
{
    proto_varint(&profile->inner, place);
}

void profile_out_sample(struct profile_out *profile, const int64_t *values, unsigned n)
{
    proto_message(&profile->message, 1, &profile->inner);
    for (unsigned i = 0; i < n; i++)
        proto_varint(&profile->inner, (uint64_t)values[i]);
    proto_message(&profile->message, 2, &profile->inner);
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

bool profile_out_end(struct profile_out *profile, uint64_t time_ns, uint64_t period,
                     const char *type, FILE *to)
{
    bool good;

    proto_number(&profile->out, 9, time_ns);
    profile_out_type(profile, 11, "space", "bytes");
    proto_number(&profile->out, 12, period);
    proto_number(&profile->out, 14, profile_out_string(profile, type));
    good = !profile->out.failed && !profile->message.failed && !profile->inner.failed &&
           gzip_write(&profile->out, to);
    profile_out_free(profile);
    return good;
}
