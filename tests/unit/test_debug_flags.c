/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* The kernel's slab_debug syntax, and which flags a cache of a name gets by STOOK_DEBUG. */
#include "debug/flags.h"

#include "base/parse.h"
#include "base/settings.h"
#include "support/test.h"

TEST(syntax)
{
    static const char *const right[] = {
        "F",  "fzpu", "-",       "-,trees", ",trees",       "FZ,a,b*,c;U",
        "P;", ";Z",   "FZPUTAO", "U,*",     "T,malloc-64;-"};
    static const char *const wrong[] = {"Q",     "F-",  "-F", "F,",   "F,a,,b",
                                        "F,a*b", "F a", ",",  "FZ,;U"};
    static char longest[PARSE_LETTERS_MAX + 2];

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        if (!parse_letters(right[i]))
            fail_msg("%s is refused", right[i]);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (parse_letters(wrong[i]))
            fail_msg("%s is taken", wrong[i]);
    memset(longest, 'F', sizeof(longest) - 2);
    assert_true(parse_letters(longest));
    longest[sizeof(longest) - 2] = 'F';
    assert_false(parse_letters(longest));
}

TEST(names)
{
    const char *text = "U,trees,mal*;Z", *at = text;
    struct parse_block block;

    assert_true(parse_block(&at, &block));
    assert_int_equal(block.letters, 1u << (strchr(PARSE_LETTERS, 'U') - PARSE_LETTERS));
    assert_true(parse_block_names(&block, "trees"));
    assert_true(parse_block_names(&block, "malloc-16"));
    assert_true(parse_block_names(&block, "mal"));
    assert_false(parse_block_names(&block, "tree"));
    assert_false(parse_block_names(&block, "trees2"));
    assert_false(parse_block_names(&block, "ma"));
    assert_false(parse_block_names(&block, ""));
    assert_true(parse_block(&at, &block));
    assert_int_equal(block.length, 0);
    assert_false(parse_block(&at, &block));
    assert_string_equal(at, "");
}

static const struct {
    const char *text, *name;
    uint32_t asked, flags;
} wanted[] = {
    {"", "trees", 0, 0},
    {"", "trees", DEBUG_Z, DEBUG_Z},
    {"FZ", "trees", 0, DEBUG_F | DEBUG_Z},
    {"FZ", "trees", DEBUG_U, DEBUG_F | DEBUG_Z | DEBUG_U},
    {"ta", "trees", 0, DEBUG_T | DEBUG_A},
    {",trees", "trees", 0, DEBUG_F | DEBUG_Z | DEBUG_P | DEBUG_U},
    {",trees", "leaves", 0, 0},
    {"O", "trees", 0, 0},
    {"-", "trees", DEBUG_P, DEBUG_P},
    {"Z;P", "trees", 0, DEBUG_P},            /* the last one for all */
    {"Z,t*;P,trees;F", "trees", 0, DEBUG_Z}, /* the first that names it */
    {"Z,t*;P,trees;F", "leaves", 0, DEBUG_F},
    {"FZPU;-,trees", "trees", 0, 0},
    {"FZPU;-,trees", "leaves", 0, DEBUG_F | DEBUG_Z | DEBUG_P | DEBUG_U},
};

TEST(by_name)
{
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) { /* STOOK_DEBUG is read once a process */
            char variable[64], *environment[] = {variable, NULL};
            snprintf(variable, sizeof(variable), "STOOK_DEBUG=%s", wanted[i].text);
            settings_read(environment, false);
            debug_flags_start();
            memset(variable, 'F', sizeof(variable)); /* the program may write over it */
            _exit(debug_flags_of(wanted[i].name, wanted[i].asked) == wanted[i].flags ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("STOOK_DEBUG=%s, cache %s: other flags than %#x", wanted[i].text,
                     wanted[i].name, wanted[i].flags);
    }
}

TEST(everywhere)
{
    static const char *const texts[] = {"STOOK_DEBUG=", "STOOK_DEBUG=Z", "STOOK_DEBUG=Z,trees",
                                        "STOOK_DEBUG=-", "STOOK_DEBUG=F,trees;U"};
    static const bool all[] = {false, true, false, false, true};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            char *environment[] = {(char *)(uintptr_t)texts[i], NULL};
            settings_read(environment, false);
            debug_flags_start();
            _exit(debug_flags_everywhere() == all[i] ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}
