/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * file.h: which names are opened, in a folder of their own; other users' files and links where the test is root.
 */
#include "text/file.h"
#include "support/test.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { OTHER = 65534, WRITE = O_WRONLY | O_CREAT | O_TRUNC };

static char folder[] = "/tmp/test-file.XXXXXX";

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void holds(const char *name, const char *text)
{
    char now[64] = "";
    FILE *file = fopen(name, "re");

    assert_non_null(file);
    (void)!fread(now, 1, sizeof(now) - 1, file);
    fclose(file);
    assert_string_equal(now, text);
}

static void refused(int fd, int error)
{
    int was = errno;

    assert_int_equal(fd, -1);
    assert_int_equal(was, error);
}

static void opened(int fd)
{
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
}

static int setup(void **unused)
{
    umask(0);
    return mkdtemp(folder) && chdir(folder) == 0 && mkdir("sub", 0755) == 0 ? 0 : -1;
}

static int teardown(void **unused)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return chdir("/") == 0 ? system(command) : -1; /* NOLINT(cert-env33-c): a folder of our own */
}

TEST(regular_files_are_read)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    put("file", "text");
    assert_int_equal(symlink("file", "link"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    close(fd);
    opened(file_open_read("file"));
    opened(file_open_read("link"));
    opened(file_open_read("/proc/self/maps"));
    refused(file_open_read("fifo"), EINVAL); /* and does not wait */
    refused(file_open_read("/dev/null"), EINVAL);
    refused(file_open_read("socket"), ENXIO);
    refused(file_open_read("sub"), EISDIR);
    refused(file_open_read("none"), ENOENT);
}

TEST(links_are_not_written_through)
{
    put("file", "text");
    refused(file_open_write("link", WRITE, 0600), ELOOP);
    refused(file_open_write("link", O_WRONLY | O_CREAT | O_APPEND, 0600), ELOOP);
    assert_int_equal(symlink("made", "dangling"), 0);
    refused(file_open_write("dangling", WRITE, 0600), ELOOP);
    assert_int_not_equal(access("made", F_OK), 0);
    holds("file", "text");
    opened(file_open_write("file", O_WRONLY | O_CREAT | O_APPEND, 0600));
    holds("file", "text");
    opened(file_open_write("file", WRITE, 0600));
    holds("file", "");
    /* The user's own links among the folders are followed. */
    assert_int_equal(symlink("sub", "way"), 0);
    opened(file_open_write("way/..//./way/new", WRITE, 0640));
    assert_int_equal(access("sub/new", F_OK), 0);
    refused(file_open_write("file/x", WRITE, 0600), ENOTDIR);
    refused(file_open_write("none/x", WRITE, 0600), ENOENT);
    refused(file_open_write("sub/", WRITE, 0600), ENOENT);
    refused(file_open_write("sub", WRITE, 0600), EISDIR);
}

TEST(opening_never_waits)
{
    int reader, fd;

    refused(file_open_write("fifo", WRITE, 0600), ENXIO);
    reader = open("fifo", O_RDONLY | O_NONBLOCK);
    opened(file_open_write("fifo", WRITE, 0600));
    close(reader);
    opened(file_open_write("/dev/null", WRITE, 0600));
    fd = file_open_write("trace", O_RDWR | O_CREAT | O_EXCL, 0600);
    opened(fd);
    refused(file_open_write("trace", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
}

/* Also where a new descriptor of the same file would have a place of its own, or cannot be had. */
TEST(own_descriptors)
{
    char name[32];
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        int fd;
        snprintf(name, sizeof(name), i ? "/dev/fd/%d" : "/proc/self/fd/%d", ends[1]);
        fd = file_open_write(name, WRITE, 0600);
        assert_int_equal(write(fd, "x", 1), 1);
        opened(fd);
        snprintf(name, sizeof(name), i ? "/dev/fd/%d" : "/proc/self/fd/%d", ends[0]);
        fd = file_open_read(name);
        assert_int_equal(read(fd, name, 1), 1);
        opened(fd);
    }
    opened(file_open_write("/dev/stderr", WRITE, 0600));
    refused(file_open_write("/dev/fd/9999", WRITE, 0600), EBADF);
    refused(file_open_write("/dev/fd/9999999999999", WRITE, 0600), ENOENT);
    /* A trace is made and removed by its name. */
    refused(file_open_write("/dev/stderr", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
}

TEST(folders_of_everybody)
{
    assert_int_equal(mkdir("all", 01777), 0);
    put("mine", "text");
    opened(file_open_write("all/new", WRITE, 0600));
    opened(file_open_write("all/new", WRITE, 0600));
    /* A second name of the user's own file, which another user could have made. */
    assert_int_equal(link("mine", "all/second"), 0);
    refused(file_open_write("all/second", WRITE, 0600), EACCES);
    holds("mine", "text");
    opened(file_open_write("mine", O_WRONLY | O_APPEND, 0600));
    if (geteuid() != 0)
        return;
    put("all/other", "text");
    assert_int_equal(chown("all/other", OTHER, OTHER), 0);
    assert_int_equal(chmod("all/other", 0666), 0);
    refused(file_open_write("all/other", WRITE, 0600), EACCES);
    holds("all/other", "text");
    assert_int_equal(symlink("../sub", "all/way"), 0);
    opened(file_open_write("all/way/by-us", WRITE, 0600));
    assert_int_equal(lchown("all/way", OTHER, OTHER), 0);
    refused(file_open_write("all/way/by-them", WRITE, 0600), EACCES);
    assert_int_not_equal(access("sub/by-them", F_OK), 0);
    /* In a folder of its owner, files of others were put there by the owner. */
    assert_int_equal(rename("all/other", "sub/other"), 0);
    opened(file_open_write("sub/other", WRITE, 0600));
}

int main(void)
{
    return tests_run(setup, teardown);
}
