/* SPDX-License-Identifier: MIT */
/*
 * target.h - the memory of another process, or of a core file, by address.
 *
 * What was read is kept until target_renew(): reads between two of these see each page at one time, however often they
 * ask.  Nothing stops a live target, and nothing runs in it.
 *
 * No value that is read is to be trusted.  An address is a number here and never a pointer.  Each read says how much room
 * there is, and is refused if it asks for more.  A target has a budget of memory, for pages that are kept and for rows
 * that are made of them (target_spend()), and one of the CPU's time (target_allow()).  Once it has used one up, each
 * further read fails, so that every loop over what it claims to have comes to its end.
 *
 * Errors are texts for people: what happened, and what to do.
 */
#ifndef STOOK_LOOK_TARGET_H
#define STOOK_LOOK_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TARGET_PAGE = 4096, TARGET_ERROR = 512, TARGET_NAME = 64 };

/* The memory, or the command ends; room for one more of n rows of `size` bytes, in rows that were made so. */
void *target_need(void *memory);
void *target_row(void *rows, size_t n, size_t size);
/* Of n rows in the order of `field`, those up to `most`. */
#define target_rows_to(rows, n, field, most)                                                       \
    ({                                                                                             \
        size_t low_ = 0, high_ = (n), middle_;                                                     \
        while (low_ < high_) {                                                                     \
            middle_ = low_ + (high_ - low_) / 2;                                                   \
            if ((rows)[middle_].field <= (most))                                                   \
                low_ = middle_ + 1;                                                                \
            else                                                                                   \
                high_ = middle_;                                                                   \
        }                                                                                          \
        low_;                                                                                      \
    })
/* For qsort() and bsearch() of rows that begin with a number. */
int target_by_number(const void *a, const void *b);

struct target_error {
    char text[TARGET_ERROR];
    bool idle;    /* the process has Stook, and has allocated nothing with it */
    bool refused; /* the kernel does not let this process look into that one */
    bool damaged; /* what the library says of itself there cannot be */
};
/* For `return target_fail(error, "...", ...)`. */
bool target_fail(struct target_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct target_mapping {
    uint64_t begin, end, offset; /* of the file */
    bool read, write, execute, shared;
    unsigned device_major, device_minor;
    uint64_t inode;   /* 0: of no file */
    const char *path; /* "", of a file, or "[heap]" and its like; valid during the call */
    /* Of target_for_each_resident(): what is resident, and of that in huge pages; whether it may have such. */
    uint64_t resident, huge;
    bool never_huge;
};

struct target;

/* What stands behind a target: a process (target_pid.c), a core file. */
struct target_ops {
    /* Reads as much of [address, address + n) as can be read from its beginning on; how much. */
    size_t (*read)(struct target *target, uint64_t address, void *to, size_t n);
    /* The same of many pages of TARGET_PAGE bytes: what cannot be read has got[i] false. */
    void (*read_pages)(struct target *target, const uint64_t *pages, char *const *to, bool *got,
                       size_t n);
    /* Of n pages: those that were never written to, and are zeros, have there[i] false. */
    void (*there)(struct target *target, const uint64_t *pages, bool *there, size_t n);
    /* As target_words(); NULL: it has none. */
    bool (*words)(struct target *target, uint64_t page, uint64_t *word, size_t n);
    /* Calls fn for each mapping in the order of addresses until it returns false; with what is resident of it, if that is
     * asked for.  False: there are none to be seen, or the latter is not known. */
    bool (*mappings)(struct target *target,
                     bool (*fn)(const struct target_mapping *mapping, void *arg), void *arg,
                     bool resident);
    /* Whether it is there still, and the same: of a process, that its number was not given to another one. */
    bool (*alive)(struct target *target);
    void (*close)(struct target *target);
};

struct target {
    const struct target_ops *ops;
    int pid;                /* of the process, also of a core file */
    char name[TARGET_NAME]; /* the kernel's name of it */
    bool live;              /* it changes while it is read */
    uint64_t time;          /* of the last target_renew(): CLOCK_MONOTONIC, ns */
    void *own;              /* of the ops */
    struct target_cache *cache;
    uint64_t reads, read_bytes; /* from the target itself: system calls, or pieces of a file */
    bool over;                  /* its budget is used up */
    uint64_t spent, budget;     /* bytes, since target_renew() */
    uint64_t deadline;          /* of this process's CPU time, ns */
    unsigned seconds, steps;    /* of that time, for a snapshot; reads so far */
};

/* NULL with an error. */
struct target *target_open_pid(int pid, struct target_error *error);
void target_close(struct target *target);

/* For implementations: a target of these ops, with room for the cache, and the budget of one of `resident` bytes. */
struct target *target_new(const struct target_ops *ops, void *own, uint64_t resident);

/* What is read from here on is new. */
void target_renew(struct target *target);
bool target_alive(struct target *target);
/* For `return target_damaged(target, error)`. */
bool target_damaged(const struct target *target, struct target_error *error);
/* From now on the CPU's time of so many snapshots. */
void target_allow(struct target *target, unsigned snapshots);
/* False, and the budget is used up: so many bytes are not left. */
bool target_spend(struct target *target, uint64_t bytes);

/* All n bytes, or false: they cannot be read, `room` is less, or the budget is used up. */
bool target_read(struct target *target, uint64_t address, void *to, size_t room, size_t n);
/* Into *object; the first n elements of an array. */
#define target_take(target, address, object)                                                       \
    target_read(target, address, object, sizeof(*(object)), sizeof(*(object)))
#define target_take_some(target, address, array, n)                                                \
    target_read(target, address, array, TARGET_ROOM(array), (size_t)(n) * sizeof((array)[0]))
/* Of an array, which a pointer is not. */
#define TARGET_ROOM(array)                                                                         \
    (sizeof(array) +                                                                               \
     0 * sizeof(struct {                                                                           \
         _Static_assert(!__builtin_types_compatible_p(__typeof__(array), __typeof__(&(array)[0])), \
                        "an array");                                                               \
         int none;                                                                                 \
     }))
/* The same past what is kept: as it is now. */
bool target_read_now(struct target *target, uint64_t address, void *to, size_t room, size_t n);
/* Of n pages of TARGET_PAGE bytes from `address` on, which of them are there; the others are zeros, and reading them would
 * have the process's page tables grow. */
void target_there(struct target *target, uint64_t address, bool *there, size_t n);
/* The pages of [address, address + n) are about to be read: in few calls, with those of other calls before the next
 * target_read(). */
void target_expect(struct target *target, uint64_t address, size_t n);
/* Words of /proc/PID/pagemap, from that of the kernel's page of this number on. */
bool target_words(struct target *target, uint64_t page, uint64_t *word, size_t n);
#define TARGET_PRESENT (UINT64_C(3) << 62) /* in memory, or swapped out */
/* Text up to its NUL or to size - 1 characters.  A byte that a screen may not show becomes "\x09" or its like, and so does
 * the backslash of such a text: two names never become one. */
bool target_read_text(struct target *target, uint64_t address, char *to, size_t size);
/* In place; also of text that has no NUL in `size` bytes. */
void target_clean_text(char *text, size_t size);

bool target_for_each_mapping(struct target *target,
                             bool (*fn)(const struct target_mapping *mapping, void *arg),
                             void *arg);
/* With what is resident of each; false: that is not known. */
bool target_for_each_resident(struct target *target,
                              bool (*fn)(const struct target_mapping *mapping, void *arg),
                              void *arg);

/* The letter of a thread's state and its PF_ flags, by its `stat` in /proc; 0: it is gone. */
char target_task(int folder, const char *path, unsigned *flags);
/* kernel.yama.ptrace_scope; 0: there is none. */
int target_yama(void);

/* Calls fn for each process of this host until it returns false, in the order of their numbers. */
void target_for_each_process(bool (*fn)(int pid, void *arg), void *arg);

#endif
