/* SPDX-License-Identifier: MIT */
/*
 * export.c - stook export: one process a host that serves what export/ reads, over HTTP.
 *
 * One thread serves, one request at a time.  It answers GET and HEAD, changes nothing, and reads nothing that a
 * client says but the path, the number of a process and HTTP's own headers.
 */
#include "stook/command.h"

#include "export/fleet.h"

#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct export
{
    struct fleet fleet;
    struct sockaddr_storage address;
    socklen_t address_size;
    char listen[256]; /* as it was given */
};

/* ADDR:PORT, [ADDR]:PORT, PORT.  Numbers only: names could mean more than one address. */
static bool export_address(struct export *export, const char *text)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE},
                    *found;
    char host[128] = "127.0.0.1", *begin = host;
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *end;
    unsigned long number = strtoul(port, &end, 10);

    if (port[0] < '0' || port[0] > '9' || *end || number > 65535 || n >= sizeof(host))
        return false;
    if (colon) {
        memcpy(host, text, n);
        host[n] = '\0';
        if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
            host[n - 1] = '\0';
            begin = host + 1;
        } else if (n == 0 || strchr(host, ':')) {
            return false;
        }
    }
    if (getaddrinfo(begin, port, &hints, &found) != 0)
        return false;
    memcpy(&export->address, found->ai_addr, found->ai_addrlen);
    export->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    snprintf(export->listen, sizeof(export->listen), "%s", text);
    return true;
}

static bool export_number(const char *text, unsigned long least, unsigned long most,
                          unsigned *number)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || value < least || value > most)
        return false;
    *number = (unsigned)value;
    return true;
}

static int export_parse(int argc, char **argv, struct export *export)
{
    enum { LISTEN = 1, PID, PROCESSES, CACHES, GROUPS, NO_NAMES };
    static const struct option known[] = {{"listen", required_argument, NULL, LISTEN},
                                          {"pid", required_argument, NULL, PID},
                                          {"max-processes", required_argument, NULL, PROCESSES},
                                          {"max-caches", required_argument, NULL, CACHES},
                                          {"max-groups", required_argument, NULL, GROUPS},
                                          {"no-group-names", no_argument, NULL, NO_NAMES},
                                          {NULL, 0, NULL, 0}};
    struct fleet *fleet = &export->fleet;
    unsigned pid;
    bool good = true;
    int c;

    *fleet = (struct fleet){
        .processes_most = 50, .caches_most = 100, .groups_most = 100, .group_names = true};
    export_address(export, "127.0.0.1:9464");
    optind = 0;
    while (good && (c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case LISTEN:
            good = export_address(export, optarg);
            break;
        case PID:
            good = export_number(optarg, 1, INT32_MAX, &pid) && fleet->pids < FLEET_PIDS;
            if (good)
                fleet->pid[fleet->pids++] = (int)pid;
            break;
        case PROCESSES:
            good = export_number(optarg, 0, 100000, &fleet->processes_most);
            break;
        case CACHES:
            good = export_number(optarg, 0, 100000, &fleet->caches_most);
            break;
        case GROUPS:
            good = export_number(optarg, 0, 100000, &fleet->groups_most);
            break;
        case NO_NAMES:
            fleet->group_names = false;
            break;
        default:
            return complain(STATUS_USAGE, "see stook help export");
        }
    if (!good)
        return complain(STATUS_USAGE, "%s: see stook help export", optarg);
    return optind == argc ? STATUS_OK : complain(STATUS_USAGE, "export takes no arguments");
}

#ifndef STOOK_HAS_MICROHTTPD
static int export_run(int argc, char **argv)
{
    static struct export export;
    int status = export_parse(argc, argv, &export);

    return status != STATUS_OK
               ? status
               : complain(STATUS_FAILED,
                          "this stook was built without libmicrohttpd, which export needs; stook "
                          "list --json and stook caches --json PID say the same");
}
#else

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>

/* An answer is made in memory: nothing is half sent. */
struct answer {
    char *text;
    size_t size;
    unsigned status;
    const char *type, *file; /* file: its name for a browser, or NULL */
};

static const char export_index[] =
    "<!DOCTYPE html><title>stook export</title>\n"
    "<p><a href=\"/metrics\">/metrics</a>: this host's processes on Stook, as OpenMetrics\n"
    "<p>/debug/pprof/heap?pid=NUMBER: what one of them has in use, as a pprof profile; by=site: by call site\n"
    "<p><a href=\"/targets\">/targets</a>: the processes, as targets for scrapers of profiles\n";

static void export_say(struct answer *answer, FILE *to, unsigned status, const char *text)
{
    answer->status = status;
    answer->type = "text/plain; charset=utf-8";
    fprintf(to, "%s\n", text);
}

static void export_metrics(struct export *export, struct answer *answer, FILE *to)
{
    answer->type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    fleet_read(&export->fleet);
    metrics_write(&export->fleet, to);
}

/* The client's own name of this exporter is what it can reach it by; only hosts and ports are said back. */
static void export_targets(struct export *export, const char *host, struct answer *answer, FILE *to)
{
    if (!host ||
        strspn(host, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:-[]_") !=
            strlen(host)) {
        export_say(answer, to, MHD_HTTP_BAD_REQUEST, "the request has no Host");
        return;
    }
    answer->type = "application/json";
    fleet_read(&export->fleet);
    targets_write(&export->fleet, host, to);
}

static bool export_serves(const struct fleet *fleet, int pid)
{
    for (unsigned i = 0; i < fleet->pids; i++)
        if (fleet->pid[i] == pid)
            return true;
    return fleet->pids == 0;
}

static void export_profile(struct heap *heap, bool sites, struct answer *answer, FILE *to)
{
    enum heap_profile said = heap_profile(heap, sites, to);

    if (said == HEAP_PROFILE_NONE) {
        export_say(answer, to, MHD_HTTP_NOT_FOUND,
                   "the process counts no call sites (STOOK_TAGS=1, STOOK_SAMPLE)");
        return;
    }
    answer->type = "application/octet-stream";
    answer->file = "attachment; filename=\"heap.pb.gz\"";
    if (said == HEAP_PROFILE_FAILED)
        answer->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void export_heap(struct export *export, const char *pid, const char *by,
                        struct answer *answer, FILE *to)
{
    struct target_error error = {.refused = false};
    unsigned number = export->fleet.pids == 1 ? (unsigned)export->fleet.pid[0] : 0;
    struct heap *heap;

    if (pid ? !export_number(pid, 1, INT32_MAX, &number) : number == 0) {
        export_say(answer, to, MHD_HTTP_BAD_REQUEST, "say which process: ?pid=NUMBER");
        return;
    }
    if (by && strcmp(by, "site") != 0 && strcmp(by, "cache") != 0) {
        export_say(answer, to, MHD_HTTP_BAD_REQUEST, "by=cache or by=site");
        return;
    }
    if (!export_serves(&export->fleet, (int)number)) {
        export_say(answer, to, MHD_HTTP_FORBIDDEN, "this exporter serves other processes (--pid)");
        return;
    }
    heap = number == (unsigned)getpid() ? NULL
                                        : heap_open(target_open_pid((int)number, &error), &error);
    if (!heap || !heap_read(heap, &error)) {
        export_say(answer, to, error.refused ? MHD_HTTP_FORBIDDEN : MHD_HTTP_NOT_FOUND,
                   error.text[0] ? error.text : "the exporter does not show itself");
    } else {
        export_profile(heap, by && strcmp(by, "site") == 0, answer, to);
    }
    heap_close(heap);
}

static enum MHD_Result export_send(struct MHD_Connection *connection, struct answer *answer)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(answer->size, answer->text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (!response) {
        free(answer->text);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", answer->type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (answer->file)
        MHD_add_response_header(response, "Content-Disposition", answer->file);
    if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    result = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result export_answer(void *arg, struct MHD_Connection *connection, const char *path,
                                     const char *method, const char *version, const char *body,
                                     size_t *body_size, void **state)
{
    struct export *export = arg;
    struct answer answer = {.status = MHD_HTTP_OK, .type = "text/html; charset=utf-8"};
    FILE *to;

    (void)version, (void)body;
    if (!*state) { /* the headers: a body, if one follows, is dropped */
        *state = export;
        return MHD_YES;
    }
    if (*body_size > 0) {
        *body_size = 0;
        return MHD_YES;
    }
    to = open_memstream(&answer.text, &answer.size);
    if (!to)
        return MHD_NO;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        export_say(&answer, to, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only");
    else if (strcmp(path, "/metrics") == 0)
        export_metrics(export, &answer, to);
    else if (strcmp(path, "/debug/pprof/heap") == 0)
        export_heap(export, MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "pid"),
                    MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "by"), &answer,
                    to);
    else if (strcmp(path, "/targets") == 0)
        export_targets(export, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
                       &answer, to);
    else if (strcmp(path, "/") == 0)
        fputs(export_index, to);
    else
        export_say(&answer, to, MHD_HTTP_NOT_FOUND,
                   "there are /metrics, /targets and /debug/pprof/heap");
    if (fclose(to) != 0) {
        free(answer.text);
        return MHD_NO;
    }
    return export_send(connection, &answer);
}

/* The socket, listening, and its address with the port that it got; -1 with errno. */
static int export_listen(struct export *export)
{
    int one = 1, fd = socket(export->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(export->address);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&export->address, export->address_size) != 0 ||
        listen(fd, 64) != 0 || getsockname(fd, (struct sockaddr *)&export->address, &size) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void export_announce(const struct export *export)
{
    char host[128], port[16];

    if (getnameinfo((const struct sockaddr *)&export->address, export->address_size, host,
                    sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        printf(strchr(host, ':') ? "serving http://[%s]:%s/metrics\n"
                                 : "serving http://%s:%s/metrics\n",
               host, port);
    fflush(stdout);
}

static int export_run(int argc, char **argv)
{
    static struct export export;
    struct MHD_Daemon *server;
    int status = export_parse(argc, argv, &export), fd, signal_number;
    sigset_t ends;

    if (status != STATUS_OK)
        return status;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* in the server's thread too */
    fd = export_listen(&export);
    if (fd < 0)
        return complain(STATUS_FAILED, "cannot listen on %s: %s", export.listen, strerror(errno));
    server = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL,
                              export_answer, &export, MHD_OPTION_LISTEN_SOCKET, fd,
                              MHD_OPTION_CONNECTION_LIMIT, 32U, MHD_OPTION_CONNECTION_TIMEOUT, 30U,
                              MHD_OPTION_END);
    if (!server) {
        close(fd);
        return complain(STATUS_FAILED, "the server cannot be started");
    }
    export_announce(&export);
    sigwait(&ends, &signal_number);
    MHD_stop_daemon(server);
    fleet_free(&export.fleet);
    return STATUS_OK;
}
#endif

static const char export_help[] =
    "usage: stook export [OPTIONS]\n"
    "\n"
    "Serves numbers of this host's processes on Stook over HTTP, until it is ended by SIGINT or SIGTERM:\n"
    "/metrics as OpenMetrics, for Prometheus; /debug/pprof/heap?pid=NUMBER as a pprof profile, by cache or (&by=site)\n"
    "by call site; /targets: the processes as Prometheus's HTTP service discovery has them, for scrapers of profiles.\n"
    "Processes that the kernel does not let this user look into are counted.\n"
    "\n"
    "  --listen ADDR:PORT   default 127.0.0.1:9464; [ADDR]:PORT for IPv6; port 0: any, which is printed\n"
    "  --pid NUMBER         only this process; may be given up to 64 times\n"
    "  --max-processes N    processes with rows of their own, default 50; the rest are summed up as \"other\"\n"
    "  --max-caches N       caches of a process, default 100, so\n"
    "  --max-groups N       groups of a process, default 100, so\n"
    "  --no-group-names     groups by their numbers only\n";

const struct command command_export = {"export", "this host's processes for Prometheus, over HTTP",
                                       export_help, export_run};
