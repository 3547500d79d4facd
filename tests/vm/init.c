/* SPDX-License-Identifier: MIT */
/*
 * init.c - the first program of a virtual machine that runs tests (scripts/check-vm.sh).
 *
 * /tests lists them, one a line: NAME TIMEOUT PROGRAM DIRECTORY [VARIABLE=VALUE ...]; words have no
 * spaces.  The last line that it prints is "vm: N passed, N failed, N skipped"; then it switches off.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_MAX = 32, SKIPPED = 77, TIMED_OUT = -1, SAID_MAX = 12000 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void mount_all(void)
{
    static const struct {
        const char *type, *at;
    } all[] = {{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        mkdir(all[i].at, 0755);
        if (mount(all[i].type, all[i].at, all[i].type, 0, NULL) != 0)
            printf("vm: %s: %s\n", all[i].at, strerror(errno));
    }
    mkdir("/tmp", 01777); /* in memory as everything; the build may lie there */
    mkdir("/dev/shm", 0755);
    (void)mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
}

static _Noreturn void become(char **words)
{
    int output = open("/tmp/said", O_WRONLY | O_CREAT | O_TRUNC, 0644);

    setsid();
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(output, 1);
    dup2(output, 2);
    clearenv();
    setenv("PATH", "/bin:/usr/bin", 1);
    for (char **word = words + 4; *word; word++)
        putenv(*word);
    if (chdir(words[3]) == 0)
        execl(words[2], words[2], (char *)NULL);
    perror(words[2]);
    _exit(127);
}

/* The wait status, or TIMED_OUT. */
static int run(char **words)
{
    double end = now() + atof(words[1]);
    pid_t child = fork(), other;
    int status;

    if (child == 0)
        become(words);
    for (;;) {
        other = waitpid(-1, &status, WNOHANG); /* orphans, too */
        if (other == child)
            return status;
        if (other <= 0) {
            if (now() > end)
                break;
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
    }
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    return TIMED_OUT;
}

static void show_said(void)
{
    static char said[SAID_MAX + 1];
    int fd = open("/tmp/said", O_RDONLY);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n;

    if (fd < 0)
        return;
    lseek(fd, size > SAID_MAX ? size - SAID_MAX : 0, SEEK_SET);
    while ((n = read(fd, said, SAID_MAX)) > 0)
        fwrite(said, 1, (size_t)n, stdout);
    close(fd);
}

static void orphans_end(pid_t self)
{
    kill(-1, SIGKILL); /* all but this one */
    while (waitpid(-1, NULL, 0) > 0)
        ;
    (void)self;
}

int main(void)
{
    unsigned passed = 0, failed = 0, skipped = 0;
    struct utsname kernel;
    char line[4096];
    FILE *list;

    mount_all();
    dup2(open("/dev/console", O_RDWR), 0);
    dup2(0, 1);
    dup2(0, 2);
    setvbuf(stdout, NULL, _IOLBF, 0);
    uname(&kernel);
    printf("vm: %s %s, %ld CPUs, pages of %ld bytes\n", kernel.machine, kernel.release,
           sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_PAGESIZE));
    list = fopen("/tests", "r");
    while (list && fgets(line, sizeof(line), list)) {
        char *words[WORDS_MAX + 1] = {NULL}, *rest = NULL;
        int n = 0;
        for (char *word = strtok_r(line, " \n", &rest); word && n < WORDS_MAX;
             word = strtok_r(NULL, " \n", &rest))
            words[n++] = word;
        if (n < 4)
            continue;
        double begin = now();
        int status = run(words);
        const char *how = "Passed";
        if (status != TIMED_OUT && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            passed++;
        } else if (status != TIMED_OUT && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
            skipped++;
            how = "***Skipped";
        } else {
            failed++;
            how = status == TIMED_OUT ? "***Timeout" : "***Failed";
        }
        printf("vm: %-44s %s %.2f s\n", words[0], how, now() - begin);
        if (how[0] == '*' && how[3] != 'S') {
            show_said();
            printf("\nvm: wait status %d\n", status);
        }
        orphans_end(getpid());
    }
    printf("vm: %u passed, %u failed, %u skipped\n", passed, failed, skipped);
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
