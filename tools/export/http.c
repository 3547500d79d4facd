/* SPDX-License-Identifier: MIT */
#include "export/http.h"

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
#include <time.h>
#include <unistd.h>

enum {
    HTTP_CONNECTIONS = 128,
    HTTP_EACH = HTTP_CONNECTIONS / 2, /* of one address */
    HTTP_BATCH = 16,  /* accepted between two looks at requests; far below HTTP_EACH */
    HTTP_HEAD = 8192, /* bytes of a request at most */
    HTTP_CHILDREN = 4,
    HTTP_MOST = 1 << 28, /* bytes of an answer that a child makes */
};

enum http_state {
    HTTP_FREE,
    HTTP_READS,
    HTTP_WAITS, /* for a child */
    HTTP_MADE,  /* by a child */
    HTTP_SENDS,
    HTTP_DRAINS, /* answered: what the client still sends is dropped, since a reset could overtake the answer */
    HTTP_STATES
};
/* Seconds that a connection may be in a state. */
static const unsigned http_seconds[HTTP_STATES] = {
    [HTTP_READS] = 3, [HTTP_WAITS] = 30, [HTTP_MADE] = 10, [HTTP_SENDS] = 10, [HTTP_DRAINS] = 1};

struct http_connection {
    enum http_state state;
    int fd, pipe; /* -1: none */
    pid_t child;
    uint64_t until;
    unsigned char peer[16], local[16];
    size_t used;
    char in[HTTP_HEAD + 1];
    char *out;
    size_t size, sent;
    struct http_request request;
};

static struct http_connection http_table[HTTP_CONNECTIONS];

uint64_t http_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void http_enter(struct http_connection *c, enum http_state state)
{
    c->state = state;
    c->until = http_now() + http_seconds[state] * UINT64_C(1000000000);
}

static void http_end_child(struct http_connection *c)
{
    if (c->child > 0) {
        (void)kill(c->child, SIGKILL);
        (void)waitpid(c->child, NULL, 0);
    }
    if (c->pipe >= 0)
        close(c->pipe);
    c->child = 0;
    c->pipe = -1;
}

static void http_drop(struct http_connection *c)
{
    if (c->state == HTTP_FREE)
        return;
    http_end_child(c);
    close(c->fd);
    free(c->out);
    c->out = NULL;
    c->state = HTTP_FREE;
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

/* ---- requests ----------------------------------------------------------------------------------- */

/* The next line of *at without its end, cut off; NULL: there is none. */
static char *http_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *at = end + 1;
    if (end > line && end[-1] == '\r')
        end--;
    *end = '\0';
    return line;
}

static bool http_parse_headers(struct http_request *request, char *at)
{
    unsigned accepts = 0;
    char *line;

    while ((line = http_line(&at)) && *line) {
        size_t n = strcspn(line, " \t:");
        char *value = line + n + 1, *end;
        if (n == 0 || line[n] != ':')
            return false;
        value += strspn(value, " \t");
        for (end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
            *--end = '\0';
        line[n] = '\0';
        if (strcasecmp(line, "Host") == 0) {
            if (request->host)
                return false;
            request->host = value;
        } else if (strcasecmp(line, "Accept") == 0 && accepts < HTTP_ACCEPTS) {
            request->accept[accepts++] = value;
        }
    }
    return line != NULL;
}

/* Of what was read, which ends with an empty line: a status if it is wrong, or 0. */
static unsigned http_parse(struct http_connection *c)
{
    struct http_request *request = &c->request;
    char *at = c->in + strspn(c->in, "\r\n"), *line = http_line(&at), *method, *path, *query;

    method = line ? strsep(&line, " ") : NULL;
    path = line ? strsep(&line, " ") : NULL;
    if (!path || !line || *path != '/' || strlen(line) != 8 || strncmp(line, "HTTP/1.", 7) != 0)
        return 400;
    query = strchr(path, '?');
    if (query)
        *query++ = '\0';
    request->method = method;
    request->path = path;
    request->query = query ? query : "";
    if (!http_parse_headers(request, at) || (!request->host && line[7] != '0'))
        return 400;
    return 0;
}

const char *http_query(const char *query, const char *key, int *size)
{
    size_t n = strlen(key);

    for (; *query; query += strcspn(query, "&"), query += *query == '&')
        if (strncmp(query, key, n) == 0 && query[n] == '=') {
            *size = (int)strcspn(query + n + 1, "&");
            return query + n + 1;
        }
    return NULL;
}

/* ---- answers ------------------------------------------------------------------------------------ */

static const char *http_reason(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 431:
        return "Request Header Fields Too Large";
    case 504:
        return "Gateway Timeout";
    default:
        return "Internal Server Error";
    }
}

static void http_say(struct http_answer *answer, FILE *to, unsigned status, const char *text)
{
    *answer = (struct http_answer){status, "text/plain; charset=utf-8", NULL};
    fprintf(to, "%s\n", text);
}

static void http_refuse(struct http_answer *answer, FILE *to, unsigned status)
{
    http_say(answer, to, status,
             status == 403 ? "Host is another name: stook export answers to loopback names, to the "
                             "address that it is reached by, and to the names of --host"
             : status == 405 ? "GET and HEAD only"
             : status >= 500 ? "the process could not be read in time, or not at all"
                             : "this is no request that stook export knows");
}

/* The whole answer, head and body; size 0: no memory.  status: what is wrong with the request, or 0. */
static char *http_message(const struct http_server *server, const struct http_request *request,
                          unsigned status, size_t *size)
{
    struct http_answer answer = {200, "text/html; charset=utf-8", NULL};
    char *body = NULL, *text = NULL, date[64];
    size_t n = 0;
    FILE *to = open_memstream(&body, &n);
    time_t now = time(NULL);
    struct tm tm;

    *size = 0;
    if (!to)
        return NULL;
    if (status)
        http_refuse(&answer, to, status);
    else
        server->answer(request, &answer, to, server->arg);
    if (fclose(to) == 0 && (to = open_memstream(&text, size)) != NULL) {
        (void)strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
        fprintf(
            to,
            "HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Connection: close\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
            answer.status, http_reason(answer.status), date, answer.type, n);
        if (answer.file)
            fprintf(to, "Content-Disposition: %s\r\n", answer.file);
        fputs(answer.status == 405 ? "Allow: GET, HEAD\r\n\r\n" : "\r\n", to);
        if (!request->method || strcmp(request->method, "HEAD") != 0)
            fwrite(body, 1, n, to);
        if (fclose(to) != 0)
            *size = 0;
    }
    free(body);
    return text;
}

static void http_send(const struct http_server *server, struct http_connection *c, unsigned status)
{
    uint64_t begin = http_now();

    free(c->out);
    c->sent = 0;
    c->out = http_message(server, &c->request, status, &c->size);
    /* Nobody is late for what the server did meanwhile. */
    for (struct http_connection *other = http_table; other < http_table + HTTP_CONNECTIONS; other++)
        other->until += http_now() - begin;
    http_enter(c, HTTP_SENDS);
    if (c->size == 0)
        http_drop(c);
}

/* The answer in a child: its size, and then the answer, come by a pipe. */
static void http_start(const struct http_server *server, struct http_connection *c)
{
    int ends[2];
    size_t size;

    if (pipe(ends) != 0) {
        http_drop(c);
        return;
    }
    c->child = fork();
    if (c->child == 0) {
        char *text, *at;
        ssize_t n;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(server->listener);
        for (unsigned i = 0; i < HTTP_CONNECTIONS;
             i++) /* a connection ends when the server drops it */
            if (http_table[i].state != HTTP_FREE)
                close(http_table[i].fd);
        text = at = http_message(server, &c->request, 0, &size);
        if (write(ends[1], &size, sizeof(size)) == (ssize_t)sizeof(size))
            for (; size > 0 && (n = write(ends[1], at, size)) > 0; size -= (size_t)n)
                at += n;
        free(text);
        _exit(0);
    }
    close(ends[1]);
    c->pipe = ends[0];
    c->sent = c->size = 0;
    http_enter(c, HTTP_MADE);
    if (c->child < 0)
        http_drop(c);
}

/* The child has written something, or has ended.  `sent` is what came so far, its size in front included. */
static void http_take(const struct http_server *server, struct http_connection *c)
{
    size_t head = sizeof(c->size),
           room = c->sent < head ? head - c->sent : c->size - (c->sent - head);
    char *to = c->sent < head ? (char *)&c->size + c->sent : c->out + (c->sent - head);
    ssize_t n = read(c->pipe, to, room);

    if (n <= 0) {
        http_end_child(c);
        http_send(server, c, 500);
        return;
    }
    c->sent += (size_t)n;
    if (c->sent == head && (c->size == 0 || c->size > HTTP_MOST || !(c->out = malloc(c->size)))) {
        http_drop(c);
    } else if (c->sent == head + c->size) {
        http_end_child(c);
        c->sent = 0;
        http_enter(c, HTTP_SENDS);
    }
}

/* ---- connections -------------------------------------------------------------------------------- */

static void http_read(const struct http_server *server, struct http_connection *c)
{
    ssize_t n = recv(c->fd, c->in + c->used, HTTP_HEAD - c->used, 0);
    unsigned status = 0;

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            http_drop(c);
        return;
    }
    c->used += (size_t)n;
    c->in[c->used] = '\0';
    if (strlen(c->in) != c->used)
        status = 400;
    else if (!strstr(c->in, "\r\n\r\n") && !strstr(c->in, "\n\n")) {
        if (c->used < HTTP_HEAD)
            return;
        status = 431;
    } else
        status = http_parse(c);
    if (status == 0 && !http_is_us(server, c))
        status = 403;
    if (status == 0 && strcmp(c->request.method, "GET") != 0 &&
        strcmp(c->request.method, "HEAD") != 0)
        status = 405;
    if (status == 0 && server->apart(&c->request))
        http_enter(c, HTTP_WAITS);
    else
        http_send(server, c, status);
}

static void http_write(struct http_connection *c)
{
    ssize_t n = send(c->fd, c->out + c->sent, c->size - c->sent, MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->sent += n > 0 ? (size_t)n : 0;
    if (n < 0 || (c->sent == c->size && shutdown(c->fd, SHUT_WR) != 0))
        http_drop(c);
    else if (c->sent == c->size)
        http_enter(c, HTTP_DRAINS);
}

static void http_drain(struct http_connection *c)
{
    ssize_t n = recv(c->fd, c->in, HTTP_HEAD, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        http_drop(c);
}

/* The oldest connection, of an address or (NULL) of all, and how many these are; without one, a free place. */
static struct http_connection *http_oldest(const unsigned char *peer, unsigned *count)
{
    struct http_connection *oldest = &http_table[0];

    *count = 0;
    for (struct http_connection *c = http_table; c < http_table + HTTP_CONNECTIONS; c++) {
        if (c->state == HTTP_FREE || (peer && memcmp(c->peer, peer, sizeof(c->peer)) != 0))
            continue;
        if ((*count)++ == 0 || c->request.came < oldest->request.came)
            oldest = c;
    }
    return oldest;
}

static struct http_connection *http_place(const unsigned char peer[16])
{
    unsigned same, all;
    struct http_connection *own = http_oldest(peer, &same), *c = http_oldest(NULL, &all);

    if (same >= HTTP_EACH)
        c = own;
    else if (all < HTTP_CONNECTIONS)
        for (c = http_table; c->state != HTTP_FREE;)
            c++;
    http_drop(c);
    return c;
}

static bool http_accept(const struct http_server *server)
{
    struct sockaddr_storage peer = {0}, local = {0};
    socklen_t size = sizeof(peer);
    int fd =
        accept4(server->listener, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct http_connection *c;
    unsigned char address[16];
    unsigned count;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) /* the next try finds room */
            http_drop(http_oldest(NULL, &count));
        return false;
    }
    http_address(&peer, address);
    c = http_place(address);
    c->fd = fd;
    c->pipe = -1;
    c->used = 0;
    c->request = (struct http_request){.came = http_now()};
    memcpy(c->peer, address, sizeof(address));
    size = sizeof(local);
    (void)getsockname(fd, (struct sockaddr *)&local, &size);
    http_address(&local, c->local);
    http_enter(c, HTTP_READS);
    return true;
}

static void http_act(const struct http_server *server, struct http_connection *c, short socket,
                     short pipe)
{
    if (c->state == HTTP_MADE && pipe)
        http_take(server, c);
    else if (c->state == HTTP_READS && socket)
        http_read(server, c);
    else if ((c->state == HTTP_WAITS || c->state == HTTP_MADE) && (socket & (POLLHUP | POLLERR)))
        http_drop(c);
    else if (c->state == HTTP_DRAINS && socket)
        http_drain(c);
    if (c->state == HTTP_SENDS)
        http_write(c);
}

/* Drops, or answers, what is at its deadline, and starts children for those that wait longest. */
static void http_tend(const struct http_server *server)
{
    struct http_connection *first = NULL;
    uint64_t now = http_now();
    unsigned children = 0;

    for (struct http_connection *c = http_table; c < http_table + HTTP_CONNECTIONS; c++) {
        if (c->state == HTTP_MADE && now >= c->until) {
            http_end_child(c);
            http_send(server, c, 504);
        } else if (c->state != HTTP_FREE && now >= c->until) {
            http_drop(c);
        }
        children += c->state == HTTP_MADE;
        if (c->state == HTTP_WAITS && (!first || c->request.came < first->request.came))
            first = c;
    }
    if (first && children < HTTP_CHILDREN)
        http_start(server, first);
}

static int http_poll(const struct http_server *server, int signals, struct pollfd *polls)
{
    uint64_t now = http_now(), first = now + UINT64_C(60000000000);
    unsigned children = 0;
    bool waits = false;

    polls[0] = (struct pollfd){signals, POLLIN, 0};
    polls[1] = (struct pollfd){server->listener, POLLIN, 0};
    for (unsigned i = 0; i < HTTP_CONNECTIONS; i++) {
        const struct http_connection *c = &http_table[i];
        bool used = c->state != HTTP_FREE;
        polls[2 + 2 * i] =
            (struct pollfd){used ? c->fd : -1,
                            c->state == HTTP_SENDS                              ? POLLOUT
                            : c->state == HTTP_READS || c->state == HTTP_DRAINS ? POLLIN
                                                                                : 0,
                            0};
        polls[3 + 2 * i] = (struct pollfd){used ? c->pipe : -1, POLLIN, 0};
        if (used && c->until < first)
            first = c->until;
        children += c->state == HTTP_MADE;
        waits |= c->state == HTTP_WAITS;
    }
    if (waits && children < HTTP_CHILDREN)
        return poll(polls, 2 + 2 * HTTP_CONNECTIONS, 0);
    return poll(polls, 2 + 2 * HTTP_CONNECTIONS,
                first > now ? (int)((first - now) / 1000000 + 1) : 0);
}

void http_serve(const struct http_server *server)
{
    static struct pollfd polls[2 + 2 * HTTP_CONNECTIONS];
    sigset_t ends;
    int signals;

    (void)signal(SIGCHLD, SIG_DFL); /* a child's number is its own until it was waited for */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signals = signalfd(-1, &ends, SFD_CLOEXEC);
    for (;;) {
        int ready = http_poll(server, signals, polls);
        if (ready > 0 && polls[0].revents)
            break;
        for (unsigned i = 0; ready > 0 && i < HTTP_CONNECTIONS; i++)
            http_act(server, &http_table[i], polls[2 + 2 * i].revents, polls[3 + 2 * i].revents);
        http_tend(server);
        for (unsigned i = 0; ready > 0 && polls[1].revents && i < HTTP_BATCH; i++)
            if (!http_accept(server))
                break;
    }
    for (unsigned i = 0; i < HTTP_CONNECTIONS; i++)
        http_drop(&http_table[i]);
    close(signals);
}
