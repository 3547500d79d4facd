/* SPDX-License-Identifier: MIT */
/*
 * top_keys.c - the keys of stook top, and the wait for one of them or for the next snapshot.
 */
#include "stook/top/top_screen.h"

#include "base/raw.h"

#ifdef STOOK_HAS_CURSES
#include <curses.h>

#include <ctype.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { KEY_ESCAPE = 27, KEY_DELETE = 127 };

static enum top_action key_typed(struct top_screen *screen, int key)
{
    size_t n = strlen(screen->filter);

    if (key == KEY_ESCAPE)
        screen->filter[0] = '\0';
    if (key == KEY_ESCAPE || key == '\n' || key == '\r' || key == KEY_ENTER)
        screen->typing = false;
    else if ((key == KEY_BACKSPACE || key == KEY_DELETE || key == '\b') && n > 0)
        screen->filter[n - 1] = '\0';
    else if (key < 256 && isprint(key) && n + 1 < sizeof(screen->filter)) {
        screen->filter[n] = (char)key;
        screen->filter[n + 1] = '\0';
    }
    screen->selected = screen->from = 0;
    return TOP_DRAW;
}

static void key_sort(struct top_screen *screen, enum top_sort sort)
{
    screen->sort = sort;
    screen->inverted = false;
    screen->selected = screen->from = 0;
}

static void key_move(struct top_screen *screen, const struct top_data *data, long by)
{
    long n = (long)top_screen_count(screen, data), at = (long)screen->selected + by;

    screen->selected = (size_t)(at >= n ? n - 1 : at);
    if (at < 0 || n == 0)
        screen->selected = 0;
}

static bool key_moves(struct top_screen *screen, const struct top_data *data, int key)
{
    switch (key) {
    case KEY_UP:
    case 'k':
        key_move(screen, data, -1);
        return true;
    case KEY_DOWN:
    case 'j':
        key_move(screen, data, 1);
        return true;
    case KEY_PPAGE:
        key_move(screen, data, -top_screen_lines());
        return true;
    case KEY_NPAGE:
        key_move(screen, data, top_screen_lines());
        return true;
    case KEY_HOME:
        screen->selected = 0;
        return true;
    case KEY_END:
        key_move(screen, data, (long)data->rows);
        return true;
    default:
        return false;
    }
}

static bool key_sorts(struct top_screen *screen, int key)
{
    static const struct {
        char key;
        enum top_sort sort;
    } keys[] = {{'b', TOP_RESIDENT}, {'c', TOP_RESIDENT}, {'s', TOP_RESIDENT}, {'u', TOP_IN_USE},
                {'f', TOP_CACHED},   {'w', TOP_WASTED},   {'g', TOP_GROWTH},   {'r', TOP_RATE},
                {'o', TOP_OBJECTS},  {'l', TOP_OBJECTS},  {'n', TOP_NAME}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].key == key) {
            key_sort(screen, keys[i].sort);
            return true;
        }
    return false;
}

static enum top_action key_acts(struct top_screen *screen, int key)
{
    switch (key) {
    case 'q':
    case KEY_F(10):
        return TOP_QUIT;
    case 'h':
    case '?':
    case KEY_F(1):
        screen->help = true;
        return TOP_DRAW;
    case 'I':
        screen->inverted = !screen->inverted;
        return TOP_DRAW;
    case 'a':
        screen->internal = !screen->internal;
        return TOP_DRAW;
    case '\\':
    case '/':
    case KEY_F(3):
    case KEY_F(4):
        screen->typing = true;
        return TOP_DRAW;
    case '+':
        screen->delay = screen->delay > 0.2 ? screen->delay / 2 : 0.1;
        return TOP_RENEW;
    case '-':
        screen->delay = screen->delay < 1800 ? screen->delay * 2 : 3600;
        return TOP_DRAW;
    case ' ':
    case KEY_F(5):
        return TOP_RENEW;
    case '\n':
    case '\r':
    case KEY_ENTER:
        return TOP_ENTER;
    case KEY_ESCAPE:
    case KEY_BACKSPACE:
    case KEY_DELETE:
        return TOP_BACK;
    default:
        return TOP_DRAW;
    }
}

static enum top_action screen_key(struct top_screen *screen, const struct top_data *data, int key)
{
    if (screen->help) {
        screen->help = false;
        return TOP_DRAW;
    }
    if (screen->typing)
        return key_typed(screen, key);
    if (key_moves(screen, data, key) || key_sorts(screen, key))
        return TOP_DRAW;
    return key_acts(screen, key);
}

enum top_action top_screen_wait(struct top_screen *screen, const struct top_data *data)
{
    for (;;) {
        uint64_t now = raw_clock();
        enum top_action action;
        int key;
        if (top_screen_ended())
            return TOP_QUIT;
        if (now >= screen->next + (uint64_t)(screen->delay * 1e9)) {
            screen->next = now;
            return TOP_RENEW;
        }
        timeout((int)((screen->next + (uint64_t)(screen->delay * 1e9) - now) / 1000000 + 1));
        key = getch();
        if (top_screen_ended())
            return TOP_QUIT;
        if (key == ERR) {
            struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
            if (poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR)))
                return TOP_QUIT; /* the terminal is gone */
            continue;
        }
        if (key == KEY_RESIZE)
            return TOP_DRAW;
        action = screen_key(screen, data, key);
        if (action == TOP_RENEW)
            screen->next = raw_clock();
        return action;
    }
}
#endif
