/* SPDX-License-Identifier: MIT */
#include "base/report.h"

#include "support/test.h"

#include <signal.h>

static int fatal(void *unused)
{
    report_fatal("number %d of %s", 42, "many");
}

static int warn_keeps_errno(void *unused)
{
    errno = 17;
    close(STDERR_FILENO); /* the write fails */
    report_warn("nobody reads this");
    return errno == 17 ? 0 : 1;
}

static int warn_too_long(void *unused)
{
    static char text[2000];

    memset(text, 'x', sizeof(text) - 1);
    report_warn("%s", text);
    return 0;
}

static int assertion(void *unused)
{
    volatile int one = 1;

    STOOK_ASSERT(one == 2);
    return 0;
}

TEST(messages)
{
    struct child child;

    child_run(&child, fatal, NULL);
    assert_true(child_died_saying(&child, "stook: number 42 of many\n"));
    child_run(&child, warn_keeps_errno, NULL);
    assert_true(child_passed(&child));
    child_run(&child, warn_too_long, NULL);
    assert_true(child_passed(&child));
    assert_int_equal(strncmp(child.error, "stook: xxx", 10), 0);
    assert_true(strlen(child.error) < 700); /* cut, and still a line of its own */
    assert_int_equal(child.error[strlen(child.error) - 1], '\n');
    child_run(&child, assertion, NULL);
#ifdef STOOK_ASSERTIONS
    assert_true(child_died_saying(&child, "one == 2"));
#else
    assert_true(child_passed(&child));
#endif
}

TEST(writes_all_of_it)
{
    static char out[100000], in[100000];
    size_t got = 0;
    ssize_t n;
    int pipes[2];
    pid_t pid;

    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (char)(i * 7);
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    if (pid == 0) /* more than a pipe holds, and the reader is slow */
        _exit(report_write(pipes[1], out, sizeof(out)) == 0 ? 0 : 1);
    close(pipes[1]);
    usleep(10000);
    while (got < sizeof(in) && (n = read(pipes[0], in + got, sizeof(in) - got)) > 0)
        got += (size_t)n;
    waitpid(pid, NULL, 0);
    assert_int_equal(got, sizeof(in));
    assert_memory_equal(in, out, sizeof(in));
    close(pipes[0]);
    errno = 0;
    assert_int_equal(report_write(pipes[0], out, 1), -1);
    assert_int_equal(errno, EBADF);
}
