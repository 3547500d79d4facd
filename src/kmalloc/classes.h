/* SPDX-License-Identifier: MIT */
/*
 * classes.h - the sizes of kmalloc's caches, and of every set of buckets: the kernel's.
 */
#ifndef STOOK_KMALLOC_CLASSES_H
#define STOOK_KMALLOC_CLASSES_H

#include <stddef.h>
#include <stdint.h>

enum {
    KMALLOC_CLASSES = 13,
    KMALLOC_STEP = 8,   /* of the table … */
    KMALLOC_FINE = 192, /* … which ends here; powers of two above */
};

static const struct {
    const char *name;     /* behind the prefix of its set */
    uint16_t size, align; /* every size is a multiple of its alignment: stride and size are one */
} kmalloc_classes[KMALLOC_CLASSES] = {
    {"-8", 8, 8},        {"-16", 16, 16},     {"-32", 32, 32},     {"-64", 64, 64},
    {"-96", 96, 32},     {"-128", 128, 128},  {"-192", 192, 64},   {"-256", 256, 256},
    {"-512", 512, 512},  {"-1k", 1024, 1024}, {"-2k", 2048, 2048}, {"-4k", 4096, 4096},
    {"-8k", 8192, 8192},
};

/* (size - 1) / KMALLOC_STEP -> class */
static const uint8_t kmalloc_fine[KMALLOC_FINE / KMALLOC_STEP] = {
    0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6,
};

/* Of a size from 1 to STOOK_KMALLOC_CACHE_MAX. */
static inline unsigned kmalloc_class(size_t size)
{
    if (size <= KMALLOC_FINE)
        return kmalloc_fine[(size - 1) / KMALLOC_STEP];
    return 64 - (unsigned)__builtin_clzll(size - 1) - 1; /* 193..256: 8 bits, class 7 */
}

#endif
