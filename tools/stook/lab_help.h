/* SPDX-License-Identifier: MIT */
#ifndef STOOK_TOOL_LAB_HELP_H
#define STOOK_TOOL_LAB_HELP_H

extern const char lab_help[];

#endif
