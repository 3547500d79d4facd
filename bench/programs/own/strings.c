/* SPDX-License-Identifier: MIT */
/* Strings that grow by realloc, are cut into words, and counted in a table that grows with them. */
#include "own.h"

struct entry {
    struct entry *next;
    char *word;
    unsigned count;
};

struct table {
    struct entry **bucket;
    size_t buckets, entries;
};

static uint32_t hash_of(const char *word)
{
    uint32_t hash = 2166136261u;

    while (*word)
        hash = (hash ^ (unsigned char)*word++) * 16777619u;
    return hash;
}

static void table_grow(struct table *table)
{
    size_t buckets = table->buckets ? table->buckets * 2 : 64;
    struct entry **bucket = calloc(buckets, sizeof(*bucket));

    if (!bucket)
        exit(1);
    for (size_t b = 0; b < table->buckets; b++)
        while (table->bucket[b]) {
            struct entry *entry = table->bucket[b];
            size_t at = hash_of(entry->word) % buckets;
            table->bucket[b] = entry->next;
            entry->next = bucket[at];
            bucket[at] = entry;
        }
    free(table->bucket);
    table->bucket = bucket;
    table->buckets = buckets;
}

static void table_count(struct table *table, const char *word)
{
    struct entry *entry;
    size_t at;

    if (table->entries >= table->buckets)
        table_grow(table);
    at = hash_of(word) % table->buckets;
    for (entry = table->bucket[at]; entry && strcmp(entry->word, word) != 0;)
        entry = entry->next;
    if (!entry) {
        entry = own_alloc(sizeof(*entry));
        entry->word = strdup(word);
        entry->count = 0;
        entry->next = table->bucket[at];
        table->bucket[at] = entry;
        table->entries++;
    }
    entry->count++;
}

static uint64_t table_free(struct table *table)
{
    uint64_t sum = 0;

    for (size_t b = 0; b < table->buckets; b++)
        while (table->bucket[b]) {
            struct entry *entry = table->bucket[b];
            table->bucket[b] = entry->next;
            sum += entry->count * strlen(entry->word);
            free(entry->word);
            free(entry);
        }
    free(table->bucket);
    return sum;
}

static char *text_make(struct own_random *random, size_t words)
{
    size_t room = 16, length = 0;
    char *text = own_alloc(room);

    for (size_t w = 0; w < words; w++) {
        unsigned letters = 2 + own_below(random, 12), kind = own_below(random, 3000);
        if (length + letters + 2 > room) {
            text = realloc(text, room *= 2);
            if (!text)
                exit(1);
        }
        for (unsigned i = 0; i < letters; i++)
            text[length++] = (char)('a' + (kind * (i + 3) + kind / 7) % 26);
        text[length++] = ' ';
    }
    text[length] = '\0';
    return text;
}

uint64_t own_strings(unsigned scale)
{
    struct own_random random = {7};
    uint64_t sum = 0;

    for (unsigned n = 0; n < scale * 5 / 2 + 1; n++) {
        struct table table = {NULL, 0, 0};
        char *text = text_make(&random, 60000), *rest = text, *word;
        while ((word = strsep(&rest, " ")))
            table_count(&table, word);
        sum += table_free(&table);
        free(text);
    }
    return sum;
}
