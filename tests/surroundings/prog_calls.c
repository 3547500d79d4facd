/* SPDX-License-Identifier: MIT */
/* link: malloc */
/*
 * prog_calls list    the rows of docs/system-calls.md that it knows, by their first call
 * prog_calls ROW     makes the row's calls on a painted stack, between two writes to descriptor -1 that
 *                    say so, and says how many bytes of the stack they took
 *
 * The loader binds at the start (LD_BIND_NOW): a lazily bound call goes deep into it once. Another
 * thread moves this one from CPU to CPU, so that the only system calls between the marks are
 * those of the calls.
 */
#include <malloc.h>
#include <stook/debug.h>
#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/stat.h>
#include <stook/stook.h>
#include <stook/topology.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "surroundings/exercise.h"
#include "support/with.h"

enum { STACK = 256 << 10, PAINT = 0xa5, OBJECTS = 12000, MOVES = 6 };

static struct stook_cache *cache;
static void *object[OBJECTS];
static char trace_path[] = "/tmp/stook-calls-XXXXXX";
static int null_fd;

/* ---- moving --------------------------------------------------------------------------------- */

static _Atomic int wanted = -1; /* the CPU to be on, of those that are allowed; -1: as it is */
static pid_t self;

static void *mover_main(void *context)
{
    for (;;) {
        int cpu = wanted;
        if (cpu >= 0) {
            pin_thread(self, cpu);
            wanted = -1;
        } else {
            usleep(100);
        }
    }
    return context;
}

static void move_to(int cpu)
{
    wanted = cpu;
    while (wanted >= 0)
        ;
}

/* ---- the rows ------------------------------------------------------------------------------- */

static void *no_object(struct stook_cache *of, unsigned flags)
{
    return NULL;
}

static void some_mallocs(size_t size, int count)
{
    for (int i = 0; i < count; i++)
        object[i] = malloc(size);
    for (int i = 0; i < count; i++)
        free(object[i]);
}

static void row_malloc(void)
{
    static const size_t sizes[] = {16, 64, 512, 1000, 4000, 20000, 100000, 3000000};

    for (int move = 0; move < MOVES; move++) {
        move_to(move);
        for (int i = 0; i < 8; i++)
            some_mallocs(sizes[i], i < 6 ? OBJECTS / (i + 1) : i == 6 ? 400 : 10);
        char *large = calloc(1000, 1000);
        large = reallocarray(large, 9, 1 << 20);
        large = realloc(large, 40 << 20);
        large = realloc(large, 1 << 20);
        large = realloc(large, 300);
        large = realloc(large, 10);
        (void)malloc_usable_size(large);
        free(large);
        for (size_t align = 16; align <= 4 << 20; align *= 2) {
            void *aligned;
            if (posix_memalign(&aligned, align, align / 2 + 1) == 0)
                free(aligned);
            free(aligned_alloc(align, align));
            free(memalign(align, 100));
        }
        free(valloc(100));
        free(pvalloc(5000));
    }
}

static void row_malloc_trim(void)
{
    row_malloc();
    move_to(0);
    malloc_trim(0);
}

static void row_mallinfo(void)
{
    FILE *null = fdopen(null_fd, "w");

    (void)mallinfo2();
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
    malloc_info(0, null);
    stderr = null;
    malloc_stats();
    fflush(null);
}

static void some_objects(unsigned flags)
{
    const struct stook_alloc_args aligned = {.size = sizeof(aligned), .align = 64};

    for (int move = 0; move < MOVES; move++) {
        move_to(move);
        for (int i = 0; i < OBJECTS; i++)
            object[i] = stook_alloc(cache, flags);
        for (int i = 0; i < OBJECTS; i++)
            stook_free(cache, object[i]);
        size_t n = stook_alloc_bulk(cache, flags, 2000, object) == 0 ? 2000 : 0;
        stook_free_bulk(cache, n, object);
        object[0] = stook_alloc_with(
            cache, flags,
            &(struct stook_alloc_args){.size = sizeof(struct stook_alloc_args), .fail = no_object});
        stook_free(cache, object[0]);
        object[0] = alloc_with_from(cache, flags, &cache);
        stook_free(cache, object[0]);
        object[0] = alloc_with_node(cache, flags, 0);
        (void)stook_usable_size(object[0]);
        (void)stook_node_of(object[0]);
        (void)stook_cache_name(stook_cache_of(object[0]));
        stook_free_any(object[0]);
        object[0] = alloc_with_group(cache, flags, STOOK_NO_GROUP);
        stook_free(cache, object[0]);
        stook_free_any(stook_krealloc(stook_kmalloc(100 << move, flags), 3000, flags));
        stook_free_any(stook_krealloc_array(stook_kmalloc_array(9, 10, flags), 90, 10, flags));
        stook_free_any(kmalloc_with_node(700, flags, 0));
        object[0] = stook_kmalloc_with(100u << move, flags | STOOK_ACCOUNT | STOOK_NODE, &aligned);
        stook_free_any(stook_krealloc_with(object[0], 3000, flags | STOOK_ACCOUNT, &aligned));
    }
}

static void row_alloc(void)
{
    some_objects(STOOK_NORECLAIM);
}

static void row_alloc_wait(void)
{
    some_objects(STOOK_WAIT);
}

static int one_more(void *that, void *count)
{
    *(int *)count += 1;
    return 0;
}

static int one_more_cache(struct stook_cache *that, void *count)
{
    return one_more(that, count);
}

static void row_cache(void)
{
    struct stook_cache *one = stook_cache_create("one", 200, NULL);

    for (int move = 0; move < MOVES; move++) {
        move_to(move);
        for (int i = 0; i < 1000; i++)
            object[i] = stook_alloc(one, 0);
        for (int i = 0; i < 1000; i++)
            stook_free(one, object[i]);
        (void)stook_cache_set_capacity(one, 20 + (unsigned)move);
        stook_cache_shrink(one);
        (void)stook_cache_validate(one);
    }
    object[0] = stook_alloc(stook_cache_by_name("one"), 0);
    (void)stook_cache_walk(one, one_more, &(int){0});
    (void)stook_cache_each(one_more_cache, &(int){0});
    stook_free(one, object[0]);
    struct stook_group payer = stook_group_create("payer", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group before = stook_group_enter(payer);
    stook_group_leave(before);
    (void)stook_group_destroy(payer);
    (void)stook_cached_bytes_set_max(1 << 20);
    (void)stook_cached_bytes_set_max(SIZE_MAX);
    stook_cache_destroy(one);
}

static void row_reserve(void)
{
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 50);
    struct stook_pool *pool;

    for (int i = 0; i < 40; i++)
        object[i] = stook_sheaf_alloc(cache, 0, sheaf);
    (void)stook_sheaf_refill(cache, 0, &sheaf, 50);
    stook_sheaf_return(cache, sheaf);
    for (int i = 0; i < 40; i++)
        stook_free(cache, object[i]);
    pool = stook_pool_create(cache, 30);
    for (int i = 0; i < 1000; i++)
        object[i] = stook_pool_alloc(pool, 0, NULL);
    for (int i = 0; i < 1000; i++)
        stook_pool_free(pool, object[i]);
    object[0] = stook_pool_alloc(pool, 0, &(struct timespec){0, 0});
    stook_pool_free(pool, object[0]);
    (void)stook_pool_resize(pool, 60);
    stook_pool_destroy(pool);
}

static void row_group(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *charged = stook_cache_create("charged", 100, &args);
    struct stook_group group = stook_group_create("group", STOOK_NO_GROUP, 1 << 20);
    struct stook_group before = stook_group_enter(group);
    struct stook_group_stat stat = {.size = sizeof(stat)};

    for (int move = 0; move < MOVES; move++) {
        move_to(move);
        for (int i = 0; i < 3000; i++)
            object[i] = stook_alloc(charged, 0);
        for (int i = 0; i < 3000; i++)
            if (object[i])
                stook_free(charged, object[i]);
    }
    (void)stook_group_stat(group, &stat);
    (void)stook_group_set_limit(group, 2 << 20);
    (void)stook_group_set_soft_limit(group, 1 << 20, NULL, NULL);
    stook_group_leave(before);
    stook_group_destroy(group);
    stook_cache_destroy(charged);
}

static void row_stat(void)
{
    struct stook_stat stat = {.size = sizeof(stat)};
    struct stook_cache_usage usage = {.size = sizeof(usage)};

    (void)stook_cache_usage(cache, &usage);
    (void)stook_cache_stat_enable(cache, 1);
    stook_free(cache, stook_alloc(cache, 0));
    (void)stook_cache_stat(cache, &stat);
    (void)stook_cache_stat_enable(cache, 0);
}

static void row_report(void)
{
    (void)stook_report(null_fd, STOOK_REPORT_TABLE);
    (void)stook_report(null_fd, STOOK_REPORT_JSON);
    (void)stook_profile_write(null_fd);
}

static void row_tags(void)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    (void)stook_tags_enable(NULL, 1);
    for (int move = 0; move < MOVES; move++) {
        move_to(move);
        for (int i = 0; i < 1000; i++)
            object[i] = stook_alloc(cache, 0);
        some_mallocs(700, 1000);
        for (unsigned tag = stook_tag_next(0); tag; tag = stook_tag_next(tag))
            (void)stook_tag_stat(tag, &stat);
    }
    (void)stook_tags_enable(NULL, 0);
}

static void row_trace(void)
{
    (void)stook_trace_start(trace_path, 1 << 20);
    some_mallocs(100, 3000);
    (void)stook_trace_stop();
}

static void row_topology(void)
{
    for (int move = 0; move < MOVES; move++) {
        move_to(move);
        (void)stook_topology_update(NULL);
    }
}

static size_t reclaimed(size_t wanted_bytes, void *context)
{
    return 0;
}

static void row_mode(void)
{
    (void)stook_mode(NULL);
    (void)stook_version();
    (void)stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_TRACE, 0);
    (void)stook_object_track(
        &null_fd, STOOK_TRACK_ALLOC,
        &(struct stook_object_track){.size = sizeof(struct stook_object_track)});
    stook_message_set(NULL, NULL);
    (void)stook_reclaim_register(reclaimed, NULL);
    (void)stook_reclaim_unregister(reclaimed, NULL);
}

static void row_fork(void)
{
    pid_t child = fork();

    if (child == 0)
        _exit(0);
}

static const struct row {
    const char *name;
    void (*run)(void);
} rows[] = {
    {"malloc", row_malloc},
    {"malloc_trim", row_malloc_trim},
    {"malloc_info", row_mallinfo},
    {"stook_alloc", row_alloc},
    {"STOOK_WAIT", row_alloc_wait},
    {"stook_cache_create", row_cache},
    {"stook_sheaf_prefill", row_reserve},
    {"stook_group_create", row_group},
    {"stook_cache_stat", row_stat},
    {"stook_report", row_report},
    {"stook_tags_enable", row_tags},
    {"stook_trace_start", row_trace},
    {"stook_topology_update", row_topology},
    {"stook_mode", row_mode},
    {"fork", row_fork},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- the stack ------------------------------------------------------------------------------ */

static ucontext_t main_context, row_context;
static const struct row *row_now;

static void mark(const char *text, size_t size)
{
    ssize_t refused = write(-1, text, size);

    (void)refused;
}

static void on_the_stack(void)
{
    mark("begin", 5);
    row_now->run();
    mark("end", 3);
}

static unsigned char *stack;

static void run_row(void)
{
    memset(stack, PAINT, STACK);
    getcontext(&row_context);
    row_context.uc_stack.ss_sp = stack;
    row_context.uc_stack.ss_size = STACK;
    row_context.uc_link = &main_context;
    makecontext(&row_context, on_the_stack, 0);
    swapcontext(&main_context, &row_context);
}

static size_t stack_used(void)
{
    size_t untouched = 0;

    while (untouched < STACK && stack[untouched] == PAINT)
        untouched++;
    return STACK - untouched;
}

int main(int argc, char **argv)
{
    pthread_t mover;
    sigset_t all, before;

    for (int i = 0; i < ROWS; i++)
        if (argc > 1 && strcmp(argv[1], rows[i].name) == 0)
            row_now = &rows[i];
    for (int i = 0; i < ROWS && !row_now; i++)
        say("%s\n", rows[i].name);
    if (!row_now)
        return 0;
    self = gettid();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    null_fd = open("/dev/null", O_WRONLY);
    close(mkstemp(trace_path));
    cache = stook_cache_create("objects", 300, NULL);
    stook_free(cache, stook_alloc(cache, 0));
    if (pthread_create(&mover, NULL, mover_main, NULL))
        give_up("a thread cannot be made");
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    run_row();
    say("stack %zu\n", stack_used());
    unlink(trace_path);
    _exit(0);
}
