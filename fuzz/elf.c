/* SPDX-License-Identifier: MIT */
/*
 * A program's file, as stook profile looks up functions and stook run looks for an interpreter.  The first bytes say
 * which addresses are asked for.
 */
#include "support/fuzz.h"

#include "stook/locate.h"
#include "stook/profile/profile_code.h"

#include <string.h>

enum { ELF_QUESTIONS = 8, ELF_BYTES = 1 << 15 };

static void elf_ask(struct elf_file *file, uint64_t where)
{
    uint64_t address, offset;
    const char *name;

    if (elf_address(file, where, &address))
        where = address;
    name = elf_function(file, where, &offset);
    if (name)
        FUZZ_CHECK(*name && offset <= where && strlen(name) < ELF_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fuzz_bytes head = {bytes, bytes + n};
    uint64_t question[ELF_QUESTIONS];
    struct elf_file *file;
    const char *name, *why = NULL;

    for (unsigned i = 0; i < ELF_QUESTIONS; i++)
        question[i] = fuzz_number(&head);
    if (head.end - head.at > ELF_BYTES)
        return 0;
    name = fuzz_file(head.at, (size_t)(head.end - head.at));
    file = elf_open(name);
    if (file) {
        size_t length = strlen(elf_build_id(file));
        FUZZ_CHECK(length % 2 == 0 && strspn(elf_build_id(file), "0123456789abcdef") == length);
        for (unsigned i = 0; i < ELF_QUESTIONS; i++)
            elf_ask(file, question[i]);
        elf_close(file);
    }
    /* A script's interpreter is a file of this machine. */
    if (head.end - head.at < 2 || memcmp(head.at, "#!", 2) != 0)
        (void)locate_kind(name, &why);
    return 0;
}
