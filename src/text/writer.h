/* SPDX-License-Identifier: MIT */
/*
 * writer.h - formatted output to a descriptor, or to a function, through a fixed buffer: no memory,
 * no stdio of its own.
 * The first error sticks and silences the rest; writer_finish() tells it.
 */
#ifndef STOOK_TEXT_WRITER_H
#define STOOK_TEXT_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* Takes bytes for `context`; 0, or -1 with errno. */
typedef int (*writer_put)(void *context, const char *text, size_t size);

struct writer {
    int fd; /* where `put` is NULL */
    writer_put put;
    void *context;
    int error; /* errno of the first write that failed */
    size_t used;
    char buffer[2048];
};

void writer_init(struct writer *writer, int fd);
void writer_init_put(struct writer *writer, writer_put put, void *context);
/* One piece of at most 256 bytes; conversions of integers and strings only. */
void writer_print(struct writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Text of any origin as a JSON string: quoted, escaped, bytes that are no UTF-8 replaced. */
void writer_json(struct writer *writer, const char *text);
/* "key": value, and then `end`. */
void writer_key(struct writer *writer, const char *key, uint64_t value, const char *end);
/*
 * Bytes of the character at text, UTF-8, that a screen may show; 0: there is none such.  Control characters are none, and
 * those that turn the text around them.
 */
unsigned writer_shown(const char *text);
/* Text of any origin in a table, on the left of `width` columns: what may not be shown becomes '?', byte by byte. */
void writer_cell(struct writer *writer, const char *text, int width);
/* A blank and bytes in eight columns, in the largest unit that leaves a number of one digit or more. */
void writer_size(struct writer *writer, uint64_t bytes);
/* Writes out what is buffered; 0, or -1 with errno. */
int writer_finish(struct writer *writer);

#endif
