/* SPDX-License-Identifier: MIT */
/*
 * undumped.c - part of each shared library and of no archive: core dumps leave out the library's own data, but with
 * STOOK_CORE_DUMP=all.  Its code they leave out unless the process asks for the code of files, too: advice for that
 * mapping would divide it at each start, for the first page has the build-id by which debuggers find the file.
 */
#include "base/raw.h"
#include "base/settings.h"
#include "os/os.h"

#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>

extern char _DYNAMIC[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));

#pragma weak                                                                                       \
    setting_number /* of the library, whose data debuggers ask for; libstook-urcu.so has none */

static __attribute__((constructor)) void undumped(void)
{
    uintptr_t page = getauxval(AT_PAGESZ), from = (uintptr_t)_DYNAMIC & -page;
    int saved = errno;

    if (setting_number && setting_number(SETTING_CORE_DUMP) == OS_CORE_ALL)
        return;
    (void)raw_call(SYS_madvise, from, ((uintptr_t)_end - from + page - 1) & -page, MADV_DONTDUMP);
    errno = saved;
}
