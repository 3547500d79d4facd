/* SPDX-License-Identifier: MIT */
#include "base/settings.h"

#include "base/once.h"
#include "base/parse.h"
#include "base/report.h"

#include <stook/trace.h>

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum {
    SETTINGS_PREFIX = sizeof("STOOK_") - 1,
    SETTINGS_UNKNOWN = 8, /* unknown names that are kept, and warned of */
    SETTINGS_NAME = 64,   /* characters of an unknown name that are compared */
    SETTINGS_LAB_KEPT = 0,
    SETTINGS_LAB_FORGOTTEN = 1,
};

/* Arrays, not pointers: the loader has nothing to relocate at a process's start. */
static const struct setting {
    char name[24], initial[8], words[20], unit[16];
    uint8_t type;
    bool forgotten;
    size_t least, most;
} settings[] = {
#define SETTING(id, name, type, initial, least, most, words, unit, lab, sentence)                  \
    {name, initial, words, unit, SETTING_##type, SETTINGS_LAB_##lab, least, most},
#include "base/settings.def"
#undef SETTING
};

/* Each row fits, the ends of its texts included. */
#define SETTING(id, n, type, i, least, most, w, u, lab, sentence)                                  \
    _Static_assert(                                                                                \
        sizeof(n) <= sizeof(settings[0].name) && sizeof(i) <= sizeof(settings[0].initial) &&       \
            sizeof(w) <= sizeof(settings[0].words) && sizeof(u) <= sizeof(settings[0].unit),       \
        "a text of " n " is too long: lengthen its array in struct setting");
#include "base/settings.def"
#undef SETTING

/* What begins with these is the project's own, of tests, benches and scripts. */
static const char settings_foreign[][16] = {"SOURCE_DIR", "BUILD_DIR", "TEST_",   "STRESS_",
                                            "EMULATED",   "SLOW",      "KERNEL_", "BENCH"};

/* Written at the start by one thread, before `settings_once` is done; then by setting_refuse(). */
static struct {
    size_t number;
    const char *written;
    enum setting_source source;
} settings_now[SETTINGS];
static struct {
    const char *name[SETTINGS_UNKNOWN]; /* up to the '=' */
    unsigned n;
    bool warned;
} settings_strange;
static _Atomic uint32_t settings_once;

/* ---- values ----------------------------------------------------------------------------------- */

/* The place of a word in words that spaces separate; -1. */
static int setting_place(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (int place = 0; *words; place++) {
        size_t n = strcspn(words, " ");
        if (n == length && memcmp(words, word, n) == 0)
            return place;
        words += n + (words[n] == ' ');
    }
    return -1;
}

bool setting_check(enum setting_id id, const char *text, size_t *number)
{
    const struct setting *s = &settings[id];
    size_t value = 0;
    int place = 0;

    switch ((enum setting_type)s->type) {
    case SETTING_FLAG: /* those at odd places say yes */
        place = setting_place("0 1 no yes off on false true", text);
        value = (size_t)place % 2;
        break;
    case SETTING_NUMBER:
    case SETTING_BYTES:
        if (!(s->type == SETTING_BYTES ? parse_size : parse_number)(text, &value) ||
            value < s->least || (s->most && value > s->most))
            return false;
        break;
    case SETTING_CHOICE:
        place = setting_place(s->words, text);
        value = (size_t)place;
        break;
    case SETTING_SIGNAL:
        value = (size_t)parse_signal(text);
        place = value > 0 ? 0 : -1;
        break;
    case SETTING_CPUS:
        place = parse_list(text, (unsigned)s->most + 1, NULL, NULL);
        break;
    case SETTING_TEXT:
        break;
    }
    if (place < 0)
        return false;
    *number = value;
    return true;
}

/* "68K": the largest unit that leaves no rest. */
static int setting_size(char *text, size_t room, size_t size)
{
    static const char units[] = " KMG";
    unsigned unit = 0;

    for (; unit < 3 && size > 0 && size % 1024 == 0; unit++)
        size /= 1024;
    return snprintf(text, room, unit ? "%zu%c" : "%zu", size, units[unit]);
}

void setting_accepted(enum setting_id id, char text[SETTING_ACCEPTED_MAX])
{
    const struct setting *s = &settings[id];
    const char *word = s->words;
    size_t n = 0, room = SETTING_ACCEPTED_MAX;

    switch ((enum setting_type)s->type) {
    case SETTING_FLAG:
        snprintf(text, room, "0 or 1");
        break;
    case SETTING_NUMBER:
        snprintf(text, room, "a %s from %zu to %zu", s->unit, s->least, s->most);
        break;
    case SETTING_BYTES:
        n = (size_t)snprintf(text, room, "bytes such as 64M (K, M or G may follow)");
        if (s->least > 1) {
            n += (size_t)snprintf(text + n, room - n, ", at least ");
            n += (size_t)setting_size(text + n, room - n, s->least);
        } else if (s->least == 1) {
            n += (size_t)snprintf(text + n, room - n, ", not 0");
        }
        if (s->most) {
            n += (size_t)snprintf(text + n, room - n, ", at most ");
            n += (size_t)setting_size(text + n, room - n, s->most);
        }
        break;
    case SETTING_CHOICE:
        for (size_t length; *word; word += length + (word[length] == ' ')) {
            const char *before = n == 0 ? "" : strchr(word, ' ') ? ", " : " or ";
            length = strcspn(word, " ");
            n += (size_t)snprintf(text + n, room - n, "%s%.*s", before, (int)length, word);
        }
        break;
    case SETTING_SIGNAL:
        snprintf(text, room, "a signal that can be handled, such as USR2 or 12");
        break;
    case SETTING_CPUS:
        snprintf(text, room, "a list of CPUs such as 2-3,8, up to %zu", s->most);
        break;
    case SETTING_TEXT:
        snprintf(text, room, "a text");
        break;
    }
}

size_t setting_initial_number(enum setting_id id)
{
    size_t number = 0;

    if (settings[id].initial[0])
        (void)setting_check(id, settings[id].initial, &number);
    return number;
}

static void setting_reset(enum setting_id id, enum setting_source source)
{
    settings_now[id].number = setting_initial_number(id);
    settings_now[id].source = source;
}

static void setting_warn(enum setting_id id, const char *why)
{
    const char *initial = settings[id].initial;

    report_warn("%s=%.200s is ignored: %s; %s%s%s", settings[id].name, settings_now[id].written,
                why, *initial ? "the default, " : "it counts as not set", initial,
                *initial ? ", is used" : "");
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void settings_take_value(enum setting_id id, const char *value)
{
    size_t number;

    if (*value == '\0' || settings_now[id].written) /* the first counts, as for getenv */
        return;
    settings_now[id].written = value;
    if (setting_check(id, value, &number)) {
        settings_now[id].number = number;
        settings_now[id].source = SETTING_BY_ENVIRONMENT;
    } else {
        char why[SETTING_ACCEPTED_MAX + 16] = "it takes ";
        setting_accepted(id, why + strlen(why));
        setting_reset(id, SETTING_REFUSED);
        setting_warn(id, why);
    }
}

static bool settings_is_foreign(const char *name)
{
    for (size_t i = 0; i < sizeof(settings_foreign) / sizeof(settings_foreign[0]); i++)
        if (strncmp(name + SETTINGS_PREFIX, settings_foreign[i], strlen(settings_foreign[i])) == 0)
            return true;
    return false;
}

static void settings_take(const char *variable)
{
    size_t length = strcspn(variable, "=");

    if (variable[length] != '=')
        return;
    for (unsigned id = 0; id < SETTINGS; id++)
        if (strncmp(settings[id].name, variable, length) == 0 && !settings[id].name[length]) {
            settings_take_value((enum setting_id)id, variable + length + 1);
            return;
        }
    if (variable[0] == 'S' && settings_strange.n < SETTINGS_UNKNOWN &&
        !settings_is_foreign(variable))
        settings_strange.name[settings_strange.n++] = variable;
}

static void settings_read_all(char *const *environment, bool secure)
{
    memset(&settings_strange, 0, sizeof(settings_strange));
    for (unsigned id = 0; id < SETTINGS; id++) {
        settings_now[id].written = NULL;
        setting_reset((enum setting_id)id, SETTING_BY_DEFAULT);
    }
    if (secure || !environment)
        return;
    for (; *environment; environment++)
        if (strncmp(*environment, "STOOK_", SETTINGS_PREFIX) == 0 ||
            strncmp(*environment, "MALLOC_", sizeof("MALLOC_") - 1) == 0)
            settings_take(*environment);
}

void settings_start(void)
{
    if (once_is_done(&settings_once) || !once_begin(&settings_once))
        return;
    settings_read_all(environ, getauxval(AT_SECURE) != 0);
    if (settings_strange.n > 0 && getpgrp() == getpid())
        settings_warn();
    once_end(&settings_once);
}

void settings_read(char *const *environment, bool secure)
{
    settings_start();
    settings_read_all(environment, secure);
}

size_t setting_number(enum setting_id id)
{
    settings_start();
    return settings_now[id].number;
}

const char *setting_written(enum setting_id id)
{
    settings_start();
    return settings_now[id].written;
}

const char *setting_text(enum setting_id id)
{
    const char *written = setting_written(id);

    return settings_now[id].source == SETTING_BY_ENVIRONMENT ? written : NULL;
}

void setting_refuse(enum setting_id id, const char *why)
{
    setting_warn(id, why);
    setting_reset(id, SETTING_REFUSED);
}

/* ---- unknown names ---------------------------------------------------------------------------- */

/* Insertions, deletions and exchanges of a character that make one of the other (Levenshtein). */
static unsigned settings_distance(const char *a, size_t n, const char *b)
{
    uint8_t row[sizeof(settings[0].name) + 1];
    size_t m = strlen(b);

    for (size_t j = 0; j <= m; j++)
        row[j] = (uint8_t)j;
    for (size_t i = 1; i <= n; i++) {
        uint8_t corner = row[0];
        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= m; j++) {
            uint8_t above = row[j], least = corner + (a[i - 1] != b[j - 1]);
            if (least > above + 1)
                least = above + 1;
            if (least > row[j - 1] + 1)
                least = row[j - 1] + 1;
            row[j] = least;
            corner = above;
        }
    }
    return row[m];
}

static const char *settings_nearest(const char *name, size_t length)
{
    unsigned best = 0, least = UINT_MAX;

    if (length > SETTINGS_NAME)
        length = SETTINGS_NAME;
    for (unsigned id = 0; id < SETTINGS; id++) {
        unsigned distance = settings_distance(name, length, settings[id].name);
        if (distance < least) {
            least = distance;
            best = id;
        }
    }
    return settings[best].name;
}

/* Whether a name is in STOOK_RUN, between commas. */
static bool settings_in_run(const char *name, size_t length)
{
    const char *names = settings_now[SETTING_RUN].written;

    for (size_t n; names && *names; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        if (n == length && memcmp(names, name, n) == 0)
            return true;
    }
    return false;
}

const char *settings_unknown(unsigned n, size_t *length)
{
    settings_start();
    if (n >= settings_strange.n)
        return NULL;
    *length = strcspn(settings_strange.name[n], "=");
    return settings_strange.name[n];
}

void settings_warn(void)
{
    if (settings_strange.warned)
        return;
    settings_strange.warned = true;
    for (unsigned i = 0; i < settings_strange.n; i++) {
        const char *name = settings_strange.name[i];
        size_t length = strcspn(name, "=");
        if (!settings_in_run(name, length))
            report_warn("%.*s is no setting: the nearest is %s (stook info --settings lists all)",
                        length < SETTINGS_NAME ? (int)length : SETTINGS_NAME, name,
                        settings_nearest(name, length));
    }
}

/* ---- for the tool, the lab and tests ---------------------------------------------------------- */

const char *setting_name(enum setting_id id)
{
    return settings[id].name;
}

enum setting_type setting_type(enum setting_id id)
{
    return (enum setting_type)settings[id].type;
}

enum setting_source setting_source(enum setting_id id)
{
    enum setting_source source;

    settings_start();
    source = settings_now[id].source;
    if (source == SETTING_BY_ENVIRONMENT &&
        settings_in_run(settings[id].name, strlen(settings[id].name)))
        source = SETTING_BY_RUN;
    return source;
}

const char *setting_initial(enum setting_id id)
{
    return settings[id].initial;
}

void settings_simulate(void)
{
    settings_start();
    for (unsigned id = 0; id < SETTINGS; id++)
        if (settings[id].forgotten) {
            settings_now[id].written = NULL;
            setting_reset((enum setting_id)id, SETTING_BY_DEFAULT);
        }
}
