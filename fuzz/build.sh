#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds the fuzz targets as OSS-Fuzz asks for them: with $CC, $CXX, $CFLAGS, $CXXFLAGS and $LIB_FUZZING_ENGINE, into
# $OUT: the targets, TARGET_seed_corpus.zip, TARGET.dict and TARGET.options.  Run by Dockerfile there, by
# scripts/check-fuzz.sh here.
#
#   WORK     where objects lie (OSS-Fuzz sets it)
[ -f fuzz/fuzz_ops.h ] || cd "$(dirname "$0")/.." # OSS-Fuzz runs a copy, in the tree
: "${CC:=clang}" "${CXX:=clang++}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}"
export CC CXX
export CFLAGS=${CFLAGS:-} CXXFLAGS=${CXXFLAGS:-}
work=${WORK:-$PWD/build-fuzz}/stook

# Flags of the environment are all: no build type adds others, assertions and lock ranks are on.
cmake -S . -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=None -DSTOOK_ASSERTIONS=ON -DSTOOK_TESTS=OFF -DSTOOK_BENCH=OFF \
    -DSTOOK_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX"
targets=()
for source in fuzz/*.c; do
    name=$(basename "$source" .c)
    targets+=("fuzz.$name")
done
cmake --build "$work" -j "${JOBS:-$(nproc)}" --target "${targets[@]}"

mkdir -p "$OUT"
for source in fuzz/*.c; do
    name=$(basename "$source" .c)
    cp "$work/fuzz/$name" "$OUT/"
    if [ -d "fuzz/corpus/$name" ]; then
        python3 - "$OUT/${name}_seed_corpus.zip" "fuzz/corpus/$name" <<'PYTHON'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for name in sorted(os.listdir(sys.argv[2])):
        archive.write(os.path.join(sys.argv[2], name), name)
PYTHON
    fi
    [ ! -f "fuzz/dict/$name.dict" ] || cp "fuzz/dict/$name.dict" "$OUT/"
    case $name in
    ops_* | calls) cp fuzz/ops.options "$OUT/$name.options" ;;
    trace) cp fuzz/trace.options "$OUT/" ;;
    *) cp fuzz/targets.options "$OUT/$name.options" ;;
    esac
done
