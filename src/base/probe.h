/* SPDX-License-Identifier: MIT */
/*
 * probe.h - places where a tracer may look in: USDT probes (sys/sdt.h).
 *
 * A probe is one nop where it stands, and a note in the ELF file.  The note says where the nop is and in which
 * registers or memory its arguments lie.  bpftrace, perf and SystemTap put a breakpoint in the nop's
 * place.  There is no semaphore: nothing is tested.  So an argument must be a value that the code has at hand.  Probes stand in slow paths alone.
 *
 * The provider is `stook`; docs/probes.md lists the probes.  Without sys/sdt.h (STOOK_PROBES 0) there are none.
 */
#ifndef STOOK_BASE_PROBE_H
#define STOOK_BASE_PROBE_H

#if STOOK_PROBES
#ifdef __clang__
/* Of "nor", the header's own, clang takes memory, and stores each argument there first. */
#define STAP_SDT_ARG_CONSTRAINT nr
#endif
#include <sys/sdt.h>
#define PROBE2(name, a, b) STAP_PROBE2(stook, name, a, b)
#define PROBE3(name, a, b, c) STAP_PROBE3(stook, name, a, b, c)
#define PROBE4(name, a, b, c, d) STAP_PROBE4(stook, name, a, b, c, d)
#define PROBE6(name, a, b, c, d, e, f) STAP_PROBE6(stook, name, a, b, c, d, e, f)
/* Of another provider. */
#define PROBE1_OF(provider, name, a) STAP_PROBE1(provider, name, a)
#define PROBE3_OF(provider, name, a, b, c) STAP_PROBE3(provider, name, a, b, c)
#else
#define PROBE2(name, a, b) ((void)(a), (void)(b))
#define PROBE3(name, a, b, c) (PROBE2(name, a, b), (void)(c))
#define PROBE4(name, a, b, c, d) (PROBE3(name, a, b, c), (void)(d))
#define PROBE6(name, a, b, c, d, e, f) (PROBE4(name, a, b, c, d), (void)(e), (void)(f))
#define PROBE1_OF(provider, name, a) ((void)(a))
#define PROBE3_OF(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
