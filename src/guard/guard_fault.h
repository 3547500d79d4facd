/* SPDX-License-Identifier: MIT */
/*
 * guard_fault.h - the handler of SIGSEGV, and what it and wrong frees report (debug/report.h).
 */
#ifndef STOOK_GUARD_GUARD_FAULT_H
#define STOOK_GUARD_GUARD_FAULT_H

#include "base/finding.h"
#include "guard/guard.h"

/* Reports what `format` says, and where `at` lies: by a slot's object, or, for NULL, by none.  Returns if the program goes on. */
void guard_report(const struct guard_slot *slot, const void *at, enum debug_done done,
                  uint64_t where, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Installs the handler, once: false if the kernel refuses. */
bool guard_catch(void);

#endif
