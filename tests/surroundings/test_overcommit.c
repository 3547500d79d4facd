/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * A kernel that does not overcommit (vm.overcommit_memory 2): the library starts, malloc gets most of what
 * may be committed and then ENOMEM, and what is reserved counts for nothing.  In a virtual machine alone
 * (scripts/check-vm.sh), whose setting nothing else depends on.
 */
#include "support/malloc_calls.h"
#include "support/test.h"

enum { OBJECTS = 1 << 20, MIB = 1 << 20 };

static void set(const char *name, const char *value)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    assert_true(fputs(value, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A line of /proc/meminfo, in bytes. */
static size_t meminfo(const char *name)
{
    char line[128];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name) + 1, NULL, 10);
    fclose(file);
    return kib << 10;
}

/* In a child that execs itself: the setting is there before the library's start.  0: all is well. */
static int fill(void)
{
    static void *object[OBJECTS];
    size_t limit = meminfo("CommitLimit:"), before = meminfo("Committed_AS:"), n = 0;

    while (n < OBJECTS && (object[n] = t_malloc(MIB)))
        n++;
    printf("%zu MiB of %zu that were left\n", n, (limit - before) >> 20);
    if (n == OBJECTS || errno != ENOMEM)
        return 2;
    if (n < (limit - before) / MIB / 2)
        return 3;
    for (size_t i = 0; i < n; i++)
        t_free(object[i]);
    for (size_t size = 1; size < 3000000; size = size * 3 / 2 + 1) {
        char *p = t_malloc(size);
        if (!p)
            return 4;
        memset(p, 1, size);
        t_free(p);
    }
    return 0;
}

TEST(test_nothing_is_committed_beforehand)
{
    int status;
    pid_t child;

    if (!getenv("STOOK_SLOW") || access("/proc/sys/vm/overcommit_memory", W_OK) != 0)
        skip();
    set("/proc/sys/vm/overcommit_memory", "2");
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_overcommit", "fill", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    set("/proc/sys/vm/overcommit_memory", "0");
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fill") == 0)
        return fill();
    return tests_run(NULL, NULL);
}
