/* SPDX-License-Identifier: MIT */
/* The functions of shim.h. */
#include "shim.h"

#include <stook/urcu.h>

atomic_int shim_complaints;
atomic_bool shim_no_tables;
atomic_int shim_pages;

/*
 * The kernel's test calls it a failure if a walk counts more entries than there are.  Beside a resize a walk starts
 * again and counts entries twice; the line before then says how often.  In the kernel, where work starts later, that is
 * rarer than here.
 */
static bool no_complaint(const char *text)
{
    static _Thread_local bool resized;
    const char *jumps = strstr(text, "table-jumps=");

    if (jumps)
        resized = strcmp(jumps, "table-jumps=0\n") != 0;
    return resized && strstr(text, "Total count mismatch");
}

int shim_say(bool complaint, const char *format, ...)
{
    bool loud = getenv("SHIM_LOUD") != NULL;
    char text[1000];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (no_complaint(text))
        complaint = false;
    if (complaint)
        atomic_fetch_add(&shim_complaints, 1);
    if (complaint || loud) {
        fputs(text, stdout);
        fflush(stdout);
    }
    return 0;
}

u32 get_random_u32(void)
{
    static atomic_ulong state = 88172645463325252UL;
    unsigned long x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15UL);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9UL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebUL;
    return (u32)(x ^ x >> 31);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct task_struct {
    pthread_t thread;
    int (*fn)(void *);
    void *data;
    atomic_bool stop;
    int result;
};

static _Thread_local struct task_struct *current_task;

static void *run_task(void *arg)
{
    current_task = arg;
    rcu_register_thread();
    current_task->result = current_task->fn(current_task->data);
    rcu_unregister_thread();
    return NULL;
}

struct task_struct *shim_thread(int (*fn)(void *), void *data)
{
    struct task_struct *task = kzalloc_obj(*task);

    if (!task)
        return ERR_PTR(-ENOMEM);
    task->fn = fn;
    task->data = data;
    BUG_ON(pthread_create(&task->thread, NULL, run_task, task) != 0);
    return task;
}

int kthread_stop(struct task_struct *task)
{
    int result;

    atomic_store(&task->stop, true);
    pthread_join(task->thread, NULL);
    result = task->result;
    kfree(task);
    return result;
}

bool kthread_should_stop(void)
{
    return atomic_load(&current_task->stop);
}

void shim_nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static _Thread_local struct shim_wait *current_wait;

void init_waitqueue_head(wait_queue_head_t *queue)
{
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->cond, NULL);
    queue->turn = 0;
    queue->sleepers = 0;
}

void prepare_to_wait(wait_queue_head_t *queue, struct shim_wait *wait, int state)
{
    (void)state;
    pthread_mutex_lock(&queue->lock);
    wait->queue = queue;
    wait->turn = queue->turn;
    queue->sleepers++;
    pthread_mutex_unlock(&queue->lock);
    current_wait = wait;
}

void finish_wait(wait_queue_head_t *queue, struct shim_wait *wait)
{
    (void)wait;
    pthread_mutex_lock(&queue->lock);
    queue->sleepers--;
    pthread_mutex_unlock(&queue->lock);
}

long io_schedule_timeout(long milliseconds)
{
    wait_queue_head_t *queue = current_wait->queue;
    struct timespec until;
    int result = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / HZ;
    pthread_mutex_lock(&queue->lock);
    while (queue->turn == current_wait->turn && result == 0)
        result = pthread_cond_timedwait(&queue->cond, &queue->lock, &until);
    pthread_mutex_unlock(&queue->lock);
    return result == 0;
}

bool wq_has_sleeper(wait_queue_head_t *queue)
{
    bool has;

    pthread_mutex_lock(&queue->lock);
    has = queue->sleepers > 0;
    pthread_mutex_unlock(&queue->lock);
    return has;
}

void wake_up(wait_queue_head_t *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->turn++;
    pthread_cond_broadcast(&queue->cond);
    pthread_mutex_unlock(&queue->lock);
}

/* ---- work ------------------------------------------------------------------------------------ */

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;
static struct work_struct *work_first, *work_running;
static struct task_struct *worker;
static bool work_ends;

static int run_work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&work_lock);
    for (;;) {
        struct work_struct *work = work_first;
        if (work) {
            work_first = work->next;
            work->queued = false;
            work_running = work;
            pthread_mutex_unlock(&work_lock);
            for (int late = 0; late < 20 && atomic_load(&shim_no_tables); late++)
                shim_nap();
            work->func(work);
            pthread_mutex_lock(&work_lock);
            work_running = NULL;
            pthread_cond_broadcast(&work_changed);
        } else if (work_ends) {
            break;
        } else {
            pthread_cond_wait(&work_changed, &work_lock);
        }
    }
    pthread_mutex_unlock(&work_lock);
    return 0;
}

bool schedule_work(struct work_struct *work)
{
    bool was;

    pthread_mutex_lock(&work_lock);
    was = work->queued;
    if (!was) {
        struct work_struct **last = &work_first;
        while (*last)
            last = &(*last)->next;
        work->next = NULL;
        work->queued = true;
        *last = work;
        pthread_cond_broadcast(&work_changed);
    }
    pthread_mutex_unlock(&work_lock);
    return !was;
}

/* Also of work that queues itself while it runs. */
bool cancel_work_sync(struct work_struct *work)
{
    bool was = false;

    pthread_mutex_lock(&work_lock);
    while (work->queued || work_running == work) {
        if (work->queued) {
            struct work_struct **at = &work_first;
            while (*at != work)
                at = &(*at)->next;
            *at = work->next;
            work->queued = false;
            was = true;
        } else {
            pthread_cond_wait(&work_changed, &work_lock);
        }
    }
    pthread_mutex_unlock(&work_lock);
    return was;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static struct fault_attr *faults;

void *fault_create_debugfs_attr(const char *name, void *parent, struct fault_attr *attr)
{
    (void)parent;
    attr->name = name;
    attr->next = faults;
    faults = attr;
    return attr;
}

bool should_fail_ex(struct fault_attr *attr, size_t size, int flags)
{
    (void)size;
    (void)flags;
    return attr->every && (atomic_fetch_add(&attr->asked, 1) + 1) % attr->every == 0;
}

int shim_faults(const char *name, unsigned every)
{
    for (struct fault_attr *attr = faults; attr; attr = attr->next)
        if (strcmp(attr->name, name) == 0) {
            attr->every = every;
            return 0;
        }
    return -ENOENT;
}

/* ---- start and end --------------------------------------------------------------------------- */

void shim_start(void)
{
    rcu_register_thread();
    BUG_ON(stook_urcu_use_memb() != 0);
    worker = shim_thread(run_work, NULL);
}

void shim_end(void)
{
    pthread_mutex_lock(&work_lock);
    work_ends = true;
    pthread_cond_broadcast(&work_changed);
    pthread_mutex_unlock(&work_lock);
    kthread_stop(worker);
    rcu_barrier();
    kvfree_rcu_barrier();
    rcu_unregister_thread();
}
