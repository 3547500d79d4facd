/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* The description of the library's structures (src/view/), read as a stranger reads it: from the notes of this program. */
#include "base/settings.h"
#include "cache/cache_list.h"
#include "charge/group_table.h"
#include "debug/depot.h"
#include "debug/track.h"
#include "guard/guard.h"
#include "harden/quarantine.h"
#include "large/begin.h"
#include "large/large.h"
#include "page/arena_kept.h"
#include "page/zone.h"
#include "sample/shadow.h"
#include "sample/sites.h"
#include "sheaf/slot.h"
#include "site/modules.h"
#include "site/tag.h"
#include "slab/stat.h"
#include "view/view.h"
#include "support/test.h"

#include <elf.h>
#include <link.h>

static const struct view_note *found;
static unsigned notes;

static int find_note(struct dl_phdr_info *info, size_t size, void *arg)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const char *at = (const char *)(info->dlpi_addr + header->p_vaddr),
                   *end = at + header->p_memsz;
        if (header->p_type != PT_NOTE || header->p_align > 4)
            continue;
        while (at < end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
            const char *name = at + sizeof(*note), *data = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == VIEW_NOTE && note->n_namesz == sizeof(VIEW_OWNER) &&
                strcmp(name, VIEW_OWNER) == 0) {
                found = (const struct view_note *)(const void *)data;
                assert_int_equal(note->n_descsz, sizeof(*found));
                notes++;
            }
            at = data + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 0;
}

static const void *follow(const int32_t reference[2])
{
    int64_t by;

    memcpy(&by, reference, sizeof(by));
    return (const char *)reference + by;
}

static const struct view_name *name_of(const char *name)
{
    const struct view_name *names = follow(found->name_table);

    for (unsigned i = 0; i < found->names; i++)
        if (strcmp(names[i].name, name) == 0)
            return &names[i];
    fail_msg("no name %s", name);
    return NULL;
}

static void *variable_of(const char *name)
{
    const struct view_variable *variables = follow(found->variable_table);

    for (unsigned i = 0; i < found->variables; i++)
        if (strcmp(variables[i].name, name) == 0)
            return (char *)(uintptr_t)&variables[i] + variables[i].place;
    fail_msg("no variable %s", name);
    return NULL;
}

static int setup(void **unused)
{
    dl_iterate_phdr(find_note, NULL);
    assert_non_null(found);
    return 0;
}

TEST(test_one_note)
{
    assert_int_equal(notes, 1);
    assert_int_equal(found->format, VIEW_FORMAT);
    assert_int_equal(found->bytes, sizeof(*found));
    assert_int_equal(found->name_bytes, sizeof(struct view_name));
    assert_int_equal(found->variable_bytes, sizeof(struct view_variable));
    assert_true(found->names > 200 && found->variables >= 10);
    for (unsigned i = 0; i < found->names; i++)
        assert_true(strnlen(((const struct view_name *)follow(found->name_table))[i].name,
                            VIEW_NAME_MAX) < VIEW_NAME_MAX);
}

/* Every variable is where the program has it. */
TEST(test_variables)
{
    static const struct {
        const char *name;
        const void *address;
    } all[] = {
#define VIEW_VARIABLE(name) {#name, &name},
#define VIEW_TYPE(name, type)
#define VIEW_FIELD(name, type, field)
#define VIEW_ARRAY(name, type, field)
#define VIEW_CONSTANT(name)
#include "view/view.def"
    };

    assert_int_equal(found->variables, sizeof(all) / sizeof(all[0]));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_ptr_equal(variable_of(all[i].name), all[i].address);
}

static void expect(const char *name, size_t value, size_t size)
{
    const struct view_name *item = name_of(name);

    if (item->value != value || item->size != size)
        fail_msg("%s is %u, %u bytes; not %zu, %zu", name, item->value, item->size, value, size);
}

TEST(test_names)
{
    expect("pagemap", 0, sizeof(struct pagemap));
    expect("pagemap.low", offsetof(struct pagemap, low), sizeof(size_t));
    expect("cache.name", offsetof(struct stook_cache, name), STOOK_NAME_MAX + 1);
    expect("cache.nodes", offsetof(struct stook_cache, nodes), 0);
    expect("cache_node", 0, sizeof(struct cache_node));
    expect("barn.bytes", offsetof(struct barn, bytes), 8);
    expect("slab.state", offsetof(struct slab, state), 8);
    expect("slot.held", offsetof(struct slot, held), 8);
    expect("group.charged", offsetof(struct group, charged), 8);
    expect("BLOCK_META", BLOCK_META, 0);
    expect("CACHE_INTERNAL", CACHE_INTERNAL, 0);
    expect("stat.alloc_fastpath", STAT_alloc_fastpath, 0);
    expect("stat.barn_put_fail", STAT_barn_put_fail, 0);
    expect("STAT_EVENTS", STAT_EVENTS, 0);
}

/* No name twice, and each ends within its place. */
TEST(test_names_are_names)
{
    const struct view_name *names = follow(found->name_table);

    for (unsigned i = 0; i < found->names; i++) {
        assert_true(strnlen(names[i].name, VIEW_NAME_MAX) < VIEW_NAME_MAX && names[i].name[0]);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(names[i].name, names[j].name);
    }
}

/* A reader finds a living library by it: the page map's size is not 0 any more, and the table has the caches. */
TEST(test_it_leads_to_the_heap)
{
    struct stook_cache *cache = stook_cache_create("described", 100, NULL), **table;
    size_t size;

    memcpy(&size, (char *)variable_of("pagemap") + name_of("pagemap.size")->value, sizeof(size));
    assert_true(size > 0);
    table = variable_of("cache_table");
    assert_ptr_equal(table[cache->index], cache);
    assert_string_equal((char *)table[cache->index] + name_of("cache.name")->value, "described");
    assert_int_equal(stook_cache_destroy(cache), 0);
}

int main(void)
{
    return tests_run(setup, NULL);
}
