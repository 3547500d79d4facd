/* SPDX-License-Identifier: MIT */
/* Minimises a function of bits: lists of cubes are combined and filtered until nothing more can be combined. */
#include "own.h"

enum { WORDS = 2, BUCKETS = 4096 };

/* A cube: which inputs count, and what they have to be. */
struct cube {
    struct cube *next;
    uint32_t *care,
        *value; /* WORDS each, objects of their own as in programs that take any width */
    int combined;
};

struct cover {
    struct cube *bucket[BUCKETS];
    size_t count;
};

static struct cube *cube_make(const uint32_t *care, const uint32_t *value)
{
    struct cube *cube = own_alloc(sizeof(*cube));

    cube->care = own_alloc(WORDS * sizeof(*cube->care));
    cube->value = own_alloc(WORDS * sizeof(*cube->value));
    memcpy(cube->care, care, WORDS * sizeof(*care));
    memcpy(cube->value, value, WORDS * sizeof(*value));
    cube->combined = 0;
    return cube;
}

static void cube_free(struct cube *cube)
{
    free(cube->care);
    free(cube->value);
    free(cube);
}

static unsigned cube_hash(const uint32_t *care, const uint32_t *value)
{
    uint32_t hash = 0;

    for (int i = 0; i < WORDS; i++)
        hash = (hash ^ care[i] * 2654435761u ^ value[i]) * 2246822519u;
    return hash % BUCKETS;
}

static struct cube *cover_find(struct cover *cover, const uint32_t *care, const uint32_t *value)
{
    struct cube *cube = cover->bucket[cube_hash(care, value)];

    while (cube && (memcmp(cube->care, care, WORDS * sizeof(*care)) != 0 ||
                    memcmp(cube->value, value, WORDS * sizeof(*value)) != 0))
        cube = cube->next;
    return cube;
}

static void cover_add(struct cover *cover, const uint32_t *care, const uint32_t *value)
{
    unsigned at = cube_hash(care, value);
    struct cube *cube;

    if (cover_find(cover, care, value))
        return;
    cube = cube_make(care, value);
    cube->next = cover->bucket[at];
    cover->bucket[at] = cube;
    cover->count++;
}

/* All pairs of cubes that differ in one input become one cube without it. */
static struct cover *cover_combine(struct cover *cover)
{
    struct cover *next = own_alloc(sizeof(*next));

    memset(next, 0, sizeof(*next));
    for (int b = 0; b < BUCKETS; b++)
        for (struct cube *cube = cover->bucket[b]; cube; cube = cube->next)
            for (int bit = 0; bit < 24; bit++) {
                uint32_t other[WORDS], care[WORDS], value[WORDS], mask = 1u << bit % 12;
                struct cube *twin;
                int word = bit / 12;
                if (!(cube->care[word] & mask))
                    continue;
                memcpy(other, cube->value, sizeof(other));
                other[word] ^= mask;
                twin = cover_find(cover, cube->care, other);
                if (!twin)
                    continue;
                cube->combined = twin->combined = 1;
                memcpy(care, cube->care, sizeof(care));
                memcpy(value, cube->value, sizeof(value));
                care[word] &= ~mask;
                value[word] &= ~mask;
                cover_add(next, care, value);
            }
    return next;
}

/* Frees it; how many cubes nothing was combined with. */
static uint64_t cover_free(struct cover *cover)
{
    uint64_t primes = 0;

    for (int b = 0; b < BUCKETS; b++)
        while (cover->bucket[b]) {
            struct cube *cube = cover->bucket[b];
            cover->bucket[b] = cube->next;
            primes += !cube->combined;
            cube_free(cube);
        }
    free(cover);
    return primes;
}

uint64_t own_minimise(unsigned scale)
{
    struct own_random random = {3};
    uint64_t primes = 0;

    for (unsigned n = 0; n < scale * 7 + 1; n++) {
        struct cover *cover = own_alloc(sizeof(*cover));
        memset(cover, 0, sizeof(*cover));
        for (int i = 0; i < 1400; i++) {
            uint32_t care[WORDS] = {0xfff, 0xfff};
            uint32_t value[WORDS] = {own_below(&random, 4096) & 0x3f,
                                     own_below(&random, 4096) & 0x3f};
            cover_add(cover, care, value);
        }
        while (cover->count > 0) {
            struct cover *next = cover_combine(cover);
            primes += cover_free(cover);
            cover = next;
        }
        primes += cover_free(cover);
    }
    return primes;
}
