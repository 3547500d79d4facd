/* SPDX-License-Identifier: MIT */
/*
 * Kernel-style code (names.c) in a program: writers add, replace and remove names while readers look
 * them up and read their files.  At the end everything is accounted for.
 */
#include "names.h"
#include "rcu.h"

#include <stook/stook.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

enum { WRITERS = 2, READERS = 2, NAMES = 3000, MANY = 24, ROUNDS = 3, READS = 20000, BLOCKS = 40 };

/* A name says which number its file has; every seventh one is too long for the entry. */
static void name_of(char *name, size_t size, unsigned writer, unsigned i)
{
    snprintf(name, size, "%u/%u%s", writer, i,
             i % 7 == 0 ? "/a-name-that-does-not-fit-into-an-entry" : "");
}

static u64 number_of(unsigned writer, unsigned i)
{
    return (u64)writer << 32 | i;
}

static int add_many(unsigned writer)
{
    char text[MANY][16], *names[MANY];
    u64 numbers[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(text[i], sizeof(text[i]), "m%u/%u", writer, i);
        names[i] = text[i];
        numbers[i] = number_of(writer, i);
    }
    if (names_add_many(names, numbers, MANY) != 0)
        return 1;
    if (names_add_many(names, numbers, MANY) != -EEXIST) /* none of them */
        return 1;
    for (unsigned i = 0; i < MANY; i++)
        if (names_remove(names[i]) != 0)
            return 1;
    return names_remove(names[0]) != -ENOENT;
}

static void *write_names(void *arg)
{
    unsigned writer = (unsigned)(size_t)arg, errors = 0;
    char name[80];

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < NAMES; i++) {
            name_of(name, sizeof(name), writer, i);
            errors += names_add(name, number_of(writer, i)) != 0;
        }
        errors += (unsigned)add_many(writer);
        for (unsigned i = 0; i < NAMES; i++) {
            name_of(name, sizeof(name), writer, i);
            if (i % 2 || round + 1 < ROUNDS) /* the even ones of the last round stay */
                errors += names_remove(name) != 0;
        }
    }
    return (void *)(size_t)errors;
}

/* What is found is right, whatever happens meanwhile. */
static void *read_names(void *arg)
{
    unsigned random = (unsigned)(size_t)arg + 1, errors = 0;
    char name[80];

    for (unsigned n = 0; n < READS; n++) {
        unsigned writer = n % WRITERS, i;
        u64 number, sum;
        random = random * 1664525u + 1013904223u;
        i = (random >> 8) % NAMES;
        name_of(name, sizeof(name), writer, i);
        if (n % 16 == 0) {
            u64 right = BLOCKS * number_of(writer, i) + BLOCKS * (BLOCKS - 1) / 2;
            errors += names_read(name, BLOCKS, &sum) == 0 && sum != right;
        } else {
            (void)names_lookup(name, &number); /* may be the next user's: the file is type-stable */
        }
    }
    return (void *)(size_t)errors;
}

int main(void)
{
    pthread_t thread[WRITERS + READERS];
    struct names_counts counts;
    size_t errors = 0;
    u64 sum;

    if (rcu_start() != 0 || names_init() != 0)
        return 1;
    for (size_t i = 0; i < WRITERS + READERS; i++)
        if (pthread_create(&thread[i], NULL, i < WRITERS ? write_names : read_names, (void *)i) !=
            0)
            return 1;
    for (size_t i = 0; i < WRITERS + READERS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        errors += (size_t)result;
    }
    errors += names_read("0/2", BLOCKS, &sum) != 0 || sum != BLOCKS * 2 + BLOCKS * (BLOCKS - 1) / 2;
    errors += names_read("0/1", BLOCKS, &sum) != -ENOENT;
    stook_report(1, STOOK_REPORT_TABLE);
    names_count(&counts);
    printf("%llu names, %llu bursts of blocks, %llu single ones, %zu errors\n",
           (unsigned long long)counts.names, (unsigned long long)counts.bursts,
           (unsigned long long)counts.singles, errors);
    names_exit();
    rcu_end();
    return errors > 0 || counts.names != WRITERS * NAMES / 2 || counts.files != counts.names;
}
