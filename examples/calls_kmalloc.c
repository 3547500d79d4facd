/* SPDX-License-Identifier: MIT */
/* The calls of kmalloc.h: objects of any size, from caches that the library makes. */
#include <stdint.h>
#include <string.h>

#include <stook/kmalloc.h>
#include <stook/stook.h>

int main(void)
{
    const struct stook_alloc_args aligned = {.size = sizeof(aligned), .align = 4096};
    char *text = stook_kmalloc(100, STOOK_ZERO), *longer;
    int *numbers = stook_kmalloc_array(10, sizeof(*numbers), STOOK_ZERO);
    void *page = stook_kmalloc_with(5000, STOOK_WAIT, &aligned);

    if (!text || !numbers || !page || (uintptr_t)page % 4096 != 0)
        return 1;
    strcpy(text, "it moves only where it has to");

    /* Where it has no room it moves; NULL leaves it as it was. */
    longer = stook_krealloc(text, 200, 0);
    if (!longer || stook_usable_size(longer) < 200)
        return 1;
    page = stook_krealloc_with(page, 9000, STOOK_WAIT, &aligned);
    if (!page || (uintptr_t)page % 4096 != 0)
        return 1;

    /* Arrays: a product that overflows fails. */
    numbers = stook_krealloc_array(numbers, 20, sizeof(*numbers), 0);
    if (!numbers || stook_array_bytes(SIZE_MAX, 2) != SIZE_MAX)
        return 1;

    /* What a request of so many bytes has room for. */
    if (stook_kmalloc_size(100) < 100)
        return 1;
    stook_free_any(numbers);
    stook_free_any(longer);
    stook_free_any(page);
    return 0;
}
