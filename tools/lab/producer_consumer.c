/* SPDX-License-Identifier: MIT */
/*
 * producer_consumer.c - every second CPU allocates, and deals its bursts out to all the others, which
 * free: objects of every node come to every CPU.
 */
#include "lab/lab.h"
#include "stook/command.h"

struct producer_consumer {
    unsigned next, channels;
    struct lab_channel *channel[];
};

static bool producer_consumer_produce(struct lab_actor *actor)
{
    const struct lab_options *options = actor->lab->options;
    struct producer_consumer *own = actor->own;
    struct lab_channel *channel = own->channel[own->next];
    unsigned n;

    own->next = (own->next + 1) % own->channels;
    if (channel_size(channel) + options->batch > channel->capacity)
        return false;
    n = lab_claim(actor, options->batch);
    for (unsigned i = 0; i < n; i++)
        channel_send(channel, lab_alloc(actor));
    return n > 0;
}

static bool producer_consumer_consume(struct lab_actor *actor)
{
    struct producer_consumer *own = actor->own;

    for (unsigned i = 0; i < own->channels; i++) {
        struct lab_channel *channel = own->channel[own->next];
        unsigned n = channel_size(channel);
        own->next = (own->next + 1) % own->channels;
        if (n == 0)
            continue;
        while (n-- > 0)
            lab_free(actor, channel_receive(channel));
        return true;
    }
    return false;
}

static struct producer_consumer *producer_consumer_own(struct lab *lab, unsigned pairs)
{
    struct producer_consumer *own = lab_memory(lab, sizeof(*own) + pairs * sizeof(own->channel[0]));

    own->channels = pairs;
    return own;
}

static int producer_consumer_prepare(struct lab *lab)
{
    unsigned pairs = lab_pairs(lab);
    struct producer_consumer **consumer = lab_memory(lab, pairs * sizeof(consumer[0]));

    if (lab_cpus() < 2 * pairs)
        return complain(STATUS_USAGE, "%u producers and as many consumers need %u CPUs", pairs,
                        2 * pairs);
    lab->pairs = pairs;
    for (unsigned i = 0; i < pairs; i++)
        consumer[i] = producer_consumer_own(lab, pairs);
    for (unsigned i = 0; i < pairs; i++) {
        struct producer_consumer *producer = producer_consumer_own(lab, pairs);
        producer->next = i;
        for (unsigned k = 0; k < pairs; k++)
            producer->channel[k] = consumer[k]->channel[i] = lab_channel(lab, lab->options->depth);
        lab_actor(lab, lab_cpu_at(2 * i + 1), producer_consumer_produce, producer);
        lab_actor(lab, lab_cpu_at(2 * i), producer_consumer_consume, consumer[i]);
    }
    return 0;
}

const struct lab_scenario lab_producer_consumer = {
    "producer-consumer",
    "half of the CPUs allocate, for all of the other half",
    producer_consumer_prepare,
};
