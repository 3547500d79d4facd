/* SPDX-License-Identifier: MIT */
/*
 * slabinfo.c - reads lists of a kernel's caches: /proc/slabinfo, /sys/kernel/slab, and tables with
 * named columns.
 */
#include "plan/slabinfo.h"

#include "look/target.h"
#include "stook/command.h"

#include "text/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLABINFO_PROC "/proc/slabinfo"
#define SLABINFO_SYS "/sys/kernel/slab"

enum { SLABINFO_LINE = 1024, SLABINFO_ORDER_MAX = 20 };

static struct slabinfo_cache *slabinfo_add(struct slabinfo *info)
{
    info->caches = target_row(info->caches, info->count, sizeof(*info->caches));
    memset(&info->caches[info->count], 0, sizeof(*info->caches));
    return &info->caches[info->count++];
}

/* Printable, whatever the file has there. */
static void slabinfo_name(struct slabinfo_cache *cache, const char *name)
{
    snprintf(cache->name, sizeof(cache->name), "%.*s", (int)sizeof(cache->name) - 1, name);
    for (char *c = cache->name; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/*
 * A constructed or type-stable object has the kernel's free pointer behind it: seen where that makes
 * the stride longer than the alignment would.
 */
static void slabinfo_infer(struct slabinfo_cache *cache)
{
    size_t stride = (cache->size + cache->align - 1) & ~(cache->align - 1);

    if (stride < cache->stride)
        cache->constructed = true;
}

/* Figures that no cache can have; false after complain(). */
static bool slabinfo_possible(const struct slabinfo_cache *cache, const char *path, unsigned line)
{
    const char *what = NULL;

    if (cache->size == 0)
        what = "its objects have no bytes";
    else if (cache->align == 0 || (cache->align & (cache->align - 1)))
        what = "its alignment is no power of two";
    else if (cache->stride < cache->size)
        what = "its stride is less than its object";
    else if (cache->objects == 0)
        what = "its slabs hold no objects";
    else if (cache->order > SLABINFO_ORDER_MAX ||
             cache->stride > ((uint64_t)65536 << cache->order) / cache->objects)
        what = "its objects do not fit its slabs";
    if (!what)
        return true;
    return refuse("%s:%u: cache %s: %s", path, line, cache->name, what);
}

/* ---- /proc/slabinfo --------------------------------------------------------------------------- */

static bool slabinfo_proc_line(struct slabinfo *info, const char *text, const char *path,
                               unsigned line)
{
    uint64_t active, total, size, objects, pages;
    struct slabinfo_cache *cache;
    char name[SLABINFO_LINE];

    if (sscanf(text, "%1023s %lu %lu %lu %lu %lu : tunables", name, &active, &total, &size,
               &objects, &pages) != 6 ||
        pages == 0 || pages > 1u << SLABINFO_ORDER_MAX || (pages & (pages - 1)) ||
        objects > UINT_MAX)
        return refuse("%s:%u: the line is not of a slabinfo", path, line);
    cache = slabinfo_add(info);
    slabinfo_name(cache, name);
    cache->size = cache->stride = size;
    cache->align = 8;
    cache->order = (unsigned)__builtin_ctzll(pages);
    cache->objects = (unsigned)objects;
    cache->active = active;
    return slabinfo_possible(cache, path, line);
}

/* ---- a table ---------------------------------------------------------------------------------- */

enum {
    TABLE_NAME,
    TABLE_SIZE,
    TABLE_ALIGN,
    TABLE_STRIDE,
    TABLE_ORDER,
    TABLE_OBJECTS,
    TABLE_ACTIVE
};
static const char *const slabinfo_table_names[] = {"name",  "object_size",   "align",  "slab_size",
                                                   "order", "objs_per_slab", "objects"};
enum { TABLE_FIELDS = sizeof(slabinfo_table_names) / sizeof(slabinfo_table_names[0]) };

/* Which field each word of the first line is, or -1; false: this is no such table. */
static bool slabinfo_table_head(char *text, int fields[32], unsigned *n)
{
    unsigned found = 0;
    char *rest = text, *word;

    *n = 0;
    while ((word = strsep(&rest, "\t")) && *n < 32) {
        fields[*n] = -1;
        for (int i = 0; i < TABLE_FIELDS; i++)
            if (strcmp(word, slabinfo_table_names[i]) == 0) {
                fields[*n] = i;
                found |= 1u << i;
            }
        ++*n;
    }
    return found == (1u << TABLE_FIELDS) - 1;
}

static bool slabinfo_table_line(struct slabinfo *info, char *text, const int *fields, unsigned n,
                                const char *path, unsigned line)
{
    uint64_t values[TABLE_FIELDS] = {0};
    struct slabinfo_cache *cache = slabinfo_add(info);
    char *rest = text, *word;
    unsigned at = 0;
    bool good = true;

    for (; (word = strsep(&rest, "\t")) && at < n; at++) {
        char *end;
        if (fields[at] == TABLE_NAME)
            slabinfo_name(cache, word);
        if (fields[at] <= TABLE_NAME)
            continue;
        errno = 0;
        values[fields[at]] = strtoull(word, &end, 10);
        good &= end != word && *end == '\0' && errno == 0 && *word != '-';
    }
    if (!good || at != n || word || values[TABLE_ORDER] > SLABINFO_ORDER_MAX ||
        values[TABLE_OBJECTS] > UINT_MAX)
        return refuse("%s:%u: a name and numbers for each word of line 1 are expected", path, line);
    cache->size = values[TABLE_SIZE];
    cache->align = values[TABLE_ALIGN];
    cache->stride = values[TABLE_STRIDE];
    cache->order = (unsigned)values[TABLE_ORDER];
    cache->objects = (unsigned)values[TABLE_OBJECTS];
    cache->active = values[TABLE_ACTIVE];
    cache->sized = true;
    if (!slabinfo_possible(cache, path, line))
        return false;
    slabinfo_infer(cache);
    return true;
}

static bool slabinfo_read_file(struct slabinfo *info, FILE *file, const char *path)
{
    char text[SLABINFO_LINE];
    int fields[32];
    unsigned line = 0, n = 0;
    bool table = false;

    while (fgets(text, sizeof(text), file)) {
        size_t length = strlen(text);
        line++;
        if (length == sizeof(text) - 1)
            return refuse("%s:%u: the line is too long", path, line);
        text[strcspn(text, "\r\n")] = '\0';
        if (line == 1 && strncmp(text, "slabinfo - version: 2.", 22) == 0) {
            info->format = "slabinfo";
            continue;
        }
        if (line == 1 && (table = slabinfo_table_head(text, fields, &n))) {
            info->format = "table";
            continue;
        }
        if (line == 1)
            return refuse("%s is neither a slabinfo of version 2 nor a table of caches", path);
        if (*text == '#' || *text == '\0')
            continue;
        if (!(table ? slabinfo_table_line(info, text, fields, n, path, line)
                    : slabinfo_proc_line(info, text, path, line)))
            return false;
    }
    if (ferror(file))
        return refuse("%s: %s", path, strerror(errno));
    if (info->count == 0)
        return refuse("%s has no caches", path);
    return true;
}

/* ---- /sys/kernel/slab ------------------------------------------------------------------------- */

static bool slabinfo_sys_text(const char *folder, const char *name, const char *what, char *text,
                              size_t size)
{
    char path[PATH_MAX];
    FILE *file;
    bool good;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", folder, name, what) >= sizeof(path))
        return false;
    file = file_stream(path);
    if (!file)
        return false;
    good = fgets(text, (int)size, file) != NULL;
    if (!good && feof(file)) {
        *text = '\0'; /* ctor is empty where there is none */
        good = true;
    }
    fclose(file);
    return good;
}

static bool slabinfo_sys_number(const char *folder, const char *name, const char *what,
                                uint64_t *number)
{
    char text[256], *end;

    if (!slabinfo_sys_text(folder, name, what, text, sizeof(text)))
        return false;
    *number = strtoull(text, &end, 10);
    return end != text;
}

/* What one folder says; false where it says too little. */
static bool slabinfo_sys_cache(struct slabinfo_cache *cache, const char *folder, const char *name)
{
    uint64_t size, align, stride, order, objects, active = 0, typesafe = 0, poison = 0;
    char ctor[256] = "";

    if (!slabinfo_sys_number(folder, name, "object_size", &size) ||
        !slabinfo_sys_number(folder, name, "align", &align) ||
        !slabinfo_sys_number(folder, name, "slab_size", &stride) ||
        !slabinfo_sys_number(folder, name, "order", &order) ||
        !slabinfo_sys_number(folder, name, "objs_per_slab", &objects))
        return false;
    slabinfo_sys_number(folder, name, "objects", &active);
    slabinfo_sys_number(folder, name, "destroy_by_rcu", &typesafe);
    slabinfo_sys_number(folder, name, "poison", &poison);
    slabinfo_sys_text(folder, name, "ctor", ctor, sizeof(ctor));
    if (size == 0 || size > stride || stride > UINT_MAX || align == 0 || (align & (align - 1)) ||
        objects == 0 || objects > UINT_MAX || order > SLABINFO_ORDER_MAX)
        return false;
    cache->size = size;
    cache->align = align;
    cache->stride = stride;
    cache->order = (unsigned)order;
    cache->objects = (unsigned)objects;
    cache->active = active;
    cache->sized = true;
    cache->constructed = typesafe || poison || strcspn(ctor, "\n") > 0;
    slabinfo_infer(cache);
    return true;
}

static int slabinfo_compare(const void *a, const void *b)
{
    return strcmp(((const struct slabinfo_cache *)a)->name,
                  ((const struct slabinfo_cache *)b)->name);
}

/* Merged caches have a folder like :0000192, and each name links to it: the first by the alphabet. */
static void slabinfo_alias(struct slabinfo *info, const char *folder, const char *name)
{
    char path[PATH_MAX], target[64];
    ssize_t length;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path) ||
        (length = readlink(path, target, sizeof(target) - 1)) <= 0)
        return;
    target[length] = '\0';
    for (size_t i = 0; i < info->count; i++) {
        struct slabinfo_cache *cache = &info->caches[i];
        if (strcmp(cache->folder, target) == 0 &&
            (strcmp(cache->name, target) == 0 || strcmp(name, cache->name) < 0))
            slabinfo_name(cache, name);
    }
}

static bool slabinfo_read_folder(struct slabinfo *info, const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    bool good = true;

    if (!folder)
        return refuse("%s: %s", path, strerror(errno));
    while (good && (entry = readdir(folder))) {
        struct slabinfo_cache *cache;
        if (*entry->d_name == '.' || entry->d_type == DT_LNK)
            continue;
        cache = slabinfo_add(info);
        if (!slabinfo_sys_cache(cache, path, entry->d_name)) {
            info->count--;
        } else {
            slabinfo_name(cache, entry->d_name);
            memcpy(cache->folder, cache->name, sizeof(cache->folder));
        }
    }
    rewinddir(folder);
    while (good && (entry = readdir(folder)))
        if (entry->d_type == DT_LNK)
            slabinfo_alias(info, path, entry->d_name);
    closedir(folder);
    if (good && info->count == 0)
        return refuse("%s has no folder of a cache that can be read", path);
    if (good)
        qsort(info->caches, info->count, sizeof(*info->caches), slabinfo_compare);
    info->format = "folder";
    return good;
}

/* This machine's: what /proc/slabinfo counts, with what /sys/kernel/slab knows of each. */
static bool slabinfo_read_machine(struct slabinfo *info)
{
    FILE *file = fopen(SLABINFO_PROC, "re");
    struct stat status;
    bool good;

    if (!file) {
        if (stat(SLABINFO_SYS, &status) == 0)
            return slabinfo_read_folder(info, SLABINFO_SYS);
        return refuse("%s: %s; nor is there " SLABINFO_SYS, SLABINFO_PROC, strerror(errno));
    }
    good = slabinfo_read_file(info, file, SLABINFO_PROC);
    fclose(file);
    for (size_t i = 0; good && i < info->count; i++) {
        struct slabinfo_cache *cache = &info->caches[i], sys = *cache;
        if (!strchr(cache->name, '/') && slabinfo_sys_cache(&sys, SLABINFO_SYS, cache->name)) {
            sys.active = cache->active;
            *cache = sys;
        }
    }
    return good;
}

bool slabinfo_read(struct slabinfo *info, const char *path)
{
    struct stat status;
    FILE *file;
    bool good;

    *info = (struct slabinfo){.format = ""};
    if (!path)
        return slabinfo_read_machine(info);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return slabinfo_read_folder(info, path);
    file = file_stream(path);
    if (!file)
        return refuse("%s: %s", path, file_error(errno));
    good = slabinfo_read_file(info, file, path);
    fclose(file);
    return good;
}

void slabinfo_free(struct slabinfo *info)
{
    free(info->caches);
}
