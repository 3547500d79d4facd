# Stook: the targets people type; CMakeLists.txt and CMakePresets.json do the work.
#
#   make build            build/bin, build/lib
#   make run              a real program on slab caches, and where its memory went
#   make check            the tests of every change; the last line says how many passed
#   make check-more       what make check leaves out of the same presets, and the preset locked (minutes)
#   make check-all        every check of this list in turn, and a table of what each said and took (many hours)
#   make check-long       tests that take longer, and aarch64
#   make check-aarch64    cross-compiled, under an emulator and in an emulated machine
#   make check-programs   real programs under stook run
#   make check-debug      tests and real programs with STOOK_DEBUG=FZPU: no corruption may be reported (hours)
#   make check-profiles   sampled profiles of real programs beside exact ones (minutes)
#   make check-cpp        libstdc++'s own tests of allocators and containers, with Stook (an hour)
#   make check-adapters   DPDK's, SQLite's and CPython's own tests on the adapters (half an hour)
#   make check-pools      HAProxy's and memcached's own tests with their pools on Stook, and HAProxy under load (POOLS="--only storm": a part)
#   make check-errors     every kind of heap error, and the share that each mode catches (minutes)
#   make check-look       what stook top costs redis, PostgreSQL, a web server and an example (minutes)
#   make check-compare    what stook compare says of programs of which it is known (minutes)
#   make check-leaks      what stook leaks names in real programs under load, beside a search at rest (minutes)
#   make check-why        what stook why predicts of planted heaps and servers, beside what comes back (minutes)
#   make check-yama       what stook says where Yama restricts ptrace, in an emulated machine (minutes)
#   make check-rust       the Rust crates: lints, examples of the documentation, every way to build, cargo package
#   make check-models     the per-CPU, slab, barn, group and rcu protocols, by model checkers (minutes)
#   make check-fuzz       the kept inputs, then FUZZ_SECONDS of fuzzing each target (TARGETS="trace elf": these)
#   make check-packages   the packages in clean folders and clean systems, musl's tests (root; half an hour)
#   make check-abi        the libraries' interface against packaging/abi.txt (BASE=commit: against that commit's list)
#   make dist             the source tarball, its hashes and the list of its parts (SBOM) in build-dist/
#   make deb              the Debian packages in build-deb/
#   make crates           both Rust crates as crates.io takes them, in build-crates/ (LOCAL=--local: all three for this machine alone)
#   make check-kernel     the lab beside real Linux kernels in an emulated machine (half an hour)
#   make coverage         lines and branches that the tests run, by layer
#   make analyze          clang's static analyzer over src/ and tools/ (minutes)
#   make bench            every case of stook-bench (BENCH="pair idle": these)
#   make install          PREFIX=/usr/local DESTDIR=
#   make format, make clean, make deps
#
# What is missing on a Debian is installed first (scripts/deps.sh); where all is there nothing is.

PREFIX ?= /usr/local
DESTDIR ?=
BENCH ?= pair batch handoff slab_bulk slub_bulk kmalloc idle memory
JOBS ?= $(shell nproc)
export JOBS

.PHONY: build run check check-more check-all check-long check-aarch64 check-programs check-debug check-profiles check-errors check-look check-compare check-leaks check-why check-yama check-models check-fuzz check-kernel coverage analyze bench deps install format check-cpp check-rust check-packages check-abi dist deb crates check-adapters check-pools clean

build:
	@scripts/deps.sh build
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

# What the demonstration needs; the benches and their peers take minutes more.
run:
	@scripts/deps.sh build run
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_shared stook_malloc_shared
	@scripts/run-demo.sh

check:
	@scripts/deps.sh build check
	@scripts/check.sh quick

check-more:
	@scripts/deps.sh build check
	@scripts/check.sh more

# CHECKS="check check-more": these alone.
check-all:
	@scripts/check-all.py $(CHECKS)

check-long:
	@scripts/deps.sh build check programs aarch64
	@scripts/check.sh long

check-aarch64:
	@scripts/deps.sh build check aarch64
	@scripts/check.sh aarch64

check-programs:
	@scripts/deps.sh build check programs
	@scripts/check.sh programs

check-debug:
	@scripts/deps.sh build check programs
	@scripts/check.sh debug

# Sampled against exact profiles of real programs.
check-profiles:
	@scripts/deps.sh build check programs
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook_malloc_shared
	@python3 bench/profiles.py build/lib/libstook-malloc.so

check-cpp:
	@scripts/deps.sh build libstdcxx
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook_malloc_shared
	@scripts/check-libstdcxx.py -j $(JOBS)
# Needs rustup's cargo, which Debian does not have.
check-rust:
	@scripts/deps.sh build check
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@ctest --test-dir build -R '^rust\.' --output-on-failure
# What is not installed is skipped.
check-adapters:
	@scripts/deps.sh build check adapters
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target adapters/all stook_malloc_shared test-launcher
	@scripts/check-adapters.sh build $(ADAPTERS)

# Sources are fetched once, and kept below build/sources.
check-pools:
	@scripts/deps.sh build pools
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook_shared stook_malloc_shared
	@tests/pools/check.py $(POOLS)

check-errors:
	@scripts/deps.sh build check
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook_malloc_shared programs.prog_errors
	@scripts/check-errors.py

check-look:
	@scripts/deps.sh build run check look
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_shared stook_malloc_shared example-tenants
	@scripts/check-look.py

check-compare:
	@scripts/deps.sh build run check bench
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_malloc_shared stook-bench-own programs.plug_twice
	@scripts/check-compare.py

check-leaks:
	@scripts/deps.sh build run check programs look
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_shared stook_malloc_shared
	@scripts/check-leaks.py

check-why:
	@scripts/deps.sh build run check programs look
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_shared stook_malloc_shared programs.prog_holes programs.plug_holes test-launcher
	@ctest --test-dir build -R '^programs\.why' -V

check-yama:
	@scripts/deps.sh build yama
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_malloc_shared programs.prog_seen programs.prog_leaks
	@scripts/check-yama.sh build

check-models:
	@scripts/deps.sh models
	@scripts/check-models.py -j $(JOBS)

check-fuzz:
	@scripts/deps.sh build fuzz
	@scripts/check-fuzz.sh $(TARGETS)

check-packages:
	@scripts/deps.sh build packages
	@scripts/check-packages.sh $(PACKAGES)

check-abi:
	@scripts/deps.sh build check
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook_shared stook_malloc_shared stook_urcu_shared
	@scripts/check-abi.py $(if $(BASE),--base $(BASE)) . build/lib

dist:
	@scripts/deps.sh dist
	@scripts/dist.sh $(LOCAL)

deb:
	@scripts/deps.sh packages dist
	@scripts/deb.sh $(LOCAL)

crates:
	@scripts/crates.sh $(LOCAL)

# Builds kernels below build-kernel/ (KERNEL="--kernels 7.2 --topologies ublk": a part).
check-kernel:
	@scripts/deps.sh build kernel
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-tool stook_urcu_shared
	@scripts/kernel/check.sh $(KERNEL)

coverage:
	@scripts/deps.sh build coverage
	@cmake --preset coverage >/dev/null
	@cmake --build --preset coverage -j $(JOBS)
	@scripts/coverage.py --run build-coverage

# For a reader: what it finds is to be judged, and the target fails when there is something.
analyze:
	@scripts/deps.sh build check
	@cmake --preset clang >/dev/null
	@scripts/check-tidy.sh --analyzer . build-clang

bench:
	@scripts/deps.sh build bench
	@cmake --preset release -DSTOOK_BENCH_PEERS=ON >/dev/null
	@$(MAKE) --no-print-directory build
	@for case in $(BENCH); do build/bin/stook-bench $$case || exit; done

deps:
	@scripts/deps.sh all

install:
	@scripts/deps.sh build
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	@cmake --build --preset release -j $(JOBS) --target stook-installed
	@DESTDIR="$(DESTDIR)" cmake --install build
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || \
	    echo "ldconfig needs root: until it has run, programs need LD_LIBRARY_PATH=$(PREFIX)/lib"

format:
	@scripts/deps.sh format
	@scripts/check-format.sh --fix .

clean:
	rm -rf build build-dev build-core build-locked build-asan build-tsan build-clang build-coverage build-fuzz build-aarch64
