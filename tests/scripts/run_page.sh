#!/bin/bash
# SPDX-License-Identifier: MIT
# The runner of pages finds what is wrong with a page: errors that are planted.
exec python3 "$STOOK_SOURCE_DIR/scripts/run-page.py" --self-test
