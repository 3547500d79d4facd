/* SPDX-License-Identifier: MIT */
/*
 * stook_lfht.h - nodes of liburcu's hash table (cds_lfht) from a typed cache, freed after a grace period.
 *
 *   struct flow {
 *       struct cds_lfht_node node;
 *       uint32_t source, target;
 *   };
 *   STOOK_LFHT(flow, struct flow, node)
 *
 * makes the functions below, with flow_ before their names.  The program includes its flavour's header before
 * (urcu.h or urcu-qsbr.h: the unprefixed names), and calls stook_urcu_use_memb() or stook_urcu_use_qsbr() once.
 * Lookups stay cds_lfht_lookup() under rcu_read_lock().
 *
 *   int  flow_start(void)                     makes the cache; -1 with errno set (stook_cache_create())
 *   int  flow_stop(void)                      waits for deferred frees, and destroys the cache
 *   flow *flow_new(void)                      an object with an initialised node, or NULL (ENOMEM)
 *   void flow_discard(flow *)                 frees an object that was never in a table: at once
 *   void flow_add(ht, hash, flow *)           as cds_lfht_add()
 *   flow *flow_add_unique(ht, hash, match, key, flow *)    the flow that is in the table; if that is another, then
 *                                             the new one was discarded
 *   void flow_put(ht, hash, match, key, flow *)    adds it, or replaces the one with that key, whose free it defers
 *   int  flow_delete(ht, flow *)              takes it out and defers its free; -ENOENT: another thread did so
 *   void flow_clear(ht)                       deletes every flow
 *
 * Ownership: an object is the caller's from new to discard or to a call that adds it.  After that it is the
 * table's: a reader may use it inside the read-side section in which it found it.  The thread whose delete or put
 * takes an object out is the only one that frees it, so no object is freed twice.
 *
 * context: registered threads; add, add_unique, put and delete enter a read-side section of their own
 * locks:   as stook_alloc() and stook_free_rcu(); none of the table's, which is lock-free
 * cost:    stook_free_rcu() takes one call_rcu() a sheaf of objects, and no word of the object for its head
 */
#ifndef STOOK_LFHT_H
#define STOOK_LFHT_H

#include <stook/inline.h>
#include <stook/rcu.h>
#include <stook/urcu.h>

#include <urcu/compiler.h>
#include <urcu/rculfhash.h>

#include <errno.h>
#include <stddef.h>

#define STOOK_LFHT(name, type, member)                                                             \
    static struct stook_cache *name##_cache;                                                       \
    static inline __attribute__((unused)) int name##_start(void)                                   \
    {                                                                                              \
        name##_cache = stook_cache_create(#name, sizeof(type), NULL);                              \
        return name##_cache ? 0 : -1;                                                              \
    }                                                                                              \
    static inline __attribute__((unused)) int name##_stop(void)                                    \
    {                                                                                              \
        return stook_cache_destroy(name##_cache);                                                  \
    }                                                                                              \
    static inline __attribute__((unused)) type *name##_new(void)                                   \
    {                                                                                              \
        type *object = (type *)stook_alloc_inline(name##_cache, STOOK_WAIT);                       \
                                                                                                   \
        if (object)                                                                                \
            cds_lfht_node_init(&object->member);                                                   \
        return object;                                                                             \
    }                                                                                              \
    static inline __attribute__((unused)) void name##_discard(type *object)                        \
    {                                                                                              \
        stook_free_inline(name##_cache, object);                                                   \
    }                                                                                              \
    static inline __attribute__((unused)) void name##_add(struct cds_lfht *ht, unsigned long hash, \
                                                          type *object)                            \
    {                                                                                              \
        rcu_read_lock();                                                                           \
        cds_lfht_add(ht, hash, &object->member);                                                   \
        rcu_read_unlock();                                                                         \
    }                                                                                              \
    /* The caller is in a read-side section if it uses the result. */                              \
    static inline __attribute__((unused))                                                          \
    type *name##_add_unique(struct cds_lfht *ht, unsigned long hash, cds_lfht_match_fct match,     \
                            const void *key, type *object)                                         \
    {                                                                                              \
        struct cds_lfht_node *there;                                                               \
                                                                                                   \
        rcu_read_lock();                                                                           \
        there = cds_lfht_add_unique(ht, hash, match, key, &object->member);                        \
        rcu_read_unlock();                                                                         \
        if (there != &object->member)                                                              \
            name##_discard(object);                                                                \
        return caa_container_of(there, type, member);                                              \
    }                                                                                              \
    static inline __attribute__((unused)) void name##_put(struct cds_lfht *ht, unsigned long hash, \
                                                          cds_lfht_match_fct match,                \
                                                          const void *key, type *object)           \
    {                                                                                              \
        struct cds_lfht_node *old;                                                                 \
                                                                                                   \
        rcu_read_lock();                                                                           \
        old = cds_lfht_add_replace(ht, hash, match, key, &object->member);                         \
        rcu_read_unlock();                                                                         \
        if (old)                                                                                   \
            stook_free_rcu(name##_cache, caa_container_of(old, type, member));                     \
    }                                                                                              \
    /* The caller found the object in the read-side section that it is still in. */                \
    static inline __attribute__((unused)) int name##_delete(struct cds_lfht *ht, type *object)     \
    {                                                                                              \
        int result;                                                                                \
                                                                                                   \
        rcu_read_lock();                                                                           \
        result = cds_lfht_del(ht, &object->member);                                                \
        rcu_read_unlock();                                                                         \
        if (result == 0)                                                                           \
            stook_free_rcu(name##_cache, object);                                                  \
        return result;                                                                             \
    }                                                                                              \
    static inline __attribute__((unused)) void name##_clear(struct cds_lfht *ht)                   \
    {                                                                                              \
        struct cds_lfht_iter iter;                                                                 \
        type *object;                                                                              \
                                                                                                   \
        rcu_read_lock();                                                                           \
        cds_lfht_for_each_entry(ht, &iter, object, member) name##_delete(ht, object);              \
        rcu_read_unlock();                                                                         \
    }

#endif /* STOOK_LFHT_H */
