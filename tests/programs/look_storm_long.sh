#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 3600
# test_look_storm.py with 10000 attaches.
exec python3 "$STOOK_SOURCE_DIR/tests/programs/test_look_storm.py" 10000
