#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# git makes a small repository, clones and repacks it; the objects are the same.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need git

export GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_NOSYSTEM=1
git config --global user.name nobody
git config --global user.email nobody@example.org
git config --global init.defaultBranch main
cat >"$work/make.sh" <<'SH'
set -e
mkdir "$1"
cd "$1"
git init -q
cp "$2"/src/cache/*.c "$2"/include/stook/*.h .
for i in $(seq 12); do
    for file in *.[ch]; do
        [ $(((i + ${#file}) % 4)) != 0 ] || sed -i "$((i * 3))s/^/\/* $i *\/ /" "$file"
    done
    git add .
    GIT_AUTHOR_DATE="@$((1700000000 + i)) +0000" GIT_COMMITTER_DATE="@$((1700000000 + i)) +0000" \
        git commit -q -m "number $i"
done
SH
bash "$work/make.sh" "$work/plain" "$STOOK_SOURCE_DIR"
with_stook make bash "$work/make.sh" "$work/source" "$STOOK_SOURCE_DIR"
served make git
[ "$(git -C "$work/plain" rev-parse HEAD)" = "$(git -C "$work/source" rev-parse HEAD)" ]

with_stook clone git clone -q --no-local "$work/source" "$work/clone"
served clone git
with_stook gc git -C "$work/clone" -c pack.threads=4 gc -q --aggressive --prune=now
served gc git 100
with_stook fsck git -C "$work/clone" fsck --strict --full
served fsck git
cmp <(git -C "$work/source" rev-list --objects --all) <(git -C "$work/clone" rev-list --objects --all)
same log git git -C "$work/clone" log -p --stat --no-color
same blame git git -C "$work/clone" blame alloc.c
same grep git git -C "$work/clone" grep -n struct HEAD~3
