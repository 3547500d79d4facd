/* SPDX-License-Identifier: MIT */
/*
 * mallinfo.c - what programs ask malloc about itself: in glibc's words, with Stook's numbers.
 *
 *   arena     bytes of the slabs of all size classes     hblks, hblkhd  large objects, their bytes
 *   uordblks  of these, in objects handed out            fordblks       … in free objects
 *   keepcost  free and resident: what malloc_trim() gives back at least
 */
#include "base/cancel.h"
#include "kmalloc/private.h"
#include "malloc/class.h"
#include "malloc/libc_heap.h"
#include "malloc/names.h"

#include <errno.h>
#include <limits.h>

size_t MALLOC_NAME(malloc_usable_size)(void *object)
{
    size_t size = object ? class_size(object, "malloc_usable_size") : 0;

    return size == 0 && object && libc_heap_has(object) ? libc_heap.usable_size(object) : size;
}

int MALLOC_NAME(malloc_trim)(size_t pad)
{
    (void)pad;
    return stook_private_trim() > 0;
}

struct mallinfo2 MALLOC_NAME(mallinfo2)(void)
{
    struct stook_private_totals totals;

    stook_private_totals(&totals);
    return (struct mallinfo2){
        .arena = totals.slabs,
        .ordblks = totals.free_objects,
        .hblks = totals.large_objects,
        .hblkhd = totals.large,
        .uordblks = totals.active,
        .fordblks = totals.free,
        .keepcost = totals.warm,
    };
}

static int mallinfo_int(size_t value)
{
    return value > INT_MAX ? INT_MAX : (int)value;
}

struct mallinfo MALLOC_NAME(mallinfo)(void)
{
    struct mallinfo2 info = MALLOC_NAME(mallinfo2)();

    return (struct mallinfo){
        .arena = mallinfo_int(info.arena),
        .ordblks = mallinfo_int(info.ordblks),
        .hblks = mallinfo_int(info.hblks),
        .hblkhd = mallinfo_int(info.hblkhd),
        .uordblks = mallinfo_int(info.uordblks),
        .fordblks = mallinfo_int(info.fordblks),
        .keepcost = mallinfo_int(info.keepcost),
    };
}

/*
 * 1 for every parameter, as glibc's is.  M_PERTURB alone has an effect: the others lay out glibc's heaps, or, like
 * M_CHECK_ACTION since 2.26, have none there either.
 */
int MALLOC_NAME(mallopt)(int parameter, int value)
{
    if (parameter == M_PERTURB)
        class_perturb((unsigned char)value);
    return 1;
}

int MALLOC_NAME(malloc_info)(int options, FILE *stream)
{
    struct stook_private_totals totals;

    if (options != 0)
        return EINVAL;
    stook_private_totals(&totals);
    fprintf(stream,
            "<malloc version=\"stook-1\">\n"
            "<heap nr=\"0\">\n"
            "<total type=\"slab\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"free\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"large\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"warm\" count=\"0\" size=\"%zu\"/>\n"
            "<system type=\"current\" size=\"%zu\"/>\n"
            "</heap>\n"
            "</malloc>\n",
            totals.objects, totals.active, totals.free_objects, totals.free, totals.large_objects,
            totals.large, totals.warm, totals.used);
    return 0;
}

static int mallinfo_put(void *stream, const char *text, size_t size)
{
    return fprintf(stream, "%.*s", (int)size, text) == (int)size ? 0 : -1;
}

/* To the stream, which need not be descriptor 2. */
void MALLOC_NAME(malloc_stats)(void)
{
    int before = cancel_off(); /* stdio may be a point of cancellation */

    (void)stook_private_report(mallinfo_put, stderr);
    cancel_on(before);
}
