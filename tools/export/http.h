/* SPDX-License-Identifier: MIT */
/*
 * http.h - as much of an HTTP/1.1 server as scrapers need: GET and HEAD, one answer a connection.
 *
 * One thread polls all connections.  No client can keep others out: every state of a connection has a deadline, an address
 * has at most half of the places, and a new connection that finds none takes the place of the oldest.  An answer that
 * looks into one process is made in a child, which the server kills at its deadline.
 */
#ifndef STOOK_EXPORT_HTTP_H
#define STOOK_EXPORT_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HTTP_NAMES = 16, HTTP_ACCEPTS = 4 };

struct http_request {
    const char *method, *path, *query,
        *host;                        /* host: NULL if there is none, which HTTP/1.0 permits */
    const char *accept[HTTP_ACCEPTS]; /* values of Accept headers, NULL behind the last */
    uint64_t came;                    /* when the client connected: CLOCK_MONOTONIC, ns */
};

struct http_answer {
    unsigned status;
    const char *type, *file; /* file: Content-Disposition, or NULL */
};

struct http_server {
    int listener;
    const char *name
        [HTTP_NAMES]; /* of Host, beside loopback names and the address that the client reached */
    unsigned names;
    void (*answer)(const struct http_request *request, struct http_answer *answer, FILE *to,
                   void *arg);
    bool (*apart)(const struct http_request *request); /* whether a child makes the answer */
    void *arg;
};

uint64_t http_now(void);
/* The value of a key in a query, or NULL; it is not decoded, and ends at `*size` bytes. */
const char *http_query(const char *query, const char *key, int *size);

/* Serves until SIGINT or SIGTERM. */
void http_serve(const struct http_server *server);

#endif
