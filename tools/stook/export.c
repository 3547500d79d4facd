/* SPDX-License-Identifier: MIT */
/*
 * export.c - stook export: one process a host that serves what export/ reads, over HTTP.
 *
 * It answers GET and HEAD, changes nothing, and reads nothing that a client says but the path, the number of a process,
 * Host and Accept.
 */
#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include "export/fleet.h"
#include "export/http.h"

#include "base/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct export
{
    struct fleet fleet;
    uint64_t read; /* when the last reading began: raw_clock() */
    struct http_server server;
    struct sockaddr_storage address;
    socklen_t address_size;
    char listen[256]; /* as it was given */
};

/* Numbers only: names could mean more than one address. */
static const char *export_address(const char *text, void *to)
{
    static const char expected[] = "ADDR:PORT, [ADDR]:PORT or PORT is expected, in numbers";
    struct export *export = to;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE},
                    *found;
    char host[128] = "127.0.0.1", *begin = host;
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    uint64_t number;

    if (!option_number(port, 0, 0, 65535, &number) || n >= sizeof(host))
        return expected;
    if (colon) {
        memcpy(host, text, n);
        host[n] = '\0';
        if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
            host[n - 1] = '\0';
            begin = host + 1;
        } else if (n == 0 || strchr(host, ':')) {
            return expected;
        }
    }
    if (getaddrinfo(begin, port, &hints, &found) != 0)
        return expected;
    memcpy(&export->address, found->ai_addr, found->ai_addrlen);
    export->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    snprintf(export->listen, sizeof(export->listen), "%s", text);
    return NULL;
}

/* A name that clients may use for this exporter. */
static const char *export_host(const char *text, void *to)
{
    struct http_server *server = to;
    struct in6_addr address;

    if (!*text || strlen(text) > 255 || server->names == HTTP_NAMES ||
        (strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_") !=
             strlen(text) &&
         inet_pton(AF_INET6, text, &address) != 1))
        return "a name without a port is expected, 16 at most";
    server->name[server->names++] = text;
    return NULL;
}

static const char *export_pid(const char *text, void *to)
{
    struct fleet *fleet = to;

    if (fleet->pids == FLEET_PIDS || !look_pid(text, &fleet->pid[fleet->pids]))
        return "a process number is expected, 64 at most";
    fleet->pids++;
    return NULL;
}

static int export_parse(int argc, char **argv, struct export *export)
{
    enum { MOST = 100000 };
    struct fleet *fleet = &export->fleet;
    bool no_names = false;
    const struct option_row rows[] = {
        {"listen", OPTION_CALL, export, .read = export_address},
        {"host", OPTION_CALL, &export->server, .read = export_host},
        {"pid", OPTION_CALL, fleet, .read = export_pid},
        {"max-processes", OPTION_UNSIGNED, &fleet->processes_most, 0, .most = MOST},
        {"max-caches", OPTION_UNSIGNED, &fleet->caches_most, 0, .most = MOST},
        {"max-groups", OPTION_UNSIGNED, &fleet->groups_most, 0, .most = MOST},
        {"no-group-names", OPTION_FLAG, .to = &no_names},
    };
    int status;

    *fleet = (struct fleet){.processes_most = 50, .caches_most = 100, .groups_most = 100};
    (void)export_address("127.0.0.1:9464", export);
    if ((status = option_take("export", rows, argc, argv)) != STATUS_OK)
        return status;
    fleet->group_names = !no_names;
    return optind == argc ? STATUS_OK : complain(STATUS_USAGE, "export takes no arguments");
}

static const char export_index[] =
    "<!DOCTYPE html><title>stook export</title>\n"
    "<p><a href=\"/metrics\">/metrics</a>: this host's processes on Stook, as text for Prometheus, or as OpenMetrics\n"
    "<p>/debug/pprof/heap?pid=NUMBER: what one of them has in use, as a pprof profile; by=site: by call site\n"
    "<p><a href=\"/targets\">/targets</a>: the processes, as targets for scrapers of profiles\n";

static void export_type(struct http_answer *answer, const char *type)
{
    (void)snprintf(answer->type, sizeof(answer->type), "%s", type);
}

static void export_say(struct http_answer *answer, FILE *to, unsigned status, const char *text)
{
    *answer = (struct http_answer){status, "text/plain; charset=utf-8", ""};
    fprintf(to, "%s\n", text);
}

/* Clients that connected before the last reading began share it. */
static void export_read(struct export *export, const struct http_request *request)
{
    if (request->came < export->read)
        return;
    export->read = raw_clock();
    fleet_read(&export->fleet);
}

/* The weights that an Accept header gives to OpenMetrics 1.0.0 and to text/plain, added to those of others. */
static void export_weigh(const char *accept, double *open, double *text)
{
    char copy[1024], *list = copy, *item;

    (void)snprintf(copy, sizeof(copy), "%s", accept);
    while ((item = strsep(&list, ",")) != NULL) {
        char *type = strsep(&item, ";"), *parameter;
        double weight = 1;
        bool known = true;
        type += strspn(type, " \t");
        type[strcspn(type, " \t")] = '\0';
        while ((parameter = strsep(&item, ";")) != NULL) {
            parameter += strspn(parameter, " \t");
            if (strncasecmp(parameter, "q=", 2) == 0)
                weight = strtod(parameter + 2, NULL);
            else if (strncasecmp(parameter, "version=", 8) == 0)
                known = strncmp(parameter + 8, "1.0.0", 5) == 0;
        }
        if (strcasecmp(type, "application/openmetrics-text") == 0 && known && weight > *open)
            *open = weight;
        else if (strcasecmp(type, "text/plain") == 0 && weight > *text)
            *text = weight;
    }
}

static void export_metrics(struct export *export, const struct http_request *request,
                           struct http_answer *answer, FILE *to)
{
    double open = 0, text = 0;

    for (unsigned i = 0; i < HTTP_ACCEPTS && request->accept[i]; i++)
        export_weigh(request->accept[i], &open, &text);
    export_type(answer, open > 0 && open >= text
                            ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                            : "text/plain; version=0.0.4; charset=utf-8");
    export_read(export, request);
    metrics_write(&export->fleet, open > 0 && open >= text, to);
}

/* The client's own name of this exporter is what it can reach it by. */
static void export_targets(struct export *export, const struct http_request *request,
                           struct http_answer *answer, FILE *to)
{
    if (!request->host) {
        export_say(answer, to, 400, "the request has no Host");
        return;
    }
    export_type(answer, "application/json");
    export_read(export, request);
    targets_write(&export->fleet, request->host, to);
}

static bool export_serves(const struct fleet *fleet, int pid)
{
    for (unsigned i = 0; i < fleet->pids; i++)
        if (fleet->pid[i] == pid)
            return true;
    return fleet->pids == 0;
}

static void export_profile(struct heap *heap, bool sites, struct http_answer *answer, FILE *to)
{
    enum heap_profile said = heap_profile(heap, sites, to);

    if (said == HEAP_PROFILE_NONE) {
        export_say(answer, to, 404,
                   "the process counts no call sites (STOOK_TAGS=1, STOOK_SAMPLE)");
        return;
    }
    export_type(answer, "application/octet-stream");
    (void)snprintf(answer->file, sizeof(answer->file), "attachment; filename=\"heap.pb.gz\"");
    if (said == HEAP_PROFILE_FAILED)
        answer->status = 500;
}

static void export_heap(struct export *export, const struct http_request *request,
                        struct http_answer *answer, FILE *to)
{
    struct target_error error = {.refused = false};
    int number = export->fleet.pids == 1 ? export->fleet.pid[0] : 0;
    struct heap *heap;
    const char *pid = http_query(request, "pid"), *by = http_query(request, "by");
    bool sites = by && strcmp(by, "site") == 0;

    if (pid ? !look_pid(pid, &number) : number == 0) {
        export_say(answer, to, 400, "say which process: ?pid=NUMBER");
        return;
    }
    if (by && !sites && strcmp(by, "cache") != 0) {
        export_say(answer, to, 400, "by=cache or by=site");
        return;
    }
    if (!export_serves(&export->fleet, number)) {
        export_say(answer, to, 403, "this exporter serves other processes (--pid)");
        return;
    }
    heap = number == getpid() ? NULL : heap_open(target_open_pid(number, &error), &error);
    if (!heap || !heap_read(heap, &error)) {
        export_say(answer, to, error.refused ? 403 : 404,
                   error.text[0] ? error.text : "the exporter does not show itself");
    } else {
        export_profile(heap, sites, answer, to);
    }
    heap_close(heap);
}

static bool export_is_heap(const struct http_request *request)
{
    return strcmp(request->path, "/debug/pprof/heap") == 0;
}

static void export_answer(const struct http_request *request, struct http_answer *answer, FILE *to,
                          void *arg)
{
    struct export *export = arg;

    if (export_is_heap(request))
        export_heap(export, request, answer, to);
    else if (strcmp(request->path, "/metrics") == 0)
        export_metrics(export, request, answer, to);
    else if (strcmp(request->path, "/targets") == 0)
        export_targets(export, request, answer, to);
    else if (strcmp(request->path, "/") == 0)
        fputs(export_index, to);
    else
        export_say(answer, to, 404, "there are /metrics, /targets and /debug/pprof/heap");
}

/* The socket, listening, and its address with the port that it got; -1 with errno. */
static int export_listen(struct export *export)
{
    int one = 1,
        fd = socket(export->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof(export->address);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&export->address, export->address_size) != 0 ||
        listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&export->address, &size) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool export_announce(const struct export *export)
{
    char host[128], port[16];

    if (getnameinfo((const struct sockaddr *)&export->address, export->address_size, host,
                    sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        printf(strchr(host, ':') ? "serving http://[%s]:%s/metrics\n"
                                 : "serving http://%s:%s/metrics\n",
               host, port);
    return fflush(stdout) == 0;
}

static int export_run(int argc, char **argv)
{
    static struct export export;
    int status = export_parse(argc, argv, &export);

    if (status != STATUS_OK)
        return status;
    if (!http_serves())
        return complain(STATUS_FAILED,
                        "this stook was built without libmicrohttpd, which export needs; stook "
                        "list --json and stook caches --json PID say the same");
    signal(SIGPIPE, SIG_IGN);
    export.server.listener = export_listen(&export);
    if (export.server.listener < 0)
        return complain(STATUS_FAILED, "cannot listen on %s: %s", export.listen, strerror(errno));
    export.server.answer = export_answer;
    export.server.apart = export_is_heap;
    export.server.arg = &export;
    if (export_announce(&export) &&
        !http_serve(&export.server)) /* without an output main() says so */
        status = complain(STATUS_FAILED, "the server cannot be started");
    close(export.server.listener);
    fleet_free(&export.fleet);
    return status;
}

static const char export_help[] =
    "usage: stook export [OPTIONS]\n"
    "\n"
    "Serves numbers of this host's processes on Stook over HTTP, until SIGINT or SIGTERM ends it.  Prometheus asks for\n"
    "/metrics, as text or as OpenMetrics.  Viewers of profiles ask for /debug/pprof/heap?pid=NUMBER, by cache or\n"
    "(&by=site) by call site.  Scrapers of profiles find the processes by /targets, as HTTP service discovery has them.\n"
    "Processes that the kernel does not let this user look into are counted.\n"
    "\n"
    "  --listen ADDR:PORT   default 127.0.0.1:9464; [ADDR]:PORT for IPv6; port 0: any, which is printed\n"
    "  --host NAME          a name that clients may call this exporter by in Host, beside loopback names and the address\n"
    "                       that they reach; up to 16 times\n"
    "  --pid NUMBER         only this process; may be given up to 64 times\n"
    "  --max-processes N    processes with rows of their own, default 50; the rest are summed up as \"other\"\n"
    "  --max-caches N       caches of a process, default 100, so\n"
    "  --max-groups N       groups of a process, default 100, so\n"
    "  --no-group-names     groups by their numbers only\n" HELP_END(
        "export --listen 127.0.0.1:9464");

const struct command command_export = {"export", "this host's processes for Prometheus, over HTTP",
                                       export_help, export_run};
