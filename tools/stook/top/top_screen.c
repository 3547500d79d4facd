/* SPDX-License-Identifier: MIT */
/*
 * top_screen.c - what stook top draws: the head, the rows with their columns, the foot and the help.  Its keys: top_keys.c.
 */
#include "stook/top/top_screen.h"

#include "base/raw.h"
#include "look/watch.h"
#include "stook/look/look_show.h"

#ifdef STOOK_HAS_CURSES
#include <curses.h>

#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD_LINES = 6,
    PAIR_USE = 1,
    PAIR_CACHED,
    PAIR_WASTED,
    PAIR_UP,
    PAIR_DOWN,
    PAIR_KEY,
    PAIR_MARK
};

static volatile sig_atomic_t screen_ended;
static bool screen_is_on;

static void screen_signal(int number)
{
    (void)number;
    screen_ended = 1;
}

bool top_screen_ended(void)
{
    return screen_ended;
}

/* ---- beginning and end ------------------------------------------------------------------------ */

static void screen_colours(void)
{
    if (!has_colors() || getenv("NO_COLOR"))
        return;
    start_color();
    use_default_colors();
    init_pair(PAIR_USE, COLOR_GREEN, -1);
    init_pair(PAIR_CACHED, COLOR_CYAN, -1);
    init_pair(PAIR_WASTED, COLOR_RED, -1);
    init_pair(PAIR_UP, COLOR_YELLOW, -1);
    init_pair(PAIR_DOWN, COLOR_GREEN, -1);
    init_pair(PAIR_KEY, COLOR_BLACK, COLOR_CYAN);
    init_pair(PAIR_MARK, COLOR_BLACK, COLOR_CYAN);
}

bool top_screen_begin(struct top_screen *screen, double delay, enum top_sort sort)
{
    struct sigaction action = {.sa_handler = screen_signal};
    const char *terminal = getenv("TERM");

    *screen = (struct top_screen){.delay = delay, .sort = sort};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !terminal || !*terminal ||
        strcmp(terminal, "dumb") == 0)
        return false;
    setlocale(LC_CTYPE, "");
    if (!newterm(NULL, stdout,
                 stdin)) /* which, unlike initscr(), returns where the terminal is not known */
        return false;
    screen_is_on = true;
    watch_at_end(top_screen_end);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(50);
    curs_set(0);
    screen_colours();
    screen->next = raw_clock();
    return true;
}

void top_screen_end(void)
{
    if (screen_is_on)
        endwin();
    screen_is_on = false;
}

void top_screen_say(struct top_screen *screen, const char *text)
{
    snprintf(screen->message, sizeof(screen->message), "%s", text);
}

void top_screen_home(struct top_screen *screen)
{
    screen->selected = screen->from = 0;
    screen->selected_key = 0;
    screen->filter[0] = screen->message[0] = '\0';
    screen->typing = false;
}

/* ---- the head --------------------------------------------------------------------------------- */

/* A line from the left, cut at the right. */
static __attribute__((format(printf, 2, 3))) int draw_line(int y, const char *format, ...)
{
    char text[512], *last;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    while ((int)strlen(text) > COLS && (last = strrchr(text, ',')) != NULL) /* whole facts alone */
        *last = '\0';
    mvaddnstr(y, 0, text, COLS);
    return (int)strlen(text);
}

static void draw_title(const struct top_screen *screen, const struct top_data *data)
{
    char right[64], clock[16];
    time_t now = time(NULL);
    struct tm local;
    int used;

    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    if (data->heap)
        used =
            draw_line(0, "stook top - %s  process %d (%s), Stook %s, %s mode, %u of %u CPUs used",
                      clock, data->heap->target->pid, data->heap->target->name, data->heap->version,
                      data->heap->mode, data->heap->cpus_used, data->heap->cpus);
    else
        used = draw_line(0, "stook top - %s  %zu process%s on Stook", clock, data->rows,
                         data->rows == 1 ? "" : "es");
    snprintf(right, sizeof(right), "every %g s", screen->delay);
    if (used + (int)strlen(right) + 2 <= COLS)
        mvaddstr(0, COLS - (int)strlen(right), right);
}

static void draw_part(int *at, int n, char mark, int pair)
{
    attron(COLOR_PAIR(pair));
    for (int i = 0; i < n; i++)
        mvaddch(3, (*at)++, (chtype)mark);
    attroff(COLOR_PAIR(pair));
}

/* Of the bytes of slabs: in use, free and kept, and what no object can use. */
static void draw_meter(const struct heap_bytes *bytes)
{
    int width = COLS > 110 ? 100 : COLS - 10, at = 1, use, cached;
    double all = (double)bytes->resident;

    if (width < 10 || all <= 0)
        return;
    use = (int)((double)bytes->in_use / all * width + 0.5);
    cached = (int)((double)(bytes->in_use + bytes->cached) / all * width + 0.5) - use;
    mvaddch(3, 0, '[');
    draw_part(&at, use, '|', PAIR_USE);
    draw_part(&at, cached, '-', PAIR_CACHED);
    draw_part(&at, width - use - cached, '#', PAIR_WASTED);
    printw("] %.1f%%", (double)bytes->in_use / all * 100);
}

static void draw_sums(const struct top_data *data)
{
    char a[TOP_SIZE], b[TOP_SIZE], c[TOP_SIZE], d[TOP_SIZE], e[TOP_SIZE], f[TOP_SIZE];
    const struct heap_count *n = &data->total;

    draw_line(1, "resident %s: in use %s, cached %s, wasted %s, warm %s, RSS %s",
              top_size(n->bytes.resident, a), top_size(n->bytes.in_use, b),
              top_size(n->bytes.cached, c), top_size(n->bytes.wasted, d), top_size(data->warm, e),
              top_size(data->rss, f));
    top_growth(data->growth, a);
    draw_line(2, "objects  %lu in use, %lu in sheaves, %lu free in slabs%s%s%s", n->active,
              n->in_sheaves, n->in_slabs, a[0] ? ", growth " : "", a, a[0] ? "/s" : "");
    draw_meter(&n->bytes);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static bool draw_takes(const struct top_screen *screen, const struct top_row *row)
{
    return (screen->internal ? !row->folded
                             : row->is_process || (!row->internal && row->bytes.resident > 0)) &&
           (!screen->filter[0] || strstr(row->name, screen->filter));
}

size_t top_screen_count(const struct top_screen *screen, const struct top_data *data)
{
    size_t n = 0;

    for (size_t i = 0; i < data->rows; i++)
        n += draw_takes(screen, &data->row[i]);
    return n;
}

static const struct top_row *draw_row_at(const struct top_screen *screen,
                                         const struct top_data *data, size_t at)
{
    for (size_t i = 0; i < data->rows; i++)
        if (draw_takes(screen, &data->row[i]) && at-- == 0)
            return &data->row[i];
    return NULL;
}

int top_screen_lines(void)
{
    int lines = LINES - HEAD_LINES - 2;

    return lines > 0 ? lines : 0;
}

/* ---- columns ---------------------------------------------------------------------------------- */

enum column_of { OF_BOTH, OF_PROCESS, OF_HOST };

enum column_kind { AS_NAME, AS_COUNT, AS_SIZE, AS_TEXT, AS_GROWTH, AS_RATE, AS_SHARE };

/* In their order.  Where the terminal has no room for all, those with the highest number in `drop` go first. */
static const struct column {
    const char *title;
    int width; /* with the space before it */
    int drop;
    enum column_of of;
    int sort; /* enum top_sort; -1: no key sorts by it */
    enum column_kind kind;
    size_t at; /* of the value in its row */
} columns[] = {
    {"PID", 8, 0, OF_HOST, -1, AS_COUNT, offsetof(struct top_row, key)},
    {"", 0, 0, OF_BOTH, TOP_NAME, AS_NAME, 0},
    {"RSS", 9, 4, OF_HOST, -1, AS_SIZE, offsetof(struct top_row, rss)},
    {"SIZE", 7, 5, OF_PROCESS, -1, AS_COUNT, offsetof(struct top_row, size)},
    {"OBJECTS", 11, 3, OF_BOTH, TOP_OBJECTS, AS_COUNT, offsetof(struct top_row, active)},
    {"TOTAL", 11, 9, OF_BOTH, -1, AS_COUNT, offsetof(struct top_row, total)},
    {"SLABS", 8, 8, OF_PROCESS, -1, AS_COUNT, offsetof(struct top_row, slabs)},
    {"MODE", 8, 7, OF_HOST, -1, AS_TEXT, offsetof(struct top_row, mode)},
    {"RESIDENT", 9, 0, OF_BOTH, TOP_RESIDENT, AS_SIZE, offsetof(struct top_row, bytes.resident)},
    {"IN USE", 9, 0, OF_BOTH, TOP_IN_USE, AS_SIZE, offsetof(struct top_row, bytes.in_use)},
    {"USE", 5, 1, OF_BOTH, -1, AS_SHARE, 0},
    {"CACHED", 9, 2, OF_BOTH, TOP_CACHED, AS_SIZE, offsetof(struct top_row, bytes.cached)},
    {"WASTED", 9, 2, OF_BOTH, TOP_WASTED, AS_SIZE, offsetof(struct top_row, bytes.wasted)},
    {"WARM", 9, 5, OF_HOST, -1, AS_SIZE, offsetof(struct top_row, warm)},
    {"GROWTH/s", 9, 0, OF_BOTH, TOP_GROWTH, AS_GROWTH, offsetof(struct top_row, growth)},
    {"ALLOCS/s", 11, 6, OF_BOTH, TOP_RATE, AS_RATE, offsetof(struct top_row, alloc_rate)},
    {"EVENTS/s", 9, 6, OF_BOTH, TOP_RATE, AS_RATE, offsetof(struct top_row, event_rate)},
};
enum {
    COLUMN_ALLOCS = 15,
    COLUMN_EVENTS,
    COLUMNS_ALL = sizeof(columns) / sizeof(columns[0]),
    COLUMN_NAME_LEAST = 16,
    COLUMN_NAME_MOST = 44,
};
_Static_assert(COLUMNS_ALL == COLUMN_EVENTS + 1, "the two last ones are rates");

/* The columns that are shown, a bit each; the width of the name's. */
struct columns_shown {
    unsigned bits;
    int name;
};

static struct columns_shown columns_choose(const struct top_data *data)
{
    struct columns_shown shown = {0};
    int width = 1; /* the mark of a torn row */

    for (unsigned i = 0; i < COLUMNS_ALL; i++) {
        if (columns[i].of == (data->heap ? OF_HOST : OF_PROCESS) ||
            (i == COLUMN_ALLOCS && !data->counted))
            continue;
        shown.bits |= 1u << i;
        width += columns[i].width;
    }
    for (int drop = 9; drop > 0 && width + COLUMN_NAME_LEAST > COLS; drop--)
        for (unsigned i = 0; i < COLUMNS_ALL; i++)
            if (columns[i].drop == drop && (shown.bits >> i & 1)) {
                shown.bits &= ~(1u << i);
                width -= columns[i].width;
            }
    shown.name = COLS - width;
    if (shown.name > COLUMN_NAME_MOST)
        shown.name = COLUMN_NAME_MOST;
    if (shown.name < 1)
        shown.name = 1;
    return shown;
}

static void draw_columns(const struct top_screen *screen, const struct top_data *data,
                         const struct columns_shown *shown)
{
    bool by_allocs = data->counted && (shown->bits >> COLUMN_ALLOCS & 1);

    attron(A_REVERSE);
    mvhline(HEAD_LINES - 1, 0, ' ', COLS);
    move(HEAD_LINES - 1, 0);
    for (unsigned i = 0; i < COLUMNS_ALL; i++) {
        bool sorted = columns[i].sort == (int)screen->sort && !(i == COLUMN_EVENTS && by_allocs);
        if (!(shown->bits >> i & 1))
            continue;
        if (sorted)
            attron(A_UNDERLINE | A_BOLD);
        if (columns[i].kind == AS_NAME)
            printw("%s%-*s", data->heap ? "" : " ", shown->name - !data->heap,
                   data->heap ? "CACHE" : "PROCESS");
        else
            printw("%*s", columns[i].width, columns[i].title);
        if (sorted)
            attroff(A_UNDERLINE | A_BOLD);
    }
    attroff(A_REVERSE);
}

/* The text of a row's cell, except the name. */
static void draw_text(const struct top_row *row, unsigned column, char text[32])
{
    const char *at = (const char *)row + columns[column].at;
    uint64_t count;
    double rate;
    char size[TOP_SIZE];

    memcpy(&count, at, sizeof(count));
    memcpy(&rate, at, sizeof(rate));
    text[0] = '\0';
    switch (columns[column].kind) {
    case AS_NAME:
        break;
    case AS_COUNT: /* large objects have no size */
        snprintf(text, 32, count == 0 && at == (const char *)&row->size ? "-" : "%lu", count);
        break;
    case AS_SIZE:
        snprintf(text, 32, "%s", top_size(count, size));
        break;
    case AS_TEXT:
        snprintf(text, 32, "%.31s", at);
        break;
    case AS_GROWTH:
        snprintf(text, 32, "%s", top_growth(rate, size));
        break;
    case AS_RATE:
        snprintf(text, 32, column == COLUMN_ALLOCS && !row->counted ? "-" : "%.0f", rate);
        break;
    case AS_SHARE:
        if (row->bytes.resident)
            snprintf(text, 32, "%.0f%%",
                     (double)row->bytes.in_use / (double)row->bytes.resident * 100);
        break;
    }
}

static void draw_row(const struct top_data *data, const struct top_row *row,
                     const struct columns_shown *shown, int line, bool marked)
{
    char text[32];

    if (marked)
        attron(A_REVERSE);
    mvhline(line, 0, ' ', COLS);
    move(line, 0);
    for (unsigned i = 0; i < COLUMNS_ALL; i++) {
        int pair = columns[i].kind != AS_GROWTH || marked ? 0
                   : row->growth > 0                      ? PAIR_UP
                                                          : PAIR_DOWN;
        if (!(shown->bits >> i & 1))
            continue;
        if (columns[i].kind == AS_NAME) {
            int at = getcurx(stdscr);
            printw("%s%s", data->heap ? "" : " ",
                   look_fold(row->name, (size_t)(shown->name - !data->heap)));
            move(line, at + shown->name);
            continue;
        }
        draw_text(row, i, text);
        if (pair)
            attron(COLOR_PAIR(pair));
        printw(" %*s", columns[i].width - 1, text);
        if (pair)
            attroff(COLOR_PAIR(pair));
    }
    if (row->torn)
        addch('~');
    if (marked)
        attroff(A_REVERSE);
}

static void draw_rows(struct top_screen *screen, const struct top_data *data,
                      const struct columns_shown *shown)
{
    size_t n = top_screen_count(screen, data), lines = (size_t)top_screen_lines();
    const struct top_row *row;

    if (screen->selected >= n)
        screen->selected = n > 0 ? n - 1 : 0;
    if (screen->selected < screen->from)
        screen->from = screen->selected;
    if (screen->selected >= screen->from + lines)
        screen->from = screen->selected - lines + 1;
    row = draw_row_at(screen, data, screen->selected);
    screen->selected_key = row ? row->key : 0;
    for (size_t i = 0; i < lines && (row = draw_row_at(screen, data, screen->from + i)); i++)
        draw_row(data, row, shown, HEAD_LINES + (int)i, screen->from + i == screen->selected);
    if (n == 0 && lines > 0)
        mvaddstr(HEAD_LINES, 2,
                 screen->filter[0] ? "nothing has that in its name"
                 : data->heap      ? "the process has no caches of its own (a shows the library's)"
                              : "no process on Stook can be seen; stook run -- PROGRAM starts one");
}

/* ---- the foot, the help, the whole ------------------------------------------------------------ */

static void draw_key(const char *key, const char *what)
{
    if (getcurx(stdscr) + 7 + (int)strlen(key) >= COLS)
        return;
    printw(" %s", key);
    attron(COLOR_PAIR(PAIR_KEY) | (has_colors() ? 0 : A_REVERSE));
    printw("%-6s", what);
    attroff(COLOR_PAIR(PAIR_KEY) | (has_colors() ? 0 : A_REVERSE));
}

static void draw_foot(const struct top_screen *screen, const struct top_data *data)
{
    if (screen->message[0]) {
        attron(A_BOLD | COLOR_PAIR(PAIR_WASTED));
        mvaddnstr(LINES - 2, 0, screen->message, COLS);
        attroff(A_BOLD | COLOR_PAIR(PAIR_WASTED));
    } else if (!data->heap && data->refused > 0) {
        draw_line(LINES - 2, "the kernel does not let stook look into %u other process%s",
                  data->refused, data->refused == 1 ? "" : "es");
    }
    move(LINES - 1, 0);
    if (screen->typing) {
        printw("Filter: %s_   (Enter keeps it, Esc ends it)", screen->filter);
        return;
    }
    draw_key("h", "Help");
    draw_key("q", "Quit");
    draw_key("b", "Bytes");
    draw_key("g", "Growth");
    draw_key("r", "Rate");
    draw_key("f", "Cached");
    draw_key("w", "Wasted");
    draw_key("o", "Objects");
    draw_key("n", "Name");
    draw_key("I", "Invert");
    draw_key("\\", "Filter");
    if (!data->heap)
        draw_key("Enter", "Look in");
    else if (screen->host)
        draw_key("Esc", "Back");
    if (screen->filter[0])
        printw(" filter: %s", screen->filter);
}

static void draw_help(void)
{
    static const char *const lines[] = {
        "stook top: caches as they are now; the process is not stopped and runs nothing for it.",
        "",
        "  [||||||||----####]  of the slabs' bytes: in use, free and kept, of no use to any object",
        "  OBJECTS, TOTAL      objects with the program; objects that the slabs have room for",
        "  RESIDENT            bytes of pages with objects: IN USE, CACHED (free objects) or WASTED (no object fits)",
        "  USE                 bytes in use, of the resident ones",
        "  RSS, WARM           of a process: all that is resident of it; free pages that Stook keeps",
        "  (large), (library)  objects of whole pages; the library's own caches, which a shows one by one",
        "  GROWTH/s            change of the resident bytes a second, since the screen before",
        "  ALLOCS/s            objects allocated a second, of caches that count them (STOOK_STATS)",
        "  EVENTS/s            sheaves changed with the barn, takings of the list lock, slabs made and given back",
        "  ~ behind a row      it changed faster than it could be read",
        "",
        "  b u f w g r o n     sort by resident, in-use, cached, wasted, growth, rate, objects, name   (c and s: resident, l: objects)",
        "  I                   invert the order",
        "  arrows, j k, Page Up and Down, Home, End   move the mark",
        "  Enter               look into the marked process;  Esc, Backspace: back to the processes",
        "  \\ or F4, / or F3    show only names that have what is typed",
        "  a                   the library's own caches, and those without slabs, too",
        "  + -                 renew the screen more often, less often",
        "  space, F5           renew it now",
        "  q or F10            end",
        "",
        "Any key goes back.",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]) && (int)i < LINES; i++)
        mvaddnstr((int)i, 0, lines[i], COLS);
}

void top_screen_draw(struct top_screen *screen, struct top_data *data)
{
    struct columns_shown shown;

    erase();
    if (screen->help) {
        draw_help();
    } else if (LINES < HEAD_LINES + 3 || COLS < 40) {
        mvaddnstr(0, 0, "stook top: the terminal is too small", COLS);
    } else {
        top_sort(data, screen->sort, screen->inverted);
        draw_title(screen, data);
        draw_sums(data);
        shown = columns_choose(data);
        draw_columns(screen, data, &shown);
        draw_rows(screen, data, &shown);
        draw_foot(screen, data);
    }
    refresh();
}
#endif
