/* SPDX-License-Identifier: MIT */
/*
 * move.c - resident pages move to other addresses, in the kernel's page tables.
 *
 * A span needs blocks in a row, and what is warm seldom lies in a row.  The kernel moves the pages of a whole
 * block by one entry of its page table, in the time of two or three page faults; its 512 pages
 * would be as many faults.
 */
#include "large/move.h"

#include "base/raw.h"
#include "base/report.h"
#include "os/os.h"
#include "page/zone.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

enum {
    MOVE_LEAST = 32, /* resident pages of a block that are worth a system call */
    MOVE_TRIES = 8,
};

/* ---- ranges --------------------------------------------------------------------------------- */

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { MOVE_STEP = 2 << 20 }; /* advice on huge pages is given to blocks of so much */

static bool move_is_mapped(char *at, size_t size)
{
    unsigned char there[MOVE_STEP / 4096]; /* a byte a page, which are no smaller */

    for (size_t n; size > 0; at += n, size -= n) {
        n = size < MOVE_STEP ? size : MOVE_STEP;
        if (raw_result(SYS_mincore, at, n, there) != 0)
            return false;
    }
    return true;
}

/*
 * 0, or why not: then the kernel may have unmapped `to` before it looked at `from`, and it is mapped
 * anew.
 */
static int move_mapping(void *from, void *to, size_t size)
{
    long error = raw_result(SYS_mremap, from, size, size,
                            MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);

    if (error == (long)to)
        return 0;
    if (!os_renew(to, size) && !move_is_mapped(to, size))
        report_fatal("no memory to map %zu bytes anew", size);
    return (int)error;
}

/*
 * qemu-user takes the source of MREMAP_DONTUNMAP for unmapped, and raises SIGSEGV where the program touches it
 * again.  Its processes have no vDSO (before 8.2).
 */
static bool move_is_emulated(void)
{
    return getauxval(AT_SYSINFO_EHDR) == 0;
}

/*
 * In steps: kernels before 6.17 move no range of several mappings, which advice on huge pages makes, and
 * unmap the target before they say so.
 */
bool move_range(void *from, void *to, size_t size)
{
    bool moved = false;

    if (move_is_emulated()) /* the caller copies */
        size = 0;
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < MOVE_STEP ? size - at : MOVE_STEP;
        int error = move_mapping((char *)from + at, (char *)to + at, n);
        if (error && !moved) /* kernels before 5.7, or memory is short: the caller copies */
            break;
        moved = true;
        if (error) {
            memcpy((char *)to + at, (char *)from + at, n);
            os_release((char *)from + at, n);
        }
    }
    return moved;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Nothing was said to the kernel of this block that is not said of others. */
static bool move_is_like_others(const struct block *block)
{
    return !block->huge && !block->home;
}

/* A free block whose pages may go: no metadata lies in them. */
static struct block *move_source(struct zone *zone)
{
    struct list *warm = &zone->warm[0], *link = warm->next;

    for (int tries = 0; link != warm && tries < MOVE_TRIES; tries++, link = link->next) {
        struct block *block = LIST_ENTRY(link, struct block, bucket);
        if (block->ndirty >= MOVE_LEAST && block->shown == BLOCK_PAGES && block->meta_high == 0 &&
            move_is_like_others(block))
            return block;
    }
    return NULL;
}

unsigned move_block(struct zone *zone, uint32_t to)
{
    struct block *block = zone_block(to), *source;
    unsigned moved;

    if (atomic_load_explicit(&zone_all.unmovable, memory_order_relaxed) ||
        !move_is_like_others(block) || !(block->moved || zone_may_split()) ||
        (source = move_source(zone)) == NULL)
        return 0;
    if (!move_range(pagemap_block(zone_block_index(source)), pagemap_block(to), BLOCK_SIZE)) {
        atomic_store_explicit(&zone_all.unmovable, true, memory_order_relaxed);
        return 0;
    }
    (void)zone_set_like(block, block->huge, true);
    moved = source->ndirty;
    zone_mark_used(zone, source, BLOCK_SPAN);
    memset(source->dirty, 0, sizeof(source->dirty));
    source->ndirty = 0;
    zone_mark_free(zone, source);
    return moved;
}
