#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# A threaded C++ program.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

same threads prog_threads "$STOOK_TEST_DIR/prog_threads"
