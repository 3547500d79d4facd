/* SPDX-License-Identifier: MIT */
/*
 * form_text.c - a report for people, in the shape of the kernel's slab_bug(), print_tracking() and
 * print_section(): bytes in rows of 16, those that were changed between brackets.
 */
#include "debug/facts.h"

#include "debug/sentence.h"
#include "slab/slab.h"

enum { FORM_ROW = 16 };

static void form_frame(struct writer *w, const struct symbol *symbol)
{
    if (symbol->name[0])
        writer_print(w, "%s+0x%llx", symbol->name, (unsigned long long)symbol->within);
    else
        writer_print(w, "0x%llx", (unsigned long long)symbol->address);
}

static void form_stack(struct writer *w, const struct facts *facts, enum facts_stack which)
{
    static const char said[][16] = {
        [FACTS_ALLOC] = "Allocated in", [FACTS_FREE] = "Freed in", [FACTS_FOUND] = "Found in"};
    const struct stook_site *site = facts->stack[which].site;
    const struct symbol *symbol = &facts->symbol[facts->stack[which].first];
    unsigned depth = facts->stack[which].depth;

    if (!facts->stack[which].known)
        return;
    writer_print(w, "%s ", said[which]);
    if (site)
        writer_print(w, "%.100s:%u %.60s", site->file ? site->file : "?", (unsigned)site->line,
                     site->function ? site->function : "?");
    else if (depth > 0)
        form_frame(w, symbol);
    else
        writer_print(w, "?");
    if (which != FACTS_FOUND)
        writer_print(w, " age=%llums cpu=%u",
                     (unsigned long long)(facts->stack[which].age / 1000000),
                     facts->stack[which].cpu);
    writer_print(w, " pid=%u\n", facts->stack[which].thread);
    for (unsigned i = 0; i < depth; i++) {
        writer_print(w, " ");
        form_frame(w, &symbol[i]);
        writer_print(w, " [%s+0x%llx]\n", symbol[i].module[0] ? symbol[i].module : "?",
                     (unsigned long long)symbol[i].offset);
    }
}

static void form_row(struct writer *w, const struct facts *facts, const struct facts_bytes *piece,
                     size_t at)
{
    char text[FORM_ROW + 1];
    bool before = false;
    size_t n = piece->size - at < FORM_ROW ? piece->size - at : FORM_ROW;

    writer_print(w, "%-8s %p:", piece->name, (const void *)(piece->start + at));
    for (size_t i = 0; i < FORM_ROW; i++) {
        const uint8_t *byte = piece->start + at + i;
        bool changed = i < n && facts_changed(facts, byte);
        writer_print(w, changed == before ? " " : changed ? "[" : "]");
        if (i < n)
            writer_print(w, "%02x", *byte);
        else
            writer_print(w, "  ");
        before = changed;
        text[i] = (char)(i >= n ? ' ' : *byte >= 0x20 && *byte < 0x7f ? *byte : '.');
    }
    text[n] = '\0';
    writer_print(w, "%s %s\n", before ? "]" : " ", text);
}

static void form_slab(struct writer *w, const struct facts *facts)
{
    const struct debug_finding *f = facts->finding;
    uint32_t head = slab_head(facts->word);
    const char *base;

    if (!facts->owner || !f->slab)
        return;
    base = slab_base(f->slab);
    writer_print(w, "Slab %p objects=%u used=%u fp=0x%llx flags=0x%x\n", (const void *)base,
                 slab_objects(facts->owner, facts->word), slab_inuse(facts->word),
                 head == SLAB_NONE
                     ? 0
                     : (unsigned long long)(uintptr_t)slab_object(facts->owner, f->slab, head),
                 slab_flags(facts->word));
    if (!f->object)
        return;
    writer_print(w, "Object %p @offset=%zu index=%u size=%zu", f->object,
                 (size_t)((const char *)f->object - base), f->index, facts->size);
    if (facts->requested != facts->size)
        writer_print(w, " requested=%zu", facts->requested);
    writer_print(w, "\n");
}

static void form_fix(struct writer *w, const struct facts *facts)
{
    const struct debug_finding *f = facts->finding;
    const struct stook_cache *cache = f->cache ? f->cache : facts->owner;
    const char *at = f->at;

    writer_print(w, "FIX%s%s: ", cache ? " " : "", cache ? cache->name : "");
    if (!facts->goes_on) {
        writer_print(w, "none, the process aborts\n");
        return;
    }
    switch (f->done) {
    case DEBUG_RESTORED:
        if (f->what <= DEBUG_POISON)
            writer_print(w, "restoring %p-%p=0x%02x\n", f->at,
                         (const void *)(at + (f->changed ? f->changed : 1) - 1), f->expected);
        else
            writer_print(w, "restoring it\n");
        break;
    case DEBUG_QUARANTINED:
        writer_print(w, "what is free of it is not used again\n");
        break;
    case DEBUG_PASSED:
        writer_print(w, "none, the fault is passed on\n");
        break;
    case DEBUG_OPENED:
        writer_print(w, "the page of %p may be used, and is not guarded any more\n", f->at);
        break;
    case DEBUG_REFUSED:
        writer_print(w, "the call is refused\n");
        break;
    default:
        writer_print(w, "none, the call does what it can\n");
    }
}

void form_text(struct writer *w, const struct facts *facts)
{
    const struct debug_finding *f = facts->finding;

    writer_print(w, "stook: ");
    sentence_write(w, f);
    writer_print(w, "\n");
    if (f->what <= DEBUG_POISON)
        writer_print(w, "%p-%p @offset=%zu. First byte 0x%02x instead of 0x%02x\n", f->at,
                     (const void *)((const char *)f->at + (f->changed ? f->changed : 1) - 1),
                     facts->owner ? (size_t)((const char *)f->at - slab_base(f->slab))
                     : f->object  ? (size_t)((const char *)f->at - (const char *)f->object)
                                  : (size_t)0,
                     *(const uint8_t *)f->at, f->expected);
    for (unsigned which = 0; which < FACTS_STACKS; which++)
        form_stack(w, facts, which);
    form_slab(w, facts);
    for (unsigned i = 0; i < facts->pieces; i++)
        for (size_t at = 0; at < facts->bytes[i].size; at += FORM_ROW)
            form_row(w, facts, &facts->bytes[i], at);
    form_fix(w, facts);
}
