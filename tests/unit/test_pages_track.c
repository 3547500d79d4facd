/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * The table of large objects' tracks.  Any pointer into an object finds its track, also after the free.  The track of the
 * object that was freed first is replaced first, and that of an object in use never.
 */
#include "debug/pages_track.h"
#include "support/scale.h"
#include "support/test.h"

#include <pthread.h>
enum {
    SIZE = 100000,
    STRIDE = 1 << 20,
    MANY = 40000,
    THREADS = 4,
    TURNS = 20000 / SCALE_SLOWNESS,
    LAST = 100
};

/* Nothing lies there: they are only compared. */
static const void *object_at(uintptr_t number)
{
    return (const void *)((number + 1) * STRIDE);
}

static bool known(uintptr_t number, struct track tracks[TRACKS])
{
    return pages_track_get(object_at(number), tracks);
}

TEST(one)
{
    struct track tracks[TRACKS], again[TRACKS];
    const char *object = object_at(0);

    assert_false(pages_track_get(object, tracks));
    pages_track_free(object); /* no track says who allocated it */
    assert_false(pages_track_get(object, tracks));
    pages_track_alloc(object, SIZE, 0);
    assert_true(pages_track_get(object, tracks));
    assert_true(tracks[TRACK_ALLOC].time > 0 && tracks[TRACK_ALLOC].thread > 0);
    assert_int_equal(tracks[TRACK_FREE].time, 0);
    assert_true(pages_track_get(object + SIZE / 2, again));
    assert_int_equal(again[TRACK_ALLOC].time, tracks[TRACK_ALLOC].time);
    assert_true(pages_track_get(object + SIZE, again)); /* one behind it: an overrun's */
    assert_false(pages_track_get(object + SIZE + 1, again));
    assert_false(pages_track_get(object - 1, again));
    pages_track_free(object);
    assert_true(pages_track_get(object, again));
    assert_int_equal(again[TRACK_ALLOC].time, tracks[TRACK_ALLOC].time);
    assert_true(again[TRACK_FREE].time >= tracks[TRACK_ALLOC].time);
    pages_track_free(object); /* twice: the first one stays */
    assert_true(pages_track_get(object, tracks));
    assert_int_equal(again[TRACK_FREE].time, tracks[TRACK_FREE].time);
    pages_track_alloc(object, SIZE, 0); /* another one there */
    assert_true(pages_track_get(object, again));
    assert_true(again[TRACK_ALLOC].time >= tracks[TRACK_FREE].time);
    assert_int_equal(again[TRACK_FREE].time, 0);
    pages_track_free(object);
}

#ifndef __SANITIZE_THREAD__ /* which has a single thread to watch here, slowly */
/* More than there are places for. */
TEST(many)
{
    struct track tracks[TRACKS];
    unsigned first = 0, later = 0;

    for (uintptr_t i = 0; i < 1000; i++)
        pages_track_alloc(object_at(i), SIZE, 0);
    for (uintptr_t i = 1000; i < MANY; i++) {
        pages_track_alloc(object_at(i), SIZE, 0);
        pages_track_free(object_at(i));
    }
    for (uintptr_t i = 0; i < 1000; i++) {
        assert_true(known(i, tracks)); /* in use */
        assert_int_equal(tracks[TRACK_FREE].time, 0);
        pages_track_free(object_at(i));
        assert_true(known(i, tracks) && tracks[TRACK_FREE].time > 0);
    }
    for (uintptr_t i = 0; i < 1000; i++) {
        first += known(1000 + i, tracks);
        later += known(MANY - 1 - i, tracks) && tracks[TRACK_FREE].time > 0;
    }
    assert_true(first < 100); /* of those freed first */
    assert_int_equal(later, 1000);
}
#endif

static pthread_barrier_t all_have_come;

static void *churn(void *arg)
{
    for (uintptr_t i = 0; i < TURNS; i++) {
        uintptr_t number = MANY + i * THREADS + (uintptr_t)arg;
        if (i == TURNS - LAST)
            pthread_barrier_wait(&all_have_come);
        pages_track_alloc(object_at(number), SIZE, 0);
        pages_track_free(object_at(number));
    }
    return NULL;
}

TEST(crowd)
{
    pthread_t thread[THREADS];
    struct track tracks[TRACKS];
    unsigned found = 0;

    assert_int_equal(pthread_barrier_init(&all_have_come, NULL, THREADS), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (uintptr_t i = TURNS - LAST; i < TURNS; i++)
        for (uintptr_t t = 0; t < THREADS; t++)
            found += known(MANY + i * THREADS + t, tracks) && tracks[TRACK_FREE].time > 0;
    assert_true(found > LAST * THREADS * 9 / 10); /* two that want a place at once may be without */
}
