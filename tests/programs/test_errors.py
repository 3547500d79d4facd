#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: malloc preload rseq
# timeout: 600
"""A sample of the table of heap errors, in each mode: the promises of docs/security.md hold.  `make check-errors` makes all."""
import os
import subprocess
import sys

SCRIPT = os.path.join(os.environ["STOOK_SOURCE_DIR"], "scripts/check-errors.py")

subprocess.run([sys.executable, SCRIPT, "--self-test"], check=True)
sys.exit(subprocess.run([sys.executable, SCRIPT, "--build", os.environ["STOOK_BUILD_DIR"], "--step", "29"],
                        check=False).returncode)
