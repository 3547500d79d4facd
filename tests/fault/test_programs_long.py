#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: native preload
# labels: long
# timeout: 1800
"""test_programs.py with all programs, in all modes."""
import test_programs

test_programs.main(test_programs.PROGRAMS, test_programs.MODES, (1, 3))
