/* SPDX-License-Identifier: MIT */
/* settings_show.c - warnings about refused and unknown settings, and their texts for `stook info --settings`. */
#include "watch/settings_show.h"

#include "base/hooks.h"
#include "base/parse.h"
#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    SETTINGS_UNKNOWN = 8, /* unknown names that are kept, and warned of */
    SETTINGS_NAME = 64,   /* characters of an unknown name that are compared */
};

static const char settings_prefix[] FIRST_DATA = "STOOK_";

/* What begins with these is the project's own: the first of sim/, which has a hook of its own, the others of tests,
 * benches and scripts. */
static const char settings_foreign[][16] = {"TOPOLOGY=", "SOURCE_DIR", "BUILD_DIR",
                                            "TEST_",     "STRESS_",    "EMULATED",
                                            "SLOW",      "KERNEL_",    "BENCH"};

bool settings_simulated;

static const char *settings_run; /* the message of `stook run` */

static struct {
    const char *name[SETTINGS_UNKNOWN]; /* up to the '=' */
    unsigned n;
    bool warned;
} settings_strange;

/* ---- values ----------------------------------------------------------------------------------- */

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
    const struct setting *s = &setting_table[id];
    const char *word = s->words;
    size_t n = 0, room = SETTING_ACCEPTED_MAX;

    if (s->type & SETTING_FILE) {
        int before = snprintf(text, room, "[WORD,]FILE%s; WORD: ", *word ? " or WORD" : "");
        text += before;
        room -= (size_t)before;
    }
    switch ((enum setting_type)(s->type & ~SETTING_FILE)) {
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
    case SETTING_LETTERS:
        snprintf(text, room,
                 "letters of %s, or -; names behind a comma; blocks behind ;, as FZ,a*;U",
                 PARSE_LETTERS);
        break;
    case SETTING_WORDS:
        snprintf(text, room, "full, or some of %s, with commas between them", s->words);
        break;
    case SETTING_TEXT:
        snprintf(text, room, "a text");
        break;
    }
}

static void setting_warn(enum setting_id id, const char *why)
{
    const char *initial = setting_table[id].initial;

    report_warn("%s=%.200s is ignored: %s; %s%s%s", setting_table[id].name, setting_now[id].written,
                why, *initial ? "the default, " : "it counts as not set", initial,
                *initial ? ", is used" : "");
}

void setting_refuse(enum setting_id id, const char *why)
{
    setting_warn(id, why);
    setting_reset(id, SETTING_REFUSED);
}

/* ---- unknown names ---------------------------------------------------------------------------- */

static bool settings_is_foreign(const char *name)
{
    for (size_t i = settings_simulated ? 0 : 1;
         i < sizeof(settings_foreign) / sizeof(settings_foreign[0]); i++)
        if (strncmp(name + sizeof(settings_prefix) - 1, settings_foreign[i],
                    strlen(settings_foreign[i])) == 0)
            return true;
    return false;
}

/* Insertions, deletions and exchanges of a character that make one of the other (Levenshtein). */
unsigned settings_distance(const char *a, size_t n, const char *b)
{
    uint8_t row[sizeof(setting_table[0].name) + 1];
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

    if (strncmp(name + sizeof(settings_prefix) - 1, settings_foreign[0],
                strlen(settings_foreign[0])) == 0)
        return "that of the library in lib/stook/sim";
    if (length > SETTINGS_NAME)
        length = SETTINGS_NAME;
    for (unsigned id = 0; id < SETTINGS; id++) {
        unsigned distance = settings_distance(name, length, setting_table[id].name);
        if (distance < least) {
            least = distance;
            best = id;
        }
    }
    return setting_table[best].name;
}

/* Whether a name is in settings_run, between commas. */
static bool settings_in_run(const char *name, size_t length)
{
    const char *names = settings_run;

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
    *length = (size_t)(strchr(settings_strange.name[n], '=') - settings_strange.name[n]);
    return settings_strange.name[n];
}

void settings_warn(void)
{
    if (settings_strange.warned)
        return;
    settings_strange.warned = true;
    for (unsigned i = 0; i < settings_strange.n; i++) {
        const char *name = settings_strange.name[i];
        size_t length = (size_t)(strchr(name, '=') - name);
        if (!settings_in_run(name, length))
            report_warn("%.*s is no setting: the nearest is %s (stook info --settings lists all)",
                        length < SETTINGS_NAME ? (int)length : SETTINGS_NAME, name,
                        settings_nearest(name, length));
    }
}

/* A variable with the library's prefix that is no setting. */
static void settings_show_unknown(const char *variable)
{
    if (strncmp(variable, SETTINGS_RUN "=", sizeof(SETTINGS_RUN)) == 0)
        settings_run = variable + sizeof(SETTINGS_RUN);
    else if (strchr(variable, '=') && !settings_is_foreign(variable) &&
             settings_strange.n < SETTINGS_UNKNOWN)
        settings_strange.name[settings_strange.n++] = variable;
}

/* A variable of the environment that was refused or is unknown. */
static FIRST_TEXT void settings_show_one(const char *variable)
{
    int id = setting_find(variable);

    if (id >= 0 && setting_now[id].source == SETTING_REFUSED &&
        setting_now[id].written == strchr(variable, '=') + 1) {
        char why[SETTING_ACCEPTED_MAX + 16] = "it takes ";
        setting_accepted((enum setting_id)id, why + strlen(why));
        setting_warn((enum setting_id)id, why);
    } else if (id < 0 && strncmp(variable, settings_prefix, sizeof(settings_prefix) - 1) == 0) {
        settings_show_unknown(variable);
    }
}

FIRST_TEXT void settings_show_read(char *const *environment, bool start)
{
    memset(&settings_strange, 0, sizeof(settings_strange));
    settings_run = NULL;
    for (; environment && *environment; environment++)
        settings_show_one(*environment);
    if (start && settings_strange.n > 0 && raw_call(SYS_getpgid, 0) == raw_getpid())
        settings_warn();
}

/* ---- for the tool, the lab and tests ---------------------------------------------------------- */

enum setting_source setting_source(enum setting_id id)
{
    enum setting_source source;

    settings_start();
    source = setting_now[id].source;
    if (source == SETTING_BY_ENVIRONMENT &&
        settings_in_run(setting_table[id].name, strlen(setting_table[id].name)))
        source = SETTING_BY_RUN;
    return source;
}
