#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes flame.min.js of page.js and of what package-lock.json pins from npm, with their licences at its head.
#
#   tools/flame/build.sh [--check]     --check: fails if flame.min.js is not what comes out
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/page.js "$here"/package.json "$here"/package-lock.json "$work"
cd "$work"
npm ci --ignore-scripts --silent
node node_modules/esbuild/bin/esbuild page.js --bundle --minify --target=es2020 --format=iife --legal-comments=none \
    --metafile=meta.json --log-level=warning --outfile=out.js
# Every package that came in, and each licence once.
node >licences <<'END'
const fs = require("fs");
const names = [...new Set(Object.keys(JSON.parse(fs.readFileSync("meta.json")).inputs).filter((x) => x.startsWith("node_modules/")).map((x) => x.split("/")[1]))].sort();
const texts = new Map();
for (const name of names) {
    const { version, license } = JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`));
    const text = fs.readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
    texts.set(text, [...(texts.get(text) || []), `${name} ${version} (${license})`]);
}
for (const [text, users] of texts) console.log(`${users.join(", ")}:\n\n${text}\n`);
END
{
    printf '/*! page.js of Stook (MIT), and parts of:\n\n'
    cat licences
    printf '*/\n'
    cat out.js
} >flame.min.js
if [ "${1:-}" = --check ]; then
    cmp flame.min.js "$here/flame.min.js"
else
    cp flame.min.js "$here/flame.min.js"
fi
