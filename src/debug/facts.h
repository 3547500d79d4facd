/* SPDX-License-Identifier: MIT */
/*
 * facts.h - the contents of a report, gathered before they are written in one of two forms: text (form_text.c), or a line
 * of JSON (form_json.c).
 */
#ifndef STOOK_DEBUG_FACTS_H
#define STOOK_DEBUG_FACTS_H

#include "base/finding.h"
#include "text/writer.h"
#include "debug/depot.h"
#include "debug/symbols.h"
#include "debug/track.h"

#include <stdbool.h>

enum facts_stack { FACTS_ALLOC = TRACK_ALLOC, FACTS_FREE = TRACK_FREE, FACTS_FOUND, FACTS_STACKS };

/* Bytes that are shown: of a long piece those near the changed ones, or the first. */
struct facts_bytes {
    const char *name; /* "Redzone", "Object", "Padding" */
    const uint8_t *start;
    size_t size;
};

struct facts {
    const struct debug_finding *finding;
    const struct stook_cache *owner; /* of the object; NULL: it has no slab */
    uint64_t word;                   /* of the slab's state */
    size_t size, requested;          /* of the object */
    unsigned long number;            /* of the report */
    uint32_t thread, process;
    bool goes_on;
    struct facts_bytes bytes[4];
    unsigned pieces;
    struct {
        bool known;
        uint64_t age; /* ns */
        uint32_t thread, cpu;
        const struct stook_site *site; /* or NULL */
        unsigned first, depth;         /* of symbol[] */
    } stack[FACTS_STACKS];
    struct symbol symbol[FACTS_STACKS * DEPOT_DEPTH];
    unsigned symbols;
};

/* Static buffers: for the one thread that reports. */
void facts_gather(struct facts *facts, const struct debug_finding *finding);

/* Whether a byte is one of those that the finding is about. */
bool facts_changed(const struct facts *facts, const uint8_t *byte);

/* "right_zone": a name for machines. */
const char *facts_name(enum debug_what what);
const char *facts_done(const struct facts *facts);

void form_text(struct writer *writer, const struct facts *facts);
void form_json(struct writer *writer, const struct facts *facts);

#endif
