/* SPDX-License-Identifier: MIT */
/*
 * Load for a server: some connections, each with one request at a time.  It measures the time from a request's
 * first byte to its reply's last.
 *
 *   stook-bench-load redis|memcached|http ADDRESS CONNECTIONS REQUESTS [PATH]
 *
 * ADDRESS is a path of a socket, or a port of this machine.  The output is one JSON object.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 1024, KEYS = 20000, VALUE_MOST = 4000, BUFFER = 1 << 18 };
enum protocol { REDIS, MEMCACHED, HTTP };

struct connection {
    int fd;
    uint64_t begin;
    size_t request_length, sent, got;
    char request[VALUE_MOST + 512];
    char reply[BUFFER];
};

static enum protocol protocol;
static const char *path = "/";
static uint64_t state = 1, begun, done, wanted, failed;
static uint32_t *latency; /* tenths of a microsecond */

static void give_up(const char *why)
{
    fprintf(stderr, "stook-bench-load: %s: %s\n", why, strerror(errno));
    exit(1);
}

static uint32_t below(uint32_t end)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 32) * end >> 32);
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A value whose length is log-uniform, of one letter. */
static size_t value_length(void)
{
    uint32_t log = 3 + below(8);
    return (1u << log) + below(1u << log);
}

static void request_make(struct connection *c)
{
    static char value[VALUE_MOST + 1];
    uint32_t key = below(KEYS), kind = below(10);
    size_t length = value_length();
    int n;

    if (!value[0])
        memset(value, 'v', VALUE_MOST);
    if (protocol == HTTP)
        n = snprintf(c->request, sizeof(c->request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     path);
    else if (protocol == MEMCACHED && kind < 4)
        n = snprintf(c->request, sizeof(c->request), "set key:%u 0 0 %zu\r\n%.*s\r\n", key, length,
                     (int)length, value);
    else if (protocol == MEMCACHED)
        n = snprintf(c->request, sizeof(c->request), "get key:%u\r\n", key);
    else if (kind < 4)
        n = snprintf(c->request, sizeof(c->request), "SET key:%u %.*s\r\n", key, (int)length,
                     value);
    else if (kind < 5)
        n = snprintf(c->request, sizeof(c->request), "LPUSH list:%u %.*s\r\n", key % 97,
                     (int)(length / 8), value);
    else if (kind < 6)
        n = snprintf(c->request, sizeof(c->request), "RPOP list:%u\r\n", key % 97);
    else if (kind < 7)
        n = snprintf(c->request, sizeof(c->request), "HSET hash:%u field:%u %.*s\r\n", key % 499,
                     key % 101, (int)(length / 8), value);
    else
        n = snprintf(c->request, sizeof(c->request), "GET key:%u\r\n", key);
    c->request_length = (size_t)n;
    c->sent = c->got = 0;
    c->begin = now();
    begun++;
}

/* The length of a whole reply, or 0 while some of it is to come. */
static size_t reply_length(const struct connection *c)
{
    const char *reply = c->reply, *end = memchr(reply, '\n', c->got);
    size_t head;

    if (!end)
        return 0;
    head = (size_t)(end - reply) + 1;
    if (protocol == REDIS) {
        long length;
        if (reply[0] == '-')
            failed++;
        if (reply[0] != '$' || (length = atol(reply + 1)) < 0)
            return head;
        return c->got >= head + (size_t)length + 2 ? head + (size_t)length + 2 : 0;
    }
    if (protocol == MEMCACHED) {
        unsigned long length = 0;
        if (strncmp(reply, "VALUE ", 6) != 0) {
            failed += strncmp(reply, "END", 3) != 0 && strncmp(reply, "STORED", 6) != 0;
            return head;
        }
        sscanf(reply, "VALUE %*s %*u %lu", &length);
        return c->got >= head + length + 7 ? head + length + 7 : 0;
    }
    end = memmem(reply, c->got, "\r\n\r\n", 4);
    if (!end)
        return 0;
    failed += strncmp(reply, "HTTP/1.1 200", 12) != 0;
    head = (size_t)(end - reply) + 4;
    end = memmem(reply, head, "Content-Length: ", 16);
    return c->got >= head + (end ? strtoul(end + 16, NULL, 10) : 0) ? c->got : 0;
}

static void send_rest(struct connection *c)
{
    ssize_t n = send(c->fd, c->request + c->sent, c->request_length - c->sent, MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN)
        give_up("send");
    c->sent += n > 0 ? (size_t)n : 0;
}

static void receive(struct connection *c)
{
    ssize_t n = recv(c->fd, c->reply + c->got, sizeof(c->reply) - 1 - c->got, 0);
    uint64_t took;

    if (n == 0) {
        errno = ECONNRESET;
        give_up("the server");
    }
    if (n < 0 && errno != EAGAIN)
        give_up("recv");
    c->got += n > 0 ? (size_t)n : 0;
    c->reply[c->got] = '\0';
    if (reply_length(c) == 0) {
        if (c->got == sizeof(c->reply) - 1) {
            errno = EMSGSIZE;
            give_up("a reply");
        }
        return;
    }
    took = (now() - c->begin) / 100;
    latency[done++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    if (begun < wanted) {
        request_make(c);
        send_rest(c);
    }
}

static int connect_to(const char *address)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET};
    int is_path = address[0] == '/', one = 1;
    int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        give_up("socket");
    snprintf(local.sun_path, sizeof(local.sun_path), "%s", address);
    port.sin_port = htons((uint16_t)atoi(address));
    port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, is_path ? (void *)&local : (void *)&port,
                is_path ? sizeof(local) : sizeof(port)) != 0)
        give_up(address);
    if (!is_path)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double percentile(double share)
{
    uint64_t at = (uint64_t)(share * (double)done);

    return latency[at < done ? at : done - 1] / 10.0;
}

int main(int argc, char **argv)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), connections = argc > 3 ? atoi(argv[3]) : 0;
    struct connection *all;
    uint64_t begin;
    double seconds;

    wanted = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if (argc < 5 || connections < 1 || connections > MOST_CONNECTIONS || wanted < 1) {
        fprintf(
            stderr,
            "usage: stook-bench-load redis|memcached|http ADDRESS CONNECTIONS REQUESTS [PATH]\n");
        return 2;
    }
    protocol = strcmp(argv[1], "redis") == 0       ? REDIS
               : strcmp(argv[1], "memcached") == 0 ? MEMCACHED
                                                   : HTTP;
    path = argc > 5 ? argv[5] : path;
    all = calloc((size_t)connections, sizeof(*all));
    latency = calloc(wanted + MOST_CONNECTIONS, sizeof(*latency));
    if (!all || !latency || epoll < 0)
        give_up("memory");
    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        all[i].fd = connect_to(argv[2]);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event) != 0)
            give_up("epoll_ctl");
    }
    begin = now();
    for (int i = 0; i < connections && begun < wanted; i++) {
        request_make(&all[i]);
        send_rest(&all[i]);
    }
    while (done < begun) {
        struct epoll_event event[64];
        int n = epoll_wait(epoll, event, 64, 10000);
        if (n <= 0) {
            errno = n == 0 ? ETIMEDOUT : errno;
            give_up("epoll_wait");
        }
        for (int i = 0; i < n; i++)
            receive(event[i].data.ptr);
    }
    seconds = (double)(now() - begin) / 1e9;
    qsort(latency, done, sizeof(*latency), by_value);
    printf("{\"requests\": %llu, \"failed\": %llu, \"requests_per_s\": %.0f, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"p999_us\": %.1f}\n",
           (unsigned long long)done, (unsigned long long)failed, (double)done / seconds,
           percentile(0.5), percentile(0.99), percentile(0.999));
    return 0;
}
