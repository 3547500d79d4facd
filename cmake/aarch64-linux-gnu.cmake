# Debian's cross compiler; tests run under qemu-user.  scripts/deps.sh aarch64 installs both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# The loader and the C library are those that came with libcmocka-dev:arm64; the cross compiler's
# in /usr/aarch64-linux-gnu are another version, and a mixture of both hangs.
# The limit is on address space: qemu keeps a table of every page that the guest reserves, and where the
# arena cannot choose addresses it would reserve 64 GiB.
set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=17179869184 qemu-aarch64 -L /)
# Libraries of the target come from Debian's multiarch folders.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
