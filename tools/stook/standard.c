/* SPDX-License-Identifier: MIT */
/*
 * standard.c - the descriptors 0 to 2 of every command, and words and flags of JSON.
 */
#include "stook/command.h"

#include "text/writer.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static int standard_put(void *to, const char *text, size_t size)
{
    return fwrite(text, 1, size, to) == size ? 0 : -1;
}

void output_writer_to(struct writer *w, FILE *to)
{
    writer_init_put(w, standard_put, to);
}

void output_writer(struct writer *w)
{
    output_writer_to(w, stdout);
}

void output_word(struct writer *w, const char *key, const char *text, const char *end)
{
    writer_print(w, "\"%s\": ", key);
    if (text)
        writer_json(w, text);
    else
        writer_print(w, "null");
    writer_print(w, "%s", end);
}

void output_flag(struct writer *w, const char *key, bool value, const char *end)
{
    writer_print(w, "\"%s\": %s%s", key, value ? "true" : "false", end);
}

void output_each(struct writer *w, const char *end, const struct output_count *count)
{
    for (; count->name; count++)
        writer_key(w, count->name, count->value, count[1].name ? ", " : end);
}

const char *output_bytes(int64_t bytes, bool sign)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static char texts[4][24];
    static unsigned next;
    char *text = texts[next++ % 4];
    double value = bytes < 0 ? -(double)bytes : (double)bytes;
    const char *mark = bytes < 0 ? "-" : sign && bytes > 0 ? "+" : "";
    unsigned unit = 0;

    for (; value >= 999.5 && unit < 5; unit++)
        value /= 1024;
    snprintf(text, sizeof(texts[0]), "%s%.*f %s", mark,
             unit == 0 || value >= 99.95 ? 0
             : value >= 9.995            ? 1
                                         : 2,
             value, units[unit]);
    return text;
}

void output_string(FILE *to, const char *text)
{
    struct writer w;

    output_writer_to(&w, to);
    writer_json(&w, text);
    (void)writer_finish(&w);
}

unsigned output_character(FILE *to, const char *text)
{
    unsigned n = writer_shown(text);

    fprintf(to, "%.*s", n ? (int)n : 1, n ? text : "?");
    return n ? n : 1;
}

void standard_begin(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/", O_PATH | O_CLOEXEC); /* can be neither read nor written */
}

int standard_end(int status)
{
    bool written = fflush(stdout) == 0 && !ferror(stdout);

    if (close(STDOUT_FILENO) == 0 && written)
        return status;
    fputs("stook: standard output cannot be written\n", stderr);
    return status != STATUS_OK ? status : STATUS_FAILED;
}
