/* SPDX-License-Identifier: MIT */
/*
 * svg.c - a layout as a picture: one object's stride, one slab with what belongs to it outside, and
 * where the bytes are.
 */
#include "plan/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

enum {
    SVG_WIDTH = 1000,
    SVG_LEFT = 40,
    SVG_BAR = SVG_WIDTH - 2 * SVG_LEFT,
    SVG_ROW = 15,      /* height of a slab's row */
    SVG_ROW_STEP = 18, /* and with the gap below it */
    SVG_ROWS = 16,     /* of a slab, at most */
    SVG_EACH = 700,    /* more objects than this are not drawn one by one */
    SVG_PART_MIN = 46, /* of an object's stride: so that a name fits near it */
    SVG_PARTS = 2 * LAYOUT_COLUMNS + 5,
};

/* What a stretch of bytes is. */
enum svg_kind {
    SVG_GROUP = LAYOUT_GROUP, /* to LAYOUT_LINK: columns */
    SVG_OBJECT = LAYOUT_COLUMNS,
    SVG_DESCRIPTOR,
    SVG_MARKS,
    SVG_ALIGNMENT, /* waste, by cause, hatched */
    SVG_END,
    SVG_GAP,
    SVG_MANY, /* objects as a texture */
    SVG_KINDS,
};

static const struct {
    const char *name, *fill;
} svg_kinds[SVG_KINDS] = {
#define SVG_COLUMN(id, name, letter, fill, bytes) [LAYOUT_##id] = {name, fill},
    PLAN_COLUMNS(SVG_COLUMN)
#undef SVG_COLUMN
        [SVG_OBJECT] = {"object", "#b9d0e8"},
    [SVG_DESCRIPTOR] = {"descriptor", "#7d8894"},
    [SVG_MARKS] = {"marks", "#b5546f"},
    [SVG_ALIGNMENT] = {"wasted: alignment", "url(#alignment)"},
    [SVG_END] = {"wasted: end of the slab", "url(#end)"},
    [SVG_GAP] = {"wasted: between arrays", "url(#gap)"},
    [SVG_MANY] = {"", "url(#many)"},
};

struct svg_part {
    enum svg_kind kind;
    uint64_t from, bytes;
    double x, width; /* as drawn */
};

struct svg {
    FILE *file;
    const struct plan *plan;
    double y; /* where the next thing goes */
    bool used[SVG_KINDS];
};

static void svg_rect(struct svg *svg, enum svg_kind kind, double x, double y, double width,
                     double height)
{
    svg->used[kind] = true;
    fprintf(svg->file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
            x, y, width, height, svg_kinds[kind].fill);
}

__attribute__((format(printf, 6, 7))) static void svg_text(struct svg *svg, double x, double y,
                                                           const char *style, const char *anchor,
                                                           const char *format, ...)
{
    va_list args;

    fprintf(svg->file, "<text x=\"%.2f\" y=\"%.2f\" class=\"%s\" text-anchor=\"%s\">", x, y, style,
            anchor);
    va_start(args, format);
    vfprintf(svg->file, format, args); /* numbers and names of our own: nothing to escape */
    va_end(args);
    fputs("</text>\n", svg->file);
}

static void svg_begin(struct svg *svg, double height)
{
    fprintf(svg->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "viewBox=\"0 0 %d %.0f\">\n"
            "<style>text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;fill:#22303c}"
            ".title{font-size:22px;font-weight:bold}.head{font-size:15px;font-weight:bold}"
            ".text{font-size:13px}.small{font-size:11px;fill:#5a6772}"
            ".light{font-size:12px;fill:#fff}.dark{font-size:13px;fill:#1d3550}"
            ".big{font-size:14px;font-weight:bold}</style>\n"
            "<defs>\n",
            SVG_WIDTH, height, SVG_WIDTH, height);
    fputs("<pattern id=\"alignment\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#fbe3e0\"/>"
          "<rect width=\"2.4\" height=\"7\" fill=\"#d9534f\"/></pattern>\n"
          "<pattern id=\"end\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(-45)\"><rect width=\"7\" height=\"7\" fill=\"#fdf3d7\"/>"
          "<rect width=\"2.4\" height=\"7\" fill=\"#e0a516\"/></pattern>\n"
          "<pattern id=\"gap\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
          "<rect width=\"6\" height=\"6\" fill=\"#f0e6f5\"/>"
          "<circle cx=\"3\" cy=\"3\" r=\"1.5\" fill=\"#9b59b6\"/></pattern>\n"
          "</defs>\n",
          svg->file);
    fprintf(svg->file, "<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n", SVG_WIDTH,
            height);
}

/* A part, and before it the bytes that nothing uses. */
static unsigned svg_add(struct svg_part *parts, unsigned n, uint64_t *at, enum svg_kind kind,
                        enum svg_kind gap, uint64_t from, uint64_t bytes)
{
    if (from > *at)
        parts[n++] = (struct svg_part){.kind = gap, .from = *at, .bytes = from - *at};
    if (bytes > 0)
        parts[n++] = (struct svg_part){.kind = kind, .from = from, .bytes = bytes};
    *at = from + bytes;
    return n;
}

/* Parts of one stride. */
static unsigned svg_stride(const struct plan *plan, struct svg_part *parts)
{
    const struct layout *layout = &plan->chosen.layout;
    unsigned which[LAYOUT_COLUMNS], columns = plan_columns(layout, false, which), n = 0;
    uint64_t at = 0;

    n = svg_add(parts, n, &at, SVG_OBJECT, SVG_ALIGNMENT, 0, plan->chosen.request.size);
    for (unsigned i = 0; i < columns; i++) {
        struct layout_column column = layout_column(layout, which[i], false);
        if (plan_in_object(layout, &column) && column.place != LAYOUT_FREE)
            n = svg_add(parts, n, &at, (enum svg_kind)which[i], SVG_ALIGNMENT, column.offset,
                        column.element);
    }
    return svg_add(parts, n, &at, SVG_ALIGNMENT, SVG_ALIGNMENT, layout->stride, 0);
}

/* Widths in proportion, but none so small that it cannot be seen; the widest pays for that. */
static void svg_place(struct svg_part *parts, unsigned n, double least)
{
    uint64_t bytes = parts[n - 1].from + parts[n - 1].bytes;
    double x = SVG_LEFT, more = 0;
    unsigned widest = 0;

    for (unsigned i = 0; i < n; i++) {
        parts[i].width = (double)parts[i].bytes / (double)bytes * SVG_BAR;
        if (parts[i].width < least) {
            more += least - parts[i].width;
            parts[i].width = least;
        }
        if (parts[i].width > parts[widest].width)
            widest = i;
    }
    parts[widest].width -= more;
    for (unsigned i = 0; i < n; i++) {
        parts[i].x = x;
        x += parts[i].width;
    }
}

static void svg_part_label(struct svg *svg, const struct svg_part *part, double y, double height,
                           double below)
{
    bool waste = part->kind >= SVG_ALIGNMENT;
    const char *name = svg_kinds[part->kind].name;
    double middle = part->x + part->width / 2;

    if (!waste && part->width > 8.0 * (double)strlen(name))
        svg_text(svg, middle, y + height / 2 + 4, part->kind == SVG_OBJECT ? "dark" : "light",
                 "middle", "%s", name);
    svg_text(svg, middle, y + height + below, "small", "middle", "%lu B", part->bytes);
}

/* One object's stride, not all of it to scale. */
static void svg_object(struct svg *svg)
{
    const struct layout *layout = &svg->plan->chosen.layout;
    struct layout_column link = layout_column(layout, LAYOUT_LINK, false);
    struct svg_part parts[SVG_PARTS];
    unsigned n = svg_stride(svg->plan, parts);
    const double height = 44;

    svg_text(svg, SVG_LEFT, svg->y, "head", "start", "One object: a stride of %u bytes",
             layout->stride);
    svg->y += 14;
    svg_place(parts, n, SVG_PART_MIN);
    for (unsigned i = 0; i < n; i++) {
        svg_rect(svg, parts[i].kind, parts[i].x, svg->y, parts[i].width, height);
        svg_text(svg, parts[i].x, svg->y + height + 14, "small", "middle", "%lu", parts[i].from);
        svg_part_label(svg, &parts[i], svg->y, height, 28);
    }
    svg_text(svg, SVG_LEFT + SVG_BAR, svg->y + height + 14, "small", "middle", "%u",
             layout->stride);
    if (link.element && link.place == LAYOUT_FREE) {
        svg->used[LAYOUT_LINK] = true;
        fprintf(svg->file,
                "<rect x=\"%d\" y=\"%.2f\" width=\"26\" height=\"%.2f\" fill=\"%s\" "
                "fill-opacity=\"0.25\" stroke=\"%s\" stroke-dasharray=\"4 3\"/>\n",
                SVG_LEFT, svg->y, height, svg_kinds[LAYOUT_LINK].fill, svg_kinds[LAYOUT_LINK].fill);
        svg_text(svg, SVG_LEFT + 32, svg->y + 16, "small", "start",
                 "link: %u B, only while the object is free", link.element);
    }
    fprintf(svg->file,
            "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" fill=\"none\" "
            "stroke=\"#22303c\"/>\n",
            SVG_LEFT, svg->y, SVG_BAR, height);
    svg->y += height + 62;
}

/* Bytes from..from+bytes of the slab, over rows of row_bytes. */
static void svg_bytes(struct svg *svg, enum svg_kind kind, uint64_t from, uint64_t bytes,
                      uint64_t row_bytes)
{
    while (bytes > 0) {
        uint64_t row = from / row_bytes, at = from % row_bytes;
        uint64_t part = bytes < row_bytes - at ? bytes : row_bytes - at;
        svg_rect(svg, kind, SVG_LEFT + (double)at / (double)row_bytes * SVG_BAR,
                 svg->y + (double)row * SVG_ROW_STEP, (double)part / (double)row_bytes * SVG_BAR,
                 SVG_ROW);
        from += part;
        bytes -= part;
    }
}

/* Where an object begins. */
static void svg_mark(struct svg *svg, uint64_t from, uint64_t row_bytes)
{
    double x = SVG_LEFT + (double)(from % row_bytes) / (double)row_bytes * SVG_BAR;
    double y = svg->y + (double)(from / row_bytes) * SVG_ROW_STEP;

    fprintf(svg->file,
            "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#3c6591\" "
            "stroke-width=\"1\"/>\n",
            x, y, x, y + SVG_ROW);
}

/* Strides side by side, each in its colours: what many objects are filled with. */
static void svg_texture(struct svg *svg, const struct svg_part *parts, unsigned n, double scale)
{
    fprintf(svg->file,
            "<defs><pattern id=\"many\" x=\"%d\" width=\"%.4f\" height=\"%d\" "
            "patternUnits=\"userSpaceOnUse\">\n",
            SVG_LEFT, (double)(parts[n - 1].from + parts[n - 1].bytes) * scale, 4 * SVG_ROW);
    for (unsigned i = 0; i < n; i++) {
        const char *fill =
            parts[i].kind == SVG_ALIGNMENT ? "#eeb4b1" : svg_kinds[parts[i].kind].fill;
        svg->used[parts[i].kind] = true;
        fprintf(svg->file, "<rect x=\"%.4f\" width=\"%.4f\" height=\"%d\" fill=\"%s\"/>\n",
                (double)parts[i].from * scale, (double)parts[i].bytes * scale, 4 * SVG_ROW, fill);
    }
    fputs("</pattern></defs>\n", svg->file);
}

static void svg_slab_objects(struct svg *svg, uint64_t row_bytes)
{
    const struct layout *layout = &svg->plan->chosen.layout;
    struct svg_part parts[SVG_PARTS];
    unsigned n = svg_stride(svg->plan, parts);

    if (layout->objects > SVG_EACH) {
        svg_texture(svg, parts, n, (double)SVG_BAR / (double)row_bytes);
        svg_bytes(svg, SVG_MANY, 0, (uint64_t)layout->objects * layout->stride, row_bytes);
        return;
    }
    for (unsigned object = 0; object < layout->objects; object++) {
        uint64_t at = (uint64_t)object * layout->stride;
        for (unsigned i = 0; i < n; i++)
            svg_bytes(svg, parts[i].kind, at + parts[i].from, parts[i].bytes, row_bytes);
        svg_mark(svg, at, row_bytes);
    }
}

static void svg_slab(struct svg *svg)
{
    const struct plan *plan = svg->plan;
    const struct layout *layout = &plan->chosen.layout;
    unsigned which[LAYOUT_COLUMNS], columns = plan_columns(layout, false, which);
    uint64_t slab = plan->chosen.account.slab, row_bytes = 4096;
    uint64_t at = (uint64_t)layout->objects * layout->stride;

    while (slab / row_bytes > SVG_ROWS)
        row_bytes *= 2;
    while (slab / row_bytes < SVG_ROWS / 4 && row_bytes > 1024)
        row_bytes /= 2;
    svg_text(svg, SVG_LEFT, svg->y, "head", "start", "One slab: order %u, %lu bytes, %u objects%s",
             layout->order, slab, layout->objects,
             layout->objects > SVG_EACH ? " as a texture" : "");
    svg_text(svg, SVG_LEFT + SVG_BAR, svg->y, "small", "end", "a row is %lu bytes", row_bytes);
    svg->y += 12;
    svg_slab_objects(svg, row_bytes);
    for (unsigned i = 0; i < columns; i++) {
        struct layout_column column = layout_column(layout, which[i], false);
        if (plan_in_object(layout, &column))
            continue;
        svg_bytes(svg, SVG_END, at, column.offset - at, row_bytes);
        svg_bytes(svg, (enum svg_kind)which[i], column.offset,
                  (uint64_t)layout->objects * column.element, row_bytes);
        at = column.offset + (uint64_t)layout->objects * column.element;
    }
    svg_bytes(svg, SVG_END, at, slab - at, row_bytes);
    svg->y += (double)(slab / row_bytes) * SVG_ROW_STEP + 30;
}

static void svg_outside(struct svg *svg)
{
    const struct layout *layout = &svg->plan->chosen.layout;
    unsigned which[LAYOUT_COLUMNS], columns = plan_columns(layout, true, which), n = 0;
    struct svg_part parts[SVG_PARTS];
    uint64_t at = 0;

    n = svg_add(parts, n, &at, SVG_DESCRIPTOR, SVG_GAP, 0, LAYOUT_DESCRIPTOR);
    n = svg_add(parts, n, &at, SVG_MARKS, SVG_GAP, LAYOUT_DESCRIPTOR,
                (uint64_t)layout->marks * layout->objects);
    for (unsigned i = 0; i < columns; i++) {
        struct layout_column column = layout_column(layout, which[i], false);
        n = svg_add(parts, n, &at, (enum svg_kind)which[i], SVG_GAP, column.offset,
                    (uint64_t)layout->objects * column.element);
    }
    svg_text(svg, SVG_LEFT, svg->y, "head", "start", "Outside the slab: %lu bytes", at);
    svg->y += 12;
    svg_place(parts, n, SVG_PART_MIN);
    if (n == 1)
        parts[0].width = 110;
    for (unsigned i = 0; i < n; i++) {
        svg_rect(svg, parts[i].kind, parts[i].x, svg->y, parts[i].width, 26);
        svg_part_label(svg, &parts[i], svg->y, 26, 15);
    }
    svg->y += 26 + 46;
}

/* One row of the legend with its figures. */
static void svg_cause(struct svg *svg, enum svg_kind kind, const char *name, uint64_t bytes)
{
    const struct plan *plan = svg->plan;
    double all = plan->chosen.bytes * plan->chosen.layout.objects;

    if (bytes == 0 && !svg->used[kind])
        return;
    svg_rect(svg, kind, SVG_LEFT, svg->y - 11, 22, 14);
    fprintf(svg->file,
            "<rect x=\"%d\" y=\"%.2f\" width=\"22\" height=\"14\" fill=\"none\" "
            "stroke=\"#22303c\" stroke-width=\"0.6\"/>\n",
            SVG_LEFT, svg->y - 11);
    svg_text(svg, SVG_LEFT + 32, svg->y, "text", "start", "%s", name);
    svg_text(svg, SVG_LEFT + 340, svg->y, "text", "end", "%lu", bytes);
    svg_text(svg, SVG_LEFT + 450, svg->y, "text", "end", "%.4g",
             (double)bytes / plan->chosen.layout.objects);
    svg_text(svg, SVG_LEFT + 540, svg->y, "text", "end", "%.2f %%", 100 * (double)bytes / all);
    svg->y += 22;
}

static void svg_legend(struct svg *svg)
{
    const struct plan *plan = svg->plan;
    const struct layout *layout = &plan->chosen.layout;
    const struct layout_account *account = &plan->chosen.account;

    svg_text(svg, SVG_LEFT, svg->y, "head", "start", "Where the bytes are");
    svg_text(svg, SVG_LEFT + 340, svg->y, "small", "end", "bytes a slab");
    svg_text(svg, SVG_LEFT + 450, svg->y, "small", "end", "an object");
    svg_text(svg, SVG_LEFT + 540, svg->y, "small", "end", "share");
    svg->y += 24;
    svg_cause(svg, SVG_OBJECT, "objects", account->objects);
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column column = layout_column(layout, i, false);
        char name[80];
        if (!column.element)
            continue;
        snprintf(name, sizeof(name), "%s, %u bytes: %s", plan_column_names[i], column.element,
                 plan_place_names[column.place]);
        svg_cause(svg, (enum svg_kind)i, name,
                  column.place == LAYOUT_FREE ? 0 : (uint64_t)layout->objects * column.element);
    }
    if (layout->marks)
        svg_cause(svg, SVG_MARKS, "marks, 1 byte: behind the descriptor",
                  (uint64_t)layout->marks * layout->objects);
    svg_cause(svg, SVG_DESCRIPTOR, "descriptor", account->descriptor);
    svg_cause(svg, SVG_ALIGNMENT, svg_kinds[SVG_ALIGNMENT].name, account->rounding);
    svg_cause(svg, SVG_END, svg_kinds[SVG_END].name, account->leftover);
    svg_cause(svg, SVG_GAP, svg_kinds[SVG_GAP].name, account->gaps_outside);
}

/* What it comes to, at the right of the legend. */
static void svg_verdict(struct svg *svg, double y)
{
    const struct plan *plan = svg->plan;
    const double x = SVG_LEFT + 580, width = SVG_BAR - 580;

    fprintf(svg->file,
            "<rect x=\"%.0f\" y=\"%.2f\" width=\"%.0f\" height=\"96\" rx=\"8\" fill=\"#eef4fa\" "
            "stroke=\"#b9d0e8\"/>\n",
            x, y, width);
    svg_text(svg, x + 18, y + 30, "big", "start", "The columns cost %.4g bytes an object",
             plan->extra < 1e-9 && plan->extra > -1e-9 ? 0.0 : plan->extra);
    svg_text(svg, x + 18, y + 54, "text", "start", "in arrays outside: %.4g", plan->extra_outside);
    svg_text(svg, x + 18, y + 76, "text", "start", "an object in all: %.6g bytes",
             plan->chosen.bytes);
}

static double svg_draw(struct svg *svg)
{
    const struct plan *plan = svg->plan;
    double y;

    svg->y = 44;
    svg_text(svg, SVG_LEFT, svg->y, "title", "start", "Objects of %zu bytes, aligned to %zu",
             plan->options->size, plan->options->align);
    svg_text(svg, SVG_LEFT + SVG_BAR, svg->y, "small", "end", "stook plan, pages of %u bytes",
             1u << plan->options->page_shift);
    svg->y += 40;
    svg_object(svg);
    svg_slab(svg);
    svg_outside(svg);
    y = svg->y;
    svg_legend(svg);
    svg_verdict(svg, y - 14);
    return svg->y > y + 96 ? svg->y : y + 96;
}

bool plan_write_svg(const struct plan *plan, const char *path)
{
    bool standard = strcmp(path, "-") == 0, good;
    struct svg svg = {.plan = plan};
    double height;

    /* Once for its height. */
    svg.file = fopen("/dev/null", "we");
    if (!svg.file)
        return false;
    height = svg_draw(&svg) + 20;
    fclose(svg.file);
    svg = (struct svg){.plan = plan, .file = standard ? stdout : fopen(path, "we")};
    if (!svg.file)
        return false;
    svg_begin(&svg, height);
    svg_draw(&svg);
    fputs("</svg>\n", svg.file);
    if (standard)
        return true; /* main looks at standard output's errors */
    good = !ferror(svg.file);
    if (!good)
        errno = EIO;
    return fclose(svg.file) == 0 && good;
}
