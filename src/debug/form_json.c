/* SPDX-License-Identifier: MIT */
/*
 * form_json.c - a report as one line of JSON.  Addresses are strings, "0x7f12…".  Keys whose value is unknown are left
 * out.
 */
#include "debug/facts.h"

#include "base/placed.h"
#include "debug/sentence.h"
#include "slab/slab.h"

static void json_address(struct writer *w, const char *key, const void *address)
{
    writer_print(w, ", \"%s\": \"0x%llx\"", key, (unsigned long long)(uintptr_t)address);
}

static void json_number(struct writer *w, const char *key, uint64_t number)
{
    writer_print(w, ", \"%s\": %llu", key, (unsigned long long)number);
}

static void json_string(struct writer *w, const char *key, const char *text)
{
    writer_print(w, ", \"%s\": ", key);
    writer_json(w, text);
}

static void json_stack(struct writer *w, const struct facts *facts, enum facts_stack which)
{
    static const char keys[][16] = {
        [FACTS_ALLOC] = "allocated", [FACTS_FREE] = "freed", [FACTS_FOUND] = "found"};
    const struct stook_site *site = facts->stack[which].site;
    const struct symbol *symbol = &facts->symbol[facts->stack[which].first];

    if (!facts->stack[which].known)
        return;
    writer_print(w, ", \"%s\": {\"thread\": %u", keys[which], facts->stack[which].thread);
    if (which != FACTS_FOUND) {
        json_number(w, "cpu", facts->stack[which].cpu);
        json_number(w, "age_ns", facts->stack[which].age);
    }
    if (site) {
        json_string(w, "file", site->file ? site->file : "?");
        json_string(w, "function", site->function ? site->function : "?");
        json_number(w, "line", site->line);
    }
    writer_print(w, ", \"stack\": [");
    for (unsigned i = 0; i < facts->stack[which].depth; i++, symbol++) {
        writer_print(w, "%s{\"address\": \"0x%llx\"", i ? ", " : "",
                     (unsigned long long)symbol->address);
        if (symbol->module[0]) {
            json_string(w, "module", symbol->module);
            json_number(w, "offset", symbol->offset);
        }
        if (symbol->name[0]) {
            json_string(w, "symbol", symbol->name);
            json_number(w, "within", symbol->within);
        }
        writer_print(w, "}");
    }
    writer_print(w, "]}");
}

static void json_bytes(struct writer *w, const struct facts *facts)
{
    writer_print(w, ", \"bytes\": [");
    for (unsigned i = 0; i < facts->pieces; i++) {
        const struct facts_bytes *piece = &facts->bytes[i];
        writer_print(w, "%s{\"name\": \"%s\", \"start\": \"%p\", \"hex\": \"", i ? ", " : "",
                     piece->name, (const void *)piece->start);
        for (size_t k = 0; k < piece->size; k++)
            writer_print(w, "%02x", piece->start[k]);
        writer_print(w, "\"}");
    }
    writer_print(w, "]");
}

void form_json(struct writer *w, const struct facts *facts)
{
    static struct writer sentence LARGE_BSS;
    const struct debug_finding *f = facts->finding;

    writer_init(&sentence, -1);
    sentence_write(&sentence, f);
    writer_print(w, "{\"report\": %lu, \"what\": \"%s\"", facts->number, facts_name(f->what));
    json_string(w, "sentence", sentence.buffer);
    json_string(w, "done", facts_done(facts));
    json_number(w, "process", facts->process);
    if (f->cache)
        json_string(w, "cache", f->cache->name);
    if (f->call)
        json_string(w, "call", f->call);
    if (f->at)
        json_address(w, "at", f->at);
    if (f->what <= DEBUG_POISON) {
        json_number(w, "changed", f->changed ? f->changed : 1);
        json_number(w, "expected", f->expected);
        json_number(w, "first", *(const uint8_t *)f->at);
    }
    if (facts->owner) {
        json_string(w, "owner", facts->owner->name);
        json_address(w, "slab", slab_base(f->slab));
        json_number(w, "objects", slab_objects(facts->owner, facts->word));
        json_number(w, "used", slab_inuse(facts->word));
    }
    if (f->object) {
        json_address(w, "object", f->object);
        json_number(w, "size", facts->size);
        json_number(w, "requested", facts->requested);
        if (facts->owner)
            json_number(w, "index", f->index);
    }
    for (unsigned which = 0; which < FACTS_STACKS; which++)
        json_stack(w, facts, which);
    json_bytes(w, facts);
    writer_print(w, "}\n");
}
