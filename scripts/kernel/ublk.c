/* SPDX-License-Identifier: MIT */
/*
 * ublk.c - the report's workload itself: a block device that this process serves (ublk), and reads of it by
 * io_uring.  Without libraries, for the initramfs.
 *
 * The device has a queue for each CPU that may be there.  Submitters are on the CPUs 1, 3, 5, ...; the queue
 * that has what CPU c submits is served by a thread on CPU c - 1, or across nodes on that of half of the pairs
 * further, which completes each request and so frees the bio.  The target is null: a read is answered at once with whatever is in the pages.
 */
#define _GNU_SOURCE
#include "ublk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/ublk_cmd.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 128, BURST = 32, BLOCK = 4096, SECTORS = 1 << 21, CPUS_MAX = 64 };

/* Headers of 2022 lack what was added since; these are the kernel's interface. */
#ifndef UBLK_F_USER_COPY
#define UBLK_F_USER_COPY (1ULL << 7)
#endif
#define COMMAND(number, type) _IOWR('u', number, type)

struct ring {
    int fd;
    unsigned entries, sqe_size, queued;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    char *sqes;
    struct io_uring_cqe *cqes;
};

static int ring_start(struct ring *ring, unsigned entries, unsigned flags)
{
    struct io_uring_params p = {.flags = flags};
    char *sq, *cq;

    ring->fd = (int)syscall(__NR_io_uring_setup, entries, &p);
    if (ring->fd < 0)
        return -1;
    ring->entries = p.sq_entries;
    ring->sqe_size = flags & IORING_SETUP_SQE128 ? 128 : 64;
    sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
    cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_CQ_RING);
    ring->sqes = mmap(NULL, (size_t)p.sq_entries * ring->sqe_size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || ring->sqes == MAP_FAILED)
        return -1;
    ring->sq_tail = (unsigned *)(sq + p.sq_off.tail);
    ring->sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    ring->sq_array = (unsigned *)(sq + p.sq_off.array);
    ring->cq_head = (unsigned *)(cq + p.cq_off.head);
    ring->cq_tail = (unsigned *)(cq + p.cq_off.tail);
    ring->cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    return 0;
}

/* The next entry to fill in; it is submitted by the next ring_enter(). */
static struct io_uring_sqe *ring_entry(struct ring *ring)
{
    unsigned tail = *ring->sq_tail, at = tail & *ring->sq_mask;
    struct io_uring_sqe *sqe = (void *)(ring->sqes + (size_t)at * ring->sqe_size);

    memset(sqe, 0, ring->sqe_size);
    ring->sq_array[at] = at;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->queued++;
    return sqe;
}

static int ring_enter(struct ring *ring, unsigned wait)
{
    int n = (int)syscall(__NR_io_uring_enter, ring->fd, ring->queued, wait,
                         wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);

    if (n > 0)
        ring->queued -= (unsigned)n;
    return n;
}

static int ring_result(struct ring *ring, struct io_uring_cqe *cqe)
{
    unsigned head = *ring->cq_head;

    if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
        return 0;
    *cqe = ring->cqes[head & *ring->cq_mask];
    __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
    return 1;
}

static void pin(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* ---- the server ----------------------------------------------------------------------------- */

struct queue {
    pthread_t thread;
    unsigned number, submitter;
    unsigned long served;
    int error;
};

static struct queue queues[CPUS_MAX];
static unsigned nr_queues, queues_ready;
static int server = -1;

static void queue_command(struct ring *ring, unsigned number, unsigned op, unsigned tag, int result)
{
    struct io_uring_sqe *sqe = ring_entry(ring);
    struct ublksrv_io_cmd *cmd = (void *)((char *)sqe + 48);

    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = server;
    sqe->off = op; /* cmd_op */
    sqe->user_data = tag;
    cmd->q_id = (__u16)number;
    cmd->tag = (__u16)tag;
    cmd->result = result;
}

static void *queue_serve(void *arg)
{
    struct queue *queue = arg;
    const size_t each = DEPTH * sizeof(struct ublksrv_io_desc);
    const size_t most = (size_t)UBLK_MAX_QUEUE_DEPTH * sizeof(struct ublksrv_io_desc);
    const struct ublksrv_io_desc *io;
    struct io_uring_cqe cqe;
    struct ring ring = {0};
    unsigned live = DEPTH;

    io = mmap(NULL, each, PROT_READ, MAP_SHARED | MAP_POPULATE, server,
              (off_t)(UBLKSRV_CMD_BUF_OFFSET + queue->number * most));
    if (io == MAP_FAILED || ring_start(&ring, 2 * DEPTH, IORING_SETUP_SQE128) != 0) {
        queue->error = errno;
        __atomic_add_fetch(&queues_ready, 1, __ATOMIC_RELEASE);
        return NULL;
    }
    for (unsigned tag = 0; tag < DEPTH; tag++)
        queue_command(&ring, queue->number, COMMAND(UBLK_IO_FETCH_REQ, struct ublksrv_io_cmd), tag,
                      0);
    ring_enter(&ring, 0);
    __atomic_add_fetch(&queues_ready, 1, __ATOMIC_RELEASE);
    while (live > 0) {
        if (ring_enter(&ring, 1) < 0 && errno != EINTR) {
            queue->error = errno;
            break;
        }
        while (ring_result(&ring, &cqe)) {
            unsigned tag = (unsigned)cqe.user_data;
            if (cqe.res != UBLK_IO_RES_OK) {
                queue->error = cqe.res == UBLK_IO_RES_ABORT ? 0 : -cqe.res;
                live--;
                continue;
            }
            queue->served++;
            queue_command(&ring, queue->number,
                          COMMAND(UBLK_IO_COMMIT_AND_FETCH_REQ, struct ublksrv_io_cmd), tag,
                          (int)(io[tag].nr_sectors << 9));
        }
    }
    return NULL;
}

static int control(struct ring *ring, int fd, unsigned op, struct ublksrv_ctrl_cmd cmd)
{
    struct io_uring_sqe *sqe = ring_entry(ring);
    struct io_uring_cqe cqe;

    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = fd;
    sqe->off = COMMAND(op, struct ublksrv_ctrl_cmd);
    memcpy((char *)sqe + 48, &cmd, sizeof(cmd));
    if (ring_enter(ring, 1) < 0)
        return -errno;
    return ring_result(ring, &cqe) ? cqe.res : -EIO;
}

/* The first odd CPU whose requests are in that queue. */
static unsigned queue_submitter(struct ring *ring, int fd, unsigned queue)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (control(ring, fd, UBLK_CMD_GET_QUEUE_AFFINITY,
                (struct ublksrv_ctrl_cmd){.dev_id = 0,
                                          .queue_id = (__u16)-1,
                                          .addr = (__u64)(uintptr_t)&set,
                                          .len = sizeof(set),
                                          .data = {queue}}) < 0)
        return 0;
    for (unsigned cpu = 1; cpu < CPUS_MAX; cpu += 2)
        if (CPU_ISSET(cpu, &set))
            return cpu;
    return 1;
}

static int server_start(struct ring *ring, int fd, unsigned cpus)
{
    struct ublksrv_ctrl_dev_info info = {
        .nr_hw_queues = (__u16)cpus,
        .queue_depth = DEPTH,
        .max_io_buf_bytes = 1 << 17,
        .dev_id = 0,
        .ublksrv_pid = getpid(),
        .flags = UBLK_F_USER_COPY,
    };
    struct ublk_params params = {
        .len = sizeof(params),
        .types = UBLK_PARAM_TYPE_BASIC,
        .basic = {.logical_bs_shift = 12,
                  .physical_bs_shift = 12,
                  .io_opt_shift = 12,
                  .io_min_shift = 12,
                  .max_sectors = 256,
                  .dev_sectors = SECTORS},
    };
    int status;

    status = control(ring, fd, UBLK_CMD_ADD_DEV,
                     (struct ublksrv_ctrl_cmd){.dev_id = 0,
                                               .queue_id = (__u16)-1,
                                               .addr = (__u64)(uintptr_t)&info,
                                               .len = sizeof(info)});
    printf("ublk: add: %d, %u queues of %u\n", status, info.nr_hw_queues, info.queue_depth);
    if (status < 0)
        return status;
    status = control(ring, fd, UBLK_CMD_SET_PARAMS,
                     (struct ublksrv_ctrl_cmd){.dev_id = 0,
                                               .queue_id = (__u16)-1,
                                               .addr = (__u64)(uintptr_t)&params,
                                               .len = sizeof(params)});
    printf("ublk: parameters: %d\n", status);
    if (status < 0)
        return status;
    if ((server = open("/dev/ublkc0", O_RDWR)) < 0)
        return -errno;
    nr_queues = info.nr_hw_queues;
    for (unsigned q = 0; q < nr_queues; q++) {
        queues[q] = (struct queue){.number = q, .submitter = queue_submitter(ring, fd, q)};
        if (pthread_create(&queues[q].thread, NULL, queue_serve, &queues[q]) != 0)
            return -EAGAIN;
    }
    /* The device starts when every request has a thread that waits for it. */
    while (__atomic_load_n(&queues_ready, __ATOMIC_ACQUIRE) < nr_queues)
        usleep(10000);
    for (unsigned q = 0; q < nr_queues; q++)
        if (queues[q].error)
            return -queues[q].error;
    status = control(
        ring, fd, UBLK_CMD_START_DEV,
        (struct ublksrv_ctrl_cmd){.dev_id = 0, .queue_id = (__u16)-1, .data = {(__u64)getpid()}});
    printf("ublk: start: %d\n", status);
    return status;
}

/* Completers that are as far from their submitters as the run wants; other queues have no requests. */
static void server_place(unsigned pairs, unsigned apart)
{
    for (unsigned q = 0; q < nr_queues; q++) {
        unsigned cpu = queues[q].submitter - 1;
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu < 2 * pairs ? (cpu + 2 * apart) % (2 * pairs) : cpu, &set);
        pthread_setaffinity_np(queues[q].thread, sizeof(set), &set);
    }
}

/* ---- submitters ----------------------------------------------------------------------------- */

struct submitter {
    pthread_t thread;
    unsigned cpu;
    unsigned long left, done;
    int error;
};

static void *submit(void *arg)
{
    struct submitter *me = arg;
    int fd = open("/dev/ublkb0", O_RDONLY | O_DIRECT);
    struct io_uring_cqe cqe;
    struct ring ring = {0};
    unsigned flying = 0;
    unsigned long at = me->cpu * 977ul;
    char *pages = NULL;

    pin(me->cpu);
    if (fd < 0 || posix_memalign((void **)&pages, BLOCK, (size_t)DEPTH * BLOCK) != 0 ||
        ring_start(&ring, DEPTH, 0) != 0) {
        me->error = errno ? errno : ENOMEM;
        return NULL;
    }
    memset(pages, 0, (size_t)DEPTH * BLOCK);
    while (me->left > 0 || flying > 0) {
        while (me->left > 0 && flying + BURST <= DEPTH) {
            for (unsigned i = 0; i < BURST; i++) {
                struct io_uring_sqe *sqe = ring_entry(&ring);
                sqe->opcode = IORING_OP_READ;
                sqe->fd = fd;
                sqe->addr = (__u64)(uintptr_t)(pages + (at % DEPTH) * BLOCK);
                sqe->len = BLOCK;
                sqe->off = (at * 7919 % (SECTORS / 8)) * BLOCK;
                at++;
            }
            ring_enter(&ring, 0);
            flying += BURST;
            me->left -= BURST;
        }
        ring_enter(&ring, flying < BURST ? flying : BURST);
        while (ring_result(&ring, &cqe)) {
            flying--;
            if (cqe.res == BLOCK)
                me->done++;
            else
                me->error = cqe.res < 0 ? -cqe.res : EIO;
        }
    }
    close(fd);
    return NULL;
}

int ublk_run(unsigned cpus, unsigned pairs, unsigned apart, unsigned long operations,
             unsigned long *done)
{
    static struct submitter submitters[CPUS_MAX];
    int fd = open("/dev/ublk-control", O_RDWR), status;
    struct ring ring = {0};

    *done = 0;
    if (cpus > CPUS_MAX || 2 * pairs > cpus)
        return -EINVAL;
    if (fd < 0 || ring_start(&ring, 8, IORING_SETUP_SQE128) != 0)
        return -errno;
    if (server < 0 && (status = server_start(&ring, fd, cpus)) < 0)
        return status;
    status = 0;
    server_place(pairs, apart);
    for (unsigned i = 0; i < pairs; i++) {
        submitters[i] =
            (struct submitter){.cpu = 2 * i + 1, .left = operations / pairs / BURST * BURST};
        if (pthread_create(&submitters[i].thread, NULL, submit, &submitters[i]) != 0)
            return -EAGAIN;
    }
    for (unsigned i = 0; i < pairs; i++) {
        pthread_join(submitters[i].thread, NULL);
        *done += submitters[i].done;
        if (submitters[i].error)
            status = -submitters[i].error;
    }
    return status;
}
