/* SPDX-License-Identifier: MIT */
/*
 * fake_nodes.h - the library starts with four nodes: 0 and 3 have memory, 1 has CPUs only and is
 * near to 3, 2 is not there.  The machine's CPUs are dealt out to nodes 0, 1 and 3 in turn.
 * Include it in the one file of a test.
 */
#ifndef TESTS_SUPPORT_FAKE_NODES_H
#define TESTS_SUPPORT_FAKE_NODES_H

#include "os/topology.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fake_root[] = "/tmp/stook-nodes-XXXXXX";

static void fake_file(const char *name, const char *text)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s%s", fake_root, name);
    for (char *p = path + strlen(fake_root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(fd);
}

static void fake_remove(void)
{
    static const char *const names[] = {"/sys/devices/system/node/node0/cpulist",
                                        "/sys/devices/system/node/node1/cpulist",
                                        "/sys/devices/system/node/node3/cpulist",
                                        "/sys/devices/system/node/node1/distance",
                                        "/sys/devices/system/node/node0",
                                        "/sys/devices/system/node/node1",
                                        "/sys/devices/system/node/node3",
                                        "/sys/devices/system/node/online",
                                        "/sys/devices/system/node/has_memory",
                                        "/sys/devices/system/node",
                                        "/sys/devices/system",
                                        "/sys/devices",
                                        "/sys",
                                        ""};
    char path[256];

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", fake_root, names[i]);
        (void)remove(path);
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wprio-ctor-dtor"
/* Before the library's own constructor, which is in the same executable. */
static __attribute__((constructor(100), used)) void fake_nodes(void)
{
    char lists[3][4096] = {"", "", ""};

    if (!mkdtemp(fake_root))
        abort();
    for (unsigned cpu = 0; cpu < 512; cpu++) {
        char *list = lists[cpu % 3];
        size_t n = strlen(list);
        snprintf(list + n, sizeof(lists[0]) - n, "%s%u", n ? "," : "", cpu);
    }
    fake_file("/sys/devices/system/node/online", "0-1,3\n");
    fake_file("/sys/devices/system/node/has_memory", "0,3\n");
    fake_file("/sys/devices/system/node/node0/cpulist", lists[0]);
    fake_file("/sys/devices/system/node/node1/cpulist", lists[1]);
    fake_file("/sys/devices/system/node/node3/cpulist", lists[2]);
    fake_file("/sys/devices/system/node/node1/distance", "30 10 20\n");
    topology_root = fake_root;
    atexit(fake_remove);
}
#pragma GCC diagnostic pop

#endif
