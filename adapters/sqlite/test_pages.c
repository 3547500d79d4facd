/* SPDX-License-Identifier: MIT */
/* The adapter by its methods and through SQLite: counts, never times. */
#include "stook_sqlite.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stook/stook.h>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const sqlite3_pcache_methods2 *m;

static sqlite3_pcache_page *fetch(sqlite3_pcache *cache, unsigned key, int create)
{
    sqlite3_pcache_page *page = m->xFetch(cache, key, create);

    if (page && create) {
        CHECK((uintptr_t)page->pBuf % 64 == 0);
        memset(page->pBuf, (int)key, 1024);
        memset(page->pExtra, (int)key | 1, 100);
    }
    return page;
}

static int count(void *object, void *arg)
{
    (void)object;
    ++*(unsigned *)arg;
    return 0;
}

static unsigned live(void)
{
    unsigned n = 0;
    struct stook_cache *objects = stook_cache_by_name("sqlite.page1024");

    CHECK(objects && stook_cache_walk(objects, count, &n) == 0);
    return n;
}

/* What sqlite3.h says of each method; each page that is dropped is freed. */
static void test_methods(void)
{
    sqlite3_pcache *cache = m->xCreate(1024, 100, 1), *kept = m->xCreate(1024, 100, 0);
    sqlite3_pcache_page *page, *pages[100];

    m->xCachesize(cache, 100);
    CHECK(!fetch(cache, 1, 0));
    for (unsigned i = 0; i < 90; i++)
        CHECK((pages[i] = fetch(cache, i + 1, 1)));
    CHECK(!m->xFetch(cache, 91, 1)); /* nine tenths are pinned: SQLite is to spill */
    page = m->xFetch(cache, 91, 2);
    CHECK(page && *(void **)page->pExtra == NULL);
    CHECK(m->xPagecount(cache) == 91 && live() == 91);
    m->xUnpin(cache, page, 1);
    CHECK(m->xPagecount(cache) == 90 && live() == 90);

    for (unsigned i = 0; i < 90; i++)
        m->xUnpin(cache, pages[i], 0);
    page = m->xFetch(cache, 7, 0);
    CHECK(page == pages[6] && *(unsigned char *)page->pBuf == 7);
    m->xRekey(cache, page, 7, 5000);
    CHECK(!m->xFetch(cache, 7, 0) && m->xFetch(cache, 5000, 0) == page);

    /* At the limit the oldest is recycled, and looks new. */
    for (unsigned i = 0; i < 9; i++)
        m->xUnpin(cache, fetch(cache, 100 + i, 1), 0);
    CHECK(m->xPagecount(cache) == 99);
    page = m->xFetch(cache, 200, 1);
    CHECK(page == pages[0] && *(void **)page->pExtra == NULL && !m->xFetch(cache, 1, 0));
    CHECK(m->xPagecount(cache) == 99 && live() == 99);

    /* Keys from 100 on go, pinned or not; what stays has its content. */
    m->xTruncate(cache, 100);
    CHECK(!m->xFetch(cache, 5000, 0) && !m->xFetch(cache, 200, 0) && !m->xFetch(cache, 100, 0));
    CHECK(m->xPagecount(cache) == 88 && live() == 88);
    page = m->xFetch(cache, 90, 0);
    CHECK(page && *(unsigned char *)page->pBuf == 90);

    m->xShrink(cache);
    CHECK(m->xPagecount(cache) == 1 && live() == 1);
    m->xTruncate(cache, 0);
    CHECK(m->xPagecount(cache) == 0 && live() == 0);

    /* More pages than buckets; not purgeable: all stay, whatever the limit. */
    m->xCachesize(kept, 10);
    for (unsigned i = 0; i < 3000; i++)
        m->xUnpin(kept, fetch(kept, i * 7, 1), 0);
    m->xShrink(kept);
    CHECK(m->xPagecount(kept) == 3000 && live() == 3000);
    for (unsigned i = 0; i < 3000; i++)
        CHECK((page = m->xFetch(kept, i * 7, 0)) &&
              *(unsigned char *)page->pBuf == (unsigned char)(i * 7));
    m->xDestroy(kept);
    m->xDestroy(cache);
    CHECK(live() == 0);
}

static void run(sqlite3 *db, const char *sql)
{
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* A database: its pages are objects, and are given back. */
static void test_database(void)
{
    sqlite3 *db;
    struct stook_cache *objects;
    unsigned n = 0;
    void *memory;

    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    run(db, "create table t(a integer primary key, b);"
            "with recursive c(x) as (select 1 union all select x+1 from c where x<2000)"
            " insert into t select x, zeroblob(1000) from c");
    objects = stook_cache_by_name("sqlite.page4096");
    CHECK(objects && stook_cache_walk(objects, count, &n) == 0 && n > 500 && n < 1000);
    memory = sqlite3_malloc(1000);
    CHECK(stook_cache_of(memory) && sqlite3_msize(memory) == stook_usable_size(memory));
    sqlite3_free(memory);
    run(db, "delete from t; pragma integrity_check");
    CHECK(stook_sqlite_configure(STOOK_SQLITE_ALL) == SQLITE_MISUSE); /* SQLite is initialised */
    CHECK(sqlite3_close(db) == SQLITE_OK);
    n = 0;
    CHECK(stook_cache_walk(objects, count, &n) == 0 && n == 0);
    CHECK(sqlite3_memory_used() == 0);
    CHECK(sqlite3_shutdown() == SQLITE_OK);
    CHECK(!stook_cache_by_name("sqlite.page4096"));
}

int main(void)
{
    CHECK(stook_sqlite_configure(0x80) == SQLITE_MISUSE);
    CHECK(stook_sqlite_configure(STOOK_SQLITE_ALL) == SQLITE_OK);
    m = stook_sqlite_pcache_methods();
    test_methods();
    test_database();
    puts("passed");
    return 0;
}
