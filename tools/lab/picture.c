/* SPDX-License-Identifier: MIT */
/*
 * picture.c - the two pictures of a sweep, as SVG: operations a second over CPUs, both in powers of two
 * and ten; and events of each object by kind on the report's machine.
 */
#include "lab/sweep.h"
#include "stook/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    PICTURE_WIDTH = 960,
    PICTURE_LEFT = 72,
    PICTURE_RIGHT = 740,
    PICTURE_TOP = 84,
    PICTURE_BOTTOM = 520,
    PICTURE_LABEL = 19, /* between two lines of text */
    PICTURE_BAR = 15,
    PICTURE_BARS_LEFT = 250,
    PICTURE_BARS_RIGHT = 820,
};

/* Lines do not run through text. */
#define PICTURE_HALO                                                                               \
    "paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"4\" stroke-linejoin=\"round\""

/* Colours that people who confuse red and green can tell apart; ours the strongest line. */
static const struct {
    const char *colour, *dash;
    double width;
} picture_style[SWEEP_SERIES] = {
    {"#0072b2", "none", 3.5}, {"#009e73", "none", 2},   {"#d55e00", "none", 2},
    {"#cc79a7", "none", 2},   {"#e69f00", "7 4", 2.25},
};

/* The report's, in millions a second: what the costs were calibrated on. */
static const struct {
    unsigned series;
    double rate;
    const char *label;
} picture_points[] = {{1, 36, "36"}, {3, 23, "22 to 24"}, {2, 13, "13"}};

/* The binary logarithm of a positive number, without the mathematical library. */
static double picture_log(double x)
{
    double log = 0;

    for (; x >= 2; x /= 2)
        log++;
    for (; x < 1; x *= 2)
        log--;
    for (double bit = 0.5; bit > 1e-9; bit /= 2)
        if ((x *= x) >= 2) {
            x /= 2;
            log += bit;
        }
    return log;
}

static FILE *picture_open(const char *file, unsigned height, const char *title,
                          const char *subtitle)
{
    FILE *out = fopen(file, "we");

    if (!out) {
        complain(STATUS_FAILED, "%s: %s", file, strerror(errno));
        return NULL;
    }
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" "
            "height=\"%u\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" "
            "fill=\"#333333\">\n"
            "<rect width=\"%d\" height=\"%u\" fill=\"#ffffff\"/>\n"
            "<text x=\"24\" y=\"32\" font-size=\"19\" font-weight=\"bold\">%s</text>\n"
            "<text x=\"24\" y=\"54\" fill=\"#666666\">%s</text>\n",
            PICTURE_WIDTH, height, PICTURE_WIDTH, height, PICTURE_WIDTH, height, title, subtitle);
    return out;
}

static int picture_close(FILE *out, const char *file)
{
    bool failed;

    fprintf(out, "</svg>\n");
    failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    return failed ? complain(STATUS_FAILED, "%s: it cannot be written", file) : 0;
}

static void picture_text(FILE *out, double x, double y, const char *anchor, const char *colour,
                         const char *text)
{
    fprintf(out,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\" " PICTURE_HALO
            ">%s</text>\n",
            x, y, anchor, colour, text);
}

static void picture_line(FILE *out, double x, double y, double to_x, double to_y,
                         const char *colour)
{
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x, y,
            to_x, to_y, colour);
}

/* ---- rates ---------------------------------------------------------------------------------- */

struct picture_scale {
    double cpus_least, cpus_most, rate_least, rate_most;
};

static double picture_x(const struct picture_scale *scale, double cpus)
{
    double all = picture_log(scale->cpus_most / scale->cpus_least);

    return PICTURE_LEFT +
           (all > 0 ? (PICTURE_RIGHT - PICTURE_LEFT) * picture_log(cpus / scale->cpus_least) / all
                    : 0);
}

static double picture_y(const struct picture_scale *scale, double rate)
{
    return PICTURE_BOTTOM - (PICTURE_BOTTOM - PICTURE_TOP) * picture_log(rate / scale->rate_least) /
                                picture_log(scale->rate_most / scale->rate_least);
}

/* Whole powers of two around what there is, and around the report's. */
static struct picture_scale picture_scale(const struct sweep_table *table)
{
    struct picture_scale scale = {table->cpus[0], table->cpus[table->points - 1], 8, 64};

    for (unsigned s = 0; s < SWEEP_SERIES; s++)
        for (unsigned p = 0; p < table->points && table->designs >> s & 1; p++) {
            double rate = table->at[s][p].rate / 1e6;
            while (rate > 0 && scale.rate_least > rate)
                scale.rate_least /= 2;
            while (scale.rate_most < rate)
                scale.rate_most *= 2;
        }
    return scale;
}

static void picture_grid(FILE *out, const struct sweep_table *table,
                         const struct picture_scale *scale)
{
    char text[32];

    for (double rate = scale->rate_least; rate <= scale->rate_most * 1.001; rate *= 2) {
        double y = picture_y(scale, rate);
        picture_line(out, PICTURE_LEFT, y, PICTURE_RIGHT, y, "#e5e5e5");
        snprintf(text, sizeof(text), "%g", rate);
        picture_text(out, PICTURE_LEFT - 10, y + 4, "end", "#666666", text);
    }
    for (unsigned p = 0; p < table->points; p++) {
        double x = picture_x(scale, table->cpus[p]);
        picture_line(out, x, PICTURE_TOP, x, PICTURE_BOTTOM, "#f0f0f0");
        snprintf(text, sizeof(text), "%u", table->cpus[p]);
        picture_text(out, x, PICTURE_BOTTOM + 20, "middle", "#666666", text);
    }
    picture_line(out, PICTURE_LEFT, PICTURE_BOTTOM, PICTURE_RIGHT, PICTURE_BOTTOM, "#999999");
    picture_text(out, (PICTURE_LEFT + PICTURE_RIGHT) / 2.0, PICTURE_BOTTOM + 44, "middle",
                 "#666666", "CPUs of the machine, half of them at work");
}

static void picture_curve(FILE *out, const struct sweep_table *table,
                          const struct picture_scale *scale, unsigned s)
{
    fprintf(out,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-dasharray=\"%s\" "
            "stroke-linejoin=\"round\" points=\"",
            picture_style[s].colour, picture_style[s].width, picture_style[s].dash);
    for (unsigned p = 0; p < table->points; p++)
        fprintf(out, "%.1f,%.1f ", picture_x(scale, table->cpus[p]),
                picture_y(scale, table->at[s][p].rate / 1e6));
    fprintf(out, "\"/>\n");
}

/* Names at the right ends, from the top down, none on another. */
static void picture_names(FILE *out, const struct sweep_table *table,
                          const struct picture_scale *scale)
{
    unsigned order[SWEEP_SERIES], n = 0, last = table->points - 1;
    double below = PICTURE_TOP - PICTURE_LABEL;
    char text[80];

    for (unsigned s = 0; s < SWEEP_SERIES; s++)
        if (table->designs >> s & 1) {
            unsigned i = n++;
            for (; i > 0 && table->at[order[i - 1]][last].rate < table->at[s][last].rate; i--)
                order[i] = order[i - 1];
            order[i] = s;
        }
    for (unsigned i = 0; i < n; i++) {
        double rate = table->at[order[i]][last].rate / 1e6, y = picture_y(scale, rate);
        double at = y > below + PICTURE_LABEL ? y : below + PICTURE_LABEL;
        below = at;
        fprintf(out,
                "<polyline fill=\"none\" stroke=\"%s\" opacity=\"0.6\" points=\"%d,%.1f %d,%.1f "
                "%d,%.1f\"/>\n",
                picture_style[order[i]].colour, PICTURE_RIGHT + 3, y, PICTURE_RIGHT + 16, at,
                PICTURE_RIGHT + 22, at);
        snprintf(text, sizeof(text), "%s %.0f", sweep_series[order[i]].name, rate);
        fprintf(out, "<g font-weight=\"%s\">", order[i] == 0 ? "bold" : "normal");
        picture_text(out, PICTURE_RIGHT + 27, at + 4, "start", picture_style[order[i]].colour,
                     text);
        fprintf(out, "</g>\n");
    }
}

static void picture_calibration(FILE *out, const struct sweep_table *table,
                                const struct picture_scale *scale)
{
    double x = picture_x(scale, 64);

    if (scale->cpus_least > 64 || scale->cpus_most < 64)
        return;
    for (unsigned i = 0; i < sizeof(picture_points) / sizeof(picture_points[0]); i++) {
        double y = picture_y(scale, picture_points[i].rate);
        const char *colour = picture_style[picture_points[i].series].colour;
        if (!(table->designs >> picture_points[i].series & 1))
            continue;
        fprintf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"#ffffff\" stroke=\"%s\" "
                "stroke-width=\"2.5\"/>\n",
                x, y, colour);
        picture_text(out, x + 11, y + 17, "start", colour, picture_points[i].label);
    }
}

int picture_rates(const struct sweep_table *table, const char *file)
{
    struct picture_scale scale = picture_scale(table);
    FILE *out = picture_open(
        file, 600,
        "Million operations a second, allocated on one CPU and freed on "
        "its neighbour",
        "A model, calibrated on the circles (the report of 2026). All else is predicted, "
        "ours too; upstream measured 24, not 38.");

    if (!out)
        return STATUS_FAILED;
    picture_grid(out, table, &scale);
    for (unsigned i = SWEEP_SERIES; i-- > 0;) /* the dashed one on ours */
        if (table->designs >> ((i + 1) % SWEEP_SERIES) & 1 && (i + 1) % SWEEP_SERIES != 4)
            picture_curve(out, table, &scale, (i + 1) % SWEEP_SERIES);
    if (table->designs & 1)
        picture_curve(out, table, &scale, 0);
    if (table->designs >> 4 & 1)
        picture_curve(out, table, &scale, 4);
    picture_calibration(out, table, &scale);
    picture_names(out, table, &scale);
    return picture_close(out, file);
}

/* ---- events --------------------------------------------------------------------------------- */

enum { PICTURE_DECADES = 5 }; /* from one object in 100000 to every one */

static double picture_bar(double share)
{
    double decades = share > 0 ? PICTURE_DECADES + picture_log(share) / picture_log(10) : 0;

    return (PICTURE_BARS_RIGHT - PICTURE_BARS_LEFT) * (decades > 0 ? decades : 0) / PICTURE_DECADES;
}

static void picture_share(double share, char *text, size_t size)
{
    if (share <= 0)
        snprintf(text, size, "none");
    else if (share < 0.0095)
        snprintf(text, size, "1 in %.0f", 1 / share);
    else
        snprintf(text, size, "%.*f %%", share < 0.1 ? 1 : 0, share * 100);
}

int picture_events(const struct sweep_table *table, const char *file)
{
    static const char *const axis[] = {"1 in 100,000", "1 in 10,000", "1 in 1,000",
                                       "1 in 100",     "1 in 10",     "each object"};
    unsigned bars = (unsigned)__builtin_popcount(table->designs & ((1u << SWEEP_SERIES) - 1));
    unsigned group = bars * PICTURE_BAR + 22, bottom = PICTURE_TOP + 12 + SWEEP_KINDS * group;
    char text[32];
    FILE *out =
        picture_open(file, bottom + 40, "What leaves the CPU, by kind: events of each object",
                     "On the report's machine: 64 CPUs, 8 nodes, memory on two. Counted, "
                     "not modelled, in the order of the model's clocks. Powers of ten.");

    if (!out)
        return STATUS_FAILED;
    for (unsigned i = 0; i <= PICTURE_DECADES; i++) {
        double x = PICTURE_BARS_LEFT +
                   (double)(PICTURE_BARS_RIGHT - PICTURE_BARS_LEFT) * i / PICTURE_DECADES;
        picture_line(out, x, PICTURE_TOP, x, bottom, "#e5e5e5");
        picture_text(out, x, bottom + 20, "middle", "#666666", axis[i]);
    }
    for (unsigned k = 0; k < SWEEP_KINDS; k++) {
        double y = PICTURE_TOP + 12 + (double)(k * group);
        picture_text(out, 24, y + 14, "start", "#333333", sweep_kinds[k]);
        for (unsigned s = 0; s < SWEEP_SERIES; s++) {
            double share = table->report[s].kind[k], width = picture_bar(share);
            if (!(table->designs >> s & 1))
                continue;
            fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
                    PICTURE_BARS_LEFT, y + 1, width, PICTURE_BAR - 3, picture_style[s].colour);
            picture_share(share, text, sizeof(text));
            fprintf(out,
                    "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\" fill=\"%s\" " PICTURE_HALO
                    ">%s, %s</text>\n",
                    PICTURE_BARS_LEFT + width + 6, y + 11, "#444444", sweep_series[s].name, text);
            y += PICTURE_BAR;
        }
    }
    return picture_close(out, file);
}
