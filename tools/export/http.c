/* SPDX-License-Identifier: MIT */
/*
 * http.c - connections and their deadlines around libmicrohttpd's parser.  The table of connections is this file's:
 * libmicrohttpd has a limit of connections, but no place to end the oldest of them.  A connection ends by shutdown(),
 * which libmicrohttpd notices and tells by http_notify().
 */
#include "export/http.h"

#include "look/apart.h"

#include "base/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef STOOK_HAS_MICROHTTPD
#include <microhttpd.h>
#endif

#ifndef STOOK_HAS_MICROHTTPD
bool http_serves(void)
{
    return false;
}

const char *http_query(const struct http_request *request, const char *key)
{
    (void)request, (void)key;
    return NULL;
}

bool http_serve(const struct http_server *server)
{
    (void)server;
    return false;
}
#else

enum {
    HTTP_CONNECTIONS = 256,
    HTTP_EACH = HTTP_CONNECTIONS / 2,  /* of one address */
    HTTP_TABLE = 2 * HTTP_CONNECTIONS, /* with those that are ended, and not closed yet */
    HTTP_BATCH = 16,  /* accepted between two looks at requests; far below HTTP_EACH */
    HTTP_HEAD = 8192, /* bytes of a request */
    HTTP_CHILDREN = 4,
    HTTP_MOST = 1 << 28, /* bytes of an answer that a child makes */
};

enum http_state {
    HTTP_FREE,
    HTTP_READS,
    HTTP_WAITS, /* for a child */
    HTTP_MAKES, /* a child */
    HTTP_SENDS,
    HTTP_ENDS, /* by shutdown() */
    HTTP_STATES
};
/* Seconds that a connection may be in a state; libmicrohttpd closes at once what is ended. */
static const unsigned http_seconds[HTTP_STATES] = {
    [HTTP_READS] = 3, [HTTP_WAITS] = 30, [HTTP_MAKES] = 10, [HTTP_SENDS] = 10};

struct http_connection {
    enum http_state state;
    int fd, pipe; /* pipe: -1, none */
    pid_t child;
    uint64_t until;
    unsigned char peer[16], local[16];
    FILE *to; /* where the child's answer goes: struct http_answer, then the body */
    char *made;
    size_t size;
    unsigned status; /* of what the child failed to make */
    struct http_request request;
};

static struct http_connection http_table[HTTP_TABLE];

const char *http_query(const struct http_request *request, const char *key)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, key);
}

static void http_enter(struct http_connection *c, enum http_state state)
{
    c->state = state;
    c->until = raw_clock() + http_seconds[state] * UINT64_C(1000000000);
}

/* The child ends, and what it wrote is in `made`. */
static bool http_end_child(struct http_connection *c)
{
    int status = 1;

    if (c->child > 0) {
        (void)kill(c->child, SIGKILL);
        (void)waitpid(c->child, &status, 0);
    }
    if (c->pipe >= 0)
        close(c->pipe);
    if (c->to && fclose(c->to) != 0)
        status = 1;
    c->child = 0;
    c->pipe = -1;
    c->to = NULL;
    return status == 0;
}

static void http_end(struct http_connection *c)
{
    bool suspended = c->state == HTTP_WAITS || c->state == HTTP_MAKES;

    if (c->state == HTTP_FREE || c->state == HTTP_ENDS)
        return;
    (void)http_end_child(c);
    shutdown(c->fd, SHUT_RDWR);
    c->state = HTTP_ENDS;
    if (suspended)
        MHD_resume_connection(c->request.connection);
}

/* ---- addresses and names ------------------------------------------------------------------------ */

/* Every address as one of IPv6. */
static void http_address(const struct sockaddr_storage *from, unsigned char to[16])
{
    memset(to, 0, 16);
    if (from->ss_family == AF_INET) {
        memset(to + 10, 0xff, 2);
        memcpy(to + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        memcpy(to, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
    }
}

static bool http_parse_address(const char *text, unsigned char to[16])
{
    memset(to, 0, 16);
    memset(to + 10, 0xff, 2);
    return inet_pton(AF_INET, text, to + 12) == 1 || inet_pton(AF_INET6, text, to) == 1;
}

static bool http_is_loopback(const unsigned char address[16])
{
    static const unsigned char mapped[13] = {[10] = 0xff, 0xff, 127};
    static const unsigned char own[16] = {[15] = 1};

    return memcmp(address, mapped, sizeof(mapped)) == 0 || memcmp(address, own, sizeof(own)) == 0;
}

/* A page of another site whose name was made to mean this host sends that name (DNS rebinding): it gets nothing. */
static bool http_is_us(const struct http_server *server, const struct http_connection *c)
{
    unsigned char address[16];
    const char *text = c->request.host;
    char host[256];
    size_t n;

    if (!text)
        return true;
    n = *text == '[' ? strcspn(text, "]") : strcspn(text, ":");
    if (*text == '[') {
        if (text[n] != ']' || (text[n + 1] && text[n + 1] != ':'))
            return false;
        text++;
        n--;
    }
    if (n == 0 || n >= sizeof(host))
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    for (unsigned i = 0; i < server->names; i++)
        if (strcasecmp(host, server->name[i]) == 0)
            return true;
    return strcasecmp(host, "localhost") == 0 ||
           (http_parse_address(host, address) &&
            (http_is_loopback(address) || memcmp(address, c->local, sizeof(address)) == 0));
}

/* ---- answers ------------------------------------------------------------------------------------ */

static const char *http_refusal(unsigned status)
{
    switch (status) {
    case 403:
        return "Host is another name: stook export answers to loopback names, to the address that it is reached by, "
               "and to the names of --host\n";
    case 405:
        return "GET and HEAD only\n";
    case 500:
    case 504:
        return "the process could not be read in time, or not at all\n";
    default:
        return "this is no request that stook export can answer\n";
    }
}

/* An answer's body; NULL: no memory. */
static char *http_make(const struct http_server *server, const struct http_request *request,
                       struct http_answer *answer, size_t *size)
{
    char *body = NULL;
    FILE *to = open_memstream(&body, size);
    uint64_t begin = raw_clock();

    *answer = (struct http_answer){200, "text/html; charset=utf-8", ""};
    if (!to)
        return NULL;
    server->answer(request, answer, to, server->arg);
    /* No connection is late for what the server did meanwhile. */
    for (struct http_connection *c = http_table; c < http_table + HTTP_TABLE; c++)
        c->until += raw_clock() - begin;
    if (fclose(to) == 0)
        return body;
    free(body);
    return NULL;
}

static enum MHD_Result http_queue(struct http_connection *c, const struct http_answer *answer,
                                  size_t size, void *body, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(size, body, mode);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (answer->file[0])
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, answer->file);
    if (answer->status == 405)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (c->state != HTTP_ENDS)
        http_enter(c, HTTP_SENDS);
    result = MHD_queue_response(c->request.connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result http_refuse(struct http_connection *c, unsigned status)
{
    struct http_answer answer = {status, "text/plain; charset=utf-8", ""};
    const char *text = http_refusal(status);

    return http_queue(c, &answer, strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
}

/* What a child made. */
static enum MHD_Result http_queue_made(struct http_connection *c)
{
    struct http_answer answer;

    if (c->status)
        return http_refuse(c, c->status);
    memcpy(&answer, c->made, sizeof(answer));
    answer.type[sizeof(answer.type) - 1] = answer.file[sizeof(answer.file) - 1] = '\0';
    return http_queue(c, &answer, c->size - sizeof(answer), c->made + sizeof(answer),
                      MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result http_header(void *arg, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    struct http_request *request = arg;
    unsigned i = 0;

    (void)kind;
    if (strcasecmp(key, "Host") == 0 && request->host)
        request->path = NULL; /* two names */
    else if (strcasecmp(key, "Host") == 0)
        request->host = value ? value : "";
    else if (strcasecmp(key, "Accept") == 0 && value)
        for (; i < HTTP_ACCEPTS; i++)
            if (!request->accept[i]) {
                request->accept[i] = value;
                break;
            }
    return MHD_YES;
}

static struct http_connection *http_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* libmicrohttpd has read a request's head, or continues one that waited for a child. */
static enum MHD_Result http_answer_to(void *arg, struct MHD_Connection *connection,
                                      const char *path, const char *method, const char *version,
                                      const char *upload, size_t *upload_size, void **own)
{
    const struct http_server *server = arg;
    struct http_connection *c = http_of(connection);
    struct http_answer answer;
    size_t size;
    char *body;

    (void)upload, (void)upload_size, (void)own;
    if (!c)
        return MHD_NO;
    if (c->made || c->status)
        return http_queue_made(c);
    if (c->state != HTTP_READS)
        return MHD_NO;
    c->request =
        (struct http_request){.connection = connection, .path = path, .came = c->request.came};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, http_header, &c->request);
    if (!c->request.path || *path != '/' ||
        (!c->request.host && strcmp(version, MHD_HTTP_VERSION_1_0) != 0))
        return http_refuse(c, 400);
    if (!http_is_us(server, c))
        return http_refuse(c, 403);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_refuse(c, 405);
    if (server->apart(&c->request)) {
        http_enter(c, HTTP_WAITS);
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    body = http_make(server, &c->request, &answer, &size);
    return body ? http_queue(c, &answer, size, body, MHD_RESPMEM_MUST_FREE) : http_refuse(c, 500);
}

/* ---- children ----------------------------------------------------------------------------------- */

static _Noreturn void http_child(const struct http_server *server, const struct http_connection *c,
                                 int to)
{
    struct http_answer answer;
    size_t size;
    char *body;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(server->listener);
    for (unsigned i = 0; i < HTTP_TABLE; i++) /* a connection ends when the server ends it */
        if (http_table[i].state != HTTP_FREE)
            close(http_table[i].fd);
    body = http_make(server, &c->request, &answer, &size);
    _exit(body && apart_write(to, &answer, sizeof(answer)) && apart_write(to, body, size) ? 0 : 1);
}

/* The connection has its answer, or the status instead of one. */
static void http_made(struct http_connection *c, unsigned status)
{
    c->status = status;
    http_enter(c, HTTP_SENDS);
    MHD_resume_connection(c->request.connection);
}

static void http_start(const struct http_server *server, struct http_connection *c)
{
    int ends[2];

    if (pipe(ends) != 0) {
        http_made(c, 500);
        return;
    }
    c->to = open_memstream(&c->made, &c->size);
    c->child = c->to ? fork() : -1;
    if (c->child == 0)
        http_child(server, c, ends[1]);
    close(ends[1]);
    c->pipe = ends[0];
    http_enter(c, HTTP_MAKES);
    if (c->child < 0) {
        (void)http_end_child(c);
        http_made(c, 500);
    }
}

/* The child has written something, or has ended. */
static void http_take(struct http_connection *c)
{
    char part[65536];
    ssize_t n = read(c->pipe, part, sizeof(part));
    int status = 1;

    if (n > 0 && fwrite(part, 1, (size_t)n, c->to) == (size_t)n && ftell(c->to) <= HTTP_MOST)
        return;
    if (n == 0) /* it closed the pipe, so it ends at once */
        c->child = waitpid(c->child, &status, 0) == c->child ? 0 : c->child;
    (void)http_end_child(c);
    http_made(c, status == 0 && c->size >= sizeof(struct http_answer) ? 0 : 500);
}

/* ---- connections -------------------------------------------------------------------------------- */

/* The oldest connection that is not ended, of an address or (NULL) of all, or NULL; and how many these are. */
static struct http_connection *http_oldest(const unsigned char *peer, unsigned *count)
{
    struct http_connection *oldest = NULL;

    *count = 0;
    for (struct http_connection *c = http_table; c < http_table + HTTP_TABLE; c++) {
        if (c->state == HTTP_FREE || c->state == HTTP_ENDS ||
            (peer && memcmp(c->peer, peer, sizeof(c->peer)) != 0))
            continue;
        (*count)++;
        if (!oldest || c->request.came < oldest->request.came)
            oldest = c;
    }
    return oldest;
}

static struct http_connection *http_place(const unsigned char peer[16])
{
    unsigned same, all;
    struct http_connection *own = http_oldest(peer, &same), *any = http_oldest(NULL, &all);

    if (same >= HTTP_EACH)
        http_end(own);
    else if (all >= HTTP_CONNECTIONS)
        http_end(any);
    for (struct http_connection *c = http_table; c < http_table + HTTP_TABLE; c++)
        if (c->state == HTTP_FREE)
            return c;
    return NULL;
}

/* libmicrohttpd has taken a connection, or closes it. */
static void http_notify(void *arg, struct MHD_Connection *connection, void **own,
                        enum MHD_ConnectionNotificationCode what)
{
    struct http_connection *c = *own;

    (void)arg;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        for (c = http_table; c < http_table + HTTP_TABLE; c++)
            if (c->state != HTTP_FREE && c->fd == fd)
                *own = c;
    } else if (c) {
        (void)http_end_child(c);
        free(c->made);
        c->state = HTTP_FREE;
    }
}

static bool http_accept(const struct http_server *server, struct MHD_Daemon *daemon)
{
    struct sockaddr_storage peer = {0}, local = {0};
    socklen_t size = sizeof(peer), local_size = sizeof(local);
    int fd =
        accept4(server->listener, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct http_connection *c;
    unsigned char address[16];
    unsigned count;

    if (fd < 0) {
        if ((errno == EMFILE || errno == ENFILE) && (c = http_oldest(NULL, &count)) != NULL)
            http_end(c); /* the next try finds room */
        return false;
    }
    http_address(&peer, address);
    c = http_place(address);
    if (!c) {
        close(fd);
        return false;
    }
    *c = (struct http_connection){.fd = fd, .pipe = -1, .request.came = raw_clock()};
    memcpy(c->peer, address, sizeof(address));
    (void)getsockname(fd, (struct sockaddr *)&local, &local_size);
    http_address(&local, c->local);
    http_enter(c, HTTP_READS);
    if (MHD_add_connection(daemon, fd, (struct sockaddr *)&peer, size) != MHD_YES)
        c->state = HTTP_FREE; /* it is closed */
    return true;
}

/* Ends, or answers, what is at its deadline, and starts children for those that wait longest. */
static void http_tend(const struct http_server *server)
{
    struct http_connection *first = NULL;
    uint64_t now = raw_clock();
    unsigned children = 0;

    for (struct http_connection *c = http_table; c < http_table + HTTP_TABLE; c++) {
        if (c->state == HTTP_MAKES && now >= c->until) {
            (void)http_end_child(c);
            http_made(c, 504);
        } else if (now >= c->until) {
            http_end(c);
        }
        children += c->state == HTTP_MAKES;
        if (c->state == HTTP_WAITS && (!first || c->request.came < first->request.came))
            first = c;
    }
    if (first && children < HTTP_CHILDREN)
        http_start(server, first);
}

/* Sleeps until something is ready or due. */
static int http_poll(struct MHD_Daemon *daemon, struct pollfd *polls)
{
    uint64_t now = raw_clock(), first = now + UINT64_C(60000000000);
    unsigned children = 0, waits = 0;
    MHD_UNSIGNED_LONG_LONG due;

    for (unsigned i = 0; i < HTTP_TABLE; i++) {
        const struct http_connection *c = &http_table[i];
        polls[i] = (struct pollfd){c->state == HTTP_MAKES ? c->pipe : -1, POLLIN, 0};
        if (c->state != HTTP_FREE && c->state != HTTP_ENDS && c->until < first)
            first = c->until;
        children += c->state == HTTP_MAKES;
        waits += c->state == HTTP_WAITS;
    }
    if (waits > 0 && children < HTTP_CHILDREN)
        first = now;
    if (MHD_get_timeout(daemon, &due) == MHD_YES && now + due * 1000000 < first)
        first = now + due * 1000000;
    return poll(polls, HTTP_TABLE + 3, first > now ? (int)((first - now) / 1000000 + 1) : 0);
}

static void http_loop(const struct http_server *server, struct MHD_Daemon *daemon, int signals)
{
    static struct pollfd polls[HTTP_TABLE + 3];
    struct pollfd *more = polls + HTTP_TABLE;

    more[0] = (struct pollfd){signals, POLLIN, 0};
    more[1] = (struct pollfd){server->listener, POLLIN, 0};
    more[2] =
        (struct pollfd){MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, POLLIN, 0};
    for (;;) {
        int ready = http_poll(daemon, polls);
        if (ready > 0 && more[0].revents)
            break;
        for (unsigned i = 0; ready > 0 && i < HTTP_TABLE; i++)
            if (polls[i].revents && http_table[i].state == HTTP_MAKES)
                http_take(&http_table[i]);
        http_tend(server);
        MHD_run(daemon);
        for (unsigned i = 0; ready > 0 && more[1].revents && i < HTTP_BATCH; i++)
            if (!http_accept(server, daemon))
                break;
    }
    for (unsigned i = 0; i < HTTP_TABLE; i++)
        http_end(&http_table[i]); /* a suspended connection must not be when the daemon ends */
}

bool http_serves(void)
{
    return true;
}

bool http_serve(const struct http_server *server)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        http_answer_to, (void *)(uintptr_t)server, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_TABLE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD,
        MHD_OPTION_NOTIFY_CONNECTION, http_notify, NULL, MHD_OPTION_END);
    sigset_t ends;
    int signals;

    if (!daemon)
        return false;
    (void)signal(SIGCHLD, SIG_DFL); /* a child's number is its own until it was waited for */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signals = signalfd(-1, &ends, SFD_CLOEXEC);
    http_loop(server, daemon, signals);
    MHD_run(daemon);
    MHD_stop_daemon(daemon);
    close(signals);
    return true;
}
#endif
