/* SPDX-License-Identifier: MIT */
/* view.c - the note and the tables that view.def describes, as constant data. */
#include "view/view.h"

#include "cache/cache_list.h"
#include "charge/group_table.h"
#include "debug/depot.h"
#include "debug/object.h"
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
#include "slab/mark.h"
#include "slab/stat.h"

#include <stddef.h>

/* Behind all constants that a process reads: ld sorts sections by name (CMakeLists.txt). */
#define VIEW_SECTION ".rodata.view"

extern const struct view_name view_names[] __attribute__((visibility("hidden")));

#define VIEW_VARIABLE(name)
#define VIEW_TYPE(name, type) {#name, 0, sizeof(type)},
#define VIEW_FIELD(name, type, field)                                                              \
    {#name "." #field, offsetof(type, field), sizeof(((type *)NULL)->field)},
#define VIEW_ARRAY(name, type, field) {#name "." #field, offsetof(type, field), 0},
#define VIEW_CONSTANT(name) {#name, (uint32_t)(name), 0},
#define VIEW_STAT(name, what) {"stat." #name, STAT_##name, 0},
const struct view_name view_names[] __attribute__((used, section(VIEW_SECTION))) = {
#include "view/view.def"
    STOOK_STAT_EVENTS(VIEW_STAT){"STAT_EVENTS", STAT_EVENTS, 0},
};
#undef VIEW_VARIABLE
#undef VIEW_TYPE
#undef VIEW_FIELD
#undef VIEW_ARRAY
#undef VIEW_CONSTANT

/*
 * The rest is written in assembly, for C has no constant that is the difference of two places.  A variable is 8 bytes
 * and a name of 24; `1:` is where its name begins.
 */
#define VIEW_TEXT(x) #x
#define VIEW_NUMBER(x) VIEW_TEXT(x)
#define VIEW_VARIABLE(name)                                                                        \
    ".quad " #name " - .\n"                                                                        \
    "1: .ascii \"" #name "\"\n"                                                                    \
    ".zero 24 - (. - 1b)\n"
#define VIEW_TYPE(name, type)
#define VIEW_FIELD(name, type, field)
#define VIEW_ARRAY(name, type, field)
#define VIEW_CONSTANT(name)
__asm__(".pushsection " VIEW_SECTION "2, \"a\", %progbits\n"
        ".balign 8\n"
        ".hidden view_variables\n"
        ".globl view_variables\n"
        "view_variables:\n"
#include "view/view.def"
        "view_variables_end:\n"
        ".popsection\n");

enum { VIEW_NAMES = sizeof(view_names) / sizeof(view_names[0]) };

/* In a function that is never called, since only there assembly may have the compiler's constants. */
static __attribute__((used)) void view_describe(void)
{
    __asm__ volatile(".pushsection .note.stook, \"a\", %%note\n"
                     ".balign 4\n"
                     ".hidden view_note\n"
                     ".globl view_note\n"
                     "view_note:\n"
                     ".long 6, 9f - 8f, %c0\n" /* the owner's length, the descriptor's, the type */
                     ".asciz \"" VIEW_OWNER "\"\n"
                     ".balign 4\n"
                     "8: .long %c1, 9f - 8b, %c2, %c3, %c4\n"
                     ".long (view_variables_end - view_variables) / %c4\n"
                     ".quad view_names - .\n"
                     ".quad view_variables - .\n"
                     "9:\n"
                     ".popsection\n"
                     :
                     : "i"(VIEW_NOTE), "i"(VIEW_FORMAT), "i"(sizeof(struct view_name)),
                       "i"(VIEW_NAMES), "i"(sizeof(struct view_variable)));
}
