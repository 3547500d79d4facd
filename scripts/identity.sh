#!/bin/bash
# SPDX-License-Identifier: MIT
# Who publishes what is built here: from the environment (STOOK_MAINTAINER, STOOK_URL), or from packaging/identity.
#
#   identity.sh maintainer|url         prints it; fails, and says what to do, where it is not known
#   identity.sh --local maintainer|url of packages that stay on this machine; they say so
#   identity.sh --debian FOLDER        writes it into FOLDER/control and FOLDER/changelog; --local before it as above
#   identity.sh --crates FOLDER        the same, the home page into the manifests of the Rust crates; --local: none
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
local=
if [ "${1:-}" = --local ]; then
    local=yes
    shift
fi

value() { # maintainer|url
    local variable=STOOK_${1^^} said
    said=${!variable:-$(sed -n "s/^$1=//p" "$root/packaging/identity")}
    if [ "$local" ]; then
        [ "$1" = url ] && said="file://$root" || said="Local build (not for publication) <local@$(hostname)>"
    fi
    case $1,$said in
    maintainer,?*' <'?*@?*'>' | url,?*://?*) echo "$said" ;;
    maintainer,*) refuse maintainer "$said" "'Name <name@host>'" ;;
    url,*) refuse url "$said" "'https://…'" ;;
    esac
}

refuse() {
    echo "stook: packaging/identity has no $1${2:+ that is one (\"$2\")}: write it there, as $3, or set STOOK_${1^^}; --local" \
        "builds for this machine alone" >&2
    exit 1
}

case ${1:-} in
maintainer | url) value "$1" ;;
--debian)
    maintainer=$(value maintainer)
    url=$(value url)
    sed -i -e "s|@NAME@ <@ADDRESS@>|$maintainer|" -e "s|@URL@|$url|" ${local:+-e '/^Homepage: /d'} "$2/control" "$2/changelog"
    [ -z "$local" ] || echo no-homepage-field >>"$2/source/lintian-overrides"
    ;;
--crates)
    url=$(value url)
    [ "$local" ] || sed -i "/^license/a repository = \"$url\"" "$2"/stook*/Cargo.toml
    ;;
*)
    sed -n 's/^# \?//p' "$0" | sed 1d >&2
    exit 2
    ;;
esac
