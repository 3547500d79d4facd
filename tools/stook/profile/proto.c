/* SPDX-License-Identifier: MIT */
/*
 * proto.c - writes protocol buffers and gzip files.
 */
#include "stook/profile/proto.h"

#include <stdlib.h>
#include <string.h>

static void bytes_add(struct bytes *bytes, const void *data, size_t size)
{
    if (bytes->size + size > bytes->room) {
        size_t room = 2 * bytes->room + size + 64;
        unsigned char *more = realloc(bytes->data, room);
        if (!more) {
            bytes->failed = true;
            return;
        }
        bytes->data = more;
        bytes->room = room;
    }
    if (size > 0)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

/* ---- protobuf ------------------------------------------------------------------------------- */

void proto_varint(struct bytes *to, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        bytes_add(to, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

void proto_number(struct bytes *to, unsigned field, uint64_t value)
{
    if (value == 0) /* what a field is without being there */
        return;
    proto_varint(to, field << 3);
    proto_varint(to, value);
}

void proto_block(struct bytes *to, unsigned field, const void *data, size_t size)
{
    proto_varint(to, field << 3 | 2);
    proto_varint(to, size);
    bytes_add(to, data, size);
}

void proto_message(struct bytes *to, unsigned field, struct bytes *message)
{
    proto_block(to, field, message->data, message->size);
    to->failed |= message->failed;
    message->size = 0;
}

/* ---- gzip (RFC 1952, RFC 1951 3.2.4) --------------------------------------------------------- */

static uint32_t gzip_crc(const unsigned char *data, size_t size)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void gzip_number(unsigned char *to, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

bool gzip_write(const struct bytes *bytes, FILE *to)
{
    static const unsigned char header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    unsigned char end[8], block[5];
    size_t at = 0;

    fwrite(header, sizeof(header), 1, to);
    do {
        size_t size = bytes->size - at < 0xffff ? bytes->size - at : 0xffff;
        block[0] = at + size == bytes->size;
        gzip_number(block + 1, (uint32_t)size, 2);
        gzip_number(block + 3, ~(uint32_t)size, 2);
        fwrite(block, sizeof(block), 1, to);
        fwrite(bytes->data + at, 1, size, to);
        at += size;
    } while (at < bytes->size);
    gzip_number(end, gzip_crc(bytes->data, bytes->size), 4);
    gzip_number(end + 4, (uint32_t)bytes->size, 4);
    fwrite(end, sizeof(end), 1, to);
    return fflush(to) == 0 && !ferror(to);
}
