/* SPDX-License-Identifier: MIT */
/*
 * guard_fault.h - the handler of SIGSEGV, and what it and wrong frees report.
 */
#ifndef STOOK_GUARD_GUARD_FAULT_H
#define STOOK_GUARD_GUARD_FAULT_H

#include "guard/guard.h"

enum guard_what {
    GUARD_BEHIND,      /* an access behind the object */
    GUARD_BEFORE,      /* … before it */
    GUARD_AFTER_FREE,  /* … to a freed one */
    GUARD_ZONE_BEHIND, /* bytes that had changed, found when it was freed */
    GUARD_ZONE_BEFORE,
    GUARD_TWICE,   /* freed twice */
    GUARD_INSIDE,  /* a pointer that is not the start of the object is freed, or used in a call */
    GUARD_CALLED,  /* a call that needs a live object got a freed one */
    GUARD_NOTHING, /* no object ever was there */
};

struct guard_finding {
    enum guard_what what;
    const struct guard_slot *slot; /* NULL: no object is near */
    const void *at;     /* address that was accessed, pointer given, or the first byte changed */
    size_t changed;     /* bytes */
    const char *access; /* "read", "write" or "access" */
    const char *call;
    const struct guard_who *who; /* who did it; NULL: it is the caller, and is found here */
};

/* One write; counts.  Of any context. */
void guard_report(const struct guard_finding *finding);

/* Installs the handler, once: false if the kernel refuses. */
bool guard_catch(void);

#endif
