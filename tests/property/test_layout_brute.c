/* SPDX-License-Identifier: MIT */
/*
 * The planner against an exhaustive search: no cache wastes bytes that another layout would not.
 *
 * The search is written from docs/columns.md and shares nothing with the planner.  It tries every place of every
 * column, every stride, every number of objects and every arrangement at steps of two bytes.  It leaves out only
 * those that cannot be better than the best one so far.  Each layout of the planner is also written to a map of
 * bytes, in which no byte may be used twice.
 */
/* modes: default */
#include "slab/layout.h"

#include "page/pagemap.h"
#include "support/random.h"
#include "support/test.h"

/* Sanitizers look at what few cases do as well. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CASES = 150, HUGE = 10, STEP = 14 };
#else
enum { CASES = 2000, HUGE = 200, STEP = 2 };
#endif
enum { ORDERS = 9, DESCRIPTOR = 32, GIVEN = 6 };

/* Kinds of place, as the search knows them. */
enum { IN_STRIDE, IN_SLAB, BESIDE, IN_FREE, KINDS };

struct object {
    struct layout_request request;
    uint32_t used, stride, align; /* with the links that the policy has placed */
    uint32_t fixed_links;         /* bytes an object, right behind the descriptor */
    bool links_free;              /* links may lie in free objects */
    unsigned columns, which[LAYOUT_COLUMNS];
};

/* The least that an order costs. */
struct cost {
    bool found;
    uint64_t bytes, objects; /* of slab, descriptor and arrays */
};

struct block {
    uint64_t bytes;
    uint32_t align;
};

static uint32_t align_of(uint32_t element)
{
    return element % 8 == 0 ? 8 : element % 4 == 0 ? 4 : 2;
}

/* Does an arrangement of the blocks in from..to exist?  `done`: those that are placed. */
static bool fits(const struct block *blocks, unsigned n, unsigned done, uint64_t from, uint64_t to)
{
    uint64_t rest = 0;

    for (unsigned i = 0; i < n; i++)
        if (!(done & 1u << i))
            rest += blocks[i].bytes;
    if (rest == 0)
        return true;
    for (; from + rest <= to; from += from % 2 ? 1 : 2)
        for (unsigned i = 0; i < n; i++)
            if (!(done & 1u << i) && from % blocks[i].align == 0 &&
                fits(blocks, n, done | 1u << i, from + blocks[i].bytes, to))
                return true;
    return false;
}

/* Blocks of `count` elements of the columns at this kind of place. */
static unsigned gather(const struct object *o, const unsigned *kind, unsigned wanted,
                       uint64_t count, struct block *blocks)
{
    unsigned n = 0;

    for (unsigned i = 0; i < o->columns; i++)
        if (kind[i] == wanted) {
            uint32_t element = o->request.element[o->which[i]];
            blocks[n++] = (struct block){element * count, align_of(element)};
        }
    return n;
}

static bool cheaper(uint64_t bytes, uint64_t objects, const struct cost *than)
{
    return !than->found || bytes * than->objects < than->bytes * objects;
}

/* Bounds of the policy on what an order may look like; most: bytes of descriptor and arrays. */
struct policy {
    uint64_t wanted, most;
};

/* All numbers of objects of one stride with the columns where `kind` says. */
static void try_objects(const struct object *o, const unsigned *kind, uint64_t slab,
                        uint64_t stride, const struct policy *policy, struct cost *best)
{
    struct block behind[LAYOUT_COLUMNS], beside[LAYOUT_COLUMNS];
    uint64_t most = slab / stride < 32767 ? slab / stride : 32767;

    for (uint64_t n = most; n > 0; n--) {
        unsigned in_slab = gather(o, kind, IN_SLAB, n, behind);
        unsigned outside = gather(o, kind, BESIDE, n, beside);
        uint64_t arrays = 0, start = DESCRIPTOR + n * o->fixed_links, end = start;
        for (unsigned i = 0; i < outside; i++)
            end += beside[i].bytes;
        for (unsigned i = 0; i < in_slab; i++)
            arrays += behind[i].bytes;
        if (!cheaper(slab + end, n, best))
            return; /* and fewer objects cost more each */
        if (n * stride + arrays > slab || !fits(behind, in_slab, 0, n * stride, slab))
            continue;
        while (!fits(beside, outside, 0, start, end))
            end++;
        if (policy->most && outside > 0 && end > policy->most)
            continue;
        if (cheaper(slab + end, n, best))
            *best = (struct cost){true, slab + end, n};
    }
}

static struct cost cheapest(const struct object *o, uint64_t slab, const struct policy *policy)
{
    unsigned kind[LAYOUT_COLUMNS] = {0}, choices = 1;
    struct cost best = {0};

    if (slab / o->stride < policy->wanted) /* without columns, too */
        return best;

    for (unsigned i = 0; i < o->columns; i++)
        choices *= KINDS;
    for (unsigned choice = 0; choice < choices; choice++) {
        struct block inside[LAYOUT_COLUMNS];
        uint32_t multiple = o->align;
        unsigned n, rest = choice;
        bool possible = true;
        for (unsigned i = 0; i < o->columns; i++, rest /= KINDS) {
            kind[i] = rest % KINDS;
            if (kind[i] == IN_FREE && !(o->which[i] == LAYOUT_LINK && o->links_free))
                possible = false;
            if (kind[i] != BESIDE && o->request.wishes & LAYOUT_COLUMNS_OUTSIDE)
                possible = false;
            if (kind[i] == IN_STRIDE && align_of(o->request.element[o->which[i]]) > multiple)
                multiple = align_of(o->request.element[o->which[i]]);
        }
        if (!possible)
            continue;
        n = gather(o, kind, IN_STRIDE, 1, inside);
        for (uint64_t stride = o->stride; stride <= slab && stride < o->stride + 4096 + 256;
             stride += 2) {
            if (stride % multiple != 0 || !fits(inside, n, 0, o->used, stride))
                continue;
            try_objects(o, kind, slab, stride, policy, &best);
            break; /* a longer stride holds no more and costs more */
        }
    }
    return best;
}

static uint64_t bytes_of(const struct object *o, unsigned order)
{
    return (uint64_t)1 << ((o->request.page_shift ? o->request.page_shift : 12) + order);
}

static uint64_t objects_wanted(uint32_t stride, bool dense)
{
    uint64_t n;

    if (dense)
        return stride > 4096 ? 4 : stride > 2048 ? 8 : stride > 1024 ? 16 : 32;
    n = (stride > 1024 ? 131072u : 65536u) / stride;
    return n < 4 ? 4 : n < 128 ? n : n > 256 ? 256 : 128;
}

static struct policy policy_of(const struct object *o, unsigned order, bool bound)
{
    bool any = o->request.wishes & (LAYOUT_META_ANY | LAYOUT_COLUMNS_OUTSIDE);
    struct policy policy = {.most =
                                any ? 0 : bytes_of(o, order) * (BLOCK_META / 64 * 63) / BLOCK_SIZE};

    if (bound)
        policy.wanted = objects_wanted(o->stride, o->request.wishes & LAYOUT_DENSE);
    return policy;
}

/* What the policy for links leaves to be placed, from docs/columns.md. */
static void read_object(struct object *o, const struct layout_request *request)
{
    size_t align = request->align < 2 ? 2 : request->align;
    bool writable = request->wishes & LAYOUT_WRITABLE, links = request->element[LAYOUT_LINK];

    *o = (struct object){
        .request = *request, .used = (uint32_t)request->size, .align = (uint32_t)align};
    while (o->stride < request->size || o->stride < 8)
        o->stride += (uint32_t)align;
    if (links && !(request->wishes & LAYOUT_BYTES)) {
        bool outside = request->wishes & LAYOUT_LINK_OUTSIDE || !writable ||
                       (o->stride >= 48 && !(request->wishes & LAYOUT_LINK_INSIDE));
        if (outside) {
            o->fixed_links = 2;
        } else {
            o->used = o->used < 2 ? 2 : o->used;
            o->fixed_links = STOOK_ENCODED; /* a mark */
        }
        links = false;
    } else if (links) {
        o->links_free = writable;
        o->used = writable && o->used < 2 ? 2 : o->used;
    }
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (request->element[i] && (i != LAYOUT_LINK || links))
            o->which[o->columns++] = i;
}

/* The order without columns, or ORDERS; bound: some order keeps to the bounds on waste. */
static unsigned natural_order(const struct object *o, bool *bound)
{
    unsigned shift = o->request.page_shift ? o->request.page_shift - 12 : 0, best = ORDERS;
    unsigned common = o->request.wishes & LAYOUT_DENSE ? 4 : 5;
    uint64_t least = UINT64_MAX;

    for (*bound = true;; *bound = false) {
        for (unsigned order = 0; order + shift <= 8; order++) {
            uint64_t slab = bytes_of(o, order), n = slab / o->stride, waste;
            if (n > 32767)
                n = 32767;
            waste = slab - n * o->stride;
            if (n == 0 || (o->request.orders && !(o->request.orders & 1u << order)))
                continue;
            if (*bound && (n < objects_wanted(o->stride, o->request.wishes & LAYOUT_DENSE) ||
                           waste > slab / 16))
                continue;
            if (*bound && order + shift > common && best < ORDERS)
                continue;
            if (waste * 65536 / slab + (*bound ? 64 * order : 0) < least) {
                least = waste * 65536 / slab + (*bound ? 64 * order : 0);
                best = order;
            }
        }
        if (best < ORDERS || !*bound)
            return best;
    }
}

/* ---- what every layout must keep to --------------------------------------------------------- */

static const char *mark(uint8_t *map, uint64_t size, uint64_t from, uint64_t bytes)
{
    if (from + bytes > size)
        return "beyond the end";
    for (uint64_t i = from; i < from + bytes; i++)
        if (map[i]++)
            return "two things at one byte";
    return NULL;
}

static const char *draw(const struct layout *l, const struct layout_request *r, bool min)
{
    uint64_t slab =
        (uint64_t)1 << ((r->page_shift ? r->page_shift : 12) + (min ? l->min_order : l->order));
    uint64_t objects = min ? l->min_objects : l->objects;
    uint64_t outside = layout_meta(l, min, true);
    uint64_t waste = slab - objects * l->stride;
    uint8_t *map = calloc(1, slab), *beside = calloc(1, outside);
    const char *what = mark(beside, outside, 0, DESCRIPTOR);
    bool links_free = l->column[min][LAYOUT_LINK].place == LAYOUT_FREE;

    if (!what)
        what = mark(beside, outside, DESCRIPTOR, objects * l->marks);
    if (!what && l->marks != (STOOK_ENCODED && links_free && !(r->wishes & LAYOUT_BYTES)))
        what = "marks in bytes that need none, or none";
    for (uint64_t i = 0; i < objects && !what; i++) {
        if (i * l->stride % r->align != 0)
            what = "an object's alignment";
        else if ((what = mark(map, slab, i * l->stride, r->size)) == NULL && l->room < r->size)
            what = "the room of an object";
    }
    for (unsigned c = 0; c < LAYOUT_COLUMNS && !what; c++) {
        struct layout_column column = l->column[min][c];
        if (!column.outside && column.offset >= l->stride)
            waste -= objects * column.element;
        if (column.element != r->element[c])
            what = "a column that nobody wants, or none";
        for (uint64_t i = 0; i < objects && !what && column.element; i++) {
            uint64_t at = column.offset + i * column.stride;
            if (column.place == LAYOUT_FREE) {
                if (c != LAYOUT_LINK || !(r->wishes & LAYOUT_WRITABLE) || at % 2 != 0 ||
                    at + 2 > i * l->stride + l->room)
                    what = "a link in a free object";
                continue;
            }
            if (at % align_of(column.element) != 0)
                what = "an element's alignment";
            else if ((what = column.outside ? mark(beside, outside, at, column.element)
                                            : mark(map, slab, at, column.element)) == NULL &&
                     !column.outside && column.offset < l->stride && column.offset < l->room)
                what = "a column in the object's room";
        }
    }
    if (!what && !min && l->waste != waste)
        what = "the waste";
    free(map);
    free(beside);
    return what;
}

static const char *drawn(const struct layout *l, const struct layout_request *r)
{
    const char *what;

    if (l->stride < r->size || l->stride % r->align != 0)
        return "the stride";
    if (l->min_order > l->order || (l->min_order < l->order && l->min_objects == l->objects))
        return "the minimum order";
    if ((what = draw(l, r, false)))
        return what;
    return draw(l, r, true);
}

/* ---- the comparison ------------------------------------------------------------------------- */

static void fail_at(const struct layout_request *r, const char *what)
{
    fail_msg("%zu aligned to %zu, wishes %u, pages 2^%u, orders %x, columns %u %u %u %u: %s",
             r->size, r->align, r->wishes, r->page_shift, r->orders, r->element[0], r->element[1],
             r->element[2], r->element[3], what);
}

/* The planner's layout of a request against the search. */
static void compare(const struct layout_request *request)
{
    unsigned natural;
    uint64_t bytes;
    struct cost chosen;
    struct policy policy;
    struct object o;
    struct layout l;
    const char *what;
    bool bound;

    if (!layout_plan_columns(&l, request))
        fail_at(request, "there is no layout");
    if ((what = drawn(&l, request)))
        fail_at(request, what);
    read_object(&o, request);
    natural = natural_order(&o, &bound);
    assert_true(natural < ORDERS);
    if (l.order != natural)
        fail_at(request, "another order than the one without columns");
    policy = policy_of(&o, natural, bound);
    chosen = cheapest(&o, bytes_of(&o, natural), &policy);
    if (!chosen.found)
        fail_at(request, "the search finds no such layout");
    bytes = bytes_of(&o, natural) + layout_meta(&l, false, true);
    if (bytes * chosen.objects != chosen.bytes * l.objects) {
        print_error("%g bytes an object, the search has %g\n", (double)bytes / l.objects,
                    (double)chosen.bytes / (double)chosen.objects);
        fail_at(request, "bytes that could be saved");
    }
}

static uint16_t one_of(uint64_t *seed, const uint16_t *elements, unsigned n)
{
    return elements[random_below(seed, n)];
}

static struct layout_request random_request(uint64_t *seed)
{
    static const uint16_t group[] = {0, 2, 4, 8, 8, 8}, tag[] = {0, 0, 4, 8, 8},
                          track[] = {0, 0, 0, 6, 12, 16, 24}, link[] = {0, 2, 2};
    static const uint16_t sizes[] = {60, 1200, 1200, 9000};
    static const unsigned pages[] = {0, 12, 12, 14, 16, 16};
    struct layout_request r = {.align = (size_t)1
                                        << random_below(seed, random_below(seed, 2) ? 9 : 3)};

    r.size = 1 + random_below(seed, sizes[random_below(seed, 4)]);
    if (random_below(seed, 50) == 0)
        r.align = 4096;
    r.page_shift = pages[random_below(seed, 6)];
    r.element[LAYOUT_GROUP] = one_of(seed, group, 6);
    r.element[LAYOUT_TAG] = one_of(seed, tag, 5);
    r.element[LAYOUT_TRACK] = one_of(seed, track, 7);
    r.element[LAYOUT_LINK] = one_of(seed, link, 3);
    r.wishes = random_below(seed, 2) ? LAYOUT_WRITABLE : 0;
    r.wishes |= random_below(seed, 2) ? LAYOUT_BYTES : 0;
    r.wishes |= random_below(seed, 2) ? LAYOUT_META_ANY : 0;
    r.wishes |= random_below(seed, 4) ? 0 : LAYOUT_DENSE;
    r.wishes |= random_below(seed, 8) ? 0 : LAYOUT_COLUMNS_OUTSIDE;
    r.wishes |= random_below(seed, 8) ? 0 : LAYOUT_LINK_INSIDE;
    r.wishes |= random_below(seed, 8) ? 0 : LAYOUT_LINK_OUTSIDE;
    if (random_below(seed, 6) == 0) /* one order, that holds the object and its columns */
        r.orders = 1u << (8 - random_below(seed, 3) - (r.page_shift ? r.page_shift - 12 : 0));
    return r;
}

TEST(random_caches)
{
    uint64_t seed = 5;

    for (int i = 0; i < CASES; i++) {
        struct layout_request request = random_request(&seed);
        compare(&request);
    }
}

/* Strides that are no multiple of 8: what lies behind the last object needs gaps, tight ones too. */
TEST(gaps)
{
    for (size_t size = 20; size < 700; size += size < 300 ? STEP : 3 * STEP) {
        struct layout_request r = {.size = size, .align = 2, .orders = 1};
        r.wishes = LAYOUT_BYTES | LAYOUT_META_ANY;
        r.element[LAYOUT_GROUP] = 8;
        compare(&r);
        r.element[LAYOUT_LINK] = 2;
        compare(&r);
    }
}

/* Huge strides on pages of 64 KiB: more than 16 bits of stride, few objects a slab. */
TEST(huge_strides)
{
    uint64_t seed = 6;

    for (int i = 0; i < HUGE; i++) {
        struct layout_request r = random_request(&seed);
        struct layout l;
        const char *what;
        r.size = 30000 + random_below(&seed, 220000);
        r.page_shift = 16;
        r.orders = 0;
        assert_true(layout_plan_columns(&l, &r));
        assert_true(l.stride >= r.size);
        if ((what = drawn(&l, &r)))
            fail_at(&r, what);
    }
}

/* Columns that may come later leave strides, objects and orders as they are. */
TEST(later_columns)
{
    uint64_t seed = 7;

    for (int i = 0; i < CASES; i++) {
        struct layout_request r = random_request(&seed), without;
        struct layout l, plain;
        const char *what;
        r.element[LAYOUT_TAG] = 8;
        r.later = 1u << LAYOUT_TAG;
        without = r;
        without.element[LAYOUT_TAG] = 0;
        assert_true(layout_plan_columns(&plain, &without));
        assert_true(layout_plan_columns(&l, &r));
        if (l.stride != plain.stride || l.order != plain.order || l.objects != plain.objects)
            fail_at(&r, "a column that may come later has changed the slab");
        for (unsigned c = 0; c < LAYOUT_COLUMNS; c++)
            if (c != LAYOUT_TAG && l.column[0][c].place != plain.column[0][c].place)
                fail_at(&r, "a column that may come later has another one's place");
        if ((what = drawn(&l, &r)))
            fail_at(&r, what);
    }
}

/* The caches of a machine, in the slabs that they have there. */
TEST(caches_of_a_machine)
{
    const char *source = getenv("STOOK_SOURCE_DIR");
    unsigned caches = 0, places[LAYOUT_DEDICATED + 1] = {0};
    char path[4096], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/tests/data/slab_caches.tsv", source ? source : ".");
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    while (fgets(line, sizeof(line), file)) {
        struct layout_request r = {.wishes = LAYOUT_BYTES | LAYOUT_META_ANY};
        size_t stride;
        unsigned order;
        struct layout l;
        assert_int_equal(sscanf(line, "%*s %zu %zu %zu %u", &r.size, &r.align, &stride, &order), 4);
        r.orders = 1u << order;
        r.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
        if (stride < r.size + r.align) /* or the kernel's free pointer lies behind it */
            r.wishes |= LAYOUT_WRITABLE;
        compare(&r);
        assert_true(layout_plan_columns(&l, &r));
        places[l.column[false][LAYOUT_LINK].place]++;
        if (++caches % (STEP / 2) != 0)
            continue;
        r.element[LAYOUT_GROUP] = 8;
        compare(&r);
        r.element[LAYOUT_TAG] = 8;
        compare(&r);
    }
    fclose(file);
    assert_int_equal(caches, 235);
    assert_int_equal(places[LAYOUT_FREE] + places[LAYOUT_PADDING] + places[LAYOUT_LEFTOVER] +
                         places[LAYOUT_OUTSIDE] + places[LAYOUT_DEDICATED],
                     caches);
    /* Objects that may be written to while they are free need no bytes for links. */
    assert_true(places[LAYOUT_FREE] > 0 && places[LAYOUT_PADDING] > 0);
    assert_true(places[LAYOUT_OUTSIDE] + places[LAYOUT_DEDICATED] < GIVEN);
}
