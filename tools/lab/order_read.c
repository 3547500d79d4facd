/* SPDX-License-Identifier: MIT */
/*
 * order_read.c - reads an order file and checks all of it, so that a replay can make every call.  Objects are
 * freed once and after they were allocated, and every field is one that the format has.
 */
#include "lab/order.h"
#include "stook/command.h"

#include "os/topology.h"

#include "text/file.h"

#include <stook/stook.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ORDER_VERSION = 1, ORDER_OBJECTS_MAX = 1 << 26 };

static int order_refuse(const char *file, const char *what)
{
    return complain(STATUS_FAILED, "%s: %s", file, what);
}

/* A record that no machine could have made, by its place among the records. */
static int order_refuse_at(const char *file, uint64_t record, const char *what)
{
    return complain(STATUS_FAILED, "%s: record %lu: %s", file, record, what);
}

static int order_check_header(const struct order_header *h, const char *file, uint64_t bytes)
{
    if (memcmp(h->magic, "STKORDER", sizeof(h->magic)) != 0)
        return order_refuse(file, "this is no order file");
    if (h->version != ORDER_VERSION)
        return complain(STATUS_FAILED, "%s: an order of version %u; this program reads version %d",
                        file, h->version, ORDER_VERSION);
    if (h->cpus == 0 || h->cpus > TOPOLOGY_CPUS_MAX)
        return complain(STATUS_FAILED, "%s: %u CPUs; 1 to %d are possible", file, h->cpus,
                        TOPOLOGY_CPUS_MAX);
    if (h->object_size == 0 || h->object_size > STOOK_OBJECT_SIZE_MAX)
        return complain(STATUS_FAILED, "%s: objects of %u bytes; 1 to %u are possible", file,
                        h->object_size, STOOK_OBJECT_SIZE_MAX);
    if (h->objects > ORDER_OBJECTS_MAX)
        return complain(STATUS_FAILED, "%s: %u objects; up to %d are possible", file, h->objects,
                        ORDER_OBJECTS_MAX);
    bytes -= sizeof(*h);
    if (bytes % sizeof(struct order_record) != 0 ||
        bytes / sizeof(struct order_record) != h->records)
        return complain(STATUS_FAILED,
                        "%s: the header says %lu records, but %lu bytes of records follow", file,
                        h->records, bytes);
    return 0;
}

static int order_check_record(struct order *order, const char *file, uint64_t at, bool *out)
{
    const struct order_record *r = &order->record[at];
    bool failed = r->flags & ORDER_FAILED;

    if (r->op > ORDER_FREE)
        return order_refuse_at(file, at, "neither an allocation nor a free");
    if (r->flags & ~(ORDER_NOWAIT | ORDER_FAILED) || (r->op == ORDER_FREE && r->flags))
        return order_refuse_at(file, at, "flags that the format does not have");
    if (r->cpu >= order->header.cpus)
        return order_refuse_at(file, at, "a CPU beyond those that the header states");
    if (r->object >= order->header.objects)
        return order_refuse_at(file, at, "an object beyond those that the header states");
    if (r->op == ORDER_ALLOC && out[r->object])
        return order_refuse_at(file, at, "an object is allocated that is allocated already");
    if (r->op == ORDER_FREE && !out[r->object])
        return order_refuse_at(file, at, "an object is freed that is not allocated");
    out[r->object] = r->op == ORDER_ALLOC && !failed;
    order->allocs += r->op == ORDER_ALLOC && !failed;
    order->failed += failed;
    order->frees += r->op == ORDER_FREE;
    if (r->cpu > order->last_cpu)
        order->last_cpu = r->cpu;
    return 0;
}

static int order_check_records(struct order *order, const char *file)
{
    bool *out = calloc(order->header.objects + 1, sizeof(*out));
    int status = out ? 0 : order_refuse(file, "no memory for its objects");

    for (uint64_t i = 0; i < order->header.records && status == 0; i++)
        status = order_check_record(order, file, i, out);
    free(out);
    return status;
}

static int order_read_all(struct order *order, const char *file, FILE *stream)
{
    struct order_header *h = &order->header;
    struct stat stat;
    int status;

    if (fstat(fileno(stream), &stat) != 0)
        return order_refuse(file, file_error(errno));
    if (!S_ISREG(stat.st_mode) || stat.st_size < (off_t)sizeof(*h) ||
        fread(h, sizeof(*h), 1, stream) != 1)
        return order_refuse(file, "this is no order file");
    status = order_check_header(h, file, (uint64_t)stat.st_size);
    if (status != 0)
        return status;
    order->record = malloc((size_t)h->records * sizeof(order->record[0]) + 1);
    if (!order->record)
        return order_refuse(file, "no memory for its records");
    if (fread(order->record, sizeof(order->record[0]), h->records, stream) != h->records)
        return order_refuse(file, "it changes while it is read");
    return order_check_records(order, file);
}

int order_read(struct order *order, const char *file)
{
    FILE *stream = file_stream(file);
    int status;

    memset(order, 0, sizeof(*order));
    if (!stream)
        return order_refuse(file, file_error(errno));
    status = order_read_all(order, file, stream);
    fclose(stream);
    return status;
}

void order_close(struct order *order)
{
    free(order->record);
    order->record = NULL;
}
