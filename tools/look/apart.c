/* SPDX-License-Identifier: MIT */
/*
 * apart.c - children that read processes one after the other, a deadline for each process, and what is remembered of
 * those that were late.
 */
#include "look/apart.h"

#include "look/target.h"

#include "base/raw.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    APART_WAIT = 2000, /* ms for one process … */
    APART_BRIEF = 250, /* … and for one of a user of whom APART_PATIENCE were late in this round */
    APART_PATIENCE = 2,
    APART_USER = 14,      /* late ones of a user in a round: the rest of that user's are left out */
    APART_REST = 300,     /* s that one that was late is left out */
    APART_LATE = 256,     /* that are remembered, and users of them in a round */
    APART_MOST = 1 << 26, /* bytes that are said of one */
};

static struct apart_late {
    int pid;
    uint64_t started, until;
} apart_late[APART_LATE];
static unsigned apart_lates;

struct apart_round {
    const struct apart *apart;
    int *pid; /* 0: left out */
    size_t n;
    unsigned late;
    struct {
        uid_t user;
        unsigned late;
    } users[APART_LATE];
    unsigned nusers;
};

/* The head of what is said of a process. */
struct apart_head {
    size_t index, size;
};

static uint64_t apart_now(void)
{
    return raw_clock() / 1000000; /* ms */
}

/* Field 22 of its stat, behind the name, which may hold anything. */
uint64_t apart_started(int pid)
{
    char path[32], text[1024];
    uint64_t start = 0;
    const char *at;
    size_t n;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%lu", &start) == 1 ? start : 0;
}

/* ---- late processes ----------------------------------------------------------------------------- */

static bool apart_was_late(int pid)
{
    for (unsigned i = 0; i < APART_LATE; i++)
        if (apart_late[i].pid == pid && apart_now() < apart_late[i].until &&
            apart_started(pid) == apart_late[i].started)
            return true;
    return false;
}

static uid_t apart_user(int pid)
{
    struct stat st = {0};
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d", pid);
    (void)stat(path, &st);
    return st.st_uid;
}

static void apart_leave_out(struct apart_round *round, size_t i)
{
    round->pid[i] = 0;
    round->late++;
}

/* How many processes of the user of this one were late in this round. */
static unsigned *apart_user_late(struct apart_round *round, int pid)
{
    uid_t user = apart_user(pid);
    unsigned i = 0;

    while (i < round->nusers && round->users[i].user != user)
        i++;
    if (i == round->nusers) {
        round->nusers += i + 1 < APART_LATE;
        round->users[i].user = user;
        round->users[i].late = 0;
    }
    return &round->users[i].late;
}

/* The process is left out from now on, and so is the rest of its user's, if that is one too many. */
static void apart_note(struct apart_round *round, size_t at)
{
    int pid = round->pid[at];

    apart_late[apart_lates++ % APART_LATE] =
        (struct apart_late){pid, apart_started(pid), apart_now() + APART_REST * UINT64_C(1000)};
    apart_leave_out(round, at);
    if (++*apart_user_late(round, pid) < APART_USER)
        return;
    for (size_t k = at + 1; k < round->n; k++)
        if (round->pid[k] && *apart_user_late(round, round->pid[k]) >= APART_USER)
            apart_leave_out(round, k);
}

/* ---- the child ---------------------------------------------------------------------------------- */

bool apart_write(int fd, const void *from, size_t size)
{
    const char *at = from;

    for (ssize_t n; size > 0; at += n, size -= (size_t)n)
        if ((n = write(fd, at, size)) <= 0)
            return false;
    return true;
}

static void apart_child(const struct apart_round *round, size_t first, int fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = first; i < round->n; i++) {
        struct apart_head head = {.index = i};
        char *said = NULL;
        FILE *to = round->pid[i] ? open_memstream(&said, &head.size) : NULL;
        if (!round->pid[i])
            continue;
        if (!to)
            _exit(1);
        round->apart->look(round->pid[i], to, round->apart->arg);
        if (fclose(to) != 0 || !apart_write(fd, &head, sizeof(head)) ||
            !apart_write(fd, said, head.size))
            _exit(1);
        free(said);
    }
    _exit(0);
}

/* All of it, or false: the child ended, or it is `until`. */
static bool apart_read(int fd, void *to, size_t size, uint64_t until)
{
    char *at = to;

    while (size > 0) {
        uint64_t now = apart_now();
        struct pollfd ready = {fd, POLLIN, 0};
        ssize_t n =
            now < until && poll(&ready, 1, (int)(until - now)) > 0 ? read(fd, at, size) : -1;
        if (n == 0 || (n < 0 && apart_now() >= until))
            return false;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* What a child says, from a process on; the first one that it says nothing of, or n. */
static size_t apart_follow(struct apart_round *round, size_t first, int fd)
{
    for (size_t i = first; i < round->n; i++) {
        struct apart_head head;
        uint64_t until;
        char *said;
        if (!round->pid[i])
            continue;
        until = apart_now() +
                (round->late == 0 || *apart_user_late(round, round->pid[i]) < APART_PATIENCE
                     ? APART_WAIT
                     : APART_BRIEF);
        if (!apart_read(fd, &head, sizeof(head), until) || head.index != i ||
            head.size > APART_MOST || !(said = malloc(head.size + 1)))
            return i;
        if (!apart_read(fd, said, head.size, until)) {
            free(said);
            return i;
        }
        round->apart->take(round->pid[i], said, head.size, round->apart->arg);
        free(said);
    }
    return round->n;
}

static bool apart_add(int pid, void *arg)
{
    struct apart_round *round = arg;

    if (pid == (int)getpid())
        return true;
    round->pid = target_row(round->pid, round->n, sizeof(*round->pid));
    round->pid[round->n++] = pid;
    if (apart_was_late(pid))
        apart_leave_out(round, round->n - 1);
    return true;
}

unsigned apart_each(const struct apart *apart, const int *pids, size_t n)
{
    static struct apart_round round;

    (void)signal(SIGCHLD, SIG_DFL); /* a child's number is its own until it was waited for */
    round = (struct apart_round){.apart = apart};
    if (n == 0)
        target_for_each_process(apart_add, &round);
    for (size_t i = 0; i < n; i++)
        (void)apart_add(pids[i], &round);
    fflush(NULL); /* or the child has it, too */
    for (size_t i = 0; i < round.n; i++) {
        int ends[2];
        pid_t child;
        if (pipe(ends) != 0)
            break;
        if ((child = fork()) == 0)
            apart_child(&round, i, ends[1]);
        close(ends[1]);
        i = child < 0 ? round.n : apart_follow(&round, i, ends[0]);
        close(ends[0]);
        if (child > 0) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, NULL, 0);
        }
        if (i < round.n)
            apart_note(&round, i);
    }
    free(round.pid);
    return round.late;
}
