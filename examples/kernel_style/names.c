/* SPDX-License-Identifier: MIT */
/*
 * A table of names as kernel code would write it: it knows nothing of Stook.
 *
 *   entries   of a hash table; readers walk its chains under RCU, kfree_rcu() frees them
 *   files     constructed once, type-stable: a reader that finds one in an entry takes a reference and
 *             then looks whether it still is the one
 *   contexts  of reads, from a memory pool: a read gets on where memory is short
 *   blocks    taken and given back in bursts
 */
#include "names.h"

#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/mempool.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#define BUCKETS 1024
#define INLINE_NAME 32
#define BURST 16
#define BLOCK 512

struct name_file {
    refcount_t refs;
    spinlock_t lock; /* constructed: a reader of a freed file may take it */
    u64 number;
    u64 reads;
};

/* A name that does not fit into its entry. */
struct long_name {
    struct rcu_head rcu;
    char text[];
};

struct name_entry {
    struct name_entry *next;
    u32 hash, length;
    struct name_file *file;
    char *name; /* short_name, or a long_name's text */
    char short_name[INLINE_NAME];
    struct rcu_head rcu;
};

struct name_io {
    struct name_file *file;
    unsigned first, n;
    void *block[BURST];
};

static struct kmem_cache *entry_cache, *file_cache, *io_cache, *block_cache;
static mempool_t *io_pool;
static struct name_entry **table;
static spinlock_t table_lock;
static struct names_counts counts; /* names and files under the lock */

/* ---- files ----------------------------------------------------------------------------------- */

static void file_init_once(void *object)
{
    struct name_file *file = object;

    refcount_set(&file->refs, 0);
    spin_lock_init(&file->lock);
}

static struct name_file *file_new(u64 number, gfp_t gfp)
{
    struct name_file *file = kmem_cache_alloc(file_cache, gfp);

    if (!file)
        return NULL;
    WRITE_ONCE(file->number, number);
    spin_lock(&file->lock);
    file->reads = 0;
    spin_unlock(&file->lock);
    refcount_set(&file->refs, 1); /* from here on readers may find it */
    return file;
}

static void file_put(struct name_file *file)
{
    if (refcount_dec_and_test(&file->refs))
        kmem_cache_free(file_cache, file);
}

/* ---- the table ------------------------------------------------------------------------------- */

static u32 name_hash(const char *name, size_t length)
{
    u32 hash = 2166136261u;

    while (length-- > 0)
        hash = (hash ^ (u8)*name++) * 16777619u;
    return hash;
}

static struct name_entry *entry_find(const char *name, size_t length, u32 hash)
{
    struct name_entry *entry = rcu_dereference(table[hash % BUCKETS]);

    while (entry && (entry->hash != hash || entry->length != length ||
                     memcmp(entry->name, name, length) != 0))
        entry = rcu_dereference(entry->next);
    return entry;
}

static int entry_set(struct name_entry *entry, const char *name, gfp_t gfp)
{
    size_t length = strlen(name);

    entry->name = entry->short_name;
    if (length >= INLINE_NAME) {
        struct long_name *more = kmalloc(sizeof(*more) + length + 1, gfp);
        if (!more)
            return -ENOMEM;
        entry->name = more->text;
    }
    memcpy(entry->name, name, length + 1);
    entry->length = (u32)length;
    entry->hash = name_hash(name, length);
    return 0;
}

static struct long_name *entry_long_name(struct name_entry *entry)
{
    return entry->name == entry->short_name ? NULL
                                            : container_of(entry->name, struct long_name, text);
}

/* Readers may still look at both. */
static void entry_free(struct name_entry *entry)
{
    struct long_name *more = entry_long_name(entry);

    kfree_rcu(more, rcu);
    kfree_rcu(entry, rcu);
}

static int entry_insert(struct name_entry *entry)
{
    struct name_entry **bucket = &table[entry->hash % BUCKETS];

    if (entry_find(entry->name, entry->length, entry->hash))
        return -EEXIST;
    entry->next = rcu_access_pointer(*bucket);
    rcu_assign_pointer(*bucket, entry);
    counts.names++;
    counts.files++;
    return 0;
}

/* Under the lock; its file's reference is the caller's then. */
static struct name_entry *entry_unlink(const char *name)
{
    size_t length = strlen(name);
    u32 hash = name_hash(name, length);
    struct name_entry *entry = entry_find(name, length, hash);
    struct name_entry **link = &table[hash % BUCKETS];

    if (!entry)
        return NULL;
    while (*link != entry)
        link = &(*link)->next;
    rcu_assign_pointer(*link, entry->next);
    counts.names--;
    counts.files--;
    return entry;
}

int names_add(const char *name, u64 number)
{
    struct name_entry *entry = kmem_cache_zalloc(entry_cache, GFP_KERNEL);
    int error;

    if (!entry)
        return -ENOMEM;
    error = entry_set(entry, name, GFP_KERNEL);
    if (error)
        goto free_entry;
    entry->file = file_new(number, GFP_KERNEL);
    if (!entry->file) {
        error = -ENOMEM;
        goto free_name;
    }
    spin_lock(&table_lock);
    error = entry_insert(entry);
    spin_unlock(&table_lock);
    if (!error)
        return 0;
    file_put(entry->file); /* no reader has seen it */
free_name:
    kfree(entry_long_name(entry));
free_entry:
    kmem_cache_free(entry_cache, entry);
    return error;
}

/* Everything that can fail comes before the lock; under it entries come from the sheaf. */
int names_add_many(char *const *names, const u64 *numbers, unsigned n)
{
    struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(entry_cache, GFP_KERNEL, n);
    struct name_file **files = kcalloc(n, sizeof(*files), GFP_KERNEL);
    int error = sheaf && files ? 0 : -ENOMEM;
    unsigned i, added = 0;

    for (i = 0; !error && i < n; i++)
        if (strlen(names[i]) >= INLINE_NAME)
            error = -ENAMETOOLONG;
        else if (!(files[i] = file_new(numbers[i], GFP_KERNEL)))
            error = -ENOMEM;
    if (!error) {
        spin_lock(&table_lock);
        for (i = 0; !error && i < n; i++) {
            struct name_entry *entry =
                kmem_cache_alloc_from_sheaf(entry_cache, GFP_NOWAIT | __GFP_ZERO, sheaf);
            entry->file = files[i];
            error = entry_set(entry, names[i], GFP_NOWAIT);
            if (!error)
                error = entry_insert(entry);
            if (error)
                kmem_cache_free(entry_cache, entry);
            else
                added++;
        }
        for (i = 0; error && i < added; i++)
            entry_free(entry_unlink(names[i]));
        spin_unlock(&table_lock);
    }
    for (i = 0; error && files && i < n; i++)
        if (files[i])
            file_put(files[i]);
    kfree(files);
    if (sheaf)
        kmem_cache_return_sheaf(entry_cache, GFP_KERNEL, sheaf);
    return error;
}

int names_remove(const char *name)
{
    struct name_entry *entry;

    spin_lock(&table_lock);
    entry = entry_unlink(name);
    spin_unlock(&table_lock);
    if (!entry)
        return -ENOENT;
    file_put(entry->file);
    entry_free(entry);
    return 0;
}

/*
 * A reference to the file that the name has.  Between finding the entry and taking the reference the
 * file may have become another name's; but not if the entry is still there, which holds one.
 */
static struct name_file *names_get(const char *name)
{
    size_t length = strlen(name);
    u32 hash = name_hash(name, length);
    struct name_file *file = NULL;
    struct name_entry *entry;

    rcu_read_lock();
    while (!file && (entry = entry_find(name, length, hash)) != NULL) {
        if (!refcount_inc_not_zero(&entry->file->refs))
            continue;
        file = entry->file;
        if (entry_find(name, length, hash) != entry) {
            file_put(file);
            file = NULL;
        }
    }
    rcu_read_unlock();
    return file;
}

int names_lookup(const char *name, u64 *number)
{
    size_t length = strlen(name);
    int error = -ENOENT;
    struct name_entry *entry;

    rcu_read_lock();
    entry = entry_find(name, length, name_hash(name, length));
    if (entry) {
        *number = READ_ONCE(entry->file->number);
        error = 0;
    }
    rcu_read_unlock();
    return error;
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* A burst of blocks if there is memory at hand, else one, which may wait. */
static unsigned io_take_blocks(struct name_io *io, unsigned wanted)
{
    unsigned n = wanted < BURST ? wanted : BURST;

    if (kmem_cache_alloc_bulk(block_cache, GFP_NOWAIT, n, io->block)) {
        __atomic_fetch_add(&counts.bursts, 1, __ATOMIC_RELAXED);
        return n;
    }
    __atomic_fetch_add(&counts.singles, 1, __ATOMIC_RELAXED);
    io->block[0] = kmem_cache_alloc(block_cache, GFP_KERNEL | __GFP_NOFAIL);
    return 1;
}

static u64 io_run(struct name_io *io)
{
    u64 sum = 0;

    for (unsigned i = 0; i < io->n; i++) { /* the device */
        u64 *words = io->block[i];
        for (unsigned k = 0; k < BLOCK / sizeof(u64); k++)
            words[k] = READ_ONCE(io->file->number) + io->first + i;
    }
    for (unsigned i = 0; i < io->n; i++)
        sum += ((u64 *)io->block[i])[BLOCK / sizeof(u64) - 1];
    return sum;
}

int names_read(const char *name, unsigned n, u64 *sum)
{
    struct name_file *file = names_get(name);

    *sum = 0;
    if (!file)
        return -ENOENT;
    for (unsigned at = 0; at < n;) {
        struct name_io *io = mempool_alloc(io_pool, GFP_NOIO); /* never fails */
        io->file = file;
        io->first = at;
        io->n = io_take_blocks(io, n - at);
        *sum += io_run(io);
        at += io->n;
        kmem_cache_free_bulk(block_cache, io->n, io->block);
        mempool_free(io, io_pool);
    }
    spin_lock(&file->lock);
    file->reads++;
    spin_unlock(&file->lock);
    file_put(file);
    return 0;
}

/* ---- its life -------------------------------------------------------------------------------- */

void names_count(struct names_counts *now)
{
    spin_lock(&table_lock);
    now->names = counts.names;
    now->files = counts.files;
    spin_unlock(&table_lock);
    now->bursts = READ_ONCE(counts.bursts);
    now->singles = READ_ONCE(counts.singles);
}

int names_init(void)
{
    struct kmem_cache_args args = {
        .align = 64,
        .sheaf_capacity = 32,
    };

    spin_lock_init(&table_lock);
    entry_cache = KMEM_CACHE(name_entry, SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT);
    file_cache =
        kmem_cache_create("name_file", sizeof(struct name_file), 0,
                          SLAB_TYPESAFE_BY_RCU | SLAB_HWCACHE_ALIGN | SLAB_PANIC, file_init_once);
    block_cache = kmem_cache_create("name_block", BLOCK, &args, SLAB_NO_MERGE);
    io_cache = KMEM_CACHE(name_io, 0);
    table = kvcalloc(BUCKETS, sizeof(*table), GFP_KERNEL);
    if (io_cache)
        io_pool = mempool_create_slab_pool(4, io_cache);
    if (entry_cache && block_cache && io_pool && table)
        return 0;
    names_exit();
    return -ENOMEM;
}

void names_exit(void)
{
    for (unsigned i = 0; table && i < BUCKETS; i++)
        while (table[i]) {
            struct name_entry *entry = table[i];
            table[i] = entry->next;
            file_put(entry->file);
            entry_free(entry);
        }
    kvfree(table);
    mempool_destroy(io_pool);
    kmem_cache_destroy(io_cache);
    kmem_cache_destroy(block_cache);
    kmem_cache_destroy(entry_cache);
    kmem_cache_destroy(file_cache);
}
