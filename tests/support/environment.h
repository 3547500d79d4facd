/* SPDX-License-Identifier: MIT */
/* environment.h - a test that needs a setting, which the library reads before main(), starts anew with it. */
#ifndef STOOK_TESTS_ENVIRONMENT_H
#define STOOK_TESTS_ENVIRONMENT_H

#include "support/test.h"

static inline void environment_need(const char *name, const char *value, char **argv)
{
    const char *now = getenv(name);

    if ((!now || strcmp(now, value) != 0) && setenv(name, value, 1) == 0)
        execv("/proc/self/exe", argv);
}

/* main() of a test that needs nothing else. */
#define TESTS_WITH_SETTING(name, value)                                                            \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        environment_need(name, value, argv);                                                       \
        return tests_run(NULL, NULL);                                                              \
    }

#endif
