/* SPDX-License-Identifier: MIT */
/* reader.c - lets other processes of the same user read this one, if STOOK_VIEW asks for it. */
#include "view/reader.h"

#include "base/placed.h"
#include "base/raw.h"
#include "base/settings.h"

#include <errno.h>
#include <sys/prctl.h>

FIRST_TEXT void reader_allow(void)
{
    int saved = errno;

    if (setting_number(SETTING_VIEW))
        (void)raw_call(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    errno = saved;
}
