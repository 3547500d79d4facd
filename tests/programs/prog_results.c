/* SPDX-License-Identifier: MIT */
/*
 * What calls of malloc return, and what they leave in errno, where they fail or have an edge: a line a call, the same
 * with each malloc that does as glibc's does.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wuse-after-free"

/* The compiler knows nothing of what it calls. */
#define CALL(type, name, ...) static type (*volatile t_##name)(__VA_ARGS__) = name
CALL(void *, malloc, size_t);
CALL(void *, calloc, size_t, size_t);
CALL(void *, realloc, void *, size_t);
CALL(void *, reallocarray, void *, size_t, size_t);
CALL(void *, aligned_alloc, size_t, size_t);
CALL(void *, memalign, size_t, size_t);
CALL(void *, valloc, size_t);
CALL(void *, pvalloc, size_t);
CALL(int, posix_memalign, void **, size_t, size_t);
CALL(size_t, malloc_usable_size, void *);
CALL(void, free, void *);

enum { ERRNO_BEFORE = 77 };
static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 16, SIZE_MAX / 4, (size_t)PTRDIFF_MAX + 1,
                              PTRDIFF_MAX};
static const size_t aligns[] = {
    0, 1, 2, 3, 8, 16, 24, 64, 4096, (size_t)1 << 62, (size_t)1 << 63, SIZE_MAX};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of a call that returns an object. */
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        errno = ERRNO_BEFORE;                                                                      \
        void *object_ = (call);                                                                    \
        printf("%-40s %s, errno %d\n", #call, object_ ? "object" : "NULL", errno);                 \
        t_free(object_);                                                                           \
    } while (0)

static void show_posix(size_t align, size_t size)
{
    void *object = &object;
    int result;

    errno = ERRNO_BEFORE;
    result = t_posix_memalign(&object, align, size);
    printf("posix_memalign(%#zx, %#zx) %d, errno %d, %s\n", align, size, result, errno,
           object == &object ? "no object" : "object");
    if (result == 0)
        t_free(object);
}

static void show_resized(size_t size)
{
    char *p = strcpy(t_malloc(100), "kept");

    errno = ERRNO_BEFORE;
    printf("realloc to %#zx: %s", size, t_realloc(p, size) ? "object" : "NULL");
    printf(", errno %d, %s\n", errno, p);
    errno = ERRNO_BEFORE;
    printf("reallocarray to 3 of %#zx: %s", size, t_reallocarray(p, 3, size) ? "object" : "NULL");
    printf(", errno %d, %s\n", errno, p);
    errno = ERRNO_BEFORE;
    printf("realloc to 0: %s, errno %d\n", t_realloc(p, 0) ? "object" : "NULL", errno);
}

int main(void)
{
    for (size_t i = 0; i < COUNT(huge); i++) {
        printf("%#zx bytes\n", huge[i]);
        SHOW(t_malloc(huge[i]));
        SHOW(t_calloc(1, huge[i]));
        SHOW(t_calloc(huge[i], 3));
        SHOW(t_realloc(NULL, huge[i]));
        SHOW(t_reallocarray(NULL, huge[i], 2));
        SHOW(t_aligned_alloc(64, huge[i]));
        SHOW(t_memalign(4096, huge[i]));
        SHOW(t_valloc(huge[i]));
        SHOW(t_pvalloc(huge[i]));
        show_posix(64, huge[i]);
        show_resized(huge[i]);
    }
    for (size_t i = 0; i < COUNT(aligns); i++) {
        printf("aligned to %#zx\n", aligns[i]);
        SHOW(t_memalign(aligns[i], 100));
        show_posix(aligns[i], 100);
        show_posix(aligns[i], 0);
    }
    SHOW(t_malloc(0));
    SHOW(t_calloc(0, SIZE_MAX));
    SHOW(t_realloc(NULL, 0));
    SHOW(t_reallocarray(NULL, 0, SIZE_MAX));
    SHOW(t_aligned_alloc(64, 0));
    SHOW(t_valloc(0));
    SHOW(t_pvalloc(0));
    SHOW(t_malloc(100));
    SHOW(t_malloc(1 << 20));
    SHOW(t_memalign(1 << 20, 8 << 20));
    errno = ERRNO_BEFORE;
    t_free(NULL);
    printf("%zu usable of NULL, errno %d\n", t_malloc_usable_size(NULL), errno);
    return 0;
}
