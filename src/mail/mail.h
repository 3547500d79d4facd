/* SPDX-License-Identifier: MIT */
/*
 * mail.h - messages that change the process while it runs: `stook set PID ...` writes one into the library's memory
 * (process_vm_writev), and a thread that is in a slow path anyway takes it.
 *
 *   outside                                      inside
 *   mailbox_waiting is 0: none waits
 *   writes mail_box.message, then
 *   mailbox_waiting = its number        -->      an allocation finds its main sheaf empty, and looks
 *                                                checks the message, writes mail_box.taken = its number,
 *                                                does it, writes mail_box.answer,
 *   reads the answer of that number     <--      and then mailbox_waiting = 0
 *
 * A message is taken if it is whole: its magic, its size, its number and the checksum over all before it.  One that is
 * not whole may be on its way: it is looked at MAIL_LOOKS times, then answered as damaged.  One thread takes at a time,
 * outside the library's context, with no lock; it never waits.
 *
 * Two writers that post at once make a message whose checksum fails, or one overwrites the other as a whole; each
 * waits for the answer of its own number, which it draws at random.
 *
 * Who may write into this memory is for the kernel to say (as for ptrace).  Processes with raised privileges take
 * nothing.  The messages of a process are not those of the child that it forks.
 *
 * The formats stay: a newer writer learns from MAIL_VERSION in the answer what this library knows.
 */
#ifndef STOOK_MAIL_MAIL_H
#define STOOK_MAIL_MAIL_H

#include <stddef.h>
#include <stdint.h>

#define MAIL_MAGIC 0x6c69616d2d6b6f74u /* "tok-mail" */
enum {
    MAIL_VERSION = 1,
    MAIL_NAME_MAX = 64, /* its NUL included: those of caches and groups */
    MAIL_TEXT_MAX = 160,
    MAIL_LOOKS = 64,
};

enum mail_verb {
    MAIL_SHRINK =
        1,         /* name: a cache's; "": of all; the answer's value: bytes that were given back */
    MAIL_VALIDATE, /* the same; what was found wrong */
    MAIL_STATS,    /* the same; value: STOOK_STATS_*; how many caches */
    MAIL_SAMPLE,   /* value: bytes from one sample to the next in the mean; 0: none */
    MAIL_CAPACITY, /* name; value: objects of a sheaf, 0: as by default; how many caches */
    MAIL_LIMIT,    /* name: a group's; value: bytes, UINT64_MAX: none; what it has in use */
    MAIL_DEBUG, /* name: a cache's; "": of all with debug flags; value: STOOK_CACHE_DEBUG_TRACE and _FAIL,
                      with MAIL_DEBUG_ON or not; how many caches */
};

#define MAIL_DEBUG_ON ((uint64_t)1 << 63)

struct mail_message {
    uint64_t magic;
    uint32_t version, size; /* of all of this */
    uint32_t number;        /* not 0 */
    uint32_t verb;
    uint64_t value;
    char name[MAIL_NAME_MAX];
    uint64_t sum; /* mail_sum() of what is before */
};

struct mail_answer {
    uint32_t version, size;
    uint32_t number; /* of the message; written last */
    int32_t error;   /* 0, or an errno */
    uint64_t value;
    char text[MAIL_TEXT_MAX]; /* with an error: what it was */
    uint64_t sum;             /* of what is before */
};

struct mail_box {
    struct mail_message message;
    struct mail_answer answer;
    uint32_t taken; /* the number of the message that is being done, or was last */
    uint32_t reserved;
};
extern struct mail_box mail_box __attribute__((visibility("hidden")));

/* FNV-1a. */
static inline uint64_t mail_sum(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t sum = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

/* hooks.mail */
void mail_take(void);

/* A forked child. */
void mail_child(void);

#endif
