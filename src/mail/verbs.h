/* SPDX-License-Identifier: MIT */
/*
 * verbs.h - what a message asks for, by the public calls that a program could make itself.
 */
#ifndef STOOK_MAIL_VERBS_H
#define STOOK_MAIL_VERBS_H

#include "mail/mail.h"

/* Fills in error, value and text of the answer.  The message is whole; its name ends with a NUL. */
void verbs_do(const struct mail_message *message, struct mail_answer *answer);

#endif
