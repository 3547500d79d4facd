/* SPDX-License-Identifier: MIT */
/*
 * proto.h - protocol buffers, as pprof's profiles are, in a gzip file of stored blocks: small enough, and it needs no
 * library.
 */
#ifndef STOOK_TOOL_PROTO_H
#define STOOK_TOOL_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bytes {
    unsigned char *data;
    size_t size, room;
    bool failed;
};

void proto_varint(struct bytes *to, uint64_t value);
void proto_number(struct bytes *to, unsigned field, uint64_t value);
void proto_block(struct bytes *to, unsigned field, const void *data, size_t size);
/* A message, which is empty then for the next. */
void proto_message(struct bytes *to, unsigned field, struct bytes *message);

/* As a gzip file; false: it cannot be written. */
bool gzip_write(const struct bytes *bytes, FILE *to);

#endif
