#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# A C program loads a C++ plug-in locally: operator new is Stook's, and throws from the C++ library
# that only the plug-in sees.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

same plug prog_plug_host "$STOOK_TEST_DIR/prog_plug_host" "$STOOK_TEST_DIR/plug_throws.so"
"$STOOK_TEST_DIR/prog_plug_host" "$STOOK_TEST_DIR/plug_throws.so" # and its status is success
