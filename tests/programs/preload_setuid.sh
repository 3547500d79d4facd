#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# A set-uid program that is linked with libstook-malloc.so heeds nothing of the environment: no mode,
# no reserve, no report, no trace.  The same file without the bit does.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need setpriv
unset STOOK_MODE
[ "$(id -u)" = 0 ] || { echo "only root can make a program another user's" >&2; exit 77; }

# Where another user can read it, and the loader's paths are safe.
chmod 755 "$work"
mkdir "$work/lib" "$work/open"
chmod 777 "$work/open"
cp -P "$STOOK_BUILD_DIR"/lib/libstook*.so* "$work/lib"
chmod -R a+rX "$work/lib"
"${CC:-gcc}" -O2 -Wl,--no-as-needed "$STOOK_SOURCE_DIR/tests/programs/prog_environment.c" \
    -L"$work/lib" -lstook-malloc -lstook -Wl,-rpath,"$work/lib" -o "$work/plain"
cp "$work/plain" "$work/raised"
chown 65533 "$work/raised"
chmod 4755 "$work/raised"
as_other() {
    setpriv --reuid=65534 --regid=65534 --clear-groups env STOOK_MODE=locked STOOK_REPORT=1 \
        STOOK_RESERVE=nonsense STOOK_RESEVE=1 STOOK_REPORT_FILE="$work/open/report" \
        STOOK_TRACE="$work/open/trace" "$@"
}

own=$(as_other "$work/plain" 2>"$work/plain.err")
[ "$own" = "secure=0 stook=1 mode=locked" ] || { echo "plain: $own" >&2; exit 1; }
[ -s "$work/open/report" ] || { echo "plain: no report" >&2; exit 1; }
[ -s "$work/open/trace" ] || { echo "plain: no trace" >&2; exit 1; }
rm "$work/open/report" "$work/open/trace"

raised=$(as_other "$work/raised" 2>"$work/raised.err")
echo "$raised"
case $raised in
secure=0*) echo "set-uid programs do not gain privileges here" >&2; exit 77 ;;
esac
default=$(env -u STOOK_MODE "$work/plain")
[ "$raised" = "secure=1 ${default#secure=0 }" ] || { echo "raised: $raised, not $default" >&2; exit 1; }
[ ! -e "$work/open/report" ] && [ ! -e "$work/open/trace" ] || { echo "a set-uid program heeded the environment" >&2; exit 1; }
[ ! -s "$work/raised.err" ] || { cat "$work/raised.err" >&2; exit 1; }

# Preloading into one is the loader's to refuse; the program runs with its own malloc.
"${CC:-gcc}" -O2 "$STOOK_SOURCE_DIR/tests/programs/prog_environment.c" -o "$work/alien"
[ "$("$stook" run "$work/alien")" = "secure=0 ${default#secure=0 }" ]
chown 65533 "$work/alien"
chmod 4755 "$work/alien"
said=$(as_other env LD_PRELOAD="$work/lib/libstook-malloc.so" "$work/alien" 2>/dev/null)
[ "$said" = "secure=1 stook=0 mode=none" ] || { echo "alien: $said" >&2; exit 1; }
