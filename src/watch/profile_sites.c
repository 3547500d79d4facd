/* SPDX-License-Identifier: MIT */
/*
 * profile_sites.c - call sites that objects are counted by (site/tag.h), as parts of the document.
 */
#include "watch/profile.h"

#include <stook/tag.h>

static void profile_site(struct writer *w, const struct stook_tag_stat *stat, bool stacks)
{
    if (stat->file) {
        writer_print(w, "\"file\": ");
        writer_json(w, stat->file);
        writer_print(w, ", \"function\": ");
        writer_json(w, stat->function);
        writer_print(w, ", ");
        writer_key(w, "line", stat->line, ", ");
    } else {
        writer_key(w, "address", stat->address, ", ");
    }
    if (stacks && !stat->file)
        writer_print(w, "\"stack\": [%llu], ", (unsigned long long)stat->address);
    writer_key(w, "live_objects", stat->live_objects, ", ");
    writer_key(w, "live_bytes", stat->live_bytes, ", ");
    writer_key(w, "total_objects", stat->total_objects, ", ");
    writer_key(w, "total_bytes", stat->total_bytes, "}");
}

void profile_sites_write(struct writer *w, bool first, const char *kind)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    for (unsigned tag = 0; (tag = stook_tag_next(tag)) != 0;) {
        if (stook_tag_stat(tag, &stat) != 0)
            continue;
        writer_print(w, "%s%s", first ? "\n  {" : ",\n  {", kind);
        first = false;
        writer_key(w, "tag", tag, ", ");
        profile_site(w, &stat, *kind != '\0');
    }
}
