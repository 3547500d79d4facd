/* SPDX-License-Identifier: MIT */
/*
 * sentence.h - a finding (base/finding.h) in one sentence.
 */
#ifndef STOOK_DEBUG_SENTENCE_H
#define STOOK_DEBUG_SENTENCE_H

#include "base/finding.h"
#include "text/writer.h"

/* Without its newline. */
void sentence_write(struct writer *w, const struct debug_finding *finding);

#endif
