/* SPDX-License-Identifier: MIT */
/*
 * info_settings.c - prints the table of settings for stook info --settings, as text and as JSON.
 */
#include "stook/info_settings.h"

#include "watch/settings_show.h"

#include <string.h>

/* What the library itself has no need of. */
static const char *const info_sentences[] = {
#define SETTING(id, name, type, initial, least, most, words, unit, sentence) sentence,
#include "base/settings.def"
#undef SETTING
};

static const char *const info_types[] = {"number", "bytes",   "choice", "signal",
                                         "CPUs",   "letters", "words",  "text"};
static const char *const info_sources[] = {
    [SETTING_BY_DEFAULT] = "default",
    [SETTING_BY_ENVIRONMENT] = "environment",
    [SETTING_REFUSED] = "bad value ignored",
    [SETTING_BY_RUN] = "stook run",
};

/* The value in use, as it was written or as the default is; "" where there is none. */
static const char *info_setting_value(enum setting_id id)
{
    const char *text = setting_text(id);

    return text ? text : setting_table[id].initial;
}

static void info_setting_text(struct writer *w, enum setting_id id)
{
    const char *value = info_setting_value(id), *initial = setting_table[id].initial;
    char accepted[SETTING_ACCEPTED_MAX];

    setting_accepted(id, accepted);
    writer_cell(w, setting_table[id].name, 22);
    writer_cell(w, *value ? value : "-", 0);
    writer_print(w, "  (%s", info_sources[setting_source(id)]);
    if (setting_source(id) == SETTING_REFUSED) {
        writer_print(w, ": ");
        writer_cell(w, setting_written(id), 0);
    }
    writer_print(w, ")\n    %.200s\n", info_sentences[id]);
    writer_print(w, "    Takes %s; default %s.\n", accepted, *initial ? initial : "none");
}

void info_settings_text(struct writer *w)
{
    const char *name;
    size_t length;

    for (unsigned id = 0; id < SETTINGS; id++)
        info_setting_text(w, (enum setting_id)id);
    for (unsigned n = 0; (name = settings_unknown(n, &length)); n++)
        writer_print(w, "%.*s is no setting\n", length < 200 ? (int)length : 200, name);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

/* Null where the text says nothing. */
static void info_setting_key(struct writer *w, const char *key, const char *text)
{
    writer_print(w, ", \"%s\": ", key);
    if (text && *text)
        writer_json(w, text);
    else
        writer_print(w, "null");
}

static void info_setting_json(struct writer *w, enum setting_id id)
{
    const char *value = info_setting_value(id);
    char accepted[SETTING_ACCEPTED_MAX];

    setting_accepted(id, accepted);
    writer_print(w, "{\"name\": ");
    writer_json(w, setting_table[id].name);
    info_setting_key(w, "type",
                     setting_table[id].type & SETTING_FILE ? "file"
                                                           : info_types[setting_table[id].type]);
    if (*value && setting_table[id].type <= SETTING_BYTES)
        writer_print(w, ", \"value\": %zu", setting_number(id));
    else
        info_setting_key(w, "value", value);
    info_setting_key(w, "source", info_sources[setting_source(id)]);
    info_setting_key(w, "written", setting_written(id));
    writer_print(w, "\n   ");
    info_setting_key(w, "default", setting_table[id].initial);
    info_setting_key(w, "unit", setting_table[id].unit);
    writer_print(w, ", ");
    info_maybe(w, "least", setting_table[id].least, ", ");
    info_maybe(w, "most", setting_table[id].most, "");
    info_setting_key(w, "words", setting_table[id].words);
    info_setting_key(w, "takes", accepted);
    writer_print(w, "\n   ");
    info_setting_key(w, "sentence", info_sentences[id]);
    writer_print(w, "}");
}

void info_settings_json(struct writer *w)
{
    const char *name;
    size_t length;

    writer_print(w, "{\"settings\": [");
    for (unsigned id = 0; id < SETTINGS; id++) {
        writer_print(w, id ? ",\n  " : "\n  ");
        info_setting_json(w, (enum setting_id)id);
    }
    writer_print(w, "],\n \"unknown\": [");
    for (unsigned n = 0; (name = settings_unknown(n, &length)); n++) {
        char text[64];
        if (length >= sizeof(text))
            length = sizeof(text) - 1;
        memcpy(text, name, length);
        text[length] = '\0';
        writer_print(w, n ? ", " : "");
        writer_json(w, text);
    }
    writer_print(w, "]}\n");
}
