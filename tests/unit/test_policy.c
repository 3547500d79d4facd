/* SPDX-License-Identifier: MIT */
/*
 * Memory comes from its node where there are several, unless the process has a policy of its own (numactl):
 * that one stands.  The library reads it at its start, so each case is a program: "test_policy child".
 */
#include "support/fake_nodes.h"
#include "support/test.h"

#include "base/hooks.h"
#include "cache/alloc.h"
#include "large/large.h"

#include <stook/stook.h>

#include <sys/syscall.h>

enum { DEFAULT, PREFERRED, BIND, INTERLEAVE, REFUSED = 77, OF_ADDRESS = 2 };

static const char *self;

/* What the kernel says of an object's memory on node 0. */
static int policy_of_an_object(bool malloc_like)
{
    char *object;
    int mode = -1;

    (void)stook_mode(NULL); /* starts the library */
    object = malloc_like
                 ? large_alloc(0, 100000, 4096, false, NULL)
                 : alloc_on_node(stook_cache_create("policy", 2000, NULL), 0, 0, 0, HOOKS_GROUP);
    if (!object)
        return 99;
    object[0] = 1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, object, OF_ADDRESS) == 0 ? mode : REFUSED;
}

static int start(void *arg)
{
    unsigned long nodes = 1;
    int mode = ((int *)arg)[0], large = ((int *)arg)[2];

    if (mode != DEFAULT && syscall(SYS_set_mempolicy, mode, &nodes, 64) != 0)
        return REFUSED;
    execl(self, self, large ? "large" : "child", NULL);
    return 98;
}

static void run(void **state)
{
    int *modes = *state; /* the process's, the object's; whether it is as malloc's are */
    struct child child;

    if (getenv("STOOK_EMULATED"))
        skip();
    child_run(&child, start, modes);
    if (child.status == REFUSED << 8)
        skip(); /* a kernel without policies, or a sandbox */
    assert_int_equal(child.status, modes[1] << 8);
}

int main(int argc, char **argv)
{
    static int modes[][3] = {{DEFAULT, PREFERRED, false},
                             {BIND, DEFAULT, false},
                             {INTERLEAVE, DEFAULT, false},
                             {DEFAULT, DEFAULT, true}};
    const struct CMUnitTest tests[] = {
        {"no_policy_of_its_own", run, NULL, NULL, modes[0]},
        {"bound", run, NULL, NULL, modes[1]},
        {"interleaved", run, NULL, NULL, modes[2]},
        {"malloc_makes_no_such_call", run, NULL, NULL, modes[3]},
    };

    if (argc > 1)
        return policy_of_an_object(strcmp(argv[1], "large") == 0);
    self = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
