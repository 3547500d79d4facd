/* SPDX-License-Identifier: MIT */
/*
 * kernel_object.c - objects from and to slabs that are on their node's list while they have free
 * ones, as in Linux since sheaves (mm/slub.c, v7.0-rc: get_from_partial_node, get_partial_node_bulk,
 * __refill_objects_node, __refill_objects_any, alloc_from_new_slab, __slab_free).
 *
 * One object is taken under the list's lock.  A refill takes whole slabs off the list under the lock, until
 * they have enough objects.  It empties their freelists without the lock, and returns surplus objects.  It only
 * tries the lists of other nodes, and only while they have more than min_partial slabs.
 *
 * The release candidates of v7.0 empty the slab first that they took last.  They free a slab's surplus objects one
 * by one, and discard empty slabs that were not needed.  Version 7.2 (`in_order`) empties the slabs in the list's order.  The surplus of the
 * last one becomes its freelist again, in one step, and surplus slabs go to the end of the list.
 */
#include "lab/kernel_object.h"

enum { OBJECT_LOOKAHEAD = 3 };

int kernel_object_start(struct lab *lab, struct kernel_objects *own)
{
    int status = kernel_start(lab, &own->cache);

    own->race.on = lab->options->race;
    own->race.late = lab_memory(lab, topology.cpus * sizeof(own->race.late[0]));
    own->race.list = lab_memory(lab, topology.cpus * sizeof(own->race.list[0]));
    for (unsigned i = 0; i < topology.cpus; i++)
        list_init(&own->race.list[i]);
    return status;
}

static void object_finish_late(struct lab_actor *actor, struct kernel_objects *own, unsigned cpu)
{
    struct kernel_slab *slab = own->race.late[cpu];

    own->race.late[cpu] = NULL;
    if (slab)
        kernel_remove_partial(actor, &own->cache, slab);
}

void kernel_object_begin(struct lab_actor *actor, struct kernel_objects *own)
{
    object_finish_late(actor, own, actor->cpu);
}

/* ---- the nodes to look at ------------------------------------------------------------------- */

/* The i-th list to look at: the CPU's own node's if that has memory, then all, nearest first; or -1. */
static int object_node(struct lab_actor *actor, struct kernel_cache *cache, unsigned i)
{
    unsigned node = topology_node(actor->cpu), other;

    if (i == 0)
        return topology_has_memory(node) && cache->node[node].nr_partial > 0 ? (int)node : -1;
    other = topology_near(node, i - 1);
    return cache->node[other].nr_partial > cache->min_partial ? (int)other : -1;
}

/* ---- one ------------------------------------------------------------------------------------ */

static void *object_of_node(struct lab_actor *actor, struct kernel_objects *own, unsigned node)
{
    struct kernel_cache *cache = &own->cache;
    struct kernel_slab *slab = NULL;
    void *object = NULL;

    kernel_lock(actor, cache, node);
    for (struct list *link = cache->node[node].partial.next; link != &cache->node[node].partial;
         link = link->next) {
        slab = LIST_ENTRY(link, struct kernel_slab, link);
        if (slab->freelist) /* it has none while it stays for the race */
            break;
        slab = NULL;
    }
    if (slab) {
        /* Under the lock: the slab's line, and the object's, for the next one. */
        timing_line(actor, slab->line);
        object = slab->freelist;
        timing_object(actor, object);
        slab->freelist = *kernel_next(object);
        slab->inuse++;
        kernel_count(actor, cache, KERNEL_alloc_from_partial, 1);
        if (!slab->freelist && own->race.on)
            own->race.late[actor->cpu] = slab;
        else if (!slab->freelist)
            kernel_remove_partial(actor, cache, slab);
    }
    kernel_unlock(actor, cache, node);
    return object;
}

/* n objects of a new slab into the table; the slab goes on its list if there are more. */
static unsigned object_of_new(struct lab_actor *actor, struct kernel_objects *own, void **objects,
                              unsigned n)
{
    struct kernel_slab *slab = kernel_slab_new(actor, &own->cache);
    unsigned taken = 0;

    if (!slab)
        return 0;
    for (; taken < n && slab->freelist; taken++) {
        objects[taken] = slab->freelist;
        slab->freelist = *kernel_next(slab->freelist);
    }
    slab->inuse = (uint16_t)taken;
    if (slab->freelist) {
        kernel_lock(actor, &own->cache, slab->node);
        kernel_add_partial(actor, &own->cache, slab, false);
        kernel_unlock(actor, &own->cache, slab->node);
    }
    return taken;
}

void *kernel_object_alloc(struct lab_actor *actor, struct kernel_objects *own)
{
    void *object = NULL;
    int node;

    kernel_count(actor, &own->cache, KERNEL_alloc_slowpath, 1);
    for (unsigned i = 0; i <= topology.memories && !object; i++) {
        if (i == 1 && !kernel_looks_far(actor, &own->cache))
            break;
        if ((node = object_node(actor, &own->cache, i)) >= 0)
            object = object_of_node(actor, own, (unsigned)node);
    }
    if (!object)
        object_of_new(actor, own, &object, 1);
    return object;
}

/* ---- back ----------------------------------------------------------------------------------- */

/* Of the half-done steps: onto the CPU's list, without a lock. */
static void object_put_cpu(struct lab_actor *actor, struct kernel_objects *own,
                           struct kernel_slab *slab)
{
    if (slab->on != KERNEL_NOWHERE)
        kernel_corrupt(actor, slab, "a CPU's list");
    slab->on = KERNEL_CPU;
    slab->cpu = (uint16_t)actor->cpu;
    list_add(&own->race.list[actor->cpu], &slab->link);
}

static void object_drain_cpu(struct lab_actor *actor, struct kernel_objects *own, unsigned cpu)
{
    struct list *slabs = &own->race.list[cpu];

    while (!list_empty(slabs)) {
        struct kernel_slab *slab = LIST_ENTRY(slabs->next, struct kernel_slab, link);
        list_remove(&slab->link);
        slab->on = KERNEL_NOWHERE;
        kernel_lock(actor, &own->cache, slab->node);
        kernel_add_partial(actor, &own->cache, slab, true);
        kernel_unlock(actor, &own->cache, slab->node);
    }
}

void kernel_object_end(struct lab_actor *actor, struct kernel_objects *own)
{
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
        object_finish_late(actor, own, cpu);
        object_drain_cpu(actor, own, cpu);
    }
}

void kernel_object_free(struct lab_actor *actor, struct kernel_objects *own,
                        struct kernel_slab *slab, void *head, void *tail, unsigned n)
{
    struct kernel_cache *cache = &own->cache;
    bool full = !slab->freelist, empty = slab->inuse == n;
    bool locked = (full && !own->race.on) || empty;

    if (locked)
        kernel_lock(actor, cache, slab->node);
    kernel_push(actor, slab, head, tail, n, &full, &empty);
    if (!locked) {
        if (full) {
            object_put_cpu(actor, own, slab);
            object_drain_cpu(actor, own, actor->cpu);
        }
        return;
    }
    if (empty && cache->node[slab->node].nr_partial >= cache->min_partial &&
        (slab->on == KERNEL_NODE || full)) {
        if (slab->on == KERNEL_NODE) {
            kernel_remove_partial(actor, cache, slab);
            kernel_count(actor, cache, KERNEL_free_remove_partial, 1);
        }
        kernel_unlock(actor, cache, slab->node);
        kernel_slab_discard(actor, cache, slab);
        return;
    }
    if (full) {
        kernel_add_partial(actor, cache, slab, true);
        kernel_count(actor, cache, KERNEL_free_add_partial, 1);
    }
    kernel_unlock(actor, cache, slab->node);
}

/*
 * Backwards from the last object: those of its slab go together, until three of other slabs were met
 * (build_detached_freelist).
 */
void kernel_object_flush(struct lab_actor *actor, struct kernel_objects *own, void **objects,
                         unsigned n)
{
    while (n > 0) {
        void *tail = objects[--n], *head = tail;
        struct kernel_slab *slab = kernel_slab_of(tail);
        unsigned same = 1, others = 0;
        for (unsigned i = n; i > 0 && others < OBJECT_LOOKAHEAD;) {
            void *object = objects[--i];
            if (kernel_slab_of(object) != slab) {
                others++;
                continue;
            }
            *kernel_next(object) = head;
            head = object;
            objects[i] = objects[--n];
            same++;
        }
        kernel_object_free(actor, own, slab, head, tail, same);
    }
}

/* ---- refill --------------------------------------------------------------------------------- */

/* Takes slabs off the node's list until they have n free objects together, if there are so many. */
static void object_take_slabs(struct lab_actor *actor, struct kernel_objects *own, unsigned node,
                              unsigned n, struct list *slabs)
{
    struct kernel_cache *cache = &own->cache;
    unsigned total = 0;

    kernel_lock(actor, cache, node);
    for (struct list *link = cache->node[node].partial.next, *next;
         link != &cache->node[node].partial && total < n; link = next) {
        struct kernel_slab *slab = LIST_ENTRY(link, struct kernel_slab, link);
        next = link->next;
        timing_line(actor, slab->line); /* how many are free */
        kernel_remove_partial(actor, cache, slab);
        list_add(slabs, &slab->link); /* the last one is emptied first */
        total += (unsigned)(slab->objects - slab->inuse);
    }
    kernel_unlock(actor, cache, node);
}

/* Slabs that were not needed: back on the list, but empty ones that it has enough of. */
static void object_give_back(struct lab_actor *actor, struct kernel_objects *own, unsigned node,
                             struct list *slabs)
{
    struct kernel_cache *cache = &own->cache;
    struct list discard;

    list_init(&discard);
    kernel_lock(actor, cache, node);
    while (!list_empty(slabs)) {
        struct kernel_slab *slab = LIST_ENTRY(slabs->next, struct kernel_slab, link);
        list_remove(&slab->link);
        if (slab->inuse == 0 && cache->node[node].nr_partial >= cache->min_partial)
            list_add(&discard, &slab->link);
        else
            kernel_add_partial(actor, cache, slab, false);
    }
    kernel_unlock(actor, cache, node);
    while (!list_empty(&discard)) {
        struct kernel_slab *slab = LIST_ENTRY(discard.next, struct kernel_slab, link);
        list_remove(&slab->link);
        kernel_slab_discard(actor, cache, slab);
    }
}

/* Objects of a slab into the table; the rest of them, linked, and *left of them. */
static void *object_take(struct lab_actor *actor, struct kernel_objects *own,
                         struct kernel_slab *slab, void **objects, unsigned *got, unsigned n,
                         unsigned *left)
{
    void *head;

    list_remove(&slab->link);
    for (head = kernel_slab_take(actor, &own->cache, slab, left); head && *got < n; --*left) {
        timing_object(actor, head);
        objects[(*got)++] = head;
        head = *kernel_next(head);
    }
    return head;
}

static unsigned object_refill_first(struct lab_actor *actor, struct kernel_objects *own,
                                    unsigned node, void **objects, unsigned n)
{
    struct list slabs;
    unsigned got = 0, left;
    void *head, *tail;

    list_init(&slabs);
    object_take_slabs(actor, own, node, n, &slabs);
    while (!list_empty(&slabs) && got < n) {
        struct kernel_slab *slab = LIST_ENTRY(slabs.next, struct kernel_slab, link);
        head = object_take(actor, own, slab, objects, &got, n, &left);
        if (!head)
            continue;
        for (tail = head; *kernel_next(tail); tail = *kernel_next(tail))
            timing_object(actor, tail);
        kernel_object_free(actor, own, slab, head, tail, left);
    }
    if (!list_empty(&slabs))
        object_give_back(actor, own, node, &slabs);
    return got;
}

/* ---- refill, as in v7.2 ---------------------------------------------------------------------- */

/* Slabs with n free objects together, off the node's list in its order. */
static void object_take_in_order(struct lab_actor *actor, struct kernel_objects *own, unsigned node,
                                 unsigned n, struct list *slabs)
{
    struct kernel_node *from = &own->cache.node[node];
    struct kernel_slab *last = NULL;
    unsigned total = 0;

    kernel_lock(actor, &own->cache, node);
    for (struct list *link = from->partial.next; link != &from->partial && total < n;
         link = link->next) {
        last = LIST_ENTRY(link, struct kernel_slab, link);
        total += (unsigned)(last->objects - last->inuse);
    }
    if (last)
        kernel_remove_partials(actor, &own->cache, node, last, slabs);
    kernel_unlock(actor, &own->cache, node);
}

static unsigned object_refill_in_order(struct lab_actor *actor, struct kernel_objects *own,
                                       unsigned node, void **objects, unsigned n)
{
    struct kernel_cache *cache = &own->cache;
    struct list slabs;
    unsigned got = 0;

    list_init(&slabs);
    object_take_in_order(actor, own, node, n, &slabs);
    while (!list_empty(&slabs) && got < n) {
        struct kernel_slab *slab = LIST_ENTRY(slabs.next, struct kernel_slab, link);
        unsigned left;
        void *head = object_take(actor, own, slab, objects, &got, n, &left);
        if (!head)
            continue;
        /* The rest is the slab's freelist again: no object of it is read. */
        kernel_lock(actor, cache, node);
        timing_line(actor, slab->line);
        slab->freelist = head;
        slab->inuse = (uint16_t)(slab->objects - left);
        kernel_add_partial(actor, cache, slab, true);
        kernel_unlock(actor, cache, node);
    }
    if (!list_empty(&slabs)) {
        kernel_lock(actor, cache, node);
        kernel_add_partials(actor, cache, node, &slabs);
        kernel_unlock(actor, cache, node);
    }
    return got;
}

unsigned kernel_object_refill(struct lab_actor *actor, struct kernel_objects *own, void **objects,
                              unsigned n)
{
    unsigned got = 0, before;
    int node;

    for (unsigned i = 0; i <= topology.memories && got < n; i++) {
        if (i == 1 && !kernel_looks_far(actor, &own->cache))
            break;
        node = object_node(actor, &own->cache, i);
        if (node < 0 || (i > 0 && timing_busy(actor, own->cache.node[node].lock)))
            continue;
        got += own->in_order
                   ? object_refill_in_order(actor, own, (unsigned)node, objects + got, n - got)
                   : object_refill_first(actor, own, (unsigned)node, objects + got, n - got);
    }
    for (before = n; got < n && before != got;) {
        before = got;
        got += object_of_new(actor, own, objects + got, n - got);
    }
    return got;
}
