/* SPDX-License-Identifier: MIT */
/*
 * writer.c - formats text, JSON strings and sizes into the buffer of a writer, and sends it.
 */
#include "text/writer.h"

#include "base/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WRITER_PIECE = 256 };

void writer_init(struct writer *writer, int fd)
{
    writer_init_put(writer, NULL, NULL);
    writer->fd = fd;
}

void writer_init_put(struct writer *writer, writer_put put, void *context)
{
    writer->fd = -1;
    writer->put = put;
    writer->context = context;
    writer->error = 0;
    writer->used = 0;
}

static int writer_send(const struct writer *writer)
{
    return writer->put ? writer->put(writer->context, writer->buffer, writer->used)
                       : report_write(writer->fd, writer->buffer, writer->used);
}

static void writer_flush(struct writer *writer)
{
    if (writer->error == 0 && writer_send(writer) != 0)
        writer->error = errno;
    writer->used = 0;
}

void writer_print(struct writer *writer, const char *format, ...)
{
    va_list args;
    int n;

    if (sizeof(writer->buffer) - writer->used < WRITER_PIECE)
        writer_flush(writer);
    va_start(args, format);
    n = vsnprintf(writer->buffer + writer->used, WRITER_PIECE, format, args);
    va_end(args);
    if (n > 0)
        writer->used += (size_t)(n < WRITER_PIECE ? n : WRITER_PIECE - 1);
}

/* Length of the valid UTF-8 sequence at text, 0 if there is none; and the character. */
static unsigned writer_utf8(const char *bytes, unsigned *character)
{
    const unsigned char *text = (const unsigned char *)bytes;
    unsigned length, code;

    *character = text[0];
    if (text[0] < 0x80)
        return 1;
    length = text[0] >= 0xf0 && text[0] < 0xf8   ? 4
             : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
             : text[0] >= 0xc0 && text[0] < 0xe0 ? 2
                                                 : 0;
    if (length == 0)
        return 0;
    code = text[0] & (0x7fu >> length);
    for (unsigned i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) /* the end of the text, too */
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    /* Overlong forms, surrogates, beyond Unicode. */
    if (code < (length == 2   ? 0x80u
                : length == 3 ? 0x800u
                              : 0x10000u) ||
        (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
        return 0;
    *character = code;
    return length;
}

unsigned writer_shown(const char *text)
{
    unsigned code, length = writer_utf8(text, &code);

    if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        return 0;
    /* Marks and overrides of direction, and separators of lines. */
    if (code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
        (code >= 0x2066 && code <= 0x2069))
        return 0;
    return length;
}

void writer_json(struct writer *writer, const char *text)
{
    writer_print(writer, "\"");
    while (*text) {
        unsigned code, length = writer_utf8(text, &code);
        if (length == 0) {
            writer_print(writer, "\\ufffd");
            length = 1;
        } else if (code < 0x20 || code == 0x7f) {
            writer_print(writer, "\\u%04x", code);
        } else if (code == '"' || code == '\\') {
            writer_print(writer, "\\%c", (int)code);
        } else {
            writer_print(writer, "%.*s", (int)length, text);
        }
        text += length;
    }
    writer_print(writer, "\"");
}

void writer_key(struct writer *writer, const char *key, uint64_t value, const char *end)
{
    writer_print(writer, "\"%s\": %llu%s", key, (unsigned long long)value, end);
}

void writer_cell(struct writer *writer, const char *text, int width)
{
    for (; *text; width--) {
        unsigned length = writer_shown(text);
        writer_print(writer, "%.*s", length ? (int)length : 1, length ? text : "?");
        text += length ? length : 1;
    }
    writer_print(writer, "%*s", width > 0 ? width : 0, "");
}

void writer_size(struct writer *w, uint64_t bytes)
{
    static const char unit[] = "KMGTPE";
    uint64_t tenths = bytes;
    int u = -1;

    if (bytes < 10000) {
        writer_print(w, " %8llu", (unsigned long long)bytes);
        return;
    }
    for (tenths *= 10; tenths >= 10240; u++)
        tenths = (tenths + 512) / 1024;
    writer_print(w, " %5llu.%llu%c", (unsigned long long)(tenths / 10),
                 (unsigned long long)(tenths % 10), unit[u]);
}

int writer_finish(struct writer *writer)
{
    writer_flush(writer);
    if (writer->error == 0)
        return 0;
    errno = writer->error;
    return -1;
}
