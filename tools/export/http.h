/* SPDX-License-Identifier: MIT */
/*
 * http.h - the server of stook export: GET and HEAD by libmicrohttpd, one answer a connection.
 *
 * No client can keep others out: a connection has a deadline, an address has at most half of the places, and a new
 * connection that finds none takes the place of the oldest.  An answer that looks into one process is made in a child,
 * which the server kills at its deadline.  All of it runs on the thread that called http_serve().
 */
#ifndef STOOK_EXPORT_HTTP_H
#define STOOK_EXPORT_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HTTP_NAMES = 16, HTTP_ACCEPTS = 4 };

struct MHD_Connection;

struct http_request {
    struct MHD_Connection *connection;
    const char *path, *host;          /* host: NULL if there is none, which HTTP/1.0 permits */
    const char *accept[HTTP_ACCEPTS]; /* values of Accept headers, NULL behind the last */
    uint64_t came;                    /* when the client connected: CLOCK_MONOTONIC, ns */
};

struct http_answer {
    unsigned status;
    char type[80], file[80]; /* file: Content-Disposition, or "" */
};

struct http_server {
    int listener;                 /* does not block */
    const char *name[HTTP_NAMES]; /* of Host, beside loopback names and the address reached */
    unsigned names;
    void (*answer)(const struct http_request *request, struct http_answer *answer, FILE *to,
                   void *arg);
    bool (*apart)(const struct http_request *request); /* whether a child makes the answer */
    void *arg;
};

/* The value of a key of the query, or NULL. */
const char *http_query(const struct http_request *request, const char *key);

/* Whether this was built with libmicrohttpd; else the two others do nothing. */
bool http_serves(void);
/* Serves until SIGINT or SIGTERM.  False: the server could not be started. */
bool http_serve(const struct http_server *server);

#endif
