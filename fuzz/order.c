/* SPDX-License-Identifier: MIT */
/*
 * An order of calls, as stook lab order reads it.  An accepted order is played under each design, frees all that it
 * allocates, and is printed.
 */
#include "support/fuzz.h"

#include "lab/order.h"
#include "os/topology.h"

#include <stook/topology.h>

#include <string.h>

FUZZ_SETTINGS({"STOOK_TOPOLOGY", "node:2 core:3 smt:2 distance:0/1=21"})

/* Beyond these an input takes its time with what is one in a program. */
enum { ORDER_OBJECTS = 1 << 12, ORDER_BYTES = 1 << 16 };

static void order_replay(const struct order *order, const char *file,
                         const struct lab_design *design)
{
    static struct lab lab;
    struct lab_options options = {.design = design,
                                  .topology = "two",
                                  .seed = 1,
                                  .align = 64,
                                  .size = (order->header.object_size + 63) / 64 * 64,
                                  .order = -1,
                                  .json = order->header.records % 2 == 1};
    struct order_result result;

    if (options.size > 4096) /* of the lab's own designs */
        return;
    lab_ready(&lab, &options);
    stook_topology_cpu(0);
    FUZZ_CHECK(design->start(&lab) == 0);
    if (order_play(&lab, order, &result) == 0)
        FUZZ_CHECK(result.left + order->frees == order->allocs);
    FUZZ_CHECK(design->stop(&lab) == 0);
    FUZZ_CHECK(order_show(&lab, order, &result, file) == 0);
    lab_over(&lab);
}

static bool order_has_cpus(const struct order *order)
{
    for (uint64_t i = 0; i < order->header.records; i++)
        if (!topology_has_cpu(&topology, order->record[i].cpu))
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *file = fuzz_file(bytes, n);
    struct order_header head;
    struct order order;

    fuzz_silence();
    if (n >= sizeof(head)) {
        memcpy(&head, bytes, sizeof(head));
        if (head.objects > ORDER_OBJECTS || n > ORDER_BYTES)
            return 0;
    }
    if (order_read(&order, file) == 0) {
        FUZZ_CHECK(order.allocs + order.frees + order.failed == order.header.records);
        FUZZ_CHECK(order.frees <= order.allocs && order.last_cpu < order.header.cpus);
        if (order_has_cpus(&order))
            for (unsigned i = 0; lab_designs[i]; i++)
                order_replay(&order, file, lab_designs[i]);
    }
    order_close(&order);
    return 0;
}
