#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# A C program that loads a C++ module and unloads it, over and over, while threads allocate.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

same modules prog_modules "$STOOK_TEST_DIR/prog_modules" "$STOOK_TEST_DIR/plug_shapes.so"
grep -q '^60 refused' "$work/modules.with"
