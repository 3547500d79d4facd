/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Groups by themselves, without objects: charges, limits, callbacks, zombies, handles that are out of
 * date, what a handler does to a thread that holds the lock.
 */
#include "charge/group_table.h"

#include "support/stay.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static struct stook_group_stat stat_of(struct stook_group group)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    assert_int_equal(stook_group_stat(group, &stat), 0);
    assert_int_equal(stat.size, sizeof(stat));
    return stat;
}

static uint64_t usage(struct stook_group group)
{
    return stat_of(group).usage;
}

static bool charge(struct stook_group group, size_t bytes)
{
    uint32_t number = group_number(group), before = number;
    bool done = group_charge(&number, bytes, STOOK_WAIT, false);

    assert_int_equal(number, before);
    return done;
}

static void uncharge(struct stook_group group, size_t bytes)
{
    group_uncharge(group_number(group), bytes);
}

TEST(test_hierarchy)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group left = stook_group_create("left", top, STOOK_UNLIMITED);
    struct stook_group right = stook_group_create("right", top, MIB);
    struct stook_group leaf = stook_group_create("leaf", left, STOOK_UNLIMITED);

    assert_string_equal(group_name_of(leaf), "leaf");
    assert_int_equal(group_parent_of(leaf).id, left.id);
    assert_int_equal(group_parent_of(top).id, 0);
    assert_true(charge(leaf, 100) && charge(left, 10) && charge(right, 1) && charge(top, 1000));
    assert_int_equal(usage(leaf), 100);
    assert_int_equal(usage(left), 110);
    assert_int_equal(usage(right), 1);
    assert_int_equal(usage(top), 1111);
    assert_int_equal(stat_of(left).own, 10);
    assert_int_equal(stat_of(top).own, 1000);
    assert_int_equal(stat_of(top).children, 2);
    assert_int_equal(stat_of(right).limit, MIB);
    errno = 0;
    assert_int_equal(stook_group_destroy(left), -1);
    assert_int_equal(errno, EBUSY);
    uncharge(leaf, 100);
    uncharge(left, 10);
    uncharge(right, 1);
    uncharge(top, 1000);
    assert_int_equal(usage(top), 0);
    assert_true(stat_of(top).peak >= 1111);
    assert_int_equal(stook_group_destroy(leaf), 0);
    assert_int_equal(stook_group_destroy(left), 0);
    assert_int_equal(stook_group_destroy(right), 0);
    assert_int_equal(stook_group_destroy(top), 0);
    errno = 0;
    assert_int_equal(stook_group_destroy(top), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_group_destroy(STOOK_NO_GROUP), 0);
    assert_int_equal(stook_group_next(STOOK_NO_GROUP).id, 0);
}

TEST(test_arguments)
{
    struct stook_group chain[STOOK_GROUP_DEPTH_MAX + 1] = {{0}};
    struct stook_group_stat stat = {.size = 4};
    char name[200];

    errno = 0;
    assert_int_equal(stook_group_create(NULL, STOOK_NO_GROUP, STOOK_UNLIMITED).id, 0);
    assert_int_equal(errno, EINVAL);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (unsigned i = 0; i < STOOK_GROUP_DEPTH_MAX; i++) {
        chain[i] = stook_group_create(name, i ? chain[i - 1] : STOOK_NO_GROUP, STOOK_UNLIMITED);
        assert_int_not_equal(chain[i].id, 0);
    }
    assert_int_equal(strlen(group_name_of(chain[0])), STOOK_GROUP_NAME_MAX);
    errno = 0;
    assert_int_equal(
        stook_group_create("deep", chain[STOOK_GROUP_DEPTH_MAX - 1], STOOK_UNLIMITED).id, 0);
    assert_int_equal(errno, E2BIG);
    errno = 0;
    assert_int_equal(stook_group_stat(chain[0], &stat), -1);
    assert_int_equal(errno, EINVAL);
    struct {
        struct stook_group_stat stat;
        uint64_t later;
    } longer = {.stat.size = sizeof(longer), .later = 5};
    assert_int_equal(stook_group_stat(chain[0], &longer.stat), 0);
    assert_int_equal(longer.later, 0);
    for (unsigned i = STOOK_GROUP_DEPTH_MAX; i-- > 0;)
        assert_int_equal(stook_group_destroy(chain[i]), 0);

    struct stook_group nonsense[] = {chain[0], {0xffffffff}, STOOK_NO_GROUP};
    for (unsigned i = 0; i < 3; i++) {
        errno = 0;
        stat.size = sizeof(stat);
        assert_int_equal(stook_group_stat(nonsense[i], &stat), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(stook_group_set_limit(nonsense[i], 1), -1);
        assert_int_equal(stook_group_set_soft_limit(nonsense[i], 1, NULL, NULL), -1);
        assert_int_equal(stook_group_set_reclaim(nonsense[i], NULL, NULL), -1);
        assert_null(group_name_of(nonsense[i]));
        assert_int_equal(group_parent_of(nonsense[i]).id, 0);
        if (nonsense[i].id)
            assert_int_equal(stook_group_create("child", nonsense[i], STOOK_UNLIMITED).id, 0);
    }
}

/* To the byte, whatever stocks hold; and what was refused is counted where the limit is. */
TEST(test_limit_is_exact)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, 3 * MIB);
    struct stook_group a = stook_group_create("a", top, 2 * MIB);
    struct stook_group b = stook_group_create("b", top, STOOK_UNLIMITED);
    size_t n = 0, m = 0;

    while (charge(a, 1000))
        n++;
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(n, 2 * MIB / 1000);
    assert_true(charge(a, 2 * MIB - n * 1000)); /* what is left */
    assert_false(charge(a, 1));
    assert_int_equal(usage(a), 2 * MIB);
    assert_int_equal(stat_of(a).refused, 2);
    assert_int_equal(stat_of(a).stocked, 0);
    while (charge(b, 1000))
        m++;
    assert_int_equal(m, MIB / 1000);
    assert_int_equal(stat_of(top).refused, 1);
    assert_int_equal(stat_of(b).refused, 0);
    assert_int_equal(stat_of(a).refused, 2);
    uncharge(a, 2 * MIB - n * 1000);
    for (size_t i = 0; i < n; i++)
        uncharge(a, 1000);
    assert_int_equal(usage(a), 0);
    assert_true(charge(b, 2 * MIB)); /* a's stocks come back for it */
    assert_false(charge(b, MIB));
    uncharge(b, 2 * MIB + m * 1000);
    assert_int_equal(usage(top), 0);

    /* Below what is charged: nothing more until enough went back. */
    assert_true(charge(a, 100 * KIB));
    assert_int_equal(stook_group_set_limit(a, 50 * KIB), 0);
    assert_false(charge(a, 1));
    uncharge(a, 60 * KIB);
    assert_true(charge(a, 10 * KIB));
    assert_false(charge(a, 1));
    assert_int_equal(stook_group_set_limit(a, 0), 0); /* nothing, rather than anything */
    assert_false(charge(a, 1));
    assert_int_equal(stat_of(a).limit, 0);
    assert_int_equal(stook_group_set_limit(a, STOOK_UNLIMITED), 0);
    assert_int_equal(stat_of(a).limit, STOOK_UNLIMITED);
    assert_true(charge(a, 1));
    uncharge(a, 50 * KIB + 1);
    assert_int_equal(stook_group_destroy(a), 0);
    assert_int_equal(stook_group_destroy(b), 0);
    assert_int_equal(stook_group_destroy(top), 0);
}

/* Stocks of other CPUs are drained before a charge is refused. */
static void *leave_stocks(void *arg)
{
    struct stook_group group = *(struct stook_group *)arg;

    for (int i = 0; i < 300; i++)
        assert_true(charge(group, 1 + (size_t)i));
    for (int i = 0; i < 300; i++)
        uncharge(group, 1 + (size_t)i);
    return NULL;
}

TEST(test_room_in_sum)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, 8 * MIB), sub[8];

    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        sub[i] = stook_group_create("sub", top, STOOK_UNLIMITED);
        assert_int_not_equal(sub[i].id, 0);
        assert_int_equal(pthread_create(&thread, NULL, leave_stocks, &sub[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(usage(top), 0);
    assert_true(stat_of(top).stocked >= 8 * KIB);
    assert_true(charge(top, 8 * MIB)); /* every byte of it */
    assert_int_equal(stat_of(top).stocked, 0);
    uncharge(top, 8 * MIB);
    for (int i = 0; i < 8; i++)
        assert_int_equal(stook_group_destroy(sub[i]), 0);
    assert_int_equal(stook_group_destroy(top), 0);
}

/* ---- callbacks ---- */

static struct stook_group reclaimed;
static size_t cache_of_group, asked;
static unsigned calls;

static size_t reclaim(struct stook_group of, size_t wanted, void *arg)
{
    size_t gave = cache_of_group < wanted ? cache_of_group : wanted;

    assert_int_equal(of.id, reclaimed.id);
    assert_ptr_equal(arg, &cache_of_group);
    calls++;
    asked = wanted;
    assert_false(charge(reclaimed, 10 * MIB)); /* runs no callback */
    uncharge(reclaimed, gave);
    cache_of_group -= gave;
    return gave;
}

TEST(test_reclaim)
{
    struct stook_group child;
    uint32_t number;

    reclaimed = stook_group_create("reclaimed", STOOK_NO_GROUP, MIB);
    child = stook_group_create("child", reclaimed, STOOK_UNLIMITED);
    assert_int_equal(stook_group_set_reclaim(reclaimed, reclaim, &cache_of_group), 0);
    cache_of_group = 600 * KIB;
    assert_true(charge(reclaimed, cache_of_group));
    assert_true(charge(child, 500 * KIB)); /* 76 KiB are missing */
    assert_int_equal(calls, 1);
    assert_int_equal(asked, 76 * KIB);
    assert_int_equal(stat_of(reclaimed).reclaims, 1);
    assert_int_equal(stat_of(reclaimed).refused, 1); /* what the callback asked for */
    number = group_number(child);
    assert_false(group_charge(&number, 500 * KIB, STOOK_NORECLAIM, false));
    assert_int_equal(errno, EDQUOT);
    assert_false(group_charge(&number, 500 * KIB, STOOK_SIGNAL_SAFE, false));
    assert_false(group_charge(&number, 500 * KIB, STOOK_WAIT, true));
    assert_int_equal(calls, 1);
    assert_false(charge(child, 900 * KIB)); /* not so much; it gives what it has */
    assert_int_equal(calls, 2);
    assert_int_equal(cache_of_group, 0);
    assert_int_equal(stook_group_set_reclaim(reclaimed, NULL, NULL), 0);
    assert_false(charge(child, 900 * KIB));
    assert_int_equal(calls, 2);
    uncharge(child, 500 * KIB);
    assert_int_equal(usage(reclaimed), 0);
    assert_int_equal(stook_group_destroy(child), 0);
    assert_int_equal(stook_group_destroy(reclaimed), 0);
}

static size_t destroys_itself(struct stook_group group, size_t wanted, void *arg)
{
    assert_null(arg);
    assert_true(wanted > 0);
    errno = 0;
    assert_int_equal(stook_group_destroy(group), -1);
    assert_int_equal(errno, EDEADLK);
    assert_int_equal(stook_group_set_reclaim(group, NULL, NULL), 0); /* does not wait for itself */
    return 0;
}

TEST(test_callback_of_itself)
{
    struct stook_group group = stook_group_create("self", STOOK_NO_GROUP, KIB);

    assert_int_equal(stook_group_set_reclaim(group, destroys_itself, NULL), 0);
    assert_false(charge(group, 2 * KIB));
    assert_int_equal(stat_of(group).reclaims, 1);
    assert_false(charge(group, 2 * KIB));
    assert_int_equal(stat_of(group).reclaims, 1);
    assert_int_equal(stook_group_destroy(group), 0);
}

static unsigned soft_calls;
static size_t soft_usage;

static void soft(struct stook_group group, size_t now, void *arg)
{
    assert_ptr_equal(arg, &soft_usage);
    assert_false(stook_group_is_none(group));
    assert_true(now > 100 * KIB);
    soft_usage = now;
    soft_calls++;
}

TEST(test_soft_limit)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group group = stook_group_create("soft", top, STOOK_UNLIMITED);
    size_t charged = 0;
    cpu_set_t before;

    /* Bytes that are uncharged on another CPU stay in that CPU's stock, and usage does not fall. */
    stay_begin(&before);
    assert_int_equal(stook_group_set_soft_limit(top, 100 * KIB, soft, &soft_usage), 0);
    for (; soft_calls == 0; charged += 256)
        assert_true(charge(group, 256));
    /* Seen with the first batch behind it, wherever the thread was. */
    assert_true(charged > 100 * KIB);
    assert_true(charged <= 100 * KIB + (size_t)STOOK_GROUP_STOCK_MAX * group_stocks.used);
    assert_true(soft_usage <= charged);
    for (int i = 0; i < 2000; i++, charged += 256)
        assert_true(charge(group, 256));
    assert_int_equal(soft_calls, 1);
    for (; charged > 0; charged -= 256)
        uncharge(group, 256);
    assert_true(charge(group, MIB)); /* it fell, and rises again */
    assert_int_equal(soft_calls, 2);
    assert_int_equal(stat_of(top).soft_events, 2);
    assert_int_equal(stat_of(top).soft_limit, 100 * KIB);
    uncharge(group, MIB);

    /* A thread that may not make the call leaves it to the next one that may. */
    uint32_t number = group_number(group);
    assert_true(group_charge(&number, MIB, STOOK_NORECLAIM, false));
    assert_int_equal(soft_calls, 2);
    assert_true(charge(group, MIB));
    assert_int_equal(soft_calls, 3);
    uncharge(group, 2 * MIB);
    assert_int_equal(stook_group_set_soft_limit(top, STOOK_UNLIMITED, NULL, NULL), 0);
    assert_true(charge(group, MIB));
    assert_int_equal(soft_calls, 3);
    uncharge(group, MIB);
    stay_end(&before);
    assert_int_equal(stook_group_destroy(group), 0);
    assert_int_equal(stook_group_destroy(top), 0);
}

/* ---- who is inside, and groups that are gone ---- */

TEST(test_enter)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group child = stook_group_create("child", top, STOOK_UNLIMITED), before;

    assert_int_equal(stook_group_current().id, 0);
    assert_int_equal(stook_group_enter(top).id, 0);
    before = stook_group_enter(child);
    assert_int_equal(before.id, top.id);
    assert_int_equal(stook_group_current().id, child.id);
    assert_int_equal(group_current(), group_number(child));
    stook_group_leave(before);
    assert_int_equal(stook_group_current().id, top.id);
    before = stook_group_enter(STOOK_NO_GROUP);
    assert_int_equal(stook_group_current().id, 0);
    stook_group_leave(before);
    stook_group_leave(STOOK_NO_GROUP);
    assert_int_equal(stook_group_current().id, 0);

    uint32_t none = 0;
    assert_true(group_charge(&none, 100, STOOK_WAIT, false));
    group_uncharge(none, 100);
    assert_int_equal(usage(top), 0);
    assert_int_equal(stook_group_destroy(child), 0);
    assert_int_equal(stook_group_destroy(top), 0);
}

TEST(test_zombies)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group middle = stook_group_create("middle", top, STOOK_UNLIMITED);
    struct stook_group leaf = stook_group_create("leaf", middle, STOOK_UNLIMITED);
    uint32_t number = group_number(leaf), charged, old = number;

    assert_int_equal(stook_group_enter(leaf).id, 0);
    charged = group_current();
    assert_true(group_charge(&charged, 5000, STOOK_WAIT, false));
    assert_int_equal(charged, number);
    assert_int_equal(stook_group_destroy(leaf), 0);
    assert_int_equal(usage(middle), 5000);
    assert_int_equal(stat_of(middle).own, 5000);
    assert_int_equal(stat_of(middle).children, 0);
    assert_int_equal(group_number(leaf), 0);
    assert_int_equal(group_by_number(number).id, middle.id);
    assert_int_equal(stook_group_current().id, middle.id);
    charged = group_current();
    assert_true(group_charge(&charged, 70, STOOK_WAIT, false)); /* to whom it says then */
    assert_int_equal(charged, group_number(middle));
    assert_int_equal(stook_group_destroy(middle), 0);
    assert_int_equal(usage(top), 5070);
    assert_int_equal(stook_group_current().id, top.id);

    /* Its place is used again many times; a thread that is inside still has its ancestors. */
    group_uncharge(number, 5000);
    group_uncharge(charged, 70);
    assert_int_equal(usage(top), 0);
    for (int i = 0; i < 1000; i++) {
        struct stook_group other = stook_group_create("other", STOOK_NO_GROUP, STOOK_UNLIMITED);
        assert_int_not_equal(other.id, 0);
        assert_int_not_equal(group_number(other), old);
        assert_int_equal(stook_group_current().id, top.id);
        assert_int_equal(stook_group_destroy(other), 0);
    }
    assert_true(atomic_load(&group_table.high) < 200); /* of a thousand */
    assert_int_not_equal(atomic_load(&group_at(old)->number), old);
    charged = group_current();
    assert_int_equal(charged, old);
    assert_true(group_charge(&charged, 70, STOOK_WAIT, false));
    assert_int_equal(charged, group_number(top));
    group_uncharge(charged, 70);
    assert_int_equal(stook_group_destroy(top), 0);
    assert_int_equal(stook_group_current().id, 0);
    charged = group_current();
    assert_true(group_charge(&charged, 70, STOOK_WAIT, false));
    assert_int_equal(charged, 0); /* no group */
    stook_group_leave(leaf);      /* a handle of long ago: no group */
    assert_int_equal(group_current(), 0);
}

/* A zombie's limit holds no longer, its ancestors' do; frees beside the last one free the place. */
TEST(test_zombie_below_a_limit)
{
    struct stook_group top = stook_group_create("top", STOOK_NO_GROUP, MIB);
    struct stook_group leaf = stook_group_create("leaf", top, STOOK_UNLIMITED);
    uint32_t number = group_number(leaf), unused = group_table.unused;

    assert_true(charge(leaf, MIB - 100));
    assert_int_equal(stook_group_destroy(leaf), 0);
    assert_false(charge(top, 101));
    assert_true(charge(top, 100));
    for (int i = 0; i < 1023; i++)
        group_uncharge(number, KIB);
    assert_int_equal(group_at(number)->state, GROUP_ZOMBIE);
    group_uncharge(number, KIB - 100);
    assert_int_equal(group_at(number)->state, GROUP_FREE);
    assert_int_equal(group_table.unused, unused + 1);
    uncharge(top, 100);
    assert_int_equal(stat_of(top).usage, 0);
    assert_int_equal(stook_group_destroy(top), 0);
}

TEST(test_as_many_as_there_can_be)
{
    static struct stook_group all[STOOK_GROUPS_MAX];
    unsigned seen = 0;

    for (unsigned i = 0; i < STOOK_GROUPS_MAX; i++) {
        all[i] =
            stook_group_create("many", i % 7 ? all[i - i % 7] : STOOK_NO_GROUP, STOOK_UNLIMITED);
        assert_int_not_equal(all[i].id, 0);
        assert_true(charge(all[i], i + 1));
    }
    errno = 0;
    assert_int_equal(stook_group_create("one more", STOOK_NO_GROUP, STOOK_UNLIMITED).id, 0);
    assert_int_equal(errno, ENFILE);
    for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g))
        seen++;
    assert_int_equal(seen, STOOK_GROUPS_MAX);
    for (unsigned i = 0; i < STOOK_GROUPS_MAX; i++)
        uncharge(all[i], i + 1);
    for (unsigned i = STOOK_GROUPS_MAX; i-- > 0;)
        assert_int_equal(stook_group_destroy(all[i]), 0);
    assert_int_equal(group_table.unused, STOOK_GROUPS_MAX);
}

/* ---- where the lock is not to be had ---- */

TEST(test_who_interrupts_the_holder)
{
    struct stook_group group = stook_group_create("held", STOOK_NO_GROUP, STOOK_UNLIMITED);
    uint32_t number = group_number(group);

    assert_true(charge(group, 3 * MIB));
    context_enter();
    group_lock(false);
    errno = 0;
    assert_false(group_charge(&number, MIB, STOOK_WAIT, true)); /* as a handler would */
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_false(group_charge(&number, MIB, STOOK_SIGNAL_SAFE, false));
    assert_int_equal(errno, ENOMEM);
    group_uncharge(number, MIB);
    group_uncharge(number, MIB);
    assert_int_equal(group_at(number)->charged, 3 * MIB);
    group_unlock();
    context_leave();
    assert_int_equal(group_at(number)->charged, MIB); /* collected by the holder of the lock */
    group_uncharge(number, MIB);
    assert_int_equal(usage(group), 0);

    /* The last of a zombie comes back this way. */
    assert_true(charge(group, MIB));
    assert_int_equal(stook_group_destroy(group), 0);
    context_enter();
    group_lock(false);
    group_uncharge(number, MIB);
    assert_int_equal(group_at(number)->state, GROUP_ZOMBIE);
    group_unlock();
    context_leave();
    assert_int_equal(group_at(number)->state, GROUP_FREE);
}

TEST(test_forked_child)
{
    struct stook_group group = stook_group_create("parent's", STOOK_NO_GROUP, MIB);
    int status;

    assert_true(charge(group, 100));
    pid_t child = fork();
    if (child == 0) {
        bool right = usage(group) == 100 && charge(group, MIB - 100) && !charge(group, 1);
        struct stook_group own = stook_group_create("own", group, STOOK_UNLIMITED);
        uncharge(group, MIB);
        right = right && usage(group) == 0 && own.id && charge(own, 1) && usage(group) == 1;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(usage(group), 100);
    uncharge(group, 100);
    assert_int_equal(stook_group_destroy(group), 0);
}

/* Once filled, a stock serves without the lock; and giving back keeps to what is said of it. */
TEST(test_stocks)
{
    struct stook_group group = stook_group_create("stock", STOOK_NO_GROUP, STOOK_UNLIMITED);
    uint32_t number = group_number(group);

    assert_true(charge(group, 256));
    assert_int_equal(stat_of(group).stocked, STOOK_GROUP_STOCK_MAX / 2);
    context_enter();
    group_lock(false); /* no thread needs it: they stay on this CPU's stock, or meet a closed one */
    for (int i = 0; i < 100; i++) {
        bool had = group_charge(&number, 256, STOOK_SIGNAL_SAFE, true);
        if (had)
            group_uncharge(number, 256);
        else
            assert_int_equal(errno, ENOMEM); /* on another CPU by now */
    }
    group_unlock();
    context_leave();
    for (int i = 0; i < 10000; i++)
        assert_true(charge(group, 1000));
    for (int i = 0; i < 10000; i++) {
        uncharge(group, 1000);
        assert_true(stat_of(group).stocked <=
                    (uint64_t)STOOK_GROUP_STOCK_MAX * (group_stocks.used + 1));
    }
    assert_int_equal(usage(group), 256);
    uncharge(group, 256);
    assert_int_equal(stook_group_destroy(group), 0);
}
