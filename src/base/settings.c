/* SPDX-License-Identifier: MIT */
/*
 * settings.c - reads the environment once, checks each value by its type, and keeps the numbers
 * and texts of all settings.
 */
#include "base/settings.h"

#include "base/init.h"
#include "base/parse.h"

#include <stook/debug.h>

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

const struct setting setting_table[SETTINGS] = {
#define SETTING(id, name, type, initial, least, most, words, unit, sentence)                       \
    {name, initial, words, unit, SETTING_##type, least, most},
#include "base/settings.def"
#undef SETTING
};

/* Each row fits, the ends of its texts included. */
#define SETTING(id, n, type, i, least, most, w, u, sentence)                                       \
    _Static_assert(sizeof(n) <= sizeof(setting_table[0].name) &&                                   \
                       sizeof(i) <= sizeof(setting_table[0].initial) &&                            \
                       sizeof(w) <= sizeof(setting_table[0].words) &&                              \
                       sizeof(u) <= sizeof(setting_table[0].unit),                                 \
                   "a text of " n " is too long: lengthen its array in struct setting");
#include "base/settings.def"
#undef SETTING

struct setting_now setting_now[SETTINGS];
static struct once settings_once;

/* ---- values ----------------------------------------------------------------------------------- */

/* The place of a word in words that spaces separate; -1.  Without strcspn(): libc has it where no start reads. */
static int setting_place(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (int place = 0; *words; place++) {
        size_t n = (size_t)(strchrnul(words, ' ') - words);
        if (n == length && memcmp(words, word, n) == 0)
            return place;
        words += n + (words[n] == ' ');
    }
    return -1;
}

/* A bit for each of the words that the text has, with commas between them; false: it has another one. */
static bool setting_words(const char *words, const char *text, size_t *bits)
{
    char word[sizeof(setting_table[0].words)];

    if (strcmp(text, "full") == 0) {
        *bits = 1;
        for (const char *at = words; (at = strchr(at, ' ')) != NULL; at++)
            *bits = *bits << 1 | 1;
        return true;
    }
    for (bool more = true; more; text++) {
        size_t n = (size_t)(strchrnul(text, ',') - text);
        int place = -1;
        if (n < sizeof(word)) {
            memcpy(word, text, n);
            word[n] = '\0';
            place = setting_place(words, word);
        }
        if (place < 0)
            return false;
        *bits |= (size_t)1 << place;
        text += n;
        more = *text == ',';
    }
    return true;
}

/* The file of a text: behind a word and a comma, or all of it.  NULL: it is a word. */
static const char *setting_behind(const struct setting *s, const char *text)
{
    const char *end = text;

    while (*end && *end != ',' && *end != '/')
        end++;
    return *end == ',' ? end + 1 : *end == '/' || !s->words[0] ? text : NULL;
}

bool setting_check(enum setting_id id, const char *text, size_t *number)
{
    const struct setting *s = &setting_table[id];
    const char *file = s->type & SETTING_FILE ? setting_behind(s, text) : NULL;
    char word[sizeof(s->words)];
    size_t value = 0, n = file ? (size_t)(file - text) : 0;
    int type = s->type & ~SETTING_FILE, place = 0;

    if (n > 0) {
        if (n > sizeof(word) || !*file)
            return false;
        *(char *)mempcpy(word, text, n - 1) = '\0';
        text = word;
    }
    switch (file && n == 0 ? SETTING_TEXT : (enum setting_type)type) {
    case SETTING_NUMBER:
    case SETTING_BYTES:
        if (!(type == SETTING_BYTES ? parse_size : parse_number)(text, &value) ||
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
        place = parse_list(text, (unsigned)s->most + 1, NULL);
        break;
    case SETTING_LETTERS:
        place = parse_letters(text) ? 0 : -1;
        break;
    case SETTING_WORDS:
        place = setting_words(s->words, text, &value) ? 0 : -1;
        break;
    case SETTING_TEXT:
        break;
    }
    if (place < 0)
        return false;
    *number = value;
    return true;
}

size_t setting_initial_number(enum setting_id id)
{
    size_t number = 0;

    if (setting_table[id].initial[0])
        (void)setting_check(id, setting_table[id].initial, &number);
    return number;
}

void setting_reset(enum setting_id id, enum setting_source source)
{
    setting_now[id].number = setting_initial_number(id);
    setting_now[id].source = source;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void settings_take_value(enum setting_id id, const char *value)
{
    size_t number;

    if (*value == '\0' || setting_now[id].written) /* the first counts, as for getenv */
        return;
    setting_now[id].written = value;
    if (setting_check(id, value, &number)) {
        setting_now[id].number = number;
        setting_now[id].source = SETTING_BY_ENVIRONMENT;
    } else {
        setting_reset(id, SETTING_REFUSED);
    }
}

int setting_find(const char *variable)
{
    size_t length = (size_t)(strchrnul(variable, '=') - variable);

    for (unsigned id = 0; id < SETTINGS && variable[length] == '='; id++)
        if (setting_table[id].name[0] == *variable && /* most variables end here */
            strncmp(setting_table[id].name, variable, length) == 0 &&
            !setting_table[id].name[length])
            return (int)id;
    return -1;
}

static void settings_read_all(char *const *environment, bool secure, bool start)
{
    for (unsigned id = 0; id < SETTINGS; id++) {
        setting_now[id].written = NULL;
        setting_reset((enum setting_id)id, SETTING_BY_DEFAULT);
    }
    if (secure)
        environment = NULL;
    for (char *const *variable = environment; variable && *variable; variable++) {
        int id = setting_find(*variable);
        if (id >= 0)
            settings_take_value((enum setting_id)id, strchr(*variable, '=') + 1);
    }
    (void)hooks.start(start ? HOOKS_SETTINGS : HOOKS_SETTINGS_ANEW, environment);
}

void settings_start(void)
{
    if (once_is_done(&settings_once) || !once_begin(&settings_once))
        return;
    settings_read_all(environ, getauxval(AT_SECURE) != 0 || !init_is_first(), true);
    once_end(&settings_once);
}

void settings_read(char *const *environment, bool secure)
{
    settings_start();
    settings_read_all(environment, secure, false);
}

size_t setting_number(enum setting_id id)
{
    settings_start();
    return setting_now[id].number;
}

__attribute__((cold)) const char *setting_written(enum setting_id id)
{
    settings_start();
    return setting_now[id].written;
}

const char *setting_text(enum setting_id id)
{
    const char *written = setting_written(id);

    return setting_now[id].source == SETTING_BY_ENVIRONMENT ? written : NULL;
}

const char *setting_file(enum setting_id id)
{
    const char *text = setting_text(id);

    return text ? setting_behind(&setting_table[id], text) : NULL;
}
