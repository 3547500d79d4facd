#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
# labels: long
"""The dashboard of stook export against Grafana's schema: the types of its npm package, by TypeScript's compiler.  Without
npm, or a registry in reach, it is skipped."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGES = ("@grafana/schema@11.1.0", "typescript@5.4.5")
SKIPPED = 77

if not shutil.which("npm"):
    print("there is no npm")
    sys.exit(SKIPPED)
text = (pathlib.Path(os.environ["STOOK_SOURCE_DIR"]) / "tools/export/dashboard.json").read_text(encoding="utf-8")
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *PACKAGES], check=False, cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print("npm install:", done.stdout[-500:])
        sys.exit(SKIPPED)

    def errors(dashboard):
        source = pathlib.Path(folder) / "dashboard.ts"
        source.write_text('import type {Dashboard} from "@grafana/schema/dist/esm/raw/dashboard/x/dashboard_types.gen";\n'
                          f"export const dashboard: Dashboard = {json.dumps(dashboard, indent=1)};\n", encoding="utf-8")
        tsc = pathlib.Path(folder) / "node_modules/.bin/tsc"
        return subprocess.run([tsc, "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "node", source],
                              check=False, stdout=subprocess.PIPE, text=True).stdout

    # What the schema does not know, or knows otherwise, is found.
    plan = json.loads(text)
    assert errors(plan) == "", errors(plan)
    for key, value in ("schemaVersion", "38"), ("refreshes", "30s"), ("panels", 3):
        assert "error" in errors({**plan, key: value}), key
