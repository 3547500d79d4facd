{ lib, stdenv, cmake, ninja, pkg-config, elfutils, libmicrohttpd, liburcu, ncurses, src ? ../.., watch ? true }:

stdenv.mkDerivation {
  pname = if watch then "stook" else "stook-lean";
  version = "0.3.0";
  inherit src;

  outputs = [ "out" "dev" "man" ];
  nativeBuildInputs = [ cmake ninja pkg-config ];
  buildInputs = [ elfutils libmicrohttpd liburcu ncurses ];
  cmakeFlags = [ "-DSTOOK_TESTS=OFF" "-DSTOOK_BENCH=OFF" "-DSTOOK_ADAPTERS=OFF" ]
    ++ lib.optional (!watch) "-DSTOOK_WATCH=OFF";

  meta = {
    description = "Slab allocator for user space: typed object caches, a report, and a malloc";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "stook";
  };
}
