# SPDX-License-Identifier: MIT
# A folder that goes with the script, and how it fails.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}
