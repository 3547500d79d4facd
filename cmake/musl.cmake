# musl's C library by Debian's wrapper of GCC, on this machine: programs run, so nothing is cross-compiled.
# scripts/musl-root.sh makes the folder with what musl-tools leaves out: the kernel's headers, and cmocka.
# There is no C++ library for musl in Debian; g++ is glibc's, and CMakeLists.txt leaves C++ tests out.
set(CMAKE_C_COMPILER musl-gcc)
get_filename_component(musl_root ${CMAKE_CURRENT_LIST_DIR}/../build-musl-root ABSOLUTE)
set(CMAKE_C_FLAGS_INIT "-isystem ${musl_root}/include")
# Its specs drop the index of unwind tables, by which stacks are walked.
foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT "-Wl,--eh-frame-hdr")
endforeach()
# Libraries of glibc's are not found.
set(ENV{PKG_CONFIG_LIBDIR} ${musl_root}/lib/pkgconfig)
