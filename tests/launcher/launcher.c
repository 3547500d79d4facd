/* SPDX-License-Identifier: MIT */
/*
 * launcher SECONDS COMMAND...    what every test is run by.
 *
 * It is the reaper of all that the test starts.  A test that takes longer than SECONDS is ended with all of
 * its processes, orphans included; ctest alone would leave those.  A test that ends and leaves a
 * process behind has failed: a child that hangs in a fork handler, or in a sanitizer's lock.
 * A signal that ends the launcher ends the test, too.  If the launcher is killed, the kernel kills the test's process.
 *
 * LAUNCHER_REPORTS=fail (make check-debug): a test has failed if one of its processes reported a corruption, by
 * the file of STOOK_ON_CORRUPTION.  LAUNCHER_SLOWER=N multiplies SECONDS.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LEFT_GRACE = 5,
    REPORTED = 123,
    ENDED = 124,
    LEFT = 125,
    PIDS_MAX = 4096
}; /* seconds; statuses */

static volatile sig_atomic_t late; /* the signal */

static void on_signal(int signal)
{
    late = signal;
}

/* The children of a process; how many. */
static int children(pid_t of, pid_t *pids, int most)
{
    char path[64], text[65536], *at = text;
    int fd, count = 0;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (char *end; count < most; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        pids[count++] = (pid_t)pid;
    }
    return count;
}

static void say_name(pid_t pid)
{
    char path[64], name[64];
    int fd;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    fprintf(stderr, "launcher: process %d (%s) is killed\n", (int)pid, name);
}

/* Those of children that other threads made are found once their parents are gone: they come here. */
static void end_all(void)
{
    static pid_t pids[PIDS_MAX];
    int count;

    while ((count = children(getpid(), pids, PIDS_MAX)) > 0) {
        for (int i = 0; i < count; i++) {
            say_name(pids[i]);
            kill(pids[i], SIGKILL);
        }
        for (int i = 0; i < count; i++)
            while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
                ;
    }
}

/* Nothing is left, or what is left ends by itself; false: it does not. */
static int all_end(void)
{
    struct timespec pause = {.tv_nsec = 10000000};

    for (int i = 0; i < LEFT_GRACE * 100; i++) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return 1;
        if (pid <= 0)
            nanosleep(&pause, NULL);
    }
    return 0;
}

/* A file that reports of corruption are appended to, which has a name only until its content is read. */
static char reports[] = "/tmp/launcher-reports.XXXXXX";
static int reports_fd = -1;

static void reports_gather(void)
{
    const char *asked = getenv("LAUNCHER_REPORTS");

    if (!asked || strcmp(asked, "fail") != 0)
        return;
    reports_fd = mkostemp(reports, O_CLOEXEC);
    if (reports_fd < 0 || setenv("STOOK_ON_CORRUPTION", reports, 1) != 0) {
        perror(reports);
        exit(ENDED);
    }
    (void)fchmod(reports_fd, 0666); /* tests have processes of other users */
}

/* The first line of a report, or all of one as JSON.  Objects that are out when their cache is to be destroyed are no
 * corruption. */
static int is_corruption(const char *line)
{
    if (line[0] == '{')
        return !strstr(line, "\"still_out\"");
    return strncmp(line, "stook: BUG", 10) == 0 && !strstr(line, " is still in use");
}

/* Shows them if one is of a corruption; how many are. */
static int reports_show(void)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = reports_fd < 0 ? NULL : fdopen(reports_fd, "r");
    int count = 0;

    if (!file)
        return 0;
    unlink(reports);
    while (getline(&line, &room, file) > 0)
        count += is_corruption(line);
    rewind(file);
    if (count > 0)
        fprintf(stderr, "launcher: %d corruptions were reported:\n", count);
    while (count > 0 && getline(&line, &room, file) > 0)
        fputs(line, stderr);
    free(line);
    fclose(file);
    return count;
}

static int launcher_status(int status)
{
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "launcher: ended by signal %d (%s)\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    const char *slower = getenv("LAUNCHER_SLOWER");
    pid_t self = getpid();
    int status = 0, reported;
    unsigned seconds;
    pid_t child, ended = 0;

    if (argc < 3)
        return ENDED;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    reports_gather();
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self)
            _exit(ENDED);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    seconds = (unsigned)atoi(argv[1]) * (slower ? (unsigned)atoi(slower) : 1);
    alarm(seconds);
    while (ended != child && !late) {
        int one;
        ended = waitpid(-1, &one, 0); /* orphans, too */
        if (ended == child)
            status = one;
        else if (ended < 0 && errno != EINTR)
            break;
    }
    alarm(0);
    reported = reports_show();
    if (ended != child) {
        if (late == SIGALRM)
            fprintf(stderr, "launcher: not ended after %u s\n", seconds);
        else
            fprintf(stderr, "launcher: told to end by signal %d\n", (int)late);
        end_all();
        return ENDED;
    }
    if (!all_end()) {
        fprintf(stderr, "launcher: the test has ended and left processes behind\n");
        end_all();
        return LEFT;
    }
    status = launcher_status(status);
    return reported ? REPORTED : status;
}
