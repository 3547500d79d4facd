/* SPDX-License-Identifier: MIT */
/*
 * tag.c - from a site or an address to its number and record: two hash tables, a list of numbers in chunks, and copies of
 * the sites' names.
 */
#include "site/tag.h"

#include "base/grow.h"
#include "base/placed.h"
#include "os/os.h"
#include "site/modules.h"

#include <errno.h>
#include <string.h>

/* What a tag is asked for. */
struct tag_key {
    enum tag_kind kind;
    uint64_t key;                  /* never 0; TAG_ADDRESS: the address */
    const struct stook_site *site; /* TAG_SITE */
};

/*
 * From a key to its number; entries are only ever added.  A key is an address, or the hash of a site
 * with the highest bit set, which no address of a program has.  Two of 65535 have the
 * same hash once in 2^31 programs.
 *
 * Most programs have few sites: these are in a small table, whose lines stay in the CPU's cache, and
 * only a key that finds its place there taken goes to the large one.
 */
struct tag_entry {
    _Atomic uint64_t key; /* 0: free; the thread that sets it may stop before it sets the number */
    _Atomic uint32_t number; /* 0: not yet */
};

enum {
    TAG_NEAR_BITS = 12,
    TAG_FAR_BITS = 17,
    TAG_NEAR_PROBES = 8,
    TAG_FAR_PROBES = 1024,
    TAG_TEXT_BLOCK = 64 << 10,
};
#define TAG_HASHED ((uint64_t)1 << 63)

/* Names of sites, one behind the other; a full block is left to itself. */
struct tag_text {
    _Atomic uint32_t used;
    char bytes[];
};

struct tag_counts *tag_chunks[TAG_CHUNKS] LARGE_BSS;

static struct {
    _Atomic uint32_t
        made; /* numbers given; one whose thread lost the race for its key is not used */
    struct tag_entry near[1 << TAG_NEAR_BITS];
    _Atomic(struct tag_entry *) far;
    _Atomic(struct tag_text *) text;
} tags LARGE_BSS;

/* ---- memory --------------------------------------------------------------------------------- */

void *tag_map(void *place, void *old, size_t size)
{
    void **at = place, *fresh = __atomic_load_n(at, __ATOMIC_ACQUIRE);

    if (fresh != old)
        return fresh;
    fresh = os_map(size);
    if (!fresh)
        return NULL;
    if (__atomic_compare_exchange_n(at, &old, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fresh;
    os_unmap(fresh, size);
    return old;
}

static struct tag_record *tag_record_of(uint32_t number)
{
    char *chunk = (char *)__atomic_load_n(&tag_chunks[number >> TAG_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    return chunk ? (struct tag_record *)(void *)(chunk + rows_size(ROWS_LARGE)) +
                       (number & (TAG_CHUNK - 1))
                 : NULL;
}

static char *tag_text_take(size_t size)
{
    struct tag_text *block = atomic_load_explicit(&tags.text, memory_order_acquire);

    for (;;) {
        if (block) {
            uint32_t at =
                atomic_fetch_add_explicit(&block->used, (uint32_t)size, memory_order_relaxed);
            if (at + size <= TAG_TEXT_BLOCK - sizeof(*block))
                return block->bytes + at;
        }
        block = tag_map(&tags.text, block, TAG_TEXT_BLOCK);
        if (!block)
            return NULL;
    }
}

static const char *tag_text_copy(const char *text, size_t size)
{
    char *copy = tag_text_take(size + 1);

    if (copy)
        memcpy(copy, text, size); /* the block was zeros */
    return copy;
}

/* A file's name: the end of it, if it is long. */
static const char *tag_file_copy(const char *file)
{
    size_t size = strlen(file), most = size < STOOK_TAG_NAME_MAX ? size : STOOK_TAG_NAME_MAX;

    return tag_text_copy(file + size - most, most);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool tag_is_full(void)
{
    return atomic_load_explicit(&tags.made, memory_order_relaxed) >= STOOK_TAGS_MAX;
}

/* A number whose record is the caller's; 0: there are no more, or no memory. */
static uint32_t tag_number_take(void)
{
    uint32_t number = atomic_load_explicit(&tags.made, memory_order_relaxed);

    do
        if (number >= STOOK_TAGS_MAX || !tag_map(&tag_chunks[(number + 1) >> TAG_CHUNK_SHIFT], NULL,
                                                 rows_size(ROWS_LARGE) + TAG_ROW))
            return 0;
    while (!atomic_compare_exchange_weak_explicit(&tags.made, &number, number + 1,
                                                  memory_order_relaxed, memory_order_relaxed));
    return number + 1;
}

/* False: out of memory. */
static bool tag_fill(struct tag_record *record, const struct tag_key *key)
{
    const struct stook_site *site = key->site;
    const char *function = site && site->function ? site->function : "?";

    record->value = site ? site->line : key->key;
    if (!site) {
        modules_note(key->key);
        return true;
    }
    record->file = tag_file_copy(site->file ? site->file : "?");
    record->function = tag_text_copy(function, strnlen(function, STOOK_TAG_NAME_MAX));
    return record->file && record->function;
}

/* The number of a claimed entry: of the first thread that completes a record for it. */
static __attribute__((noinline, cold)) uint32_t tag_number_make(struct tag_entry *entry,
                                                                const struct tag_key *key)
{
    struct tag_record filled = {0}, *record;
    uint32_t number, none = 0;

    if (!tag_fill(&filled, key) || (number = tag_number_take()) == 0)
        return 0;
    record = tag_record_of(number);
    record->file = filled.file;
    record->function = filled.function;
    record->value = filled.value;
    atomic_store_explicit(&record->kind, key->kind, memory_order_release);
    /* Pairs with the acquire of a thread that finds the number. */
    return atomic_compare_exchange_strong_explicit(&entry->number, &none, number,
                                                   memory_order_acq_rel, memory_order_acquire)
               ? number
               : none;
}

/* ---- from a key to its number ---------------------------------------------------------------- */

/* The entry of a key in a table, claimed if need be; NULL: all its places are taken, or the key is
 * new and there are no more numbers. */
static inline struct tag_entry *tag_probe(struct tag_entry *table, unsigned bits, unsigned probes,
                                          uint64_t key)
{
    uint64_t at = (key * 0x9e3779b97f4a7c15u) >> (64 - bits);

    for (unsigned i = 0; i < probes; i++, at = (at + 1) & (((uint64_t)1 << bits) - 1)) {
        uint64_t found = atomic_load_explicit(&table[at].key, memory_order_relaxed);
        if (__builtin_expect(found == key, 1))
            return &table[at];
        if (found != 0)
            continue;
        if (tag_is_full())
            return NULL;
        if (atomic_compare_exchange_strong_explicit(&table[at].key, &found, key,
                                                    memory_order_relaxed, memory_order_relaxed) ||
            found == key)
            return &table[at];
    }
    return NULL;
}

static struct tag_entry *tag_far(uint64_t key)
{
    struct tag_entry *far = tag_map(&tags.far, NULL, sizeof(*far) << TAG_FAR_BITS);

    return far ? tag_probe(far, TAG_FAR_BITS, TAG_FAR_PROBES, key) : NULL;
}

static inline __attribute__((always_inline)) uint32_t tag_find(const struct tag_key *key)
{
    struct tag_entry *entry = tag_probe(tags.near, TAG_NEAR_BITS, TAG_NEAR_PROBES, key->key);
    uint32_t number;

    if (__builtin_expect(!entry, 0) && !(entry = tag_far(key->key)))
        return 0;
    number = atomic_load_explicit(&entry->number, memory_order_acquire);
    return __builtin_expect(number != 0, 1) ? number : tag_number_make(entry, key);
}

uint32_t tag_of_address(const void *address)
{
    const struct tag_key key = {.kind = TAG_ADDRESS, .key = (uintptr_t)address};

    return address ? tag_find(&key) : 0;
}

uint64_t tag_hash(uint64_t hash, const char *text)
{
    for (hash ^= 0xcbf29ce484222325u; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u; /* FNV-1a */
    return (hash ^ 0x100) * 0x100000001b3u;
}

__attribute__((noinline, cold)) uint32_t tag_of_site_slow(struct stook_site *site)
{
    struct tag_key key = {.kind = TAG_SITE, .site = site};
    uint64_t hash = tag_hash(tag_hash(0, site->file), site->function);
    uint32_t number;

    key.key = (hash ^ site->line) * 0x100000001b3u | TAG_HASHED;
    number = tag_find(&key);
    if (number != 0)
        __atomic_store_n(&site->tag, number, __ATOMIC_RELEASE);
    return number;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The record of a tag that has allocated, or NULL. */
static struct tag_record *tag_known(uint32_t tag, struct rows_two *came, struct rows_two *went)
{
    struct tag_record *record;

    if (tag == 0 || tag > STOOK_TAGS_MAX || !(record = tag_record_of(tag)))
        return NULL;
    /* Frees first: of those counted, the allocations are counted too. */
    *went = rows_sum_two(&tag_counts_of(tag)->went);
    *came = rows_sum_two(&tag_counts_of(tag)->came);
    if (came->count == 0 || !atomic_load_explicit(&record->kind, memory_order_acquire))
        return NULL;
    return record;
}

unsigned stook_tag_next(unsigned tag)
{
    struct rows_two came, went;
    unsigned made = atomic_load_explicit(&tags.made, memory_order_acquire);

    while (tag < made)
        if (tag_known(++tag, &came, &went))
            return tag;
    return 0;
}

int stook_tag_stat(unsigned tag, struct stook_tag_stat *to)
{
    const struct tag_record *record;
    struct stook_tag_stat all = {0}, *stat = &all;
    struct rows_two came, went;
    uint64_t kind;

    if (!grow_is_sized(to->size)) {
        errno = EINVAL;
        return -1;
    }
    record = tag_known(tag, &came, &went);
    if (!record) {
        errno = ENOENT;
        return -1;
    }
    kind = atomic_load_explicit(&record->kind, memory_order_relaxed);
    stat->file = kind == TAG_SITE ? record->file : NULL;
    stat->function = kind == TAG_SITE ? record->function : NULL;
    stat->address = kind == TAG_SITE ? 0 : record->value;
    stat->line = kind == TAG_SITE ? record->value : 0;
    stat->live_objects = came.count - went.count;
    stat->live_bytes = came.bytes - went.bytes;
    stat->total_objects = came.count;
    stat->total_bytes = came.bytes;
    grow_write(to, &all, sizeof(all));
    return 0;
}
