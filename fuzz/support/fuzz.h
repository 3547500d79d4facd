/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what fuzz targets share: the entry that libFuzzer calls, numbers and texts from its bytes, settings of
 * the library, and an input as a file.
 *
 * A target is one file fuzz/NAME.c.  It must accept any bytes, keep nothing between two inputs, and end by abort()
 * where the library or the tool is wrong.
 */
#ifndef FUZZ_SUPPORT_FUZZ_H
#define FUZZ_SUPPORT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Ends the process with the line and the condition that does not hold. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz: %s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- bytes ------------------------------------------------------------------------------------ */

struct fuzz_bytes {
    const uint8_t *at, *end;
};

/* 0 behind the end. */
uint8_t fuzz_byte(struct fuzz_bytes *bytes);
/* Any number: small ones, powers of two and their neighbours, the largest ones, or eight bytes. */
uint64_t fuzz_number(struct fuzz_bytes *bytes);
/* A string of less than `size` bytes. */
const char *fuzz_word(struct fuzz_bytes *bytes, char *word, size_t size);

/* ---- the library ------------------------------------------------------------------------------ */

/* NAME, VALUE in pairs: settings of this process, before the library reads them; once in a target. */
#define FUZZ_SETTINGS(...)                                                                         \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wprio-ctor-dtor\"") static   \
        __attribute__((constructor(100), used)) void                                               \
        fuzz_settings(void)                                                                        \
    {                                                                                              \
        static const char *const pairs[][2] = {__VA_ARGS__};                                       \
        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)                              \
            setenv(pairs[i][0], pairs[i][1], 1);                                                   \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")

/* ---- files ------------------------------------------------------------------------------------ */

/* The name of a file in memory with these bytes, until the next call. */
const char *fuzz_file(const void *bytes, size_t n);
/* The bytes with a zero behind them, to be freed. */
char *fuzz_text(const uint8_t *bytes, size_t n);
/* What the tool prints to standard output goes nowhere from now on. */
void fuzz_silence(void);

#endif
