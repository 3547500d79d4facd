/* SPDX-License-Identifier: MIT */
/*
 * main.c - the table of commands, their help, and the choice of one.  Commands for users come
 * first, those for developers of the library last.
 */
#include "stook/command.h"

#include "sample/shadow.h"
#include "watch/settings_show.h"

#include <stook/stook.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct command *const main_commands[] = {
    &command_run,    &command_list,    &command_top,    &command_caches,
    &command_stat,   &command_leaks,   &command_why,    &command_whatis,
    &command_walk,   &command_profile, &command_report, &command_compare,
    &command_export, &command_info,    &command_plan,   &command_lab};
enum { MAIN_COMMANDS = sizeof(main_commands) / sizeof(main_commands[0]) };

static const char *main_name; /* of the command that runs */

int complain(int status, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, main_name ? "stook: %s: " : "stook: ", main_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

static const struct command *main_find(const char *name)
{
    for (int i = 0; i < MAIN_COMMANDS; i++)
        if (strcmp(main_commands[i]->name, name) == 0)
            return main_commands[i];
    return NULL;
}

static int main_unknown(const char *name)
{
    enum { FAR = 3 };
    const struct command *nearest = NULL;
    unsigned distance, least = FAR;

    for (int i = 0; i < MAIN_COMMANDS; i++)
        if ((distance = settings_distance(name, strnlen(name, 32), main_commands[i]->name)) <
            least) {
            nearest = main_commands[i];
            least = distance;
        }
    return nearest ? complain(STATUS_USAGE, "there is no command %s; did you mean stook %s?", name,
                              nearest->name)
                   : complain(STATUS_USAGE, "there is no command %s; see stook help", name);
}

static void main_overview(FILE *to)
{
    fputs("usage: stook COMMAND [OPTIONS] ...\n\n", to);
    for (int i = 0; i < MAIN_COMMANDS; i++)
        fprintf(to, "  %-8s %s\n", main_commands[i]->name, main_commands[i]->summary);
    fprintf(to, "  %-8s %s\n\n", "help", "what a command does and takes: stook help COMMAND");
    fputs("stook --version (-V), stook --help (-h)\n\n"
          "PID is a process's number, or the name of a program that one process runs.\n",
          to);
}

static int main_help(const char *name)
{
    const struct command *command;

    if (!name) {
        main_overview(stdout);
        return STATUS_OK;
    }
    command = main_find(name);
    if (!command)
        return main_unknown(name);
    fputs(command->help, stdout);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const struct command *command;
    int status;

    standard_begin();
    shadow_begin(0); /* samples are taken at random, and replays count the same in each run */
    if (argc < 2) {
        main_overview(stderr);
        return STATUS_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("stook %d.%d.%d\n", STOOK_VERSION_MAJOR, STOOK_VERSION_MINOR, STOOK_VERSION_PATCH);
        status = STATUS_OK;
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
               strcmp(argv[1], "help") == 0) {
        status = main_help(argc > 2 ? argv[2] : NULL);
    } else if ((command = main_find(argv[1])) != NULL) {
        main_name = command->name;
        status = argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)
                     ? main_help(command->name)
                     : command->run(argc - 1, argv + 1);
    } else {
        return main_unknown(argv[1]);
    }
    return standard_end(status);
}
