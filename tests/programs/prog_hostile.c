/* SPDX-License-Identifier: MIT */
/* link: shared */
/*
 * Processes that lie to their readers: "VALUE", a line of the input, forks a child for each entry of the description
 * that the library carries (src/view/), whose value, offset or size is that number there.  Prints the children's numbers,
 * each behind the entry's name; an empty line ends them, and the next line kills them.  "random" is another number in each
 * entry.
 */
#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>
#include <stook/stat.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME = 40, OBJECTS = 2000, ENTRIES = 1000 };

struct entry {
    char name[NAME];
    uint32_t value, size;
};

static struct entry *entry;
static unsigned entries;

/* The table begins with the version. */
static void find_entries(void)
{
    static const char first[NAME] = "STOOK_VERSION_MAJOR";
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096], flags[5], *begin, *end;

    while (maps && !entry && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%p-%p %4s", (void **)&begin, (void **)&end, flags) != 3 ||
            flags[0] != 'r' || flags[1] == 'w' || !strstr(line, "libstook.so"))
            continue;
        entry = memmem(begin, (size_t)(end - begin), first, sizeof(first));
        if (entry &&
            mprotect(begin, (size_t)(end - begin), PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
            entry = NULL;
    }
    if (maps)
        fclose(maps);
    while (entry && entries < ENTRIES && entry[entries].name[0] >= 'A' &&
           strcmp(entry[entries].name, "STAT_EVENTS") != 0)
        entries++;
}

static void lie(unsigned i, const char *what)
{
    uint32_t value = strcmp(what, "random") == 0 ? i * UINT32_C(2654435761) >> i % 24
                                                 : (uint32_t)strtoul(what, NULL, 0);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    entry[i].value = value;
    if (entry[i].size && i % 2)
        entry[i].size = value;
    for (;;)
        pause();
}

int main(void)
{
    static pid_t child[ENTRIES];
    static void *object[OBJECTS];
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *cache = stook_cache_create("widgets", 72, &args);
    char line[64];

    (void)stook_tags_enable(cache, 1);
    (void)stook_group_enter(stook_group_create("group", STOOK_NO_GROUP, 1 << 20));
    for (int i = 0; i < OBJECTS; i++)
        if (cache && (object[i] = i % 9 ? stook_alloc(cache, 0) : stook_kmalloc(700, 0)) &&
            i % 4 == 0)
            stook_free_any(object[i]);
    find_entries();
    while (entries > 200 && fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        for (unsigned i = 0; i < entries; i++) {
            child[i] = fork();
            if (child[i] == 0)
                lie(i, line);
            printf("%s %d\n", entry[i].name, (int)child[i]);
        }
        printf("\n");
        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))
            break;
        for (unsigned i = 0; i < entries; i++) {
            (void)kill(child[i], SIGKILL);
            (void)waitpid(child[i], NULL, 0);
        }
    }
    return entries > 200 ? 0 : 1;
}
