/* SPDX-License-Identifier: MIT */
#include "look/letter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { LETTER_PAUSE = 5 /* ms between two looks at the answer */, LETTER_GRACE = 50 };

struct letter_box {
    uint64_t waiting, message, answer, taken; /* addresses */
};

/* The value of a line of /proc's status files; 0: it has none. */
static unsigned long letter_status(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    unsigned long value = 0;
    char line[256];

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoul(line + strlen(key), NULL, 10);
    if (file)
        (void)fclose(file);
    return value;
}

bool letter_under_seccomp(int pid)
{
    char path[64 + sizeof(((struct dirent *)NULL)->d_name)];
    const struct dirent *entry;
    bool found = false;
    DIR *tasks;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    while (tasks && !found && (entry = readdir(tasks)) != NULL) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, entry->d_name);
        found = entry->d_name[0] != '.' && letter_status(path, "Seccomp:") != 0;
    }
    if (tasks)
        (void)closedir(tasks);
    return found;
}

/* How the process is, for one that takes nothing: a letter of /proc/PID/stat, or 0. */
static char letter_state(int pid)
{
    char path[64], text[512] = "";
    const char *at;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        (void)fclose(file);
    }
    at = strrchr(text, ')');
    return at && at[1] == ' ' ? at[2] : '\0';
}

static bool letter_write(struct target *target, uint64_t there, const void *data, size_t size,
                         struct target_error *error)
{
    struct iovec here = {(void *)(uintptr_t)data, size}, other = {(void *)(uintptr_t)there, size};

    if (process_vm_writev(target->pid, &here, 1, &other, 1, 0) == (ssize_t)size)
        return true;
    if (errno == ESRCH)
        return target_fail(error, "process %d (%s) has ended", target->pid, target->name);
    return target_fail(
        error,
        "process %d (%s) may not be changed by this user: %s (its owner may, where the "
        "kernel lets them trace it; root may)",
        target->pid, target->name, strerror(errno));
}

static bool letter_find(struct target *target, struct letter_box *box, struct target_error *error)
{
    static struct view view;
    uint64_t base;

    if (!view_find(&view, target, error))
        return false;
    base = view_value(&view, VIEW_at_mail_box);
    box->waiting = view_value(&view, VIEW_at_mailbox_waiting);
    box->message = base + offsetof(struct mail_box, message);
    box->answer = base + offsetof(struct mail_box, answer);
    box->taken = base + offsetof(struct mail_box, taken);
    return (base && box->waiting) ||
           target_fail(error, "process %d (%s) runs on a version of Stook that takes no messages",
                       target->pid, target->name);
}

/* The answer of this number is there, and whole. */
static bool letter_answered(struct target *target, const struct letter_box *box, uint32_t number,
                            struct mail_answer *answer)
{
    return target_read_now(target, box->answer, answer, sizeof(*answer), sizeof(*answer)) &&
           answer->number == number && answer->size == sizeof(*answer) &&
           answer->sum == mail_sum(answer, offsetof(struct mail_answer, sum)) &&
           memchr(answer->text, '\0', sizeof(answer->text)) != NULL;
}

static bool letter_await(struct target *target, const struct letter_box *box, uint32_t number,
                         unsigned wait, struct mail_answer *answer)
{
    struct timespec pause = {0, LETTER_PAUSE * 1000000l};
    uint32_t taken = 0;

    /* One that is being done is waited for. */
    for (unsigned waited = 0; waited <= wait; waited += taken == number ? 0 : LETTER_PAUSE) {
        if (letter_answered(target, box, number, answer))
            return true;
        if (!target_alive(target))
            return false;
        (void)nanosleep(&pause, NULL);
        if (!target_read_now(target, box->taken, &taken, sizeof(taken), sizeof(taken)))
            taken = 0;
    }
    return false;
}

static bool letter_withdraw(struct target *target, const struct letter_box *box, uint32_t number,
                            unsigned waited, struct mail_answer *answer, struct target_error *error)
{
    uint32_t none = 0, busy = 0;
    char state;

    if (!target_alive(target))
        return target_fail(error, "process %d (%s) ended meanwhile", target->pid, target->name);
    /* One that is at it goes on, and answers after this. */
    if (target_read_now(target, box->waiting, &busy, sizeof(busy), sizeof(busy)) && busy == number)
        (void)letter_write(target, box->waiting, &none, sizeof(none), error);
    if (letter_await(target, box, number, LETTER_GRACE, answer))
        return true;
    state = letter_state(target->pid);
    return target_fail(
        error,
        "process %d (%s) did not take the message in %u ms%s; it is withdrawn.  A process takes "
        "one when an allocation finds its CPU's sheaf empty",
        target->pid, target->name, waited,
        state == 'T' || state == 't' ? ", since it is stopped"
        : state == 'S'               ? ", and sleeps now"
                                     : "");
}

static bool letter_exchange(struct target *target, const struct letter_box *box,
                            const struct letter *letter, unsigned wait, struct mail_answer *answer,
                            struct target_error *error)
{
    struct mail_message message = {.magic = MAIL_MAGIC,
                                   .version = MAIL_VERSION,
                                   .size = sizeof(message),
                                   .verb = letter->verb,
                                   .value = letter->value};
    struct mail_answer before;

    if (!target_read_now(target, box->answer, &before, sizeof(before), sizeof(before)))
        return target_fail(error, "process %d (%s) has ended", target->pid, target->name);
    do
        if (getrandom(&message.number, sizeof(message.number), 0) != sizeof(message.number))
            return target_fail(error, "there are no random numbers");
    while (message.number == 0 || message.number == before.number);
    memcpy(message.name, letter->name, sizeof(message.name));
    message.sum = mail_sum(&message, offsetof(struct mail_message, sum));
    if (!letter_write(target, box->message, &message, sizeof(message), error) ||
        !letter_write(target, box->waiting, &message.number, sizeof(message.number), error))
        return false;
    return letter_await(target, box, message.number, wait, answer) ||
           letter_withdraw(target, box, message.number, wait, answer, error);
}

bool letter_send(struct target *target, const struct letter *letter, unsigned wait,
                 struct mail_answer *answer, struct target_error *error)
{
    struct timespec pause = {0, LETTER_PAUSE * 1000000l};
    struct letter_box box;
    char path[64];
    bool done, locked = false;
    int lock;

    if (!letter_find(target, &box, error))
        return false;
    /* One writer at a time, as far as they see the same /proc. */
    (void)snprintf(path, sizeof(path), "/proc/%d", target->pid);
    lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned waited = 0; lock >= 0 && waited <= wait && !locked; waited += LETTER_PAUSE) {
        locked = flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        if (!locked)
            (void)nanosleep(&pause, NULL);
    }
    if (lock >= 0 && !locked) {
        (void)close(lock);
        return target_fail(error, "another stook set is sending a message to process %d (%s)",
                           target->pid, target->name);
    }
    done = letter_exchange(target, &box, letter, wait, answer, error);
    if (lock >= 0)
        (void)close(lock);
    return done;
}
