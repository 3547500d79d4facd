// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * main.c - /proc/stook: /init writes one command a call, and reads what came of it.
 *
 *   run NAME SCENARIO [KEY=N]...   makes the cache NAME, runs the scenario and records its calls
 *   follow NAME                    makes the cache NAME, and the calls of the order that was written
 *                                  to /proc/stook-order, one at a time
 *   again NAME                     as follow, the calls of the last run
 *   finish                         CPU 0 frees what is still out, in the order of ids
 *   drop                           destroys the cache
 *
 * Keys: size, pairs, depth, batch, kept, cross, operations.  /proc/stook-order reads as the order file
 * of the calls of the last run.  One command at a time: /init is the only writer.
 */
#include "stook.h"

#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

enum { STOOK_ORDER_MAX = 64 << 20 };

static struct {
    char *bytes; /* the order to follow, as it was written */
    size_t size;
} main_given;
static int main_status;
static struct stook_header main_header;

/* ---- a run begins and ends ------------------------------------------------------------------ */

static void main_forget(void)
{
    vfree(stook_run.record);
    vfree(stook_run.object);
    stook_run.record = NULL;
    stook_run.object = NULL;
}

/* Room for so many objects and calls, and a cache of the options' size. */
static int main_start(u32 objects, u64 records)
{
    if (stook_run.cache)
        return -EBUSY;
    main_forget();
    stook_run.objects = objects;
    stook_run.room = records;
    stook_run.record = vzalloc(records * sizeof(stook_run.record[0]));
    stook_run.object = vzalloc(objects * sizeof(stook_run.object[0]));
    if (!stook_run.record || !stook_run.object)
        return -ENOMEM;
    atomic64_set(&stook_run.seq, 0);
    atomic64_set(&stook_run.allocs, 0);
    atomic64_set(&stook_run.frees, 0);
    atomic64_set(&stook_run.failed, 0);
    atomic64_set(&stook_run.retried, 0);
    atomic64_set(&stook_run.broken, 0);
    atomic_set(&stook_run.begun, 0);
    /*
	 * Objects on lines of their own, and a cache that is never merged with another one.  Bios are
	 * SLAB_TYPESAFE_BY_RCU as well, which adds a word to the object and changes no event.
	 */
    stook_run.cache = kmem_cache_create(stook_run.name, stook_run.object_size, 64,
                                        SLAB_HWCACHE_ALIGN | SLAB_NO_MERGE, NULL);
    return stook_run.cache ? 0 : -ENOMEM;
}

static void main_end(void)
{
    u64 records = atomic64_read(&stook_run.seq);

    memcpy(main_header.magic, "STKORDER", sizeof(main_header.magic));
    main_header.version = 1;
    main_header.cpus = nr_cpu_ids;
    main_header.object_size = stook_run.object_size;
    main_header.objects = stook_run.objects;
    main_header.records = min(records, stook_run.room);
}

static int main_run(const char *scenario)
{
    int status = main_start(stook_run.operations, 2 * (u64)stook_run.operations);

    if (!status)
        status = stook_pattern(scenario);
    main_end();
    return status;
}

static int main_follow_order(const struct stook_header *header, const struct stook_record *record)
{
    int status;

    stook_run.object_size = header->object_size;
    status = main_start(header->objects, header->records);
    if (!status)
        status = stook_follow(record, header->records);
    main_end();
    return status;
}

static int main_follow(void)
{
    const struct stook_header *header = (const void *)main_given.bytes;

    if (main_given.size < sizeof(*header) || memcmp(header->magic, "STKORDER", 8) != 0 ||
        header->version != 1 || header->cpus > nr_cpu_ids ||
        main_given.size - sizeof(*header) != header->records * sizeof(struct stook_record))
        return -EINVAL;
    return main_follow_order(header, (const void *)(header + 1));
}

static int main_again(void)
{
    struct stook_record *record = stook_run.record;
    const struct stook_header header = main_header;
    int status;

    if (!record)
        return -EINVAL;
    stook_run.record = NULL;
    status = main_follow_order(&header, record);
    vfree(record);
    return status;
}

static long main_free_all(void *none)
{
    for (u32 id = 0; id < stook_run.objects; id++)
        stook_free(id);
    return 0;
}

/* Calls after the end are counted, and are in no record. */
static int main_finish(void)
{
    if (!stook_run.cache)
        return -EINVAL;
    stook_run.room = 0;
    work_on_cpu(0, main_free_all, NULL);
    return 0;
}

static int main_drop(void)
{
    if (!stook_run.cache)
        return -EINVAL;
    kmem_cache_destroy(stook_run.cache);
    stook_run.cache = NULL;
    vfree(main_given.bytes);
    main_given.bytes = NULL;
    main_given.size = 0;
    return 0;
}

/* ---- commands ------------------------------------------------------------------------------- */

static int main_key(char *word)
{
    static const struct {
        const char *name;
        unsigned int *value;
    } keys[] = {
        {"size", &stook_run.object_size},
        {"pairs", &stook_run.pairs},
        {"depth", &stook_run.depth},
        {"batch", &stook_run.batch},
        {"kept", &stook_run.kept},
        {"cross", &stook_run.cross},
        {"operations", &stook_run.operations},
    };
    char *value = strchr(word, '=');

    if (!value)
        return -EINVAL;
    *value++ = 0;
    for (unsigned int i = 0; i < ARRAY_SIZE(keys); i++)
        if (!strcmp(word, keys[i].name))
            return kstrtouint(value, 0, keys[i].value);
    return -EINVAL;
}

static int main_command(char *line)
{
    char *word[16];
    unsigned int n = 0, at = 0;
    int status = 0;

    while (n < ARRAY_SIZE(word) && (word[n] = strsep(&line, " \n")) != NULL)
        n += *word[n] != 0;
    if (n == 1 && !strcmp(word[0], "finish"))
        return main_finish();
    if (n == 1 && !strcmp(word[0], "drop"))
        return main_drop();
    if (n >= 3 && !strcmp(word[0], "run"))
        at = 3;
    else if (n == 2 && (!strcmp(word[0], "follow") || !strcmp(word[0], "again")))
        at = 2;
    else
        return -EINVAL;
    stook_run.object_size = 320;
    stook_run.pairs = 16;
    stook_run.depth = 128;
    stook_run.batch = 32;
    stook_run.kept = 0;
    stook_run.cross = 0;
    stook_run.operations = 480000;
    while (at < n && !status)
        status = main_key(word[at++]);
    if (status)
        return status;
    strscpy(stook_run.name, word[1], sizeof(stook_run.name));
    if (!strcmp(word[0], "run"))
        return main_run(word[2]);
    return !strcmp(word[0], "again") ? main_again() : main_follow();
}

static ssize_t main_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
    char line[256];

    if (size >= sizeof(line))
        return -EINVAL;
    if (copy_from_user(line, from, size))
        return -EFAULT;
    line[size] = 0;
    main_status = main_command(line);
    return main_status ? main_status : size;
}

static int main_show(struct seq_file *m, void *none)
{
    seq_printf(m, "name:%s\nstatus:%d\nrecords:%llu\nallocs:%lld\nfrees:%lld\n", stook_run.name,
               main_status, main_header.records, atomic64_read(&stook_run.allocs),
               atomic64_read(&stook_run.frees));
    seq_printf(m, "failed:%lld\nretried:%lld\nbroken:%lld\n", atomic64_read(&stook_run.failed),
               atomic64_read(&stook_run.retried), atomic64_read(&stook_run.broken));
    return 0;
}

static int main_open(struct inode *inode, struct file *file)
{
    return single_open(file, main_show, NULL);
}

/* ---- the order ------------------------------------------------------------------------------ */

static ssize_t order_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
    const size_t records = main_header.records * sizeof(stook_run.record[0]);
    loff_t behind = *at - (loff_t)sizeof(main_header);

    if (behind < 0)
        return simple_read_from_buffer(to, size, at, &main_header, sizeof(main_header));
    size = simple_read_from_buffer(to, size, &behind, stook_run.record, records);
    *at = behind + sizeof(main_header);
    return size;
}

static ssize_t order_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
    if (!main_given.bytes)
        main_given.bytes = vmalloc(STOOK_ORDER_MAX);
    if (!main_given.bytes)
        return -ENOMEM;
    if (*at + size > STOOK_ORDER_MAX)
        return -EFBIG;
    if (copy_from_user(main_given.bytes + *at, from, size))
        return -EFAULT;
    *at += size;
    main_given.size = *at;
    return size;
}

static const struct proc_ops main_ops = {
    .proc_open = main_open,
    .proc_read = seq_read,
    .proc_write = main_write,
    .proc_lseek = seq_lseek,
    .proc_release = single_release,
};

static const struct proc_ops order_ops = {
    .proc_read = order_read,
    .proc_write = order_write,
    .proc_lseek = default_llseek,
};

static int __init main_init(void)
{
    if (!proc_create("stook", 0600, NULL, &main_ops) ||
        !proc_create("stook-order", 0600, NULL, &order_ops))
        return -ENOMEM;
    return 0;
}
late_initcall(main_init);
MODULE_LICENSE("Dual MIT/GPL");
