/* SPDX-License-Identifier: MIT */
/* The system's, which its own headers need, and the kernel's short names. */
#include_next <linux/types.h>

#ifndef KERNEL_STYLE_TYPES_H
#define KERNEL_STYLE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stook/kmem_rcu_head.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_RELAXED)

#endif
