// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * patterns.c - the scenarios of `stook lab` (tools/lab/), with one thread a CPU instead of turns.
 *
 * They end when all operations are claimed and all channels are empty.  Objects that actors keep in
 * their working sets stay out: main.c frees them.
 */
#include "stook.h"

#include <linux/cpumask.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

enum { STOOK_POOL = 257, STOOK_FORK_LEAST = 64, STOOK_FORK_MOST = 256 };

/* Ids on their way from one CPU to another: a ring with one sender and one receiver. */
struct channel {
    unsigned int capacity, sender, receiver; /* the latter two: CPUs */
    bool ended;                              /* the sender sends no more */
    u32 sent ____cacheline_aligned;
    u32 received ____cacheline_aligned;
    u32 id[];
};

/* An actor of any of the scenarios. */
struct own {
    struct stook_actor actor;
    unsigned int next, channels, n, seen;
    bool ran;
    struct channel **channel;
    u32 *id; /* a working set, or what a completer keeps */
};

static unsigned int channel_size(const struct channel *channel)
{
    return smp_load_acquire(&channel->sent) - smp_load_acquire(&channel->received);
}

static void channel_send(struct channel *channel, u32 id)
{
    channel->id[channel->sent % channel->capacity] = id;
    smp_store_release(&channel->sent, channel->sent + 1);
}

static u32 channel_receive(struct channel *channel)
{
    u32 id = channel->id[channel->received % channel->capacity];

    smp_store_release(&channel->received, channel->received + 1);
    return id;
}

static struct own *own_of(struct stook_actor *actor)
{
    return container_of(actor, struct own, actor);
}

/* Allocates n claimed objects; their ids go to `id`. */
static unsigned int own_take(struct own *own, unsigned int n, u32 *id, u8 flags)
{
    u32 first;

    n = stook_claim(n, &first);
    for (unsigned int i = 0; i < n; i++) {
        stook_alloc(first + i, flags);
        id[i] = first + i;
    }
    return n;
}

/* ---- ublk and producer-consumer: senders and receivers -------------------------------------- */

static enum stook_step sender_end(struct own *own)
{
    for (unsigned int i = 0; i < own->channels; i++) {
        smp_store_release(&own->channel[i]->ended, true);
        stook_kick(own->channel[i]->receiver);
    }
    return STOOK_DONE;
}

/*
 * A burst goes into the next channel that has room for it.  A burst is plugged: it is allocated as a
 * whole before it is sent, as the block layer does.
 */
static enum stook_step sender_step(struct stook_actor *actor)
{
    struct own *own = own_of(actor);
    struct channel *channel;
    unsigned int n;

    for (unsigned int i = 0;; i++) {
        if (i == own->channels)
            return STOOK_IDLE;
        channel = own->channel[own->next];
        own->next = (own->next + 1) % own->channels;
        if (channel_size(channel) + stook_run.batch <= stook_run.depth)
            break;
    }
    n = own_take(own, stook_run.batch, own->id, STOOK_NORECLAIM);
    if (n == 0)
        return sender_end(own);
    for (unsigned int i = 0; i < n; i++)
        channel_send(channel, own->id[i]);
    stook_kick(channel->receiver);
    return STOOK_BUSY;
}

/* Of the first 257 objects a completer keeps `kept`, as the block layer does (decision 30). */
static void receiver_free(struct own *own, u32 id)
{
    if (own->seen < STOOK_POOL && own->n < stook_run.kept &&
        stook_random(&own->actor, STOOK_POOL - own->seen++) < stook_run.kept - own->n)
        own->n++;
    else
        stook_free(id);
}

static enum stook_step receiver_step(struct stook_actor *actor)
{
    struct own *own = own_of(actor);
    bool ended = true;

    for (unsigned int i = 0; i < own->channels; i++) {
        struct channel *channel = own->channel[own->next];
        /* In this order: what was sent before the end is seen. */
        bool last = smp_load_acquire(&channel->ended);
        unsigned int n = channel_size(channel);

        own->next = (own->next + 1) % own->channels;
        if (n == 0) {
            ended &= last;
            continue;
        }
        while (n-- > 0)
            receiver_free(own, channel_receive(channel));
        stook_kick(channel->sender);
        return STOOK_BUSY;
    }
    return ended ? STOOK_DONE : STOOK_IDLE;
}

/* ---- local, fork-exec, random-walk: working sets -------------------------------------------- */

static void own_drop_oldest(struct own *own, unsigned int n)
{
    for (unsigned int i = 0; i < n; i++)
        stook_free(own->id[i]);
    own->n -= n;
    memmove(own->id, own->id + n, own->n * sizeof(own->id[0]));
}

static enum stook_step local_step(struct stook_actor *actor)
{
    struct own *own = own_of(actor);
    unsigned int n;

    if (own->n + stook_run.batch <= stook_run.depth && stook_random(actor, 2) == 0) {
        n = own_take(own, stook_run.batch, own->id + own->n, STOOK_NORECLAIM);
        own->n += n;
        return n > 0 ? STOOK_BUSY : STOOK_DONE;
    }
    n = min(own->n, stook_run.batch);
    if (stook_random(actor, 2) == 0)
        own_drop_oldest(own, n);
    else
        while (n-- > 0)
            stook_free(own->id[--own->n]);
    return STOOK_BUSY;
}

static void fork_exec_drop(struct own *own, unsigned int keep)
{
    for (unsigned int i = own->n; i > 1; i--)
        swap(own->id[i - 1], own->id[stook_random(&own->actor, i)]);
    while (own->n > keep)
        stook_free(own->id[--own->n]);
}

static enum stook_step fork_exec_step(struct stook_actor *actor)
{
    struct own *own = own_of(actor);
    unsigned int n;

    if (own->n > 0 && own->ran) {
        fork_exec_drop(own, 0);
        own->ran = false;
        return STOOK_BUSY;
    }
    if (own->n == 0) {
        n = STOOK_FORK_LEAST + stook_random(actor, STOOK_FORK_MOST / 2 - STOOK_FORK_LEAST);
        own->n = own_take(own, n, own->id, STOOK_NORECLAIM);
        actor->cpu = stook_random(actor, num_online_cpus()); /* the child's */
        return own->n > 0 ? STOOK_BUSY : STOOK_DONE;
    }
    fork_exec_drop(own, own->n / 8);
    n = STOOK_FORK_LEAST / 2 + stook_random(actor, STOOK_FORK_LEAST);
    own->n += own_take(own, n, own->id + own->n, STOOK_NORECLAIM);
    own->ran = true;
    return STOOK_BUSY;
}

/* A batch of turnover; then it is on another CPU. */
static enum stook_step random_walk_step(struct stook_actor *actor)
{
    struct own *own = own_of(actor);

    for (unsigned int i = 0; i < stook_run.batch; i++) {
        if (own->n < stook_run.depth && stook_random(actor, stook_run.depth) >= own->n / 2) {
            if (own_take(own, 1, own->id + own->n, STOOK_NORECLAIM) == 0)
                return STOOK_DONE;
            own->n++;
        } else {
            unsigned int k = stook_random(actor, own->n);

            stook_free(own->id[k]);
            own->id[k] = own->id[--own->n];
        }
    }
    actor->cpu = stook_random(actor, num_online_cpus());
    return STOOK_BUSY;
}

/* ---- who is where --------------------------------------------------------------------------- */

struct cast {
    struct stook_actor **actor;
    unsigned int n;
    struct channel **channel;
    unsigned int channels;
};

static struct own *cast_add(struct cast *cast, unsigned int cpu,
                            enum stook_step (*step)(struct stook_actor *))
{
    struct own *own = kzalloc(sizeof(*own), GFP_KERNEL);

    if (!own)
        return NULL;
    own->actor.cpu = cpu;
    own->actor.step = step;
    own->actor.random = 0x5eed + cast->n;
    own->channel = kcalloc(stook_run.pairs, sizeof(own->channel[0]), GFP_KERNEL);
    own->id = kcalloc(stook_run.depth + STOOK_FORK_MOST, sizeof(own->id[0]), GFP_KERNEL);
    cast->actor[cast->n++] = &own->actor;
    return own->channel && own->id ? own : NULL;
}

static int cast_join(struct cast *cast, struct own *from, struct own *to)
{
    struct channel *channel = kzalloc(struct_size(channel, id, stook_run.depth), GFP_KERNEL);

    if (!channel)
        return -ENOMEM;
    channel->capacity = stook_run.depth;
    channel->sender = from->actor.cpu;
    channel->receiver = to->actor.cpu;
    from->channel[from->channels++] = to->channel[to->channels++] = channel;
    cast->channel[cast->channels++] = channel;
    return 0;
}

/* Completers move by half of the queues for cross-node: on both topologies all pairs are apart then. */
static int cast_ublk(struct cast *cast)
{
    const unsigned int pairs = stook_run.pairs, by = stook_run.cross ? pairs / 2 : 0;

    for (unsigned int q = 0; q < pairs; q++) {
        unsigned int completer = 2 * ((q + by) % pairs);
        struct own *from = cast_add(cast, 2 * q + 1, sender_step);
        struct own *to = cast_add(cast, completer, receiver_step);

        if (stook_run.cross && cpu_to_node(2 * q + 1) == cpu_to_node(completer))
            return -EINVAL;
        if (!from || !to || cast_join(cast, from, to))
            return -ENOMEM;
    }
    return 0;
}

static int cast_producer_consumer(struct cast *cast)
{
    const unsigned int pairs = stook_run.pairs;
    unsigned int i, k;

    for (i = 0; i < pairs; i++)
        if (!cast_add(cast, 2 * i + 1, sender_step) || !cast_add(cast, 2 * i, receiver_step))
            return -ENOMEM;
    for (i = 0; i < pairs; i++) {
        own_of(cast->actor[2 * i])->next = i;
        for (k = 0; k < pairs; k++)
            if (cast_join(cast, own_of(cast->actor[2 * i]), own_of(cast->actor[2 * k + 1])))
                return -ENOMEM;
    }
    return 0;
}

static int cast_everywhere(struct cast *cast, enum stook_step (*step)(struct stook_actor *))
{
    unsigned int cpu;

    for_each_online_cpu(cpu) if (!cast_add(cast, cpu, step)) return -ENOMEM;
    return 0;
}

static int cast_fill(struct cast *cast, const char *name)
{
    if (!strcmp(name, "ublk"))
        return cast_ublk(cast);
    if (!strcmp(name, "producer-consumer"))
        return cast_producer_consumer(cast);
    if (!strcmp(name, "local"))
        return cast_everywhere(cast, local_step);
    if (!strcmp(name, "fork-exec"))
        return cast_everywhere(cast, fork_exec_step);
    if (!strcmp(name, "random-walk"))
        return cast_everywhere(cast, random_walk_step);
    return -ENOENT;
}

int stook_pattern(const char *name)
{
    const unsigned int pairs = stook_run.pairs;
    struct cast cast = {};
    int status = -ENOMEM;

    if (2 * pairs > num_online_cpus())
        return -EINVAL;
    cast.actor = kcalloc(2 * pairs + nr_cpu_ids, sizeof(cast.actor[0]), GFP_KERNEL);
    cast.channel = kcalloc(pairs * pairs, sizeof(cast.channel[0]), GFP_KERNEL);
    if (cast.actor && cast.channel)
        status = cast_fill(&cast, name);
    if (!status)
        status = stook_act(cast.actor, cast.n);
    while (cast.channels > 0)
        kfree(cast.channel[--cast.channels]);
    while (cast.n > 0) {
        struct own *own = own_of(cast.actor[--cast.n]);

        kfree(own->channel);
        kfree(own->id);
        kfree(own);
    }
    kfree(cast.channel);
    kfree(cast.actor);
    return status;
}
