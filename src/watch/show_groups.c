/* SPDX-License-Identifier: MIT */
/* show_groups.c - the groups of a report, as a table or JSON. */
#include "watch/show_groups.h"

#include "charge/group.h"

enum { SHOW_GROUPS_NAME = 16 };

static unsigned show_groups_depth(struct stook_group group)
{
    unsigned depth = 0;

    while ((group = stook_group_parent(group)).id)
        depth++;
    return depth;
}

static void show_groups_limit(struct writer *w, uint64_t bytes)
{
    if (bytes != STOOK_UNLIMITED)
        writer_size(w, bytes);
    else
        writer_print(w, " %8s", "-");
}

static void show_groups_row(struct writer *w, struct stook_group group)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};
    const char *name = stook_group_name(group);
    int indent = (int)show_groups_depth(group);

    if (!name || stook_group_stat(group, &stat) != 0) /* it goes meanwhile */
        return;
    writer_print(w, "%*s", indent, "");
    writer_cell(w, name, SHOW_GROUPS_NAME - indent);
    show_groups_limit(w, stat.limit);
    writer_size(w, stat.usage);
    writer_size(w, stat.own);
    writer_size(w, stat.stocked);
    writer_size(w, stat.peak);
    writer_print(w, " %8llu %8llu %8llu\n", (unsigned long long)stat.refused,
                 (unsigned long long)stat.reclaims, (unsigned long long)stat.soft_events);
}

/* A parent's children below it.  In groups made meanwhile it may miss some, as listing them does. */
static void show_groups_below(struct writer *w, struct stook_group parent)
{
    for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g))
        if (stook_group_same(stook_group_parent(g), parent)) {
            show_groups_row(w, g);
            show_groups_below(w, g); /* as deep as groups can be */
        }
}

void show_groups_table(struct writer *w)
{
    if (!stook_group_next(STOOK_NO_GROUP).id)
        return;
    writer_print(w, "\n%-*s %8s %8s %8s %8s %8s %8s %8s %8s\n", SHOW_GROUPS_NAME, "group", "limit",
                 "usage", "own", "stocked", "peak", "refused", "reclaims", "soft");
    show_groups_below(w, STOOK_NO_GROUP);
}

static void show_groups_key_limit(struct writer *w, const char *key, uint64_t bytes)
{
    if (bytes == STOOK_UNLIMITED)
        writer_print(w, "\"%s\": null, ", key);
    else
        writer_key(w, key, bytes, ", ");
}

void show_groups_json(struct writer *w)
{
    const char *start = "\n  {";

    writer_print(w, "[");
    for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g)) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        const char *name = stook_group_name(g);
        if (!name || stook_group_stat(g, &stat) != 0)
            continue;
        writer_print(w, "%s\"name\": ", start);
        start = ",\n  {";
        writer_json(w, name);
        writer_print(w, ", ");
        writer_key(w, "number", group_number(g), ", ");
        writer_key(w, "parent", group_number(stook_group_parent(g)), ", ");
        show_groups_key_limit(w, "limit_bytes", stat.limit);
        show_groups_key_limit(w, "soft_limit_bytes", stat.soft_limit);
        writer_key(w, "usage_bytes", stat.usage, ", ");
        writer_key(w, "own_bytes", stat.own, ", ");
        writer_key(w, "stocked_bytes", stat.stocked, ", ");
        writer_key(w, "peak_bytes", stat.peak, ", ");
        writer_key(w, "refused", stat.refused, ", ");
        writer_key(w, "reclaims", stat.reclaims, ", ");
        writer_key(w, "soft_events", stat.soft_events, "}");
    }
    writer_print(w, "]");
}
