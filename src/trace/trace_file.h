/* SPDX-License-Identifier: MIT */
/*
 * trace_file.h - the file of a trace: creates it, extends it by a chunk, maps it.
 *
 * No call here is a cancellation point, raises a signal, or allocates memory.
 */
#ifndef STOOK_TRACE_TRACE_FILE_H
#define STOOK_TRACE_TRACE_FILE_H

#include "trace/trace_format.h"

#include <stddef.h>
#include <stdint.h>

/* Creates the file and maps its header, which is zeros.  It replaces a regular file, unless another process is writing to
 * that (EBUSY).  0, or an errno. */
int trace_file_open(const char *path, struct trace_header **header);

/* Maps chunk number `index`, which is zeros.  NULL: there is no room, or the file was closed or replaced. */
struct trace_chunk *trace_file_claim(uint64_t index);
void trace_file_unmap(struct trace_chunk *chunk);

/* Unmaps the header and closes the file. */
void trace_file_close(struct trace_header *header);
/* The same in a forked child, whose parent continues; NULL: the header stays mapped. */
void trace_file_leave(struct trace_header *header);

/* The absolute path of a file; 0, or an errno. */
int trace_file_absolute(const char *path, char *absolute, size_t size);

#endif
