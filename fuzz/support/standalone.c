/* SPDX-License-Identifier: MIT */
/*
 * standalone.c - main() where there is no fuzzing engine: runs the target on each file, and on each file of each
 * folder, that the command line names.  So the kept inputs are tests of every compiler and preset.
 */
#include "support/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static unsigned standalone_inputs;

static void standalone_fail(const char *path)
{
    fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void standalone_file(const char *path)
{
    FILE *file = fopen(path, "re");
    uint8_t *bytes;
    size_t n;
    long size = 0;

    if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 ||
        fseek(file, 0, SEEK_SET) != 0)
        standalone_fail(path);
    /* As many as there are, so that a sanitizer sees a read behind them. */
    bytes = malloc((size_t)size ? (size_t)size : 1);
    if (!bytes)
        standalone_fail(path);
    n = fread(bytes, 1, (size_t)size, file);
    fclose(file);
    fprintf(stderr, "fuzz: %s: %zu bytes\n", path, n);
    (void)LLVMFuzzerTestOneInput(bytes, n);
    free(bytes);
    standalone_inputs++;
}

static int standalone_is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of the names, the same each time. */
static void standalone_folder(const char *path)
{
    struct dirent **entry;
    int n = scandir(path, &entry, standalone_is_file, alphasort);

    if (n < 0)
        standalone_fail(path);
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entry[i]->d_name);
        standalone_file(name);
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) != 0)
            standalone_fail(argv[i]);
        if (S_ISDIR(st.st_mode))
            standalone_folder(argv[i]);
        else
            standalone_file(argv[i]);
    }
    fprintf(stderr, "fuzz: %u inputs\n", standalone_inputs);
    return standalone_inputs > 0 ? 0 : 1;
}
