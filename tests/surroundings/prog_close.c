/* SPDX-License-Identifier: MIT */
/*
 * prog_close ROUNDS STEP...: modules come and go, and the threads that used them go on.  Each round makes all steps:
 *   open PATH, space PATH   by dlopen(), or by dlmopen() into a namespace of its own; closed at the end of the round
 *   use                     of what was opened last, by this thread and by others, which then wait
 *   chdir PATH, unlink PATH, copy FROM TO
 * After a module is closed each thread gets a signal: the kernel then reads the descriptor of its last section.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 2, MODULES = 4, EARLY = 5 };

static void *module[MODULES];
static const char *last; /* the path that was opened last */
static unsigned modules;
static pthread_t thread[MODULES * THREADS];
static unsigned threads;
static sem_t used, closed;

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void handle(int number)
{
}

static void use(void *of)
{
    bool (*run)(void);
    void *(*alloc)(size_t);
    void (*release)(void *);
    void *object[200];

    *(void **)(void *)&run = dlsym(of, "plug_use");
    *(void **)(void *)&alloc = dlsym(of, "malloc");
    *(void **)(void *)&release = dlsym(of, "free");
    if (run && !run())
        give_up("use", "a call fails");
    if (run)
        return;
    for (unsigned i = 0; i < 200; i++)
        if (!(object[i] = alloc(96 + i)))
            give_up("use", "no memory");
    for (unsigned i = 0; i < 200; i++)
        release(object[i]);
}

static void *use_and_go_on(void *of)
{
    use(of);
    sem_post(&used);
    while (sem_wait(&closed))
        ;
    raise(SIGUSR1);
    return NULL;
}

static void use_all(void)
{
    void *of = module[modules - 1];

    use(of);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&thread[threads++], NULL, use_and_go_on, of))
            give_up("use", "no thread");
    for (unsigned i = 0; i < THREADS; i++)
        while (sem_wait(&used))
            ;
}

static void close_all(void)
{
    while (modules > 0)
        if (dlclose(module[--modules]))
            give_up("close", dlerror());
    raise(SIGUSR1);
    for (unsigned i = 0; i < threads; i++)
        sem_post(&closed);
    while (threads > 0)
        pthread_join(thread[--threads], NULL);
}

static void copy(const char *from, const char *to)
{
    char command[1000];

    snprintf(command, sizeof(command), "cp --remove-destination '%s' '%s'", from, to);
    if (system(command) != 0)
        give_up(to, "cannot be made");
}

static void open_one(const char *path, bool space)
{
    module[modules] =
        space ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module[modules++])
        give_up(path, dlerror());
    last = path;
}

static void step(char ***argument)
{
    const char *what = *(*argument)++, *path = strcmp(what, "use") ? *(*argument)++ : NULL;

    if (!path)
        use_all();
    else if (!strcmp(what, "copy"))
        copy(path, *(*argument)++);
    else if (!strcmp(what, "chdir") && chdir(path))
        give_up(what, path);
    else if (!strcmp(what, "unlink") && unlink(path))
        give_up(what, path);
    else if (!strcmp(what, "open") || !strcmp(what, "space"))
        open_one(path, *what == 's');
}

/* Mappings, and KiB of them that are resident. */
static void figures(const char *when)
{
    FILE *maps = fopen("/proc/self/smaps_rollup", "r"), *lines = fopen("/proc/self/maps", "r");
    unsigned long kib = 0, n = 0;
    char line[1000];

    while (maps && fgets(line, sizeof(line), maps))
        if (sscanf(line, "Rss: %lu", &kib) == 1)
            break;
    while (lines && fgets(line, sizeof(line), lines))
        n++;
    if (!maps || !lines)
        give_up("/proc/self/maps", "cannot be read");
    fclose(maps);
    fclose(lines);
    printf("maps-%s %lu\nkib-%s %lu\n", when, n, when, kib);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 0;

    signal(SIGUSR1, handle);
    sem_init(&used, 0, 0);
    sem_init(&closed, 0, 0);
    for (int round = 1; round <= rounds; round++) {
        const char *(*mode)(const char **) = NULL;
        for (char **at = argv + 2; *at;)
            step(&at);
        *(void **)(void *)&mode = dlsym(module[modules - 1], "stook_mode");
        if (round == rounds && mode)
            printf("locked %d\n", !strcmp(mode(NULL), "locked"));
        close_all();
        if (round == EARLY)
            figures("early");
    }
    figures("late");
    printf("loaded %d\n", dlopen(last, RTLD_NOW | RTLD_NOLOAD) != NULL);
    return 0;
}
