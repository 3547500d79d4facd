/* SPDX-License-Identifier: MIT */
/*
 * SQLite's page cache over typed caches: one typed cache for each pair of page size and extra bytes, shared
 * by all page caches of the process.
 *
 * A page is one object: its content, SQLite's extra bytes, then struct page.  Content first keeps it aligned to
 * 64 bytes; a read beyond the content stays in the object, as SQLite expects of a cache.
 *
 * SQLite serialises the calls on one page cache by its connection's mutex, so a page cache has no lock.  Only the
 * table of kinds is shared; it has a mutex.  What a page cache keeps, recycles and refuses follows the contract
 * in sqlite3.h and what pager tests expect: see page_cache_fetch().
 */
#include "stook_sqlite.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <stook/kmalloc.h>
#include <stook/stook.h>

#define KINDS 64 /* 8 page sizes, each with and without the extra bytes of some builds */
#define HASH_FIRST 256u

/* Pages of one size.  A kind stays until sqlite3_shutdown(). */
struct kind {
    int page_size, extra_size;
    struct stook_cache *objects;
};

struct page {
    sqlite3_pcache_page base; /* first: SQLite holds pointers to it */
    struct page *next_hash;
    struct page *newer,
        *older; /* in the ring of unpinned pages; newer is NULL while the page is pinned */
    unsigned key;
};

struct page_cache {
    struct kind *kind;
    size_t page_offset; /* of struct page in the object */
    struct page ring;   /* head: ring.newer is the oldest unpinned page, ring.older the newest */
    struct page **hash;
    unsigned buckets; /* a power of two */
    unsigned pages, unpinned;
    unsigned limit;   /* pages that SQLite wants kept; it may pin more */
    unsigned largest; /* no key is above; truncate needs not scan then */
    int purgeable;
};

static struct kind kinds[KINDS];
static pthread_mutex_t kinds_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t page_offset(int page_size, int extra_size)
{
    return ((size_t)page_size + (size_t)extra_size + 7) & ~(size_t)7;
}

/* The kind of these sizes, made at first use; NULL if there is no memory for it. */
static struct kind *kind_get(int page_size, int extra_size)
{
    struct kind *kind = NULL;

    pthread_mutex_lock(&kinds_lock);
    for (unsigned i = 0; i < KINDS && !kind; i++) {
        struct kind *k = &kinds[i];

        if (k->objects && (k->page_size != page_size || k->extra_size != extra_size))
            continue;
        if (!k->objects) {
            char name[32] = "sqlite.page";
            struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_HWALIGN};

            sqlite3_snprintf(sizeof(name), name, "sqlite.page%d", page_size);
            k->page_size = page_size;
            k->extra_size = extra_size;
            k->objects = stook_cache_create(
                name, page_offset(page_size, extra_size) + sizeof(struct page), &args);
        }
        kind = k;
        break;
    }
    pthread_mutex_unlock(&kinds_lock);
    return kind && kind->objects ? kind : NULL;
}

/* ---- the ring of unpinned pages, the hash ------------------------------------------------------ */

static void page_pin(struct page_cache *cache, struct page *page)
{
    page->older->newer = page->newer;
    page->newer->older = page->older;
    page->newer = NULL;
    cache->unpinned--;
}

static void page_unhash(struct page_cache *cache, struct page *page)
{
    struct page **link = &cache->hash[page->key & (cache->buckets - 1)];

    while (*link != page)
        link = &(*link)->next_hash;
    *link = page->next_hash;
    cache->pages--;
}

static void page_hash(struct page_cache *cache, struct page *page, unsigned key)
{
    struct page **bucket = &cache->hash[key & (cache->buckets - 1)];

    page->key = key;
    page->next_hash = *bucket;
    *bucket = page;
    cache->pages++;
    if (key > cache->largest)
        cache->largest = key;
}

static void page_free(struct page_cache *cache, struct page *page)
{
    stook_free(cache->kind->objects, page->base.pBuf);
}

/* Out of hash and ring, and freed. */
static void page_drop(struct page_cache *cache, struct page *page)
{
    if (page->newer)
        page_pin(cache, page);
    page_unhash(cache, page);
    page_free(cache, page);
}

/* Drops the oldest unpinned pages until at most `limit` pages are left, or none is unpinned. */
static void page_cache_enforce(struct page_cache *cache, unsigned limit)
{
    while (cache->pages > limit && cache->unpinned)
        page_drop(cache, cache->ring.newer);
}

/* Twice the buckets.  Without memory the chains only grow longer. */
static void page_cache_rehash(struct page_cache *cache)
{
    unsigned buckets = cache->buckets * 2;
    struct page **hash = stook_kmalloc_array(buckets, sizeof(*hash), STOOK_NORECLAIM | STOOK_ZERO);

    if (!hash)
        return;
    for (unsigned i = 0; i < cache->buckets; i++) {
        struct page *next;

        for (struct page *page = cache->hash[i]; page; page = next) {
            next = page->next_hash;
            page->next_hash = hash[page->key & (buckets - 1)];
            hash[page->key & (buckets - 1)] = page;
        }
    }
    stook_free_any(cache->hash);
    cache->hash = hash;
    cache->buckets = buckets;
}

/* ---- SQLite's methods -------------------------------------------------------------------------- */

static int page_cache_init(void *arg)
{
    (void)arg;
    return SQLITE_OK;
}

/* No page cache is left, so the typed caches are empty and are destroyed. */
static void page_cache_shutdown(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&kinds_lock);
    for (unsigned i = 0; i < KINDS; i++)
        if (kinds[i].objects && stook_cache_destroy(kinds[i].objects) == 0)
            kinds[i].objects = NULL;
    pthread_mutex_unlock(&kinds_lock);
}

static sqlite3_pcache *page_cache_create(int page_size, int extra_size, int purgeable)
{
    struct kind *kind = kind_get(page_size, extra_size);
    struct page_cache *cache =
        kind ? stook_kmalloc(sizeof(*cache), STOOK_NORECLAIM | STOOK_ZERO) : NULL;

    if (!cache)
        return NULL;
    cache->hash =
        stook_kmalloc_array(HASH_FIRST, sizeof(*cache->hash), STOOK_NORECLAIM | STOOK_ZERO);
    if (!cache->hash) {
        stook_free_any(cache);
        return NULL;
    }
    cache->kind = kind;
    cache->page_offset = page_offset(page_size, extra_size);
    cache->buckets = HASH_FIRST;
    cache->ring.newer = cache->ring.older = &cache->ring;
    cache->purgeable = purgeable;
    return (sqlite3_pcache *)cache;
}

static void page_cache_size(sqlite3_pcache *handle, int pages)
{
    struct page_cache *cache = (struct page_cache *)handle;

    cache->limit = pages > 0 ? (unsigned)pages : 0;
    if (cache->purgeable)
        page_cache_enforce(cache, cache->limit);
}

static int page_cache_count(sqlite3_pcache *handle)
{
    return (int)((struct page_cache *)handle)->pages;
}

/*
 * A page that is not there is made if `create` is 2, or 1 and it can be had cheaply: SQLite spills dirty pages
 * and asks with 2 if pinned pages reach nine tenths of the limit.  At the limit the oldest unpinned page is
 * recycled.  Pages of databases that are not purgeable are all that there is of their content, and stay.
 */
static struct page *page_cache_new(struct page_cache *cache, unsigned key, int create)
{
    unsigned pinned = cache->pages - cache->unpinned;
    struct page *page = NULL;

    if (create == 1 && cache->purgeable && pinned >= (unsigned)((uint64_t)cache->limit * 9 / 10))
        return NULL;
    if (cache->pages >= cache->buckets)
        page_cache_rehash(cache);
    if (cache->purgeable && cache->unpinned && cache->pages + 1 >= cache->limit) {
        page = cache->ring.newer;
        page_pin(cache, page);
        page_unhash(cache, page);
    } else {
        char *object = stook_alloc(cache->kind->objects, STOOK_NORECLAIM);

        if (!object)
            return NULL;
        page = (struct page *)(object + cache->page_offset);
        page->base.pBuf = object;
        page->base.pExtra = object + cache->kind->page_size;
        page->newer = NULL;
    }
    *(void **)page->base.pExtra = NULL; /* what SQLite knows a new page by */
    page_hash(cache, page, key);
    return page;
}

static sqlite3_pcache_page *page_cache_fetch(sqlite3_pcache *handle, unsigned key, int create)
{
    struct page_cache *cache = (struct page_cache *)handle;
    struct page *page = cache->hash[key & (cache->buckets - 1)];

    while (page && page->key != key)
        page = page->next_hash;
    if (page) {
        if (page->newer)
            page_pin(cache, page);
    } else if (create) {
        page = page_cache_new(cache, key, create);
    }
    return page ? &page->base : NULL;
}

static void page_cache_unpin(sqlite3_pcache *handle, sqlite3_pcache_page *base, int discard)
{
    struct page_cache *cache = (struct page_cache *)handle;
    struct page *page = (struct page *)base;

    if (discard || (cache->purgeable && cache->pages > cache->limit)) {
        page_drop(cache, page);
        return;
    }
    page->newer = &cache->ring;
    page->older = cache->ring.older;
    page->older->newer = page;
    cache->ring.older = page;
    cache->unpinned++;
}

/* SQLite has dropped a page that had the new key. */
static void page_cache_rekey(sqlite3_pcache *handle, sqlite3_pcache_page *base, unsigned old_key,
                             unsigned new_key)
{
    struct page_cache *cache = (struct page_cache *)handle;
    struct page *page = (struct page *)base;

    (void)old_key;
    page_unhash(cache, page);
    page_hash(cache, page, new_key);
}

/* Pinned pages go too.  Keys above the limit lie in few buckets if they are few: only these are scanned. */
static void page_cache_truncate(sqlite3_pcache *handle, unsigned limit)
{
    struct page_cache *cache = (struct page_cache *)handle;
    unsigned first = 0, count = cache->buckets;

    if (limit > cache->largest)
        return;
    if (cache->largest - limit < count) {
        first = limit;
        count = cache->largest - limit + 1;
    }
    for (unsigned i = 0; i < count; i++) {
        struct page **link = &cache->hash[(first + i) & (cache->buckets - 1)];

        while (*link) {
            struct page *page = *link;

            if (page->key < limit) {
                link = &page->next_hash;
                continue;
            }
            *link = page->next_hash;
            cache->pages--;
            if (page->newer)
                page_pin(cache, page);
            page_free(cache, page);
        }
    }
    cache->largest = limit ? limit - 1 : 0;
}

static void page_cache_destroy(sqlite3_pcache *handle)
{
    struct page_cache *cache = (struct page_cache *)handle;

    page_cache_truncate(handle, 0);
    stook_free_any(cache->hash);
    stook_free_any(cache);
}

/* sqlite3_db_release_memory(): the pages are freed, and the typed cache gives their slabs back. */
static void page_cache_shrink(sqlite3_pcache *handle)
{
    struct page_cache *cache = (struct page_cache *)handle;

    if (!cache->purgeable)
        return;
    page_cache_enforce(cache, 0);
    (void)stook_cache_shrink(cache->kind->objects);
}

const sqlite3_pcache_methods2 *stook_sqlite_pcache_methods(void)
{
    static const sqlite3_pcache_methods2 methods = {1,
                                                    NULL,
                                                    page_cache_init,
                                                    page_cache_shutdown,
                                                    page_cache_create,
                                                    page_cache_size,
                                                    page_cache_count,
                                                    page_cache_fetch,
                                                    page_cache_unpin,
                                                    page_cache_rekey,
                                                    page_cache_truncate,
                                                    page_cache_destroy,
                                                    page_cache_shrink};

    return &methods;
}
