/* SPDX-License-Identifier: MIT */
/*
 * sentence.h - a finding (base/finding.h) in one sentence.
 */
#ifndef STOOK_DEBUG_SENTENCE_H
#define STOOK_DEBUG_SENTENCE_H

#include "base/finding.h"

/* Without its newline; cut to what fits.  The length. */
size_t sentence_write(const struct debug_finding *finding, char *to, size_t room);

#endif
