/* SPDX-License-Identifier: MIT */
/*
 * unwind.c - walks a stack: finds the file of each address and its rule (unwind_rules.c), keeps rules in one table, and
 * reads no memory but that of the stack it walks.
 */
#include "site/unwind.h"

#include "base/placed.h"
#include "base/raw.h"
#include "os/os.h"
#include "site/modules.h"
#include "site/unwind_cfa.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum {
    UNWIND_BUCKET = 4,       /* rules of a line of the CPU's cache */
    UNWIND_BUCKETS = 512,    /* 32 KiB, of which a small program touches a part */
    UNWIND_FILES = 4,        /* that a walk remembers */
    UNWIND_FRAMED_MOST = 32, /* frames of code of no file in a row */
    UNWIND_PAGE = 4096,
    UNWIND_FIRST = 112 << 10, /* of the first stack, which are there from the start */
    UNWIND_FIRST_MOST =
        64 << 20, /* and below which the kernel maps nothing by itself: half of its gap */
    UNWIND_STACK_MOST = 1 << 30,
    UNWIND_RECORD_ABOVE = 1 << 20, /* from a thread's record to the end of its memory, at most */
#if defined(__x86_64__) /* from a handler's caller's stack pointer on; the kernel's layout */
    UNWIND_CONTEXT = 0,
    UNWIND_CONTEXT_IP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
    UNWIND_CONTEXT_SP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
    UNWIND_CONTEXT_FP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
    UNWIND_CONTEXT_LINK = UNWIND_CONTEXT_IP,
#else
    UNWIND_CONTEXT = sizeof(siginfo_t),
    UNWIND_CONTEXT_IP = offsetof(ucontext_t, uc_mcontext.pc),
    UNWIND_CONTEXT_SP = offsetof(ucontext_t, uc_mcontext.sp),
    UNWIND_CONTEXT_FP = offsetof(ucontext_t, uc_mcontext.regs[29]),
    UNWIND_CONTEXT_LINK = offsetof(ucontext_t, uc_mcontext.regs[30]),
#endif
};
#define UNWIND_MIX 0x9e3779b97f4a7c15u
#if !defined(__GLIBC__) /* the mapping, its size, the stack's end, its size */
enum { UNWIND_RECORD = 128 };
#define UNWIND_ROW_LOW(row) ((row)[2] - (row)[3])
#else
enum { UNWIND_RECORD = REGISTERS_LINK ? 1280 : 1792 };
#define UNWIND_ROW_LOW(row) ((row)[0] + (row)[2])
#endif

/* `check` is the key xor the rule times an odd number.  So a reader that finds the halves of two rules takes neither,
 * and no order of stores is needed. */
struct unwind_entry {
    _Atomic uint64_t check, rule; /* rule 0: free */
};
typedef struct unwind_entry unwind_bucket[UNWIND_BUCKET];

static _Alignas(64) unwind_bucket unwind_kept[UNWIND_BUCKETS] LARGE_BSS;

struct unwind_file {
    uint64_t start, end;
    uint64_t bias; /* what its addresses are higher than they were linked for */
    uint64_t id;   /* of its build and its load address; 0: rules of it are not kept */
    struct unwind_tables tables;
};

struct unwind_walk {
    uint64_t low, high; /* of the stack: what may be read */
    unsigned files;
    struct unwind_file file[UNWIND_FILES];
};

/* ---- kept rules ------------------------------------------------------------------------------ */

static struct unwind_entry *unwind_bucket_of(uint64_t key)
{
    return unwind_kept[(key * UNWIND_MIX >> 32) % UNWIND_BUCKETS];
}

static uint64_t unwind_get(uint64_t key)
{
    const struct unwind_entry *entry = unwind_bucket_of(key);

    for (unsigned i = 0; i < UNWIND_BUCKET; i++, entry++) {
        uint64_t rule = atomic_load_explicit(&entry->rule, memory_order_relaxed);
        if (rule != 0 &&
            atomic_load_explicit(&entry->check, memory_order_relaxed) == (key ^ rule * UNWIND_MIX))
            return rule;
    }
    return 0;
}

/* In a free entry of its bucket, or in place of another rule. */
static void unwind_put(uint64_t key, uint64_t rule)
{
    struct unwind_entry *bucket = unwind_bucket_of(key), *entry = bucket;

    while (entry < bucket + UNWIND_BUCKET &&
           atomic_load_explicit(&entry->rule, memory_order_relaxed) != 0)
        entry++;
    if (entry == bucket + UNWIND_BUCKET)
        entry = bucket + (key >> 3) % UNWIND_BUCKET;
    atomic_store_explicit(&entry->check, key ^ rule * UNWIND_MIX, memory_order_relaxed);
    atomic_store_explicit(&entry->rule, rule, memory_order_relaxed);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The build ID mixed with the load address; 0: no build ID was found. */
static uint64_t unwind_file_id(const struct unwind_file *file)
{
    uint32_t bytes;
    const unsigned char *id = file->end - file->start < MODULES_PAGE
                                  ? NULL
                                  : modules_build_id((const char *)(uintptr_t)file->start, // NOLINT
                                                     &bytes);
    uint64_t first, last;

    if (!id)
        return 0;
    memcpy(&first, id, sizeof(first));
    memcpy(&last, id + bytes - sizeof(last), sizeof(last));
    return ((first ^ last * UNWIND_MIX) | 1) ^ file->start * UNWIND_MIX;
}

/* What the loader maps of a file, and its tables.  glibc before 2.35 is not asked. */
__attribute__((unused)) static void unwind_file_span(struct unwind_file *file,
                                                     const ElfW(Phdr) parts[], uint64_t n)
{
    file->start = UINT64_MAX;
    file->end = 0;
    file->tables.header = NULL;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = file->bias + parts[i].p_vaddr, end = at + parts[i].p_memsz;
        if (parts[i].p_type == PT_GNU_EH_FRAME)
            file->tables.header = (const unsigned char *)(uintptr_t)at; // NOLINT
        else if (parts[i].p_type == PT_LOAD) {
            file->start = at < file->start ? at : file->start;
            file->end = end > file->end ? end : file->end;
        }
    }
}

/* unwind_file_find(): the file that `pc` lies in.  false: in none that has tables. */
#ifdef DLFO_STRUCT_HAS_EH_DBASE
/*
 * glibc 2.35 finds it without a lock.  In a static program it allocates while it makes what _dl_find_object() reads;
 * programs that have an interpreter begin with that made.
 */
static _Atomic bool unwind_ready;

FIRST_TEXT __attribute__((constructor(101))) static void unwind_begin(void)
{
    atomic_store_explicit(&unwind_ready, true, memory_order_relaxed);
}

static bool unwind_file_find(uint64_t pc, struct unwind_file *file)
{
    struct dl_find_object found;

    if (!atomic_load_explicit(&unwind_ready, memory_order_relaxed) && getauxval(AT_BASE) == 0)
        return false;
    if (_dl_find_object((void *)(uintptr_t)pc, &found) != 0 || !found.dlfo_eh_frame) // NOLINT
        return false;
    file->bias = found.dlfo_link_map->l_addr;
    file->start = (uintptr_t)found.dlfo_map_start;
    file->end = (uintptr_t)found.dlfo_map_end;
    file->tables.header = found.dlfo_eh_frame;
    /* Of a static program it has the code alone. */
    if ((uintptr_t)found.dlfo_eh_frame - file->start >= file->end - file->start)
        unwind_file_span(file, (const ElfW(Phdr) *)getauxval(AT_PHDR), // NOLINT
                         getauxval(AT_PHNUM));
    return file->tables.header && pc - file->start < file->end - file->start;
}
#elif defined(__GLIBC__)
/* The loader's lock is held by others while they call what they want: a stack is its first frame. */
static bool unwind_file_find(uint64_t pc, struct unwind_file *file)
{
    (void)pc;
    (void)file;
    return false;
}
#else
/* musl holds the loader's lock for its own steps alone. */
struct unwind_file_search {
    uint64_t pc;
    struct unwind_file *file;
};

static int unwind_file_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct unwind_file_search *search = arg;
    struct unwind_file file = {.bias = info->dlpi_addr};

    (void)size;
    unwind_file_span(&file, info->dlpi_phdr, info->dlpi_phnum);
    if (search->pc < file.start || search->pc >= file.end)
        return 0;
    *search->file = file;
    return file.tables.header ? 1 : -1;
}

static bool unwind_file_find(uint64_t pc, struct unwind_file *file)
{
    struct unwind_file_search search = {.pc = pc, .file = file};

    return dl_iterate_phdr(unwind_file_visit, &search) > 0;
}
#endif

static const struct unwind_file *unwind_file(struct unwind_walk *walk, uint64_t pc)
{
    unsigned n = walk->files < UNWIND_FILES ? walk->files : UNWIND_FILES;
    struct unwind_file *file;

    for (unsigned i = 0; i < n; i++)
        if (pc - walk->file[i].start < walk->file[i].end - walk->file[i].start)
            return &walk->file[i];
    file = &walk->file[walk->files++ % UNWIND_FILES];
    if (!unwind_file_find(pc, file)) {
        file->start = file->end = 0; /* nothing lies in it */
        return NULL;
    }
    file->tables.start = (const unsigned char *)(uintptr_t)file->start; // NOLINT
    file->tables.end = (const unsigned char *)(uintptr_t)file->end;     // NOLINT
    file->id = unwind_file_id(file);
    return file;
}

/* Handlers return to the kernel's own file, which has no tables on aarch64: mov x8, #139; svc #0. */
static bool unwind_is_return_of_handler(uint64_t address)
{
#if defined(__aarch64__)
    static const uint32_t code[] = {0xd2801168, 0xd4000001};
    uint64_t at = getauxval(AT_SYSINFO_EHDR);
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)(uintptr_t)at; // NOLINT
    struct unwind_file file = {.bias = at};

    if (!header)
        return false;
    unwind_file_span(&file, (const ElfW(Phdr) *)(uintptr_t)(at + header->e_phoff), // NOLINT
                     header->e_phnum);
    return address >= file.start && address < file.end && file.end - address >= sizeof(code) &&
           memcmp((const void *)(uintptr_t)address, code, sizeof(code)) == 0; // NOLINT
#else
    (void)address;
    return false;
#endif
}

/* The rule of the frame that a call returns to at `address`. */
static uint64_t unwind_rule(struct unwind_walk *walk, uint64_t address)
{
    const struct unwind_file *file = unwind_file(walk, address - 1);
    uint64_t rule;

    if (!file)
        return unwind_is_return_of_handler(address) ? UNWIND_SIGNAL : UNWIND_UNKNOWN;
    if (file->id == 0)
        return unwind_rules_find(&file->tables, address - 1);
    rule = unwind_get(address ^ file->id);
    if (rule == 0) {
        rule = unwind_rules_find(&file->tables, address - 1);
        unwind_put(address ^ file->id, rule);
    }
    return rule;
}

/* ---- the stack ------------------------------------------------------------------------------- */

/*
 * Where this thread's stack ends, if `sp` lies in it; 0: the C library does not say so.  Its record of a thread lies above
 * the stack that it describes: address, size and guard in a row (glibc), whose place in the record is found once.  The
 * thread's own record is constant, so no lock is needed, which pthread_getattr_np() takes, and no memory.
 */
static uint64_t unwind_thread_end(uint64_t sp)
{
    static _Atomic unsigned found;
    uint64_t record = (uintptr_t)pthread_self();
    const uint64_t *words = (const uint64_t *)(uintptr_t)record; // NOLINT
    unsigned at = atomic_load_explicit(&found, memory_order_relaxed);

#if defined(__x86_64__)
    /* A thread that was not made by the C library may have no record, or only the beginning of one. */
    uint64_t self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    if (record != self || record % UNWIND_PAGE > UNWIND_PAGE - UNWIND_RECORD)
        return 0;
#endif
    for (unsigned last = at ? at : UNWIND_RECORD / 8 - 4; at <= last; at++) {
        const uint64_t *row = &words[at];
        if (record - row[0] - 1 >= UNWIND_STACK_MOST ||
            row[1] - (record - row[0]) > UNWIND_RECORD_ABOVE)
            continue;
        atomic_store_explicit(&found, at, memory_order_relaxed);
        return sp < record && sp >= UNWIND_ROW_LOW(row) ? record : 0;
    }
    return 0;
}

/*
 * The end of the first thread's stack, if `sp` lies in it.  The kernel's random bytes lie above it.  Of what is below
 * them it maps 128 KiB at the start, for good.  Below that the stack grows, and a stack that the program made may lie
 * where it has not grown yet.  So the kernel is asked whether all is there, each time: what was there may have gone.
 */
static uint64_t unwind_first_end(uint64_t sp)
{
    uint64_t end = getauxval(AT_RANDOM), low = end - UNWIND_FIRST,
             page = ~(uint64_t)(os_page_size() - 1);

    if (sp >= end || end - sp > UNWIND_FIRST_MOST)
        return 0;
    return sp >= low || raw_result(SYS_madvise, sp & page, (low & page) - (sp & page),
                                   MADV_POPULATE_READ) == 0 /* before Linux 5.14 never */
               ? end
               : 0;
}

/*
 * What may be read: from sp to the end of the stack that is known to be this thread's, or the first thread's.  false: sp
 * is in no such stack.  The library does not know the ends of stacks that a program makes by itself (coroutines, handlers), and a
 * function that changed to one has a rule that leads beyond it.
 */
static bool unwind_bounds(struct unwind_walk *walk, uint64_t sp)
{
    walk->low = sp;
    walk->high = unwind_first_end(sp);
    if (walk->high == 0)
        walk->high = unwind_thread_end(sp);
    return walk->high != 0 && sp % 8 == 0;
}

__attribute__((no_sanitize("address"), no_sanitize("thread"))) static bool unwind_read(
    const struct unwind_walk *walk, uint64_t at, uint64_t *value)
{
    if (at < walk->low || at > walk->high - sizeof(*value) || at % sizeof(*value) != 0)
        return false;
    *value = *(const uint64_t *)(uintptr_t)at; // NOLINT
    return true;
}

static uint64_t unwind_unsigned(uint64_t address)
{
#if defined(__aarch64__)
    register uint64_t x30 __asm__("x30") = address;

    __asm__("hint #7" : "+r"(x30)); /* xpaclri */
    return x30;
#else
    return address;
#endif
}

/* To the caller's frame; false: the stack is not what the rule says. */
static bool unwind_step(const struct unwind_walk *walk, uint64_t rule, struct unwind_frame *frame)
{
    enum unwind_kind kind = unwind_kind(rule);
    uint64_t low = kind == UNWIND_SP ? frame->sp : frame->fp, fp = frame->fp,
             cfa = low + (uint64_t)unwind_cfa_at(rule), from = rule & UNWIND_LOW ? low : cfa;

    if (kind == UNWIND_FP_MEM) {
        if (!unwind_read(walk, cfa, &cfa))
            return false;
        from = cfa;
    }
    if (cfa < frame->sp || (cfa == frame->sp && !frame->interrupted))
        return false;
    if (rule & UNWIND_LINK) {
        if (!frame->interrupted)
            return false;
        frame->ip = frame->link;
    } else if (!unwind_read(walk, from + (uint64_t)unwind_return_at(rule), &frame->ip))
        return false;
    if (unwind_fp(rule) != UNWIND_FP_SAME &&
        !unwind_read(walk,
                     (unwind_fp(rule) == UNWIND_FP_CFA ? from : frame->fp) +
                         (uint64_t)unwind_fp_at(rule),
                     &fp))
        return false;
    if (rule & UNWIND_SIGNED)
        frame->ip = unwind_unsigned(frame->ip);
    frame->sp = cfa;
    frame->fp = fp;
    frame->interrupted = false;
    return true;
}

/* To the frame that a signal interrupted, which may have another stack. */
static bool unwind_step_signal(struct unwind_walk *walk, struct unwind_frame *frame)
{
    uint64_t context = frame->sp + UNWIND_CONTEXT;

    frame->interrupted = true;
    return unwind_read(walk, context + UNWIND_CONTEXT_IP, &frame->ip) &&
           unwind_read(walk, context + UNWIND_CONTEXT_FP, &frame->fp) &&
           unwind_read(walk, context + UNWIND_CONTEXT_LINK, &frame->link) &&
           unwind_read(walk, context + UNWIND_CONTEXT_SP, &frame->sp) &&
           unwind_bounds(walk, frame->sp);
}

#if defined(__x86_64__)
/* push %rbp; mov %rsp, %rbp: CFA = rbp + 16, the return address and the caller's rbp below it. */
#define UNWIND_FRAMED                                                                              \
    ((uint64_t)2 << 40 | (uint64_t)(uint16_t)-1 << 24 | (uint64_t)(uint16_t)-2 << 8 |              \
     UNWIND_FP_CFA << 3 | UNWIND_FP)

/* Code of no file was made at run time (JIT) and mostly keeps frame pointers.  They are followed if they lead back to code of
 * a file: then they were no other values. */
static bool unwind_is_framed(struct unwind_walk *walk, struct unwind_frame frame)
{
    for (unsigned i = 0; i < UNWIND_FRAMED_MOST; i++) {
        if (unwind_file(walk, frame.ip - 1))
            return i > 0;
        if (frame.interrupted || !unwind_step(walk, UNWIND_FRAMED, &frame))
            return false;
    }
    return false;
}
#else
#define UNWIND_FRAMED UNWIND_UNKNOWN
static bool unwind_is_framed(struct unwind_walk *walk, struct unwind_frame frame)
{
    (void)walk;
    (void)frame;
    return false;
}
#endif

bool unwind_walk(struct unwind_frame frame, bool (*visit)(uint64_t address, void *arg), void *arg)
{
    struct unwind_walk walk;

    walk.files = 0;
    if (!unwind_bounds(&walk, frame.sp))
        return false;
    while (frame.ip != 0 && visit(frame.ip, arg)) {
        uint64_t rule = unwind_rule(&walk, frame.ip + (frame.interrupted ? 1 : 0));
        switch (unwind_kind(rule)) {
        case UNWIND_UNKNOWN:
            if (!unwind_is_framed(&walk, frame) || !unwind_step(&walk, UNWIND_FRAMED, &frame))
                return false;
            break;
        case UNWIND_END:
            return true;
        case UNWIND_SIGNAL:
            if (!unwind_step_signal(&walk, &frame))
                return false;
            break;
        default:
            if (!unwind_step(&walk, rule, &frame))
                return false;
        }
    }
    return true;
}
