#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# What calls that fail return, and leave in errno, is what glibc's calls do.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

same results prog_results "$STOOK_TEST_DIR/prog_results"
