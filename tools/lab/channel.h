/* SPDX-License-Identifier: MIT */
/*
 * channel.h - objects on their way from one actor to another: a ring with one sender and one
 * receiver, which may be threads.
 */
#ifndef STOOK_LAB_CHANNEL_H
#define STOOK_LAB_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lab_channel {
    uint32_t capacity;
    _Atomic uint32_t sent __attribute__((aligned(64)));
    _Atomic uint32_t received __attribute__((aligned(64)));
    void *object[] __attribute__((aligned(64)));
};

/* Objects in it: exact for its two ends as a bound, to send or to receive. */
static inline uint32_t channel_size(const struct lab_channel *channel)
{
    return atomic_load_explicit(&channel->sent, memory_order_acquire) -
           atomic_load_explicit(&channel->received, memory_order_acquire);
}

/* There is room: the sender has looked. */
static inline void channel_send(struct lab_channel *channel, void *object)
{
    uint32_t at = atomic_load_explicit(&channel->sent, memory_order_relaxed);

    channel->object[at % channel->capacity] = object;
    /* Release: the object's contents, and the entry. */
    atomic_store_explicit(&channel->sent, at + 1, memory_order_release);
}

/* There is an object: the receiver has looked. */
static inline void *channel_receive(struct lab_channel *channel)
{
    uint32_t at = atomic_load_explicit(&channel->received, memory_order_relaxed);
    void *object = channel->object[at % channel->capacity];

    atomic_store_explicit(&channel->received, at + 1, memory_order_release);
    return object;
}

#endif
