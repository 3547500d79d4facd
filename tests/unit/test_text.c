/* SPDX-License-Identifier: MIT */
/* link: look */
/* needs: whole */
/*
 * What becomes of names of any origin where people read them: UTF-8 stays, and no byte reaches a terminal that moves its
 * cursor, turns the text around it, or is no character.
 */
#include "look/target.h"
#include "support/test.h"
#include "text/writer.h"

static const struct {
    const char *given, *shown;
} texts[] = {
    {"plain", "plain"},
    {"M\xc3\xbcller, \xe2\x82\xac, \xf0\x9f\x98\x80",
     "M\xc3\xbcller, \xe2\x82\xac, \xf0\x9f\x98\x80"},
    {"\x1b[31mred\x7f\n\t", "?[31mred???"},
    {"\xc2\x9b"
     "31m",
     "??31m"},                /* the same escape as one character */
    {"\xc2\xa0", "\xc2\xa0"}, /* the first behind those */
    {"a\xff\xfe"
     "b\x80",
     "a??b?"},                                             /* no UTF-8 */
    {"cut \xe2\x82", "cut ??"},                            /* in the middle of a character */
    {"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80", "?????????"}, /* too long, half of one, too large */
    {"\xe2\x80\xae"
     "txt.exe",
     "???txt.exe"}, /* to the left from here */
    {"\xe2\x81\xa6\xe2\x80\xa8\xe2\x80\x8e", "?????????"},
};

static char heard[200];

static int hear(void *context, const char *text, size_t size)
{
    (void)context;
    assert_true(strlen(heard) + size < sizeof(heard));
    strncat(heard, text, size);
    return 0;
}

static const char *cell(const char *text, int width)
{
    struct writer w;

    heard[0] = '\0';
    writer_init_put(&w, hear, NULL);
    writer_cell(&w, text, width);
    assert_int_equal(writer_finish(&w), 0);
    return heard;
}

TEST(what_may_be_shown)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char text[64];
        strcpy(text, texts[i].given);
        target_clean_text(text, sizeof(text));
        assert_true(strcmp(texts[i].given, texts[i].shown) == 0 ? strcmp(text, texts[i].given) == 0
                                                                : strstr(text, "\\x") != NULL);
        assert_string_equal(cell(text, 0), text);
        assert_string_equal(cell(texts[i].given, 0), texts[i].shown);
    }
}

/* Of columns, which are characters; and a text that fills its room has no end. */
TEST(columns)
{
    char full[4] = {'a', '\xc3', '\xbc', 'b'};

    assert_string_equal(cell("M\xc3\xbcller", 8), "M\xc3\xbcller  ");
    assert_string_equal(cell("longer than that", 3), "longer than that");
    target_clean_text(full, sizeof(full));
    assert_string_equal(full, "a\xc3\xbc");
}

/* Two texts never become one. */
TEST(escaped)
{
    char tab[16] = "a\tb", question[16] = "a?b", backslash[16] = "a\\x09b", path[16] = "c:\\d",
         full[6] = "abc\td";

    target_clean_text(tab, sizeof(tab));
    target_clean_text(question, sizeof(question));
    target_clean_text(backslash, sizeof(backslash));
    target_clean_text(path, sizeof(path));
    target_clean_text(full, sizeof(full));
    assert_string_equal(tab, "a\\x09b");
    assert_string_equal(question, "a?b");
    assert_string_equal(backslash, "a\\x5cx09b");
    assert_string_equal(path, "c:\\d");
    assert_string_equal(full, "abc"); /* no half of it */
}
