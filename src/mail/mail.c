/* SPDX-License-Identifier: MIT */
#include "mail/mail.h"

#include "base/mailbox.h"
#include "base/placed.h"
#include "mail/verbs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

struct mail_box mail_box LARGE_BSS;

/* The thread that has it set is at the message. */
static _Atomic uint32_t mail_busy;

/* Its: the message as it was when it was checked, the answer, and how often one that was not whole was looked at. */
static struct mail_message mail_copy LARGE_BSS;
static struct mail_answer mail_reply LARGE_BSS;
static uint32_t mail_looks;

/* Written from outside while it is copied: what comes of that has another checksum. */
__attribute__((no_sanitize("thread"))) static bool mail_is_whole(uint32_t number)
{
    atomic_signal_fence(memory_order_seq_cst);
    mail_copy = *(volatile struct mail_message *)&mail_box.message;
    return mail_copy.magic == MAIL_MAGIC && mail_copy.number == number &&
           mail_copy.size == sizeof(mail_copy) &&
           mail_copy.sum == mail_sum(&mail_copy, offsetof(struct mail_message, sum));
}

static void mail_do(void)
{
    mail_reply.error = EINVAL;
    if (getauxval(AT_SECURE)) {
        mail_reply.error = EPERM;
        (void)snprintf(mail_reply.text, sizeof(mail_reply.text),
                       "the process has raised privileges");
    } else if (mail_copy.version != MAIL_VERSION) {
        (void)snprintf(mail_reply.text, sizeof(mail_reply.text),
                       "the library knows messages of version %d, not %u", MAIL_VERSION,
                       mail_copy.version);
    } else if (memchr(mail_copy.name, '\0', sizeof(mail_copy.name)) == NULL) {
        (void)snprintf(mail_reply.text, sizeof(mail_reply.text), "the name has no end");
    } else {
        mail_reply.error = 0;
        verbs_do(&mail_copy, &mail_reply);
    }
}

/* The number last: who reads it there finds the rest. */
static void mail_answer(uint32_t number)
{
    mail_reply.version = MAIL_VERSION;
    mail_reply.size = sizeof(mail_reply);
    mail_reply.number = number;
    mail_reply.sum = mail_sum(&mail_reply, offsetof(struct mail_answer, sum));
    mail_reply.number = 0;
    mail_box.answer = mail_reply;
    __atomic_store_n(&mail_box.answer.number, number, __ATOMIC_RELEASE);
}

void mail_take(void)
{
    uint32_t number, free = 0;
    int saved = errno;

    if (!atomic_compare_exchange_strong_explicit(&mail_busy, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    number = atomic_load_explicit(&mailbox_waiting, memory_order_acquire);
    if (number != 0) {
        bool whole = mail_is_whole(number);
        if (whole || ++mail_looks >= MAIL_LOOKS) {
            memset(&mail_reply, 0, sizeof(mail_reply));
            if (whole) {
                __atomic_store_n(&mail_box.taken, number, __ATOMIC_RELEASE);
                mail_do();
            } else {
                mail_reply.error = EBADMSG;
                (void)snprintf(mail_reply.text, sizeof(mail_reply.text), "the message is damaged");
            }
            mail_looks = 0;
            mail_answer(number);
            /* Unless another one came meanwhile, against the rules. */
            (void)atomic_compare_exchange_strong_explicit(
                &mailbox_waiting, &number, 0, memory_order_release, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&mail_busy, 0, memory_order_release);
    errno = saved;
}

FIRST_TEXT void mail_child(void)
{
    if (atomic_load_explicit(&mailbox_waiting, memory_order_relaxed) != 0)
        atomic_store_explicit(&mailbox_waiting, 0, memory_order_relaxed);
    if (atomic_load_explicit(&mail_busy, memory_order_relaxed) != 0)
        atomic_store_explicit(&mail_busy, 0, memory_order_relaxed);
}
