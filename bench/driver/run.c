/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void run_read_pair(struct run_figures *figures, char *pair)
{
    char *value = strchr(pair, '=');
    if (!value)
        return;
    *value++ = '\0';
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        if (!strcmp(pair, metric_name((enum metric)metric)))
            figures->value[metric] = strtod(value, NULL);
}

static void run_read(struct run_figures *figures, int fd)
{
    char text[4096];
    size_t length = 0;
    ssize_t got;

    while (length < sizeof(text) - 1 &&
           ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0 ||
            (got < 0 && errno == EINTR)))
        length += got > 0 ? (size_t)got : 0;
    text[length] = '\0';
    char *rest = NULL;
    for (char *pair = strtok_r(text, " \n", &rest); pair; pair = strtok_r(NULL, " \n", &rest))
        run_read_pair(figures, pair);
}

/* Whether both name the same variable. */
static int run_same_name(const char *one, const char *other)
{
    size_t name = (size_t)(strchr(one, '=') - one) + 1;

    return !strncmp(one, other, name);
}

/* The environment with the settings; the array is reused by the next call. */
static char **run_environment(const char *const *settings, size_t count)
{
    static char **copy;
    size_t variables = 0, kept = 0;

    while (environ[variables])
        variables++;
    free(copy);
    copy = calloc(variables + count + 1, sizeof(*copy));
    if (!copy)
        return environ;
    for (size_t i = 0; i < variables; i++) {
        int replaced = 0;
        for (size_t j = 0; j < count; j++)
            replaced |= settings[j] && run_same_name(settings[j], environ[i]);
        if (!replaced)
            copy[kept++] = environ[i];
    }
    for (size_t j = 0; j < count; j++)
        if (settings[j])
            copy[kept++] = (char *)(uintptr_t)settings[j];
    copy[kept] = NULL;
    return copy;
}

enum run_status run_worker(char *const argv[], const char *const *settings, size_t count,
                           struct run_figures *figures)
{
    posix_spawn_file_actions_t actions;
    int ends[2], status;
    pid_t worker;

    for (int metric = 0; metric < METRIC_COUNT; metric++)
        figures->value[metric] = NAN;
    if (pipe2(ends, O_CLOEXEC)) {
        perror("stook-bench: pipe");
        return RUN_FAILED;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int error =
        posix_spawn(&worker, argv[0], &actions, NULL, argv, run_environment(settings, count));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error) {
        fprintf(stderr, "stook-bench: %s: %s\n", argv[0], strerror(error));
        close(ends[0]);
        return RUN_FAILED;
    }
    run_read(figures, ends[0]);
    close(ends[0]);
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return RUN_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_CANNOT)
        return RUN_CANNOT;
    fprintf(stderr, "stook-bench: %s %s ended with %s %d\n", argv[0], argv[1],
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return RUN_FAILED;
}
