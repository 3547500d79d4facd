/* SPDX-License-Identifier: MIT */
#include <stook/stook.h>

struct point {
    double x, y;
};

int main(void)
{
    struct stook_cache *points = stook_cache_create("point", sizeof(struct point), NULL);
    struct point *p = points ? stook_alloc(points, STOOK_ZERO) : NULL;

    if (!p)
        return 1;
    p->x = 1;
    stook_report(1, STOOK_REPORT_TABLE); /* what every type of object costs */
    stook_free(points, p);
    return stook_cache_destroy(points);
}
