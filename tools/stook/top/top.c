/* SPDX-License-Identifier: MIT */
/*
 * top.c - stook top: the caches of a process, or the processes of this host that run on Stook, on the whole screen and
 * always as they are now.
 *
 * Keys are those of slabtop and htop where these have one.  Whatever ends it, the terminal is as it was.
 */
#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/option.h"
#include "stook/top/top_data.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char top_help[] =
    "usage: stook top [-d SECONDS] [-n COUNT] [-s KEY] [PID]\n"
    "\n"
    "Shows the caches of a running process on the whole screen, and renews that; without PID the processes of this\n"
    "host that run on Stook.  The processes need no option at their start, are not stopped, and run nothing for it.\n"
    "\n"
    "  -d, --delay SECONDS  from one screen to the next: 1 if nothing is said\n"
    "  -n, --count COUNT    end after so many screens\n"
    "  -s, --sort KEY       resident, in-use, cached, wasted, growth, rate, objects or name\n"
    "\n"
    "Keys: h or F1 shows them all, q or F10 ends.  The keys b u f w g r o n sort by the words of --sort, in that\n"
    "order.  docs/report.md says what each word means.\n" HELP_END("top redis-server");

struct top_options {
    double delay;
    uint64_t count;
    enum top_sort sort;
    const char *pid;
};

static int top_parse(int argc, char **argv, struct top_options *options)
{
    const struct option_row rows[] = {
        {"delay", OPTION_SECONDS, &options->delay, 100, 3600000, .letter = 'd'},
        {"count", OPTION_NUMBER, &options->count, 1, UINT64_MAX, .letter = 'n'},
        {"sort", OPTION_WORD, &options->sort, .words = top_sort_names, .letter = 's'},
    };
    int status;

    *options = (struct top_options){.delay = 1, .sort = TOP_RESIDENT};
    if ((status = option_take("top", rows, argc, argv)) != STATUS_OK)
        return status;
    if (argc - optind > 1)
        return complain(STATUS_USAGE, "one process is needed, or none");
    options->pid = argv[optind];
    return STATUS_OK;
}

#ifndef STOOK_HAS_CURSES
static int top_run(int argc, char **argv)
{
    struct top_options options;
    int status = top_parse(argc, argv, &options);

    return status != STATUS_OK
               ? status
               : complain(STATUS_FAILED,
                          "this stook was built without ncurses, which top needs; stook caches "
                          "and stook stat PID 1 say the same as lines");
}
#else

#include "stook/top/top_screen.h"

/* The process of a number, for data->heap. */
static bool top_enter(struct top_data *data, int pid, struct target_error *error)
{
    struct heap *heap = heap_open(target_open_pid(pid, error), error);

    if (!heap)
        return false;
    heap_close(data->heap);
    data->heap = heap;
    top_forget(data);
    return true;
}

static void top_leave(struct top_data *data)
{
    heap_close(data->heap);
    data->heap = NULL;
    top_forget(data);
}

/* The process is read, or the host.  A process that became another program is opened again. */
static void top_read(struct top_data *data, struct top_screen *screen)
{
    struct target_error error;
    int pid;

    if (!data->heap) {
        top_read_processes(data);
        screen->message[0] = '\0';
        return;
    }
    if (top_read_caches(data, &error)) {
        screen->message[0] = '\0';
        return;
    }
    pid = data->heap->target->pid;
    if (target_alive(data->heap->target) && top_enter(data, pid, &error) &&
        top_read_caches(data, &error))
        return;
    top_screen_say(screen, error.text);
}

static void top_act(struct top_data *data, struct top_screen *screen, enum top_action action)
{
    struct target_error error;

    if (action == TOP_ENTER && !data->heap && screen->selected_key) {
        if (top_enter(data, (int)screen->selected_key, &error) && top_read_caches(data, &error))
            top_screen_home(screen);
        else
            top_screen_say(screen, error.text);
    } else if (action == TOP_BACK && data->heap && screen->host) {
        top_leave(data);
        top_read_processes(data);
        top_screen_home(screen);
    } else if (action == TOP_RENEW) {
        top_read(data, screen);
    }
}

static int top_loop(struct top_data *data, struct top_screen *screen, uint64_t count)
{
    enum top_action action = TOP_RENEW;

    for (unsigned long n = 0; action != TOP_QUIT;) {
        if (action == TOP_RENEW && n > 0)
            top_read(data, screen);
        n += action == TOP_RENEW;
        top_screen_draw(screen, data);
        if (count > 0 && n >= count && action == TOP_RENEW)
            break;
        action = top_screen_wait(screen, data);
        if (action != TOP_RENEW)
            top_act(data, screen, action);
    }
    return STATUS_OK;
}

static int top_run(int argc, char **argv)
{
    struct top_options options;
    struct top_data data = {.heap = NULL};
    struct top_screen screen;
    struct target_error error;
    int pid, status = top_parse(argc, argv, &options);

    if (status != STATUS_OK)
        return status;
    if (options.pid && (status = look_process(options.pid, &pid)) != STATUS_OK)
        return status;
    if (options.pid && (!top_enter(&data, pid, &error) || !top_read_caches(&data, &error))) {
        top_leave(&data);
        return complain(STATUS_FAILED, "%s", error.text);
    }
    if (!top_screen_begin(&screen, options.delay, options.sort)) {
        top_leave(&data);
        return complain(
            STATUS_FAILED,
            "top needs a terminal; stook caches and stook stat PID 1 say the same as lines");
    }
    screen.host = options.pid == NULL;
    if (screen.host)
        top_read_processes(&data);
    status = top_loop(&data, &screen, options.count);
    top_screen_end();
    top_leave(&data);
    return status;
}
#endif

const struct command command_top = {
    "top", "a process's caches, or all processes, on the whole screen", top_help, top_run};
