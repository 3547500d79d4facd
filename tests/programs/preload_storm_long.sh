#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# modes: default locked
# timeout: 900
export STOOK_STRESS_SECONDS=90
. "$STOOK_SOURCE_DIR/tests/programs/preload_storm.sh"
