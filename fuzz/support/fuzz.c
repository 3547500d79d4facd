/* SPDX-License-Identifier: MIT */
#include "support/fuzz.h"

#include "stook/command.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- bytes ------------------------------------------------------------------------------------ */

uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    return bytes->at < bytes->end ? *bytes->at++ : 0;
}

static uint64_t fuzz_wide(struct fuzz_bytes *bytes, unsigned n)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < n; i++)
        number = number << 8 | fuzz_byte(bytes);
    return number;
}

uint64_t fuzz_number(struct fuzz_bytes *bytes)
{
    unsigned how = fuzz_byte(bytes);

    switch (how >> 5) {
    case 0:
    case 1:
        return how & 0x3f;
    case 2:
        return (how & 0x1f) << 8 | fuzz_byte(bytes);
    case 3: /* around a power of two */
        return ((uint64_t)1 << (fuzz_byte(bytes) & 63)) + (how & 7) - 3;
    case 4:
        return fuzz_wide(bytes, 3);
    case 5:
        return UINT32_MAX - 3 + (how & 7);
    case 6:
        return 0 - (uint64_t)(how & 0x1f);
    default:
        return fuzz_wide(bytes, 8);
    }
}

const char *fuzz_word(struct fuzz_bytes *bytes, char *word, size_t size)
{
    size_t n = fuzz_byte(bytes);

    if (n >= size)
        n = size - 1;
    for (size_t i = 0; i < n; i++)
        word[i] = (char)fuzz_byte(bytes);
    word[n] = '\0';
    return word;
}

/* ---- files ------------------------------------------------------------------------------------ */

const char *fuzz_file(const void *bytes, size_t n)
{
    static char name[64];
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
    return name;
}

char *fuzz_text(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);

    FUZZ_CHECK(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

void fuzz_silence(void)
{
    static bool silent;

    if (!silent)
        FUZZ_CHECK(freopen("/dev/null", "w", stdout));
    silent = true;
}

/* ---- what the tool says ----------------------------------------------------------------------- */

/* Made and forgotten: a wrong format or argument is found all the same. */
int complain(int status, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return status;
}
