/* SPDX-License-Identifier: MIT */
/* main.c - of a test that needs nothing at the start; the linker takes it where the test has no main(). */
#include "support/test.h"

int main(void)
{
    return tests_run(NULL, NULL);
}
