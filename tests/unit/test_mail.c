/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Messages from outside: what they do, which are not taken, and by whom.  The last tests write them into another process,
 * as `stook set` does.
 */
#include "mail/mail.h"

#include "base/mailbox.h"
#include "debug/flags.h"
#include "sample/sample.h"

#include <stook/group.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 4000, THREADS = 4, MESSAGES = 200, SOON = 4 };

static struct stook_cache *direct; /* each of its allocations looks */
static uint32_t last = 1000;

static struct mail_message letter(enum mail_verb verb, const char *name, uint64_t value)
{
    struct mail_message message = {.magic = MAIL_MAGIC,
                                   .version = MAIL_VERSION,
                                   .size = sizeof(message),
                                   .number = ++last,
                                   .verb = verb,
                                   .value = value};

    strncpy(message.name, name, sizeof(message.name) - 1);
    message.sum = mail_sum(&message, offsetof(struct mail_message, sum));
    return message;
}

static void post(const struct mail_message *message)
{
    assert_int_equal(mailbox_waiting, 0);
    mail_box.message = *message;
    mailbox_waiting = message->number;
}

static void step(unsigned flags)
{
    stook_free(direct, stook_alloc(direct, flags));
}

/* Its answer, which comes within a few allocations. */
static struct mail_answer reply(const struct mail_message *message)
{
    struct mail_answer answer;

    for (int i = 0; mailbox_waiting != 0; i++) {
        assert_true(i < SOON);
        step(STOOK_WAIT);
    }
    answer = mail_box.answer;
    assert_int_equal(answer.number, message->number);
    assert_int_equal(answer.size, sizeof(answer));
    assert_int_equal(answer.sum, mail_sum(&answer, offsetof(struct mail_answer, sum)));
    return answer;
}

static struct mail_answer ask(enum mail_verb verb, const char *name, uint64_t value)
{
    struct mail_message message = letter(verb, name, value);

    post(&message);
    return reply(&message);
}

static void test_shrink(void **unused)
{
    static void *object[OBJECTS];
    struct stook_cache *cache = stook_cache_create("to-shrink", 256, NULL);

    (void)unused;
    for (int i = 0; i < OBJECTS; i++)
        object[i] = stook_alloc(cache, STOOK_WAIT);
    for (int i = 0; i < OBJECTS; i++)
        stook_free(cache, object[i]);
    assert_true(ask(MAIL_SHRINK, "to-shrink", 0).value > 0);
    assert_int_equal(ask(MAIL_SHRINK, "to-shrink", 0).value, 0);
    assert_int_equal(ask(MAIL_SHRINK, "", 0).error, 0);
    assert_int_equal(ask(MAIL_SHRINK, "to-shrin", 0).error, ENOENT);
    stook_cache_destroy(cache);
    assert_int_equal(ask(MAIL_SHRINK, "to-shrink", 0).error, ENOENT);
}

static void test_stats_and_capacity(void **unused)
{
    struct stook_cache *cache = stook_cache_create("to-set", 256, NULL);
    struct stook_stat stat = {.size = sizeof(stat)};
    struct mail_answer answer;

    (void)unused;
    answer = ask(MAIL_STATS, "to-set", STOOK_STATS_ALL);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.value, 1);
    stook_free(cache, stook_alloc(cache, STOOK_WAIT));
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.free_fastpath + stat.free_slowpath, 1);
    assert_int_equal(ask(MAIL_STATS, "", STOOK_STATS_OFF).error, 0);
    stook_free(cache, stook_alloc(cache, STOOK_WAIT));
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.free_fastpath + stat.free_slowpath, 1);
    assert_int_equal(ask(MAIL_STATS, "to-set", 3).error, EINVAL);

    answer = ask(MAIL_CAPACITY, "to-set", 7);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.value, 1);
    assert_int_equal(stook_cache_capacity(cache), 7);
    assert_int_equal(ask(MAIL_CAPACITY, "to-set", 0).error, 0);
    assert_true(stook_cache_capacity(cache) != 7);
    assert_int_equal(ask(MAIL_CAPACITY, "to-set", STOOK_SHEAF_CAPACITY_MAX + 1).error, EINVAL);
    assert_int_equal(ask(MAIL_CAPACITY, "to-set", (uint64_t)1 << 32 | 9).error, EINVAL);
    answer = ask(MAIL_CAPACITY, "direct", 9);
    assert_int_equal(answer.error, ENOTSUP);
    assert_string_equal(answer.text, "direct: the cache has no sheaves");
    stook_cache_destroy(cache);
}

static void test_validate(void **unused)
{
    struct mail_answer answer = ask(MAIL_VALIDATE, "", 0);

    (void)unused;
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.value, 0);
    assert_int_equal(ask(MAIL_VALIDATE, "direct", 0).error, 0);
}

static void test_limit(void **unused)
{
    struct stook_group group = stook_group_create("web", STOOK_NO_GROUP, STOOK_UNLIMITED), twin;
    struct stook_group_stat stat = {.size = sizeof(stat)};

    (void)unused;
    assert_int_equal(ask(MAIL_LIMIT, "web", 12345678).error, 0);
    assert_int_equal(stook_group_stat(group, &stat), 0);
    assert_int_equal(stat.limit, 12345678);
    assert_int_equal(ask(MAIL_LIMIT, "web", UINT64_MAX).error, 0);
    assert_int_equal(stook_group_stat(group, &stat), 0);
    assert_true(stat.limit == STOOK_UNLIMITED);
    assert_int_equal(ask(MAIL_LIMIT, "wob", 1).error, ENOENT);
    twin = stook_group_create("web", STOOK_NO_GROUP, STOOK_UNLIMITED);
    assert_int_equal(ask(MAIL_LIMIT, "web", 1).error, EEXIST);
    assert_int_equal(stook_group_destroy(twin), 0);
    assert_int_equal(stook_group_destroy(group), 0);
}

static void test_samples(void **unused)
{
    (void)unused;
    assert_true(sample_mean_of(SAMPLE_PROFILE) != 1 << 20);
    assert_int_equal(ask(MAIL_SAMPLE, "", 1 << 20).error, 0);
    assert_int_equal(sample_mean_of(SAMPLE_PROFILE), 1 << 20);
    assert_int_equal(ask(MAIL_SAMPLE, "", 0).error, 0);
    assert_int_equal(sample_mean_of(SAMPLE_PROFILE), 0);
}

static void test_debug(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_DEBUG_CHECKS};
    struct stook_cache *checked, *plain = stook_cache_create("plain", 256, NULL);
    struct mail_answer answer = ask(MAIL_DEBUG, "plain", MAIL_DEBUG_ON | DEBUG_A);

    (void)unused;
    assert_int_equal(answer.error, ENOTSUP);
    assert_non_null(strstr(answer.text, "plain: the cache was made without debug flags"));
    checked = stook_cache_create("checked", 256, &args);
    assert_non_null(checked);
    answer = ask(MAIL_DEBUG, "checked", MAIL_DEBUG_ON | DEBUG_A);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.value, 1);
    assert_int_equal(debug_of(checked), DEBUG_F | DEBUG_A);
    assert_int_equal(ask(MAIL_DEBUG, "", DEBUG_A).error, 0);
    assert_int_equal(debug_of(checked), DEBUG_F);
    assert_int_equal(debug_of(plain), 0);
    assert_int_equal(ask(MAIL_DEBUG, "checked", MAIL_DEBUG_ON | DEBUG_Z).error, EINVAL);
    assert_int_equal(ask(MAIL_DEBUG, "chucked", MAIL_DEBUG_ON | DEBUG_A).error, ENOENT);
    stook_cache_destroy(checked);
    stook_cache_destroy(plain);
}

static void test_not_for_this_library(void **unused)
{
    struct mail_message message = letter(MAIL_SHRINK, "", 0);
    struct mail_answer answer;

    (void)unused;
    answer = ask((enum mail_verb)99, "", 0);
    assert_int_equal(answer.error, ENOSYS);
    assert_string_equal(answer.text, "the library knows no word of the number 99");
    message.number = ++last;
    message.version = MAIL_VERSION + 1;
    message.sum = mail_sum(&message, offsetof(struct mail_message, sum));
    post(&message);
    answer = reply(&message);
    assert_int_equal(answer.error, EINVAL);
    assert_non_null(strstr(answer.text, "version 1, not 2"));
    message = letter(MAIL_SHRINK, "", 0);
    memset(message.name, 'x', sizeof(message.name));
    message.sum = mail_sum(&message, offsetof(struct mail_message, sum));
    post(&message);
    assert_string_equal(reply(&message).text, "the name has no end");
}

/* Each byte of it, if it is another one, keeps it from being taken; and then it is answered as damaged. */
static void test_damaged(void **unused)
{
    (void)unused;
    for (size_t at = 0; at < sizeof(struct mail_message); at++) {
        struct mail_message message = letter(MAIL_SHRINK, "direct", 0);
        uint32_t answered = mail_box.answer.number;
        ((unsigned char *)&message)[at] ^= 1u << at % 8;
        post(&message);
        mailbox_waiting = last;
        for (int i = 1; i < MAIL_LOOKS; i++)
            step(STOOK_WAIT);
        assert_int_equal(mail_box.answer.number, answered);
        assert_int_equal(mailbox_waiting, last);
        step(STOOK_WAIT);
        assert_int_equal(mailbox_waiting, 0);
        assert_int_equal(mail_box.answer.number, last);
        assert_int_equal(mail_box.answer.error, EBADMSG);
    }
}

/* It is taken when the rest of it has come. */
static void test_half_written(void **unused)
{
    (void)unused;
    for (size_t half = 1; half < sizeof(struct mail_message); half += 5) {
        struct mail_message message = letter(MAIL_VALIDATE, "direct", 0);
        post(&(struct mail_message){0});
        memcpy(&mail_box.message, &message, half);
        mailbox_waiting = message.number;
        for (int i = 0; i < 3; i++)
            step(STOOK_WAIT);
        assert_int_equal(mailbox_waiting, message.number);
        mail_box.message = message;
        assert_int_equal(reply(&message).error, 0);
    }
}

/* Calls that may not wait leave it to others. */
static void test_who_takes_it(void **unused)
{
    struct mail_message message = letter(MAIL_VALIDATE, "", 0);

    (void)unused;
    post(&message);
    for (int i = 0; i < 100; i++) {
        step(STOOK_NORECLAIM);
        step(STOOK_SIGNAL_SAFE);
    }
    assert_int_equal(mailbox_waiting, message.number);
    errno = 77;
    step(STOOK_WAIT);
    assert_int_equal(errno, 77);
    assert_int_equal(mailbox_waiting, 0);
    assert_int_equal(reply(&message).error, 0);
}

/* A child has its parent's memory, and not its mail. */
static void test_fork(void **unused)
{
    struct mail_message message = letter(MAIL_VALIDATE, "", 0);
    int status;
    pid_t child;

    (void)unused;
    post(&message);
    child = fork();
    if (child == 0) {
        step(STOOK_WAIT);
        _exit(mailbox_waiting != 0 || mail_box.answer.number == message.number);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(mailbox_waiting, message.number);
    assert_int_equal(reply(&message).error, 0);
}

static _Atomic bool threads_end;

static void *thread_main(void *unused)
{
    while (!threads_end)
        step(STOOK_WAIT);
    return unused;
}

/* One of the threads takes each, once. */
static void test_threads(void **unused)
{
    pthread_t thread[THREADS];
    struct stook_cache *cache = stook_cache_create("crowd", 64, NULL);

    (void)unused;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, thread_main, NULL), 0);
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct mail_message message = letter(MAIL_CAPACITY, "crowd", 1 + i % 50);
        post(&message);
        while (mailbox_waiting != 0)
            (void)usleep(50);
        assert_int_equal(mail_box.answer.number, message.number);
        assert_int_equal(mail_box.answer.error, 0);
        assert_int_equal(stook_cache_capacity(cache), 1 + i % 50);
    }
    threads_end = true;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    stook_cache_destroy(cache);
}

/* ---- another process ---------------------------------------------------------------------------- */

struct places {
    uint64_t waiting, box;
};

static bool remote(pid_t child, bool write_it, uint64_t there, void *here, size_t size)
{
    struct iovec own = {here, size}, other = {(void *)(uintptr_t)there, size};
    ssize_t n = write_it ? process_vm_writev(child, &own, 1, &other, 1, 0)
                         : process_vm_readv(child, &own, 1, &other, 1, 0);

    return n == (ssize_t)size;
}

static int other_main(int to_parent, int from_parent)
{
    struct places places = {(uintptr_t)&mailbox_waiting, (uintptr_t)&mail_box};
    struct stook_cache *cache = stook_cache_create("others", 64, NULL);
    struct timespec pause = {0, 100000};
    char byte;

    if (write(to_parent, &places, sizeof(places)) != sizeof(places))
        return 1;
    while (stook_cache_capacity(cache) != 11) {
        step(STOOK_WAIT);
        (void)nanosleep(&pause, NULL);
    }
    return read(from_parent, &byte, 1) == 1 ? 0 : 2;
}

static void test_from_outside(void **unused)
{
    struct mail_message message = letter(MAIL_CAPACITY, "others", 11);
    struct mail_answer answer;
    struct places places;
    uint32_t waiting = 1;
    int up[2], down[2], status;
    pid_t child;

    (void)unused;
    assert_int_equal(pipe(up) | pipe(down), 0);
    child = fork();
    if (child == 0)
        _exit(other_main(up[1], down[0]));
    assert_int_equal(read(up[0], &places, sizeof(places)), sizeof(places));
    if (!remote(child, true, places.box, &message, sizeof(message))) { /* forbidden here */
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
        skip();
    }
    assert_true(remote(child, true, places.waiting, &message.number, sizeof(message.number)));
    while (waiting != 0) {
        (void)usleep(1000);
        assert_true(remote(child, false, places.waiting, &waiting, sizeof(waiting)));
    }
    assert_true(remote(child, false, places.box + offsetof(struct mail_box, answer), &answer,
                       sizeof(answer)));
    assert_int_equal(answer.number, message.number);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.value, 1);
    assert_int_equal(answer.sum, mail_sum(&answer, offsetof(struct mail_answer, sum)));
    assert_int_equal(write(down[1], "", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_stats_and_capacity),
        cmocka_unit_test(test_validate),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_debug),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_not_for_this_library),
        cmocka_unit_test(test_half_written),
        cmocka_unit_test(test_who_takes_it),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_from_outside),
        cmocka_unit_test(test_samples),
    };
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};

    direct = stook_cache_create("direct", 64, &args);
    return direct ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
