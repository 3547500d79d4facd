/* SPDX-License-Identifier: MIT */
#include "mail/verbs.h"

#include "debug/flags.h"
#include "sample/shadow.h"
#include "slab/cache.h"

#include <stook/debug.h>
#include <stook/group.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static __attribute__((format(printf, 3, 4))) void verbs_fail(struct mail_answer *answer, int error,
                                                             const char *format, ...)
{
    va_list args;

    answer->error = error;
    va_start(args, format);
    (void)vsnprintf(answer->text, sizeof(answer->text), format, args);
    va_end(args);
}

/* ---- of caches, by name ------------------------------------------------------------------------ */

struct verbs_round {
    const struct mail_message *message;
    struct mail_answer *answer;
    unsigned found, done;
};

static int verbs_cache(struct stook_cache *cache, void *arg)
{
    struct verbs_round *round = arg;
    const struct mail_message *message = round->message;
    struct mail_answer *answer = round->answer;
    int failed = 0;

    if (message->name[0] && strcmp(message->name, cache->name) != 0)
        return 0;
    if (message->verb == MAIL_DEBUG && !message->name[0] && debug_of(cache) == 0)
        return 0; /* all caches with debug flags are meant */
    round->found++;
    if (message->verb == MAIL_SHRINK) {
        answer->value += stook_cache_shrink(cache);
    } else if (message->verb == MAIL_VALIDATE) {
        long wrong = stook_cache_validate(cache);
        answer->value += wrong > 0 ? (uint64_t)wrong : 0;
        failed = wrong < 0;
    } else if (message->verb == MAIL_STATS) {
        failed = stook_cache_stat_enable(cache, (int)message->value) != 0;
    } else if (message->verb == MAIL_DEBUG) {
        failed = stook_cache_debug_set(cache, (unsigned)message->value,
                                       (message->value & MAIL_DEBUG_ON) != 0) != 0;
    } else {
        failed = stook_cache_set_capacity(cache, (unsigned)message->value) != 0;
    }
    if (failed && answer->error == 0)
        verbs_fail(answer, errno, "%s: %s", cache->name,
                   message->verb == MAIL_DEBUG && errno == EOPNOTSUPP
                       ? "the cache was made without debug flags, which cannot be added later"
                   : errno == ENOTSUP ? "the cache has no sheaves"
                   : errno == E2BIG   ? "the capacity is beyond the most"
                   : errno == ENOMEM  ? "out of memory"
                                      : "it cannot be done now");
    round->done += !failed;
    return 0;
}

static void verbs_caches(const struct mail_message *message, struct mail_answer *answer)
{
    struct verbs_round round = {message, answer, 0, 0};

    if (stook_cache_each(verbs_cache, &round) != 0)
        verbs_fail(answer, EAGAIN, "the library is busy");
    else if (round.found == 0)
        verbs_fail(answer, ENOENT,
                   message->name[0] ? "there is no cache %s" : "no cache has debug flags%s",
                   message->name);
    if (message->verb == MAIL_STATS || message->verb == MAIL_CAPACITY ||
        message->verb == MAIL_DEBUG)
        answer->value = round.done;
}

/* ---- the others -------------------------------------------------------------------------------- */

static void verbs_limit(const struct mail_message *message, struct mail_answer *answer)
{
    struct stook_group group = STOOK_NO_GROUP, found = STOOK_NO_GROUP;
    struct stook_group_stat stat = {.size = sizeof(stat)};
    size_t limit = message->value > SIZE_MAX ? STOOK_UNLIMITED : (size_t)message->value;
    unsigned same = 0;

    while (!stook_group_is_none(group = stook_group_next(group))) {
        const char *name = stook_group_name(group);
        if (name && strcmp(name, message->name) == 0) {
            found = group;
            same++;
        }
    }
    if (same == 0)
        verbs_fail(answer, ENOENT, "there is no group %s", message->name);
    else if (same > 1)
        verbs_fail(answer, EEXIST, "%u groups have the name %s", same, message->name);
    else if (stook_group_set_limit(found, limit) != 0 || stook_group_stat(found, &stat) != 0)
        verbs_fail(answer, errno, "the group is gone");
    answer->value = stat.usage;
}

void verbs_do(const struct mail_message *message, struct mail_answer *answer)
{
    switch ((enum mail_verb)message->verb) {
    case MAIL_CAPACITY:
        if (message->value > STOOK_SHEAF_CAPACITY_MAX || message->name[0] == '\0') {
            verbs_fail(answer, EINVAL, "a capacity is at most %u, of one cache",
                       STOOK_SHEAF_CAPACITY_MAX);
            return;
        }
        verbs_caches(message, answer);
        return;
    case MAIL_STATS:
        if (message->value > STOOK_STATS_SLOW) {
            verbs_fail(answer, EINVAL, "no way of counting has the number %llu",
                       (unsigned long long)message->value);
            return;
        }
        verbs_caches(message, answer);
        return;
    case MAIL_DEBUG:
        if ((message->value & ~MAIL_DEBUG_ON & ~(uint64_t)DEBUG_SWITCHED) != 0) {
            verbs_fail(answer, EINVAL, "only T and A can be switched");
            return;
        }
        verbs_caches(message, answer);
        return;
    case MAIL_SHRINK:
    case MAIL_VALIDATE:
        verbs_caches(message, answer);
        return;
    case MAIL_SAMPLE:
        shadow_begin(message->value);
        return;
    case MAIL_LIMIT:
        verbs_limit(message, answer);
        return;
    }
    verbs_fail(answer, ENOSYS, "the library knows no word of the number %u", message->verb);
}
