/* SPDX-License-Identifier: MIT */
/*
 * A table of routes that many threads read and one changes.  Readers take no lock; a route that was
 * replaced is freed when no reader can read it any more.
 *
 *   cc rcu_readers.c $(pkg-config --cflags --libs stook-urcu liburcu-memb)
 */
#include <stook/rcu.h>
#include <stook/urcu.h>

#include <urcu/urcu-memb.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ROUTES = 256, READERS = 3, CHANGES = 200000 };

struct route {
    unsigned prefix, gateway, metric;
};

static struct stook_cache *routes;
static struct route *table[ROUTES];
static atomic_bool done;
static atomic_ulong looked_up, wrong;

static void *look_up(void *unused)
{
    unsigned long n = 0, bad = 0;

    urcu_memb_register_thread();
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        urcu_memb_read_lock();
        struct route *route = rcu_dereference(table[n++ % ROUTES]);
        bad += route->gateway != route->prefix + route->metric;
        urcu_memb_read_unlock();
    }
    urcu_memb_unregister_thread();
    atomic_fetch_add(&looked_up, n);
    atomic_fetch_add(&wrong, bad);
    return unused;
}

static struct route *new_route(unsigned prefix, unsigned metric)
{
    struct route *route = stook_alloc(routes, 0);

    if (route)
        *route = (struct route){prefix, prefix + metric, metric};
    return route;
}

static int change(unsigned n)
{
    struct route *old = table[n % ROUTES], *route = new_route(n % ROUTES, n);

    if (!route)
        return -1;
    rcu_assign_pointer(table[n % ROUTES], route);
    stook_free_rcu(routes, old); /* one callback a sheaf of routes, not one a route */
    return 0;
}

int main(void)
{
    pthread_t readers[READERS];

    if (stook_urcu_use_memb() != 0)
        return 1;
    urcu_memb_register_thread();
    routes = stook_cache_create("route", sizeof(struct route), NULL);
    for (unsigned i = 0; i < ROUTES; i++)
        if (!routes || !(table[i] = new_route(i, 1)))
            return 1;
    for (int i = 0; i < READERS; i++)
        if (pthread_create(&readers[i], NULL, look_up, NULL) != 0)
            return 1;
    for (unsigned n = 0; n < CHANGES; n++)
        if (change(n) != 0)
            return 1;
    atomic_store(&done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    printf("%d changes, %lu looked up, %lu wrong\n", CHANGES, atomic_load(&looked_up),
           atomic_load(&wrong));
    for (unsigned i = 0; i < ROUTES; i++)
        stook_free(routes, table[i]);
    /* Waits for the routes that readers may still have been looking at. */
    int result = stook_cache_destroy(routes);
    urcu_memb_unregister_thread();
    return result != 0 || atomic_load(&wrong) != 0;
}
