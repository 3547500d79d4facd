/* SPDX-License-Identifier: MIT */
/*
 * order_play.c - an order replayed under the design of the options: every call on its CPU, one after the
 * other.  One actor makes all of them; it moves to each record's CPU.
 *
 * An allocation that failed where the order was recorded gave no object and is left out.  After the
 * last record the machine's first CPU frees the objects that are in use, in the order of their numbers.
 */
#include "lab/order.h"
#include "look/target.h"
#include "stook/command.h"

#include "os/topology.h"

#include <stdlib.h>

static bool order_idle(struct lab_actor *actor)
{
    (void)actor;
    return false;
}

/* The machine has every CPU that makes a call; a status. */
static int order_suits(const struct order *order)
{
    for (uint64_t i = 0; i < order->header.records; i++)
        if (!topology_has_cpu(&topology, order->record[i].cpu))
            return complain(STATUS_USAGE, "order: record %lu: the topology has no CPU %u", i,
                            order->record[i].cpu);
    return 0;
}

static void order_count(struct lab *lab, struct lab_counts **counts, uint64_t *slabs)
{
    uint64_t made;

    *counts = lab_memory(lab, topology.cpus * sizeof(**counts));
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
        if (!topology_has_cpu(&topology, cpu))
            continue;
        lab->options->design->read(lab, cpu, lab->cpus[cpu].design);
        (*counts)[cpu] = lab->cpus[cpu];
    }
    lab->options->design->slabs(lab, &made, slabs);
}

int order_play(struct lab *lab, const struct order *order, struct order_result *result)
{
    struct lab_actor *actor;
    int status = order_suits(order);
    void **object;

    if (status != 0)
        return status;
    object = target_need(calloc(order->header.objects + 1, sizeof(*object)));
    actor = lab_actor(lab, lab_cpu_at(0), order_idle, NULL);
    for (uint64_t i = 0; i < order->header.records; i++) {
        const struct order_record *r = &order->record[i];
        if (actor->cpu != r->cpu)
            lab_move(actor, r->cpu);
        actor->waits = !(r->flags & ORDER_NOWAIT);
        if (r->flags & ORDER_FAILED)
            continue;
        if (r->op == ORDER_ALLOC) {
            object[r->object] = lab_alloc(actor);
        } else {
            lab_free(actor, object[r->object]);
            object[r->object] = NULL;
        }
    }
    order_count(lab, &result->before, &result->slabs_before);
    lab_move(actor, lab_cpu_at(0));
    result->left = 0;
    for (uint32_t i = 0; i < order->header.objects; i++)
        if (object[i]) {
            lab_free(actor, object[i]);
            result->left++;
        }
    order_count(lab, &result->after, &result->slabs_after);
    lab->closed = true;
    free(object);
    return 0;
}
