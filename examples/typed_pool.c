/* SPDX-License-Identifier: MIT */
/*
 * Two types of a small packet path: packets with a constructor, whose buffers stay attached while
 * they are free, and flows.  Packets come and go in batches through the inlined header.
 */
#include <stook/inline.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BURST = 32, FLOWS = 1000, BURSTS = 10000 };

struct packet {
    uint16_t length;
    uint16_t headroom; /* constructed: the same whenever a packet is free */
    unsigned char data[1500];
};

struct flow {
    uint64_t packets, bytes;
};

static void packet_construct(void *object, void *arg)
{
    (void)arg;
    struct packet *packet = object;

    packet->length = 0;
    packet->headroom = 64;
}

int main(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = packet_construct};
    struct stook_cache *packets = stook_cache_create("packet", sizeof(struct packet), &args);
    struct stook_cache *flows = stook_cache_create("flow", sizeof(struct flow), NULL);
    struct flow *flow[FLOWS];
    void *burst[BURST];
    uint64_t total = 0;

    if (!packets || !flows)
        return 1;
    for (int i = 0; i < FLOWS; i++)
        if (!(flow[i] = stook_alloc_inline(flows, 0)))
            return 1;
        else
            memset(flow[i], 0, sizeof(*flow[i]));
    for (int n = 0; n < BURSTS; n++) {
        if (stook_alloc_bulk(packets, STOOK_NORECLAIM, BURST, burst) != 0)
            return 1; /* all or nothing */
        for (int i = 0; i < BURST; i++) {
            struct packet *packet = burst[i];
            struct flow *of = flow[(n * BURST + i) % FLOWS];
            packet->length = (uint16_t)(packet->headroom + i);
            of->packets++;
            of->bytes += packet->length;
            packet->length = 0; /* freed in constructed state */
        }
        stook_free_bulk(packets, BURST, burst);
    }
    stook_report(1, STOOK_REPORT_TABLE);
    for (int i = 0; i < FLOWS; i++) {
        total += flow[i]->packets;
        stook_free_inline(flows, flow[i]);
    }
    printf("%llu packets\n", (unsigned long long)total);
    return total != (uint64_t)BURST * BURSTS || stook_cache_destroy(packets) ||
           stook_cache_destroy(flows);
}
