/* SPDX-License-Identifier: MIT */
/*
 * Tables of size classes (stook plan --classes), from a file and as words.  An accepted table is one that malloc
 * could have, in order, with slabs and sheaves that the library can make.
 */
#include "support/fuzz.h"

#include "plan/traces.h"

#include <string.h>

/* With AddressSanitizer caches have red zones, and malloc's classes other slabs. */
FUZZ_SETTINGS({"STOOK_DEBUG", "-"})

static void classes_check(struct traces_table *table)
{
    FUZZ_CHECK(!traces_table_wrong(table) && table->classes > 0);
    FUZZ_CHECK(table->classes <= TRACES_CLASSES);
    for (unsigned i = 0; i < table->classes; i++)
        FUZZ_CHECK(table->class[i].size > (i ? table->class[i - 1].size : 0));
    FUZZ_CHECK(table->class[table->classes - 1].size == TRACES_MAX);
    (void)traces_resolve_all(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n);
    struct traces_table table;

    /* Other words are names of files. */
    if (text[strspn(text, "0123456789:,")] == '\0' && traces_table_read(&table, text))
        classes_check(&table);
    if (traces_table_read(&table, fuzz_file(bytes, n)))
        classes_check(&table);
    free(text);
    return 0;
}
