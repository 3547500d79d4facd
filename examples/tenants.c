/* SPDX-License-Identifier: MIT */
/*
 * One server, three tenants, each with a limit.  One of them uses a feature that leaks.  It alone is
 * refused memory, when it is at its limit; the others go on as if nothing were; and the call site with
 * the most live bytes is the leak's.
 *
 *   tenants [REQUESTS]    of each tenant: 20000
 */
#define STOOK_SITES /* file, function and line of every allocation */

#include <stook/group.h>
#include <stook/stook.h>
#include <stook/stat.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENANTS = 3, LIMIT = 1 << 20, LIMIT_OF_ALL = 4 << 20 };

struct buffer {
    char text[480];
};

struct visitor {
    struct visitor *next;
    char name[40];
};

static struct stook_cache *buffers, *visitors;
static unsigned long requests = 20000;

static struct tenant {
    const char *name;
    int remembers; /* it uses the new feature */
    struct stook_group group;
    struct visitor *visitors;
    unsigned long served, refused;
    pthread_t thread;
} tenants[TENANTS] = {{.name = "acme"}, {.name = "globex", .remembers = 1}, {.name = "initech"}};

/* The feature: a list that only grows. */
static int remember_visitor(struct tenant *tenant, unsigned long number)
{
    struct visitor *visitor = stook_alloc(visitors, STOOK_WAIT);

    if (!visitor)
        return 0;
    snprintf(visitor->name, sizeof(visitor->name), "visitor %lu", number);
    visitor->next = tenant->visitors;
    tenant->visitors = visitor;
    return 1;
}

/* A request, answered or refused for want of memory. */
static int serve(struct tenant *tenant, unsigned long number)
{
    struct buffer *in = stook_alloc(buffers, STOOK_WAIT);
    struct buffer *out = in ? stook_alloc(buffers, STOOK_WAIT) : NULL;
    int done = out && (!tenant->remembers || remember_visitor(tenant, number));

    if (done) {
        snprintf(in->text, sizeof(in->text), "GET /%lu", number);
        snprintf(out->text, sizeof(out->text), "200 %.400s", in->text);
    } else if (errno != EDQUOT) {
        perror(tenant->name);
    }
    stook_free(buffers, out);
    stook_free(buffers, in);
    return done;
}

static void *work(void *arg)
{
    struct tenant *tenant = arg;
    struct stook_group before = stook_group_enter(tenant->group);

    for (unsigned long i = 0; i < requests; i++)
        if (serve(tenant, i))
            tenant->served++;
        else
            tenant->refused++;
    stook_group_leave(before);
    return NULL;
}

/* The call site with the most live bytes. */
static struct stook_tag_stat top_site(void)
{
    struct stook_tag_stat top = {.size = sizeof(top)}, site = {.size = sizeof(site)};

    for (unsigned tag = stook_tag_next(0); tag; tag = stook_tag_next(tag))
        if (stook_tag_stat(tag, &site) == 0 && site.live_bytes > top.live_bytes)
            top = site;
    return top;
}

/* What should have happened, or not. */
static int tell(const struct tenant *tenant)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    if (stook_group_stat(tenant->group, &stat) != 0)
        return 0;
    printf("%-8s %6lu served, %6lu refused; has %7llu of %7llu bytes, at most %7llu\n",
           tenant->name, tenant->served, tenant->refused, (unsigned long long)stat.usage,
           (unsigned long long)stat.limit, (unsigned long long)stat.peak);
    return (tenant->refused > 0) == tenant->remembers && stat.peak <= stat.limit;
}

int main(int argc, char **argv)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_group all = stook_group_create("tenants", STOOK_NO_GROUP, LIMIT_OF_ALL);
    struct stook_tag_stat top;
    int right = !stook_group_is_none(all) && stook_tags_enable(NULL, 1) == 0;

    if (argc > 1)
        requests = strtoul(argv[1], NULL, 10);
    buffers = stook_cache_create("buffer", sizeof(struct buffer), &args);
    visitors = stook_cache_create("visitor", sizeof(struct visitor), &args);
    if (!right || !buffers || !visitors)
        return 1;
    for (int i = 0; i < TENANTS; i++) {
        tenants[i].group = stook_group_create(tenants[i].name, all, LIMIT);
        if (stook_group_is_none(tenants[i].group) ||
            pthread_create(&tenants[i].thread, NULL, work, &tenants[i]) != 0)
            return 1;
    }
    for (int i = 0; i < TENANTS; i++)
        pthread_join(tenants[i].thread, NULL);
    for (int i = 0; i < TENANTS; i++)
        right &= tell(&tenants[i]);

    top = top_site();
    printf("most bytes: %s() in %s:%llu has %llu objects, %llu bytes\n",
           top.function ? top.function : "?", top.file ? top.file : "?",
           (unsigned long long)top.line, (unsigned long long)top.live_objects,
           (unsigned long long)top.live_bytes);
    right &= top.function && strcmp(top.function, "remember_visitor") == 0;
    fflush(stdout);
    stook_report(1, STOOK_REPORT_TABLE);
    return right ? 0 : 1;
}
