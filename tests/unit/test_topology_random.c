/* SPDX-License-Identifier: MIT */
/*
 * Random topologies are read as they were meant and printed as they were read; no text does harm.
 */
#include "support/random.h"
#include "support/scale.h"
#include "support/topology_text.h"

#include <stdlib.h>

static size_t add(char *text, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t add(char *text, size_t at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    at += (size_t)vsprintf(text + at, format, args);
    va_end(args);
    return at;
}

/* A right one: each CPU in some node or none, some memory, rules over pairs. */
static void random_text(uint64_t *state, char *text)
{
    unsigned nodes = 1 + random_below(state, 12), rules = random_below(state, 6), n = 0;
    uint64_t there = 0;
    size_t at = 0;

    *text = '\0';
    for (unsigned i = 0; i < nodes; i++) {
        unsigned node = random_below(state, TOPOLOGY_NODES_MAX);
        unsigned from = n + random_below(state, 3), to = from + random_below(state, 40);
        at = add(text, at, "cpus:%u=%u-%u%s ", node, from, to, random_below(state, 2) ? "#\n" : "");
        n = to + 1;
        there |= (uint64_t)1 << node;
    }
    for (unsigned node = 0, said = 0; node < TOPOLOGY_NODES_MAX; node++)
        if ((there >> node & 1) && (random_below(state, 2) || !said)) {
            said = 1;
            at = add(text, at, "memory:%u=%u%c ", node, 1 + random_below(state, 3000),
                     "KMGT"[random_below(state, 4)]);
        }
    if (!(there & (there - 1)))
        return;
    for (unsigned i = 0; i < rules; i++) {
        unsigned a, b;
        do {
            a = random_below(state, TOPOLOGY_NODES_MAX);
            b = random_below(state, TOPOLOGY_NODES_MAX);
        } while (a == b || !(there >> a & 1) || !(there >> b & 1));
        at = add(text, at, random_below(state, 2) ? "distance:%u,%u=%u\n" : "distance:%u/%u=%u ", a,
                 b, 10 + random_below(state, 245));
    }
}

TEST(random_topologies)
{
    static char text[4096];
    uint64_t state = 1;

    for (uint64_t n = scaled(1000); n > 0; n--) {
        random_text(&state, text);
        good(text);
        check_parsed(text);
        print_and_parse(text);
    }
}

TEST(mutations)
{
    static const char *const words[] = {DOCUMENT, "node:3 distance:0/1=12 distance:0-1/2=30",
                                        "cpus:0=0-3,9 cpus:7=4-8 memory:0-1=3T memory:7=0 # x\n"};
    static const char letters[] = "node:core:smt:cpus:memory:distance:0123456789-,/=*# \n\x80KMGT";
    unsigned passed = 0, refused = 0;
    uint64_t state = 2;

    for (uint64_t left = scaled(60000); left > 0; left--) {
        const char *word = words[random_below(&state, 3)];
        size_t length = strlen(word);
        char *text = malloc(length + 1); /* no byte more: asan sees what is read past it */
        memcpy(text, word, length + 1);
        for (unsigned n = 1 + random_below(&state, 3); n > 0; n--)
            switch (random_below(&state, 3)) {
            case 0: /* another letter */
                text[random_below(&state, (unsigned)length)] =
                    letters[random_below(&state, sizeof(letters) - 1)];
                break;
            case 1: /* the end */
                text[random_below(&state, (unsigned)length)] = '\0';
                break;
            default: { /* letters change places */
                unsigned a = random_below(&state, (unsigned)length),
                         b = random_below(&state, (unsigned)length);
                char c = text[a];
                text[a] = text[b];
                text[b] = c;
            }
            }
        if (parse(&parsed, text)) {
            passed++;
            check_parsed(text);
            if (passed % 16 == 0)
                print_and_parse(text);
        } else {
            refused++;
            assert_true(strncmp(error, "line ", 5) == 0 && strlen(error) < sizeof(error) - 1);
        }
        free(text);
    }
    print_message("%u passed, %u were refused\n", passed, refused);
    assert_true(passed > scaled(1000) && refused > scaled(10000));
}
