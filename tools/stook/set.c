/* SPDX-License-Identifier: MIT */
/*
 * set.c - stook set: changes a process while it runs.
 */
#include "stook/command.h"

#include "base/parse.h"
#include "look/letter.h"
#include "stook/look_show.h"

#include <stook/stat.h>
#include <stook/stook.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_WAIT = 5000 /* ms */, SET_WAIT_MOST = 3600 /* s */ };

struct set_options {
    int pid;
    bool force;
    unsigned wait;
    struct letter letter;
};

/* What follows a word. */
enum set_form {
    SET_CACHE,      /* [CACHE] */
    SET_WAY,        /* on|slow|off [CACHE] */
    SET_BYTES,      /* BYTES|off */
    SET_NAME_COUNT, /* CACHE N|default */
    SET_NAME_BYTES, /* GROUP BYTES|none */
    SET_LETTERS,    /* +T|-T|+A|-A [CACHE] */
};
static const struct set_word {
    const char *name, *takes;
    enum mail_verb verb;
    enum set_form form;
} set_words[] = {
    {"shrink", "[CACHE]", MAIL_SHRINK, SET_CACHE},
    {"validate", "[CACHE]", MAIL_VALIDATE, SET_CACHE},
    {"stats", "on|slow|off [CACHE]", MAIL_STATS, SET_WAY},
    {"sample", "BYTES|off", MAIL_SAMPLE, SET_BYTES},
    {"capacity", "CACHE N|default", MAIL_CAPACITY, SET_NAME_COUNT},
    {"limit", "GROUP BYTES|none", MAIL_LIMIT, SET_NAME_BYTES},
    {"debug", "+T|-T|+A|-A|+TA|-TA [CACHE]", MAIL_DEBUG, SET_LETTERS},
};
enum { SET_WORDS = sizeof(set_words) / sizeof(set_words[0]) };

static const struct set_word *set_word(const char *name)
{
    for (int i = 0; i < SET_WORDS; i++)
        if (strcmp(set_words[i].name, name) == 0)
            return &set_words[i];
    return NULL;
}

static bool set_name(struct letter *letter, const char *name)
{
    if (!name)
        return true;
    if (!*name || strlen(name) >= sizeof(letter->name))
        return false;
    memcpy(letter->name, name, strlen(name));
    return true;
}

/* One of three words, or bytes, or a number; `none`: the word for no such thing, which stands for `nothing`. */
static bool set_value(struct letter *letter, const char *text, enum set_form form, const char *none,
                      uint64_t nothing)
{
    size_t number;

    if (form == SET_WAY) {
        letter->value = strcmp(text, "on") == 0 ? STOOK_STATS_ALL : STOOK_STATS_SLOW;
        if (strcmp(text, "off") == 0)
            letter->value = STOOK_STATS_OFF;
        return strcmp(text, "on") == 0 || strcmp(text, "slow") == 0 || strcmp(text, "off") == 0;
    }
    if (strcmp(text, none) == 0) {
        letter->value = nothing;
        return true;
    }
    if (form == SET_NAME_COUNT ? !parse_number(text, &number) : !parse_size(text, &number))
        return false;
    letter->value = number;
    /* 0 means a word of these: it has to be said. */
    return form == SET_NAME_BYTES || number > 0;
}

/* +T, -A, +TA: which debug flags are switched on or off. */
static bool set_letters(struct letter *letter, const char *text)
{
    if (text[0] != '+' && text[0] != '-')
        return false;
    letter->value = text[0] == '+' ? MAIL_DEBUG_ON : 0;
    for (const char *at = text + 1; *at; at++) {
        if (*at != 'T' && *at != 't' && *at != 'A' && *at != 'a')
            return false;
        letter->value |=
            *at == 'T' || *at == 't' ? STOOK_CACHE_DEBUG_TRACE : STOOK_CACHE_DEBUG_FAIL;
    }
    return text[1] != '\0';
}

static bool set_letter(struct letter *letter, const struct set_word *word, int argc, char **argv)
{
    letter->verb = word->verb;
    switch (word->form) {
    case SET_CACHE:
        return argc <= 1 && set_name(letter, argc == 1 ? argv[0] : NULL);
    case SET_WAY:
        return argc >= 1 && argc <= 2 && set_value(letter, argv[0], SET_WAY, "", 0) &&
               set_name(letter, argc == 2 ? argv[1] : NULL);
    case SET_BYTES:
        return argc == 1 && set_value(letter, argv[0], SET_BYTES, "off", 0);
    case SET_NAME_COUNT:
        return argc == 2 && set_name(letter, argv[0]) &&
               set_value(letter, argv[1], SET_NAME_COUNT, "default", 0);
    case SET_NAME_BYTES:
        return argc == 2 && set_name(letter, argv[0]) &&
               set_value(letter, argv[1], SET_NAME_BYTES, "none", UINT64_MAX);
    case SET_LETTERS:
        return argc >= 1 && argc <= 2 && set_letters(letter, argv[0]) &&
               set_name(letter, argc == 2 ? argv[1] : NULL);
    }
    return false;
}

static int set_parse(int argc, char **argv, struct set_options *options)
{
    const struct set_word *word;
    size_t seconds;
    int at = 1;

    *options = (struct set_options){.wait = SET_WAIT};
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--force") == 0) {
            options->force = true;
        } else if (strcmp(argv[at], "--wait") == 0 && at + 1 < argc) {
            if (!parse_number(argv[++at], &seconds) || seconds > SET_WAIT_MOST)
                return complain(STATUS_USAGE, "--wait takes seconds up to %d, not %s",
                                SET_WAIT_MOST, argv[at]);
            options->wait = (unsigned)seconds * 1000;
        } else {
            return complain(STATUS_USAGE, "%s is no option of stook set", argv[at]);
        }
    }
    if (argc - at < 2)
        return complain(STATUS_USAGE, "stook set takes a process and a word; see stook help set");
    if (!look_pid(argv[at], &options->pid))
        return complain(STATUS_USAGE, "%s is no process number", argv[at]);
    word = set_word(argv[at + 1]);
    if (!word)
        return complain(STATUS_USAGE, "there is no word %s; see stook help set", argv[at + 1]);
    if (!set_letter(&options->letter, word, argc - at - 2, argv + at + 2))
        return complain(STATUS_USAGE, "%s takes %s", word->name, word->takes);
    return STATUS_OK;
}

static void set_show(const struct letter *letter, const struct mail_answer *answer)
{
    unsigned long long value = answer->value;

    switch (letter->verb) {
    case MAIL_SHRINK:
        printf("%llu bytes were given back\n", value);
        break;
    case MAIL_VALIDATE:
        printf(value ? "%llu errors were found; the process has reported each\n"
                     : "no errors were found\n",
               value);
        break;
    case MAIL_STATS:
    case MAIL_CAPACITY:
    case MAIL_DEBUG:
        printf("%llu cache%s changed\n", value, value == 1 ? "" : "s");
        break;
    case MAIL_SAMPLE:
        puts(letter->value ? "the sampling rate is changed" : "nothing is sampled from now on");
        break;
    case MAIL_LIMIT:
        printf("the limit is changed; the group has %llu bytes in use\n", value);
        break;
    }
}

static int set_run(int argc, char **argv)
{
    struct set_options options;
    struct target_error error;
    struct mail_answer answer;
    struct target *target;
    bool sent;
    int status = set_parse(argc, argv, &options);

    if (status != STATUS_OK)
        return status;
    target = target_open_pid(options.pid, &error);
    if (!target)
        return complain(STATUS_FAILED, "%s", error.text);
    if (!options.force && letter_under_seccomp(options.pid)) {
        status = complain(
            STATUS_FAILED,
            "process %d (%s) is under seccomp: its filter may end it for the system calls that the message "
            "leads to (docs/system-calls.md lists them); --force sends it nevertheless",
            options.pid, target->name);
        target_close(target);
        return status;
    }
    sent = letter_send(target, &options.letter, options.wait, &answer, &error);
    target_close(target);
    if (!sent)
        return complain(STATUS_FAILED, "%s", error.text);
    if (answer.error != 0) {
        target_clean_text(answer.text, sizeof(answer.text));
        return complain(STATUS_FAILED, "process %d refuses: %s", options.pid, answer.text);
    }
    set_show(&options.letter, &answer);
    return STATUS_OK;
}

static const char set_help[] =
    "usage: stook set [--wait SECONDS] [--force] PID WORD ...\n"
    "\n"
    "Changes a process while it runs, for its owner.\n"
    "\n"
    "  shrink [CACHE]             give back what caches hold and nothing uses\n"
    "  validate [CACHE]           check slabs, freelists and debug objects; errors are reported by the process\n"
    "  stats on|slow|off [CACHE]  count events (slow: without those of the fast path)\n"
    "  sample BYTES|off           bytes from one sampled object to the next, in the mean\n"
    "  capacity CACHE N|default   objects of a CPU's sheaf\n"
    "  limit GROUP BYTES|none     the most that a group may be charged\n"
    "  debug +T|-T|+A|-A [CACHE]  trace its calls, or let allocations fail (STOOK_FAIL): of caches with debug flags\n"
    "\n"
    "  --wait SECONDS   how long to wait for the process to take the message (5)\n"
    "  --force          also where a thread of the process is under seccomp\n"
    "\n"
    "The process takes the message in an allocation that finds its CPU's sheaf empty.  If it does not in that time,\n"
    "the message is withdrawn, and stook says so.\n";

const struct command command_set = {"set", "change a process while it runs", set_help, set_run};
