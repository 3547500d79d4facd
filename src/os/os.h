/* SPDX-License-Identifier: MIT */
/*
 * os.h - the library's calls of the operating system.  Nothing here takes a lock or memory of
 * the library; every call keeps errno unless it fails and says so.
 */
#ifndef STOOK_OS_OS_H
#define STOOK_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/*
 * Bytes of the kernel's pages: 4096, or up to 64 KiB on some kernels for aarch64.  Ranges of whole
 * pages of the arena, which are 4096 bytes everywhere, may begin and end within one of them.
 */
size_t os_page_size(void);
/* 0 until it is asked for; tests set another. */
extern size_t os_page_known __attribute__((visibility("hidden")));

/* Address space without access or commitment, aligned to `align` (a power of two); or NULL. */
void *os_reserve(size_t size, size_t align);
/* Fresh readable and writable pages anywhere; or NULL with ENOMEM. */
void *os_map(size_t size);
/* The same for good, for the library's own tables, most of which stay untouched: without huge pages, and not in core
 * dumps.  The first call, at the start, maps some for later ones. */
void *os_map_own(size_t size);
void os_unmap(void *address, size_t size);
/*
 * Fresh readable and writable pages at exactly this address: 0, EEXIST if something else is mapped
 * there, or why the kernel refuses (ENOMEM: a limit, or no such address; EAGAIN: locked memory).
 * `reserved`: it lies in a range of os_reserve(), and takes its place.
 */
int os_take(void *address, size_t size, bool reserved);
/* Undoes it; false: the kernel refuses (too many mappings), and all stays as it is. */
bool os_untake(void *address, size_t size, bool reserved);
/* The kernel's pages that lie within the range go back; all of it stays usable and reads as zeros. */
void os_release(void *address, size_t size);
/* The words of STOOK_CORE_DUMP. */
enum { OS_CORE_OBJECTS, OS_CORE_ALL };

/* Whether the range is part of core dumps; with STOOK_CORE_DUMP=all everything is. */
void os_dump(void *address, size_t size, bool wanted);
/* Takes a page of the arena out of use: no access, no memory; false: the kernel refuses, and it is as it was.
 * Undoes it: false: it is still without access. */
bool os_guard(void *address, size_t size);
bool os_unguard(void *address, size_t size);
/* No access to pages, which keep what they have; false: the kernel refuses.  os_unguard() undoes it. */
bool os_forbid(void *address, size_t size);
/*
 * Whether a limit counted what has access when os_read_limits() looked, at the start: os_unguard() may be refused
 * then.  A filter of system calls that a program sets later may kill it for asking.
 */
extern bool os_is_data_limited __attribute__((visibility("hidden")));
/* RLIMIT_AS then, or SIZE_MAX. */
extern size_t os_space_limit __attribute__((visibility("hidden")));
void os_read_limits(void);
/* Fresh pages over a reserved range, whatever was mapped there. */
bool os_renew(void *address, size_t size);
/* Pages of a reserved range come from this node while it has some; false where that cannot be. */
bool os_bind(void *address, size_t size, unsigned node);
/* The calling thread has no memory policy of its own (numactl, mbind's relatives). */
bool os_policy_is_default(void);
/* Asks for huge pages, or against them. */
void os_huge(void *address, size_t size, bool wanted);
/* The last step of splitmix64. */
static inline uint64_t os_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
/* Random bytes from the kernel; never blocks; falls back to those that it gave the process at its start. */
uint64_t os_random(void);
/* Reads a small file into buf, NUL-terminated; bytes read or -1. */
int os_read_file(const char *path, char *buf, size_t size);
/* The same of an open file, which is closed; -1: of none. */
int os_read_close(int fd, char *buf, size_t size);

#endif
