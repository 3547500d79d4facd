/* SPDX-License-Identifier: MIT */
/*
 * In a build that counts coverage (STOOK_COVERAGE), _exit() and abort() write the counts before they
 * end the process: gcov writes them in exit() alone.  The linker sends calls of both here (--wrap).
 * A process that another signal kills writes nothing.
 */
#ifdef STOOK_COVERAGE
#include <stdlib.h>
#include <unistd.h>

void __gcov_dump(void); /* of libgcov */

void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));
void __real_abort(void) __attribute__((noreturn));
void __wrap_abort(void) __attribute__((noreturn));

void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}

void __wrap_abort(void)
{
    __gcov_dump();
    __real_abort();
}
#else
extern int coverage_is_off; /* a file is not empty */
#endif
