/* SPDX-License-Identifier: MIT */
/*
 * letter.h - a message to a running process, into the mailbox of its library (src/mail/mail.h), and its answer.
 */
#ifndef STOOK_LOOK_LETTER_H
#define STOOK_LOOK_LETTER_H

#include "look/view.h"
#include "mail/mail.h"

struct letter {
    enum mail_verb verb;
    uint64_t value;
    char name[MAIL_NAME_MAX];
};

/*
 * Posts it, and waits so many milliseconds for the answer.  False with an error: it could not be written, it was not
 * taken in that time and is withdrawn, or the process has ended.  An answer may have an error of its own.
 */
bool letter_send(struct target *target, const struct letter *letter, unsigned wait,
                 struct mail_answer *answer, struct target_error *error);

/* Whether a thread of the process is under seccomp, by /proc: the answer could be its end. */
bool letter_under_seccomp(int pid);

#endif
