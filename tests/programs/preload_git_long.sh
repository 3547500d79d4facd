#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 900
# git, which packs with threads: a repository of some thousand objects is made, cloned, repacked,
# checked, served over a pipe; the packs hold the same.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need git

export GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_NOSYSTEM=1
git config --global user.name nobody
git config --global user.email nobody@example.org
git config --global init.defaultBranch main
git config --global pack.threads 4
git init -q "$work/source"
cd "$work/source"
cp -r "$STOOK_SOURCE_DIR"/{src,include,tests} .
find /usr/include -maxdepth 2 -name '*.h' -size -100k | sort | sed -n 1,1500p | xargs cp --parents -t .
for i in $(seq 150); do
    for file in src/*/*.c tests/*/*.c; do
        [ $(((i + ${#file}) % 7)) != 0 ] || echo "/* $i */" >>"$file"
    done
    git add .
    git commit -q -m "number $i"
done

objects() { git -C "$1" rev-list --objects --all; }
with_stook clone git clone -q --no-local "$work/source" "$work/clone"
served clone git
with_stook gc git -C "$work/clone" gc -q --aggressive --prune=now
served gc git 2000
with_stook fsck git -C "$work/clone" fsck --strict --full
served fsck git
cmp <(objects "$work/source") <(objects "$work/clone")
echo "$(objects "$work/clone" | wc -l) objects"
same log git git -C "$work/clone" log --stat -p --no-color
same blame git git -C "$work/clone" blame src/page/arena.c
same archive git git -C "$work/clone" archive HEAD~20
git -C "$work/clone" checkout -q -b side HEAD~60
git -C "$work/clone" config user.name nobody
with_stook rebase git -C "$work/clone" -c core.editor=true merge -q -s ours main -m merged
served rebase git
# Into a program of its own, by fast-export and fast-import.
git init -q "$work/imported"
git -C "$work/clone" fast-export --all >"$work/export"
with_stook import git -C "$work/imported" fast-import --quiet <"$work/export"
served import git
[ "$(git -C "$work/clone" rev-parse side)" = "$(git -C "$work/imported" rev-parse side)" ]
