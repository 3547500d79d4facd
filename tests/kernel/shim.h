/* SPDX-License-Identifier: MIT */
/*
 * shim.h - what mm/mempool.c, lib/rhashtable.c, and the kernel's own test of the latter want of the kernel besides
 * memory, in a program: threads, locks, waiting, work, and no interrupts.  Memory is stook/kmem.h's, RCU is liburcu's.
 * port.sh makes a header of each name that those files include; all lead here.  shim.c has the functions.
 */
#ifndef SHIM_H
#define SHIM_H

#define _LGPL_SOURCE
#ifdef SHIM_URCU_FIRST
#include <urcu.h>
#endif

/* What the kernel's gfp_types.h wants, if that is taken instead of stook/kmem.h's flags, and what has gfp_t beside it. */
#ifdef STOOK_KMEM_GFP_TYPES
typedef unsigned gfp_t;
#define gfpflags_allow_blocking(gfp) (((gfp)&__GFP_DIRECT_RECLAIM) != 0)
#endif
#define BIT(n) (1UL << (n))
#ifdef CONFIG_LOCKDEP
#define IS_ENABLED(option) 1
#else
#define IS_ENABLED(option) 0
#endif
#define __force

/* The kernel's mempool.h and mempool.c are compiled: theirs are the memory pools. */
#define STOOK_KMEM_NO_MEMPOOL
#include <stook/kmem.h>
#include <urcu.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- words ----------------------------------------------------------------------------------- */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef long long s64;

#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define BITS_PER_LONG 64
#define BITS_TO_LONGS(n) (((n) + 63) / 64)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define ilog2(n) (63 - __builtin_clzl((unsigned long)(n)))
#define rounddown_pow_of_two(n) (1UL << ilog2(n))
#define roundup_pow_of_two(n) ((n) <= 1 ? 1UL : 1UL << (ilog2((n)-1) + 1))
#define do_div(n, by) ((n) /= (unsigned long)(by))
#define array_size(a, b) stook_array_bytes(a, b)
#define array3_size(a, b, c) stook_array_bytes(stook_array_bytes(a, b), c)
#define struct_size(pointer, member, n)                                                            \
    kmem_flex_size(sizeof(*(pointer)), n, sizeof(*(pointer)->member))
#define BUILD_BUG_ON(wrong) ((void)0)
#define get_unaligned(pointer)                                                                     \
    (((const struct { __typeof__(*(pointer)) word; } __attribute__((packed)) *)(pointer))->word)
#define __get_unaligned_cpu32(pointer) get_unaligned((const u32 *)(pointer))

static inline u32 rol32(u32 word, unsigned by)
{
    return word << by | word >> (-by & 31);
}

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define fallthrough __attribute__((__fallthrough__))
#define __init
#define __exit
#define __rcu
#define __must_check
#define __malloc __attribute__((__malloc__))
#define __must_hold(lock)
#define __must_hold_shared(lock)
#define __acquires(lock)
#define __acquires_shared(lock)
#define __releases(lock)
#define __releases_shared(lock)
#define __release(lock) ((void)0)
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#define _RET_IP_ ((unsigned long)__builtin_return_address(0))
#define _THIS_IP_ 0
#define EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_GPL(name)

#define ERR_PTR(error) ((void *)(long)(error))
#define PTR_ERR(pointer) ((long)(pointer))
#define IS_ERR(pointer) ((unsigned long)(pointer) >= (unsigned long)-4095)
#define IS_ERR_OR_NULL(pointer) (!(pointer) || IS_ERR(pointer))
#define ERR_CAST(pointer) ((void *)(pointer))
#define PTR_ERR_OR_ZERO(pointer) (IS_ERR(pointer) ? PTR_ERR(pointer) : 0)

/* ---- what is said and what must not be --------------------------------------------------------- */

extern atomic_int shim_complaints; /* warnings and errors */
int shim_say(bool complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define KERN_ERR ""
#define printk(...) shim_say(false, __VA_ARGS__)
#define pr_info(...) shim_say(false, __VA_ARGS__)
#define pr_cont(...) shim_say(false, __VA_ARGS__)
#define pr_warn(...) shim_say(true, __VA_ARGS__)
#define pr_err(...) shim_say(true, __VA_ARGS__)
#define dump_stack() ((void)0)
#define WARN(wrong, ...) ((wrong) ? shim_say(true, __VA_ARGS__), true : false)
#define WARN_ON(wrong) WARN(wrong, "%s:%d: %s\n", __FILE__, __LINE__, #wrong)
#define VM_WARN_ON_ONCE(wrong) ((void)WARN_ON(wrong))
#define VM_BUG_ON(wrong) ((void)0) /* looks into a struct kmem_cache */
#define BUG_ON(wrong) ((wrong) ? (void)WARN_ON(true), abort() : (void)0)
#define might_sleep() ((void)0)
#define might_alloc(gfp) ((void)(gfp))

/* ---- atomics, locks ---------------------------------------------------------------------------- */

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define barrier() __asm__ volatile("" ::: "memory")
#define smp_rmb() atomic_thread_fence(memory_order_acquire)
#define smp_wmb() atomic_thread_fence(memory_order_release)
#define cmpxchg(place, old, new) __sync_val_compare_and_swap(place, old, new)

typedef struct {
    int counter;
} atomic_t;

#define atomic_read(a) __atomic_load_n(&(a)->counter, __ATOMIC_RELAXED)
#define atomic_set(a, n) __atomic_store_n(&(a)->counter, n, __ATOMIC_RELAXED)
#define atomic_inc(a) ((void)__atomic_add_fetch(&(a)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic_dec(a) ((void)__atomic_sub_fetch(&(a)->counter, 1, __ATOMIC_SEQ_CST))
#define atomic_dec_and_test(a) (__atomic_sub_fetch(&(a)->counter, 1, __ATOMIC_SEQ_CST) == 0)

static inline void set_bit(unsigned long n, unsigned long *bits)
{
    __atomic_or_fetch(&bits[n / 64], 1UL << n % 64, __ATOMIC_RELAXED);
}

static inline void clear_bit(unsigned long n, unsigned long *bits)
{
    __atomic_and_fetch(&bits[n / 64], ~(1UL << n % 64), __ATOMIC_RELAXED);
}

static inline bool test_bit(unsigned long n, const unsigned long *bits)
{
    return READ_ONCE(bits[n / 64]) >> n % 64 & 1;
}

static inline bool test_and_set_bit(unsigned long n, unsigned long *bits)
{
    return __atomic_fetch_or(&bits[n / 64], 1UL << n % 64, __ATOMIC_SEQ_CST) >> n % 64 & 1;
}

static inline void bit_spin_lock(unsigned n, unsigned long *word)
{
    while (__atomic_fetch_or(word, 1UL << n, __ATOMIC_ACQUIRE) >> n & 1)
        sched_yield();
}

static inline void bit_spin_unlock(unsigned n, unsigned long *word)
{
    __atomic_and_fetch(word, ~(1UL << n), __ATOMIC_RELEASE);
}

/* A thread that holds it may be preempted, so that others had better sleep. */
typedef struct {
    pthread_mutex_t mutex;
} spinlock_t;

#define spin_lock_init(l) pthread_mutex_init(&(l)->mutex, NULL)
#define spin_lock(l) pthread_mutex_lock(&(l)->mutex)
#define spin_unlock(l) pthread_mutex_unlock(&(l)->mutex)
#define spin_lock_irqsave(l, flags) ((flags) = 0, (void)pthread_mutex_lock(&(l)->mutex))
#define spin_unlock_irqrestore(l, flags) ((void)(flags), (void)pthread_mutex_unlock(&(l)->mutex))
#define local_bh_disable() ((void)0)
#define local_bh_enable() ((void)0)
#define local_irq_save(flags) ((flags) = 0)
#define local_irq_restore(flags) ((void)(flags))
#define preempt_enable() ((void)0)

struct mutex {
    pthread_mutex_t mutex;
};
#define mutex_init_with_key(m, key) ((void)(key), (void)pthread_mutex_init(&(m)->mutex, NULL))
#define mutex_init(m) pthread_mutex_init(&(m)->mutex, NULL)
#define mutex_lock(m) pthread_mutex_lock(&(m)->mutex)
#define mutex_unlock(m) pthread_mutex_unlock(&(m)->mutex)

struct lock_class_key {
    char unused;
};
struct lockdep_map {
    char unused;
};
#define SINGLE_DEPTH_NESTING 1
#define lockdep_is_held(lock) 1
#define lockdep_init_map(map, name, key, subclass) ((void)(key))
#define lock_map_acquire(map) ((void)(map))
#define lock_map_release(map) ((void)(map))
#define lock_acquire_exclusive(map, subclass, try, nest, ip) ((void)(map))

/* ---- RCU: what liburcu does not have ------------------------------------------------------------ */

#define rcu_dereference_all(p) rcu_dereference(p)
#define rcu_dereference_all_check(p, held) rcu_dereference(p)
#define rcu_dereference_check(p, held) rcu_dereference(p)
#define rcu_dereference_protected(p, held) (p)
#define rcu_dereference_raw(p) READ_ONCE(p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define RCU_INIT_POINTER(p, value) ((p) = (value))
#define rcu_head_init(head) ((head)->func = NULL)
#define rcu_head_after_call_rcu(head, function) (READ_ONCE((head)->func) == (function))

/* ---- lists --------------------------------------------------------------------------------------- */

struct list_head {
    struct list_head *next, *prev;
};

#define LIST_POISON2 NULL
#define INIT_LIST_HEAD(list) ((list)->next = (list)->prev = (list))
#define list_for_each_entry(at, head, member)                                                      \
    for ((at) = container_of((head)->next, __typeof__(*(at)), member); &(at)->member != (head);    \
         (at) = container_of((at)->member.next, __typeof__(*(at)), member))

static inline void list_add(struct list_head *fresh, struct list_head *head)
{
    fresh->next = head->next;
    fresh->prev = head;
    head->next->prev = fresh;
    head->next = fresh;
}

static inline void list_del(struct list_head *gone)
{
    gone->next->prev = gone->prev;
    gone->prev->next = gone->next;
}

/* ---- threads, waiting, work ------------------------------------------------------------------------ */

#define HZ 1000
enum { TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE };

struct task_struct;
struct task_struct *shim_thread(int (*fn)(void *), void *data);
#define kthread_run(fn, data, ...) shim_thread(fn, data)
int kthread_stop(struct task_struct *task);
bool kthread_should_stop(void);
void shim_nap(void);
#define set_current_state(state) ((void)(state))
#define schedule() shim_nap()
#define cond_resched() ((void)0)
#define cond_resched_rcu() ((void)0)

typedef struct wait_queue_head {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned long turn;
    int sleepers;
} wait_queue_head_t;

struct shim_wait {
    wait_queue_head_t *queue;
    unsigned long turn;
};
#define DECLARE_WAIT_QUEUE_HEAD(name)                                                              \
    wait_queue_head_t name = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0}
#define DEFINE_WAIT(name) struct shim_wait name = {NULL, 0}
typedef struct shim_wait wait_queue_entry_t;
#define init_wait(wait) (*(wait) = (struct shim_wait){NULL, 0})
void init_waitqueue_head(wait_queue_head_t *queue);
void prepare_to_wait(wait_queue_head_t *queue, struct shim_wait *wait, int state);
void finish_wait(wait_queue_head_t *queue, struct shim_wait *wait);
long io_schedule_timeout(long milliseconds);
bool wq_has_sleeper(wait_queue_head_t *queue);
void wake_up(wait_queue_head_t *queue);
#define wake_up_all(queue) wake_up(queue)
#define wait_event_interruptible(queue, wanted)                                                    \
    ({                                                                                             \
        while (!(wanted))                                                                          \
            shim_nap();                                                                            \
        0;                                                                                         \
    })

struct work_struct {
    void (*func)(struct work_struct *work);
    struct work_struct *next;
    bool queued;
};
#define INIT_WORK(work, fn) (*(work) = (struct work_struct){(fn), NULL, false})
bool schedule_work(struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);

/* There are no interrupts: at once. */
struct irq_work {
    void (*func)(struct irq_work *work);
};
#define init_irq_work(work, fn) ((work)->func = (fn))
#define irq_work_queue(work) ((work)->func(work))
#define irq_work_sync(work) ((void)(work))

/* ---- others -------------------------------------------------------------------------------------- */

#define alloc_hooks(call) (call)
#define alloc_hooks_tag(tag, call) (call)
#define alloc_tag_record(tag) ((void)0)
#define vzalloc(size) kvmalloc(size, GFP_KERNEL | __GFP_ZERO)
#define vfree(object) kvfree(object)

u32 get_random_u32(void);
#define get_random_u32_below(n) (get_random_u32() % (u32)(n))
#define prandom_u32_max(n) get_random_u32_below(n)

static inline s64 ktime_get_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

#define kasan_enabled() false
#define kasan_mempool_poison_object(object) ((void)(object), true)
#define kasan_mempool_poison_pages(object, order) ((void)(object), true)
#define kasan_mempool_unpoison_object(object, size) ((void)(object))
#define kasan_mempool_unpoison_pages(object, order) ((void)(object))
/* The same in Linux 6.1. */
#define kasan_slab_free_mempool(object) ((void)(object))
#define kasan_poison_pages(object, order, init) ((void)(object))
#define kasan_unpoison_pages(object, order, init) ((void)(object))
#define kasan_unpoison_range(object, size) ((void)(object), (void)(size))
#define kmap_atomic(page) page_address(page)
#define kunmap_atomic(address) ((void)(address))
#define kmap_local_page(page) page_address(page)
#define kunmap_local(address) ((void)(address))
#define kmemleak_update_trace(object) ((void)(object))
#define POISON_INUSE 0x5a
#define POISON_FREE 0x6b
#define POISON_END 0xa5

/* Every n-th question of that name is answered by "fail"; 0: none. */
struct fault_attr {
    const char *name;
    struct fault_attr *next;
    unsigned every;
    atomic_uint asked;
};
#define DECLARE_FAULT_ATTR(name) struct fault_attr name
#define FAULT_NOWARN 1
void *fault_create_debugfs_attr(const char *name, void *parent, struct fault_attr *attr);
bool should_fail_ex(struct fault_attr *attr, size_t size, int flags);
int shim_faults(const char *name, unsigned every);

/*
 * While it is set, memory of whole tables is refused to callers that may not wait, and work is late, so that such
 * callers need tables.  shim_pages counts the pages that they make them of instead.
 */
extern atomic_bool shim_no_tables;
extern atomic_int shim_pages;
#undef kvmalloc_node_align_noprof
#define kvmalloc_node_align_noprof(size, align, gfp, node)                                         \
    (atomic_load(&shim_no_tables) && !gfpflags_allow_blocking(gfp)                                 \
         ? NULL                                                                                    \
         : kvmalloc_node_align(size, align, gfp, node))
#undef kvmalloc_node_noprof
#define kvmalloc_node_noprof(size, gfp, node) kvmalloc_node_align_noprof(size, 1, gfp, node)
#undef kmalloc_noprof
#define kmalloc_noprof(size, gfp)                                                                  \
    (atomic_fetch_add(&shim_pages, (size) == PAGE_SIZE && !gfpflags_allow_blocking(gfp)),          \
     kmalloc(size, gfp))
#if STOOK_KMEM_LINUX < 0x060a00 /* before there were names with _noprof */
#undef kvzalloc
#define kvzalloc(size, gfp) kvmalloc_node_align_noprof(size, 1, (gfp) | __GFP_ZERO, NUMA_NO_NODE)
#define kzalloc(size, gfp) kmalloc_noprof(size, (gfp) | __GFP_ZERO)
#endif

#define late_initcall(fn)                                                                          \
    __attribute__((constructor)) static void shim_call_##fn(void)                                  \
    {                                                                                              \
        BUG_ON(fn() != 0);                                                                         \
    }
#define module_init(fn)                                                                            \
    int shim_module(void)                                                                          \
    {                                                                                              \
        return fn();                                                                               \
    }
#define module_exit(fn)                                                                            \
    void shim_module_end(void)                                                                     \
    {                                                                                              \
        fn();                                                                                      \
    }
int shim_module(void);
void shim_module_end(void);
/* Set by the environment: parm_entries=1000. */
#define module_param(name, type, mode)                                                             \
    __attribute__((constructor)) static void shim_param_##name(void)                               \
    {                                                                                              \
        const char *text = getenv(#name);                                                          \
        if (text)                                                                                  \
            name = (type)atoi(text);                                                               \
    }
#define MODULE_PARM_DESC(name, text)
#define MODULE_DESCRIPTION(text) struct shim_module_ends_here
#define MODULE_LICENSE(text) struct shim_module_ends_here

/* RCU and Stook know of each other from here on; of this thread, too. */
void shim_start(void);
void shim_end(void);

#endif /* SHIM_H */
