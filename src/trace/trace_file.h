/* SPDX-License-Identifier: MIT */
/*
 * trace_file.h - the file of a trace: made, lengthened by a chunk, mapped.
 *
 * No call here is a point where a thread may be cancelled, sends a signal, or takes memory.
 */
#ifndef STOOK_TRACE_TRACE_FILE_H
#define STOOK_TRACE_TRACE_FILE_H

#include "trace/trace_format.h"

#include <stddef.h>
#include <stdint.h>

/* Makes the file, in the place of a regular file that no other process is writing to, and maps its
 * header, which is zeros.  0, or an errno: EBUSY where one is. */
int trace_file_open(const char *path, struct trace_header **header);

/* Chunk number `index`, zeros, or NULL: there is no room, or the file cannot be had any more. */
struct trace_chunk *trace_file_claim(uint64_t index);
void trace_file_unmap(struct trace_chunk *chunk);

/* The header is unmapped, and the file closed. */
void trace_file_close(struct trace_header *header);
/* The same in a forked child, whose parent goes on; NULL: the header stays mapped. */
void trace_file_leave(struct trace_header *header);

/* The path as it is from any folder; 0, or an errno. */
int trace_file_absolute(const char *path, char *absolute, size_t size);

#endif
