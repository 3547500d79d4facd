/* SPDX-License-Identifier: MIT */
/*
 * traces_read.c - a trace as the events of malloc's objects alone, and tables of size classes.
 */
#include "plan/traces.h"

#include "lab/trace_live.h"
#include "lab/trace_read.h"
#include "look/target.h"
#include "malloc/sizes.h"
#include "slab/layout.h"
#include "stook/command.h"

#include "text/file.h"

#include <stook/stook.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TRACES_MAX == (int)SIZES_MAX && (int)TRACES_STEP == (int)SIZES_STEP,
               "tables are as malloc's own");

/* ---- traces --------------------------------------------------------------------------------- */

struct traces_reader {
    struct traces_trace *trace;
    struct trace file;
    struct trace_live live;
    uint32_t *unused, unuseds; /* numbers of objects that are gone */
};

static void traces_push(struct traces_reader *r, struct traces_event event)
{
    struct traces_trace *t = r->trace;

    t->event = target_row(t->event, t->events, sizeof(event));
    t->event[t->events++] = event;
}

/* The size that decides about the class: 0 where the object has none. */
static size_t traces_size(struct traces_reader *r, const struct trace_event *event)
{
    const struct trace_class *class =
        event->class == TRACE_LARGE ? NULL : &r->file.class[event->class];
    size_t size;

    if (!class || strncmp(class->name, "malloc-", strlen("malloc-")) != 0) {
        r->trace->large++;
        return 0;
    }
    size = event->bytes ? event->bytes : class->size;
    if (event->align)
        size = (size + event->align - 1) & ~((size_t)event->align - 1);
    if (size > TRACES_MAX) {
        r->trace->large++;
        return 0;
    }
    r->trace->classed += event->bytes == 0;
    return size;
}

static void traces_take(struct traces_reader *r, const struct trace_object *object,
                        const struct trace_event *event)
{
    uint32_t number = (uint32_t)object->bytes;

    r->unused[r->unuseds++] = number;
    traces_push(r, (struct traces_event){.object = number,
                                         .size = (uint16_t)object->class,
                                         .cpu = (uint8_t)(event->thread % TRACES_CPUS),
                                         .free = true});
}

static void traces_put(struct traces_reader *r, const struct trace_event *event)
{
    struct traces_trace *t = r->trace;
    size_t size = traces_size(r, event);
    uint32_t number;
    struct trace_object object = {.address = event->address, .class = (int)size};

    if (size == 0)
        return;
    if (r->unuseds == 0) { /* room for all numbers there are */
        r->unused = target_row(r->unused, t->objects, sizeof(*r->unused));
        r->unused[r->unuseds++] = t->objects++;
    }
    number = r->unused[--r->unuseds];
    object.bytes = number;
    t->allocs++;
    trace_live_put(&r->live, &object);
    traces_push(r, (struct traces_event){.object = number,
                                         .size = (uint16_t)size,
                                         .cpu = (uint8_t)(event->thread % TRACES_CPUS)});
}

static void traces_events(struct traces_reader *r)
{
    struct trace_event event;
    struct trace_object object;

    while (trace_next(&r->file, &event)) {
        /* An address that is handed out again was freed unseen. */
        if (trace_live_take(&r->live, event.address, &object))
            traces_take(r, &object, &event);
        if (!event.free)
            traces_put(r, &event);
    }
}

static void traces_sort(struct traces_trace *t)
{
    uint32_t at[TRACES_STEPS + 1];

    t->by_step = target_need(malloc(((size_t)t->events + 1) * sizeof(*t->by_step)));
    memset(t->begin, 0, sizeof(t->begin));
    for (uint32_t i = 0; i < t->events; i++)
        t->begin[(t->event[i].size + TRACES_STEP - 1) / TRACES_STEP + 1]++;
    for (unsigned s = 1; s <= TRACES_STEPS; s++)
        t->begin[s] += t->begin[s - 1];
    memcpy(at, t->begin, sizeof(at));
    for (uint32_t i = 0; i < t->events; i++)
        t->by_step[at[(t->event[i].size + TRACES_STEP - 1) / TRACES_STEP]++] = i;
}

bool traces_read(struct traces_trace *trace, const char *file)
{
    struct traces_reader r = {.trace = trace};
    bool fine = false;

    memset(trace, 0, sizeof(*trace));
    trace->file = file;
    trace_live_start(&r.live);
    if (!trace_open(&r.file, file)) {
        complain(STATUS_FAILED, "%s: %s", file, r.file.error);
    } else if (r.file.summary.allocs + r.file.summary.frees >= UINT32_MAX / 2) {
        complain(STATUS_FAILED, "%s: more than 2^31 events", file);
    } else {
        traces_events(&r);
        traces_sort(trace);
        if (*r.file.error)
            complain(STATUS_FAILED, "%s: %s", file, r.file.error);
        else if (trace->allocs == 0)
            complain(STATUS_FAILED, "%s: no size class of malloc has an object in it", file);
        else
            fine = true;
    }
    snprintf(trace->program, sizeof(trace->program), "%s", r.file.header.program);
    trace_live_end(&r.live);
    free(r.unused);
    trace_close(&r.file);
    return fine;
}

void traces_free(struct traces_trace *trace)
{
    free(trace->event);
    free(trace->by_step);
}

/* ---- tables --------------------------------------------------------------------------------- */

void traces_builtin(struct traces_table *table)
{
    table->classes = SIZES_CLASSES;
    for (unsigned i = 0; i < SIZES_CLASSES; i++)
        table->class[i] = (struct traces_class){(unsigned)sizes_of(i), TRACES_AUTO, TRACES_AUTO};
}

/* The number that the text begins with, behind `mark`; TRACES_AUTO where that is not there. */
static bool traces_number(const char **text, char mark, long most, int *number)
{
    char *end;
    long n;

    *number = TRACES_AUTO;
    if (mark && **text != mark)
        return true;
    *text += mark != 0;
    errno = 0;
    n = strtol(*text, &end, 10);
    if (end == *text || errno || n < 0 || n > most || **text == '+' || **text == ' ')
        return false;
    *text = end;
    *number = (int)n;
    return true;
}

static bool traces_word(struct traces_table *table, const char *word)
{
    struct traces_class *class = &table->class[table->classes];
    const char *rest = word;
    int size;

    if (table->classes == TRACES_CLASSES)
        return refuse("--classes: more than %d classes", TRACES_CLASSES);
    if (!traces_number(&rest, 0, TRACES_MAX, &size) ||
        !traces_number(&rest, ':', LAYOUT_ORDER_BLOCK, &class->order) ||
        !traces_number(&rest, ':', STOOK_SHEAF_CAPACITY_MAX, &class->capacity) || *rest ||
        class->capacity == 0)
        return refuse("--classes: %s is not SIZE[:ORDER[:CAPACITY]]", word);
    class->size = (unsigned)size;
    table->classes++;
    return true;
}

/* The text of a file, or the words themselves; NULL after complain(). */
static char *traces_words(const char *text)
{
    FILE *file = strspn(text, "0123456789:,") == strlen(text) ? NULL : file_stream(text);
    char *words = NULL;
    size_t room = 0;

    if (strspn(text, "0123456789:,") == strlen(text))
        words = strdup(text);
    else if (!file)
        complain(STATUS_USAGE, "--classes %s: %s", text, file_error(errno));
    else if (getdelim(&words, &room, '\0', file) < 0) {
        complain(STATUS_USAGE, "--classes %s: it has no classes", text);
        free(words); /* room for a line, with no line in it */
        words = NULL;
    }
    if (file)
        fclose(file);
    return words;
}

/* 16 bytes apart up to 64, 32 up to 128; then at most 12.5 % more than asked for; 25 % beyond 4 KiB, where much
 * of it is pages that the program never touches. */
static bool traces_wastes(unsigned below, unsigned size)
{
    unsigned least = below + 1, lost = size - least;

    return least <= 64     ? lost >= 16
           : least <= 128  ? lost >= 32
           : least <= 4096 ? lost * 8 > least
                           : lost * 4 > least;
}

const char *traces_table_wrong(const struct traces_table *table)
{
    unsigned below = 0, power = TRACES_STEP;

    for (unsigned i = 0; i < table->classes; i++) {
        unsigned size = table->class[i].size;
        if (size % TRACES_STEP != 0 || size <= below)
            return "classes are multiples of 16 and grow";
        if (size > power)
            return "every power of two from 16 to 32768 is a class";
        power = size == power ? 2 * power : power;
        if (traces_wastes(below, size))
            return "classes are at most 16 bytes apart up to 64, 32 up to 128, 12.5 % up to 4096, 25 % "
                   "beyond";
        below = size;
    }
    return below == TRACES_MAX ? NULL : "the last class is 32768";
}

bool traces_table_read(struct traces_table *table, const char *text)
{
    char *words = traces_words(text), *rest = words, *word;
    const char *wrong;
    bool fine = words != NULL;

    table->classes = 0;
    while (fine && (word = strsep(&rest, ", \n\t")) != NULL)
        fine = *word == '\0' || traces_word(table, word);
    wrong = fine ? traces_table_wrong(table) : NULL;
    if (wrong)
        complain(STATUS_USAGE, "--classes: %s", wrong);
    free(words);
    return fine && !wrong;
}
