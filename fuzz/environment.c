/* SPDX-License-Identifier: MIT */
/*
 * Settings of the environment: variables one a line, as a process has them.  Each setting ends with a value that its
 * row of settings.def allows, and says what it takes; a process with raised privileges has all defaults.  Texts with
 * a syntax of their own are read too: STOOK_DEBUG for some names, STOOK_FAIL, file names with %p.
 */
#include "support/fuzz.h"

#include "base/parse.h"
#include "watch/settings_show.h"

#ifndef STOOK_CORE
#include "debug/fail.h"
#include "watch/exit.h"
#endif

#include <limits.h>
#include <signal.h>
#include <string.h>

enum { ENVIRONMENT_VARIABLES = 64 };

static void environment_check_one(enum setting_id id)
{
    char accepted[SETTING_ACCEPTED_MAX];
    const struct setting *s = &setting_table[id];
    size_t number = setting_number(id), again;
    const char *text = setting_text(id);

    setting_accepted(id, accepted);
    FUZZ_CHECK(memchr(accepted, '\0', sizeof(accepted)) && *accepted);
    FUZZ_CHECK(setting_source(id) != SETTING_REFUSED || (!text && setting_written(id)));
    if (!text) {
        FUZZ_CHECK(number == setting_initial_number(id));
        return;
    }
    FUZZ_CHECK(setting_check(id, text, &again) && again == number && *text);
    if (s->type & SETTING_FILE) {
        FUZZ_CHECK(setting_file(id) ? *setting_file(id) : s->words[0]);
        return;
    }
    switch ((enum setting_type)s->type) {
    case SETTING_NUMBER:
    case SETTING_BYTES:
        FUZZ_CHECK(number >= s->least && (!s->most || number <= s->most));
        break;
    case SETTING_WORDS:
        FUZZ_CHECK(number > 0 && number < (size_t)1 << 6);
        break;
    case SETTING_CPUS:
        FUZZ_CHECK(parse_list(text, (unsigned)s->most + 1, NULL) <= (int)s->most);
        break;
    default:
        break;
    }
}

/* Blocks that were accepted are met again, one by one, up to the end. */
static void environment_letters(const char *text)
{
    struct parse_block block;
    size_t length = strlen(text);
    const char *at = text;
    bool right = parse_letters(text);
    unsigned named = 0;

    while (parse_block(&at, &block)) {
        FUZZ_CHECK(at > text && at <= text + length);
        FUZZ_CHECK(block.letters < 1u << (sizeof(PARSE_LETTERS) - 1));
        FUZZ_CHECK(block.length == 0 || (block.names > text && block.names + block.length == at));
        named += parse_block_names(&block, "malloc-64") + parse_block_names(&block, "");
        named += block.length > 0 && parse_block_names(&block, text);
    }
    FUZZ_CHECK(!right || at[strspn(at, ";")] == '\0');
    FUZZ_CHECK(named <= 3 * length + 3);
}

static void environment_texts(const char *text)
{
    environment_letters(text);
#ifndef STOOK_CORE
    {
        char path[PATH_MAX];
        size_t n = exit_expand(text, 4194304, path, sizeof(path));
        FUZZ_CHECK(n < sizeof(path) && (n == 0 || path[n] == '\0'));
        if (fail_read(text))
            for (unsigned i = 0; i < 8; i++)
                (void)fail_now(64);
    }
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n), *rest = text, *line;
    char *environment[ENVIRONMENT_VARIABLES + 1];
    static char *const none[] = {NULL};
    size_t variables = 0, length;

    while (variables < ENVIRONMENT_VARIABLES && (line = strsep(&rest, "\n")) != NULL) {
        const char *value = strchr(line, '=');
        environment[variables++] = line;
        environment_texts(value ? value + 1 : line);
    }
    environment[variables] = NULL;
    settings_read(environment, false);
    for (unsigned id = 0; id < SETTINGS; id++)
        environment_check_one((enum setting_id)id);
    for (unsigned i = 0; settings_unknown(i, &length); i++)
        FUZZ_CHECK(length > strlen("STOOK_") - 1);
    settings_warn();
    settings_read(environment, true);
    for (unsigned id = 0; id < SETTINGS; id++)
        FUZZ_CHECK(setting_source((enum setting_id)id) == SETTING_BY_DEFAULT);
    settings_read(none, false); /* nothing of the text is kept */
    free(text);
    return 0;
}
