# What one does here. `make help` lists it.

CARGO ?= cargo
# Optimized, since there are many interleavings, and with debug assertions: they are most of what a model checks.
MODEL   = $(CARGO) test --lib --release -p
LOOM    = RUSTFLAGS="--cfg loom -C debug-assertions" CARGO_TARGET_DIR=target/loom $(MODEL)
SHUTTLE = RUSTFLAGS="--cfg shuttle -C debug-assertions" CARGO_TARGET_DIR=target/shuttle $(MODEL)

# The C library, which `make install` takes: release, or dev for the tests.
CAPI         = admission/capi
CAPI_PROFILE ?= release
TARGET_DIR   ?= $(or $(CARGO_TARGET_DIR),target)
BUILT        = $(TARGET_DIR)/$(if $(filter dev,$(CAPI_PROFILE)),debug,$(CAPI_PROFILE))
VERSION      = $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
ABI          = $(shell sed -n 's/^\#define FLIFO_ABI_VERSION //p' $(CAPI)/include/flifo.h)
SO           = libflifo.so.$(ABI).$(VERSION)

PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DOCDIR     ?= $(PREFIX)/share/doc/flifo
DOCS       = docs/c-api.md LICENSE-MIT LICENSE-APACHE $(CAPI)/examples/pool.c $(CAPI)/examples/guard.cc

.PHONY: help run test unit models lint deny bench figures docs fuzz setup capi header install uninstall tsan miri soak plugin-core mariadb mariadb-try mariadb-test mariadb-asan mariadb-debian13 mariadb-mtr mysql mysql-try mysql-test mysql-asan bench-mariadb bench-mysql bench-target bench-iobench peers test-peers bench-peers deb deb-mariadb deb-mysql

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## the main job: the sweep, with its table and its picture
	$(CARGO) run --release -- sweep

test: setup lint unit models mariadb-debian13 mysql-test deb ## everything a change must pass

unit: mariadb mysql ## unit, property, fault, crash and command-line tests
	$(CARGO) test --workspace
	set -e; for features in "" percpu reservation futex-hash; do \
	  $(CARGO) test --quiet -p flifo-admission --lib --tests --no-default-features --features "$$features"; done

models: ## the protocols of scheduler, redo log, transactions and row locks: every interleaving (loom), random schedules (shuttle)
	$(LOOM) flifo-admission models
	$(SHUTTLE) flifo-admission models
	$(LOOM) flifo-admission-c models
	$(LOOM) flifo-engine -- redo::ring::models txn::table::models
	$(SHUTTLE) flifo-engine schedules

# Of the engine what has unsafe code or row locks, without what waits for time, or for many threads.
MIRI_ENGINE = page:: buffer:: txn:: space:: redo::frame redo::ring redo::parking lock::mode lock::tests::queues lock::tests::deadlocks wait:: \
  --skip disk::tablespace --skip nobody_waits_with_a_latch_held --skip what_a_load_is_done_with --skip a_load_ends_when --skip a_flush_of_all_has

miri: ## scheduler, buffer pool, pages and locks in an interpreter that finds undefined behaviour (needs nightly's miri; takes long)
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
	export MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-disable-isolation" PROPTEST_CASES=2; \
	$(CARGO) +nightly miri test -p flifo-admission --lib --target-dir target/miri && \
	$(CARGO) +nightly miri test -p flifo-engine --lib --target-dir target/miri -- $(MIRI_ENGINE); \
	else echo "miri: skipped, it is not installed (rustup toolchain install nightly --component miri)"; fi

# Each target stands beside the format it reads; engine/src/fuzz.rs has their names, which `seeds` prints.
FUZZ = $(CARGO) +nightly fuzz run --fuzz-dir engine/fuzz --target-dir $(TARGET_DIR)/fuzz

fuzz: ## the engine's parsers of on-disk data under libFuzzer, FUZZ_SECONDS (60) each (needs nightly and cargo-fuzz)
	@if $(CARGO) +nightly fuzz --version >/dev/null 2>&1; then set -e; \
	targets=$$(RUSTFLAGS="--cfg fuzzing" $(CARGO) run --quiet --manifest-path engine/fuzz/Cargo.toml \
	  --target-dir $(TARGET_DIR)/fuzz/seeds --bin seeds -- engine/fuzz/corpus); \
	for target in $$targets; do \
	  $(FUZZ) $$target -- -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=6000 -timeout=10 -verbosity=0 -print_final_stats=1; done; \
	else echo "fuzz: skipped, it needs nightly and cargo-fuzz (rustup toolchain install nightly; cargo install cargo-fuzz)"; fi

soak: ## ten minutes of the scheduler, or SOAK_SECONDS; kills and power cuts of the engine, many of them, and as long constant ingest; as long 1,024 connections to it, and a check
	$(CARGO) run --release -p flifo-admission --example soak
	FLIFO_KILLS=200 $(CARGO) test --release -p flifo-engine --test kill
	FLIFO_SEEDS=$(or $(SEEDS),2000) $(CARGO) test --release -p flifo-engine --test power
	FLIFO_INGEST_SECONDS=$(or $(SOAK_SECONDS),600) $(CARGO) test --release -p flifo-engine --test ingest
	$(CARGO) run --release -- sweep --policy flifo --threads 1024 --workload read-write,hot-rows-100,update-index,ycsb-f \
	  --buffer-pool 300M --rounds 1 --time $$(($(or $(SOAK_SECONDS),600) / 4)) --data $(TARGET_DIR)/soak --html $(TARGET_DIR)/soak.html
	$(CARGO) run --release -- check $(TARGET_DIR)/soak/sbtest

lint: deny ## formatting, clippy, documentation links, English
	tools/prose-check
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --quiet

deny: ## licences of everything that is linked (needs cargo-deny)
	@if command -v cargo-deny >/dev/null; then cargo-deny --log-level error check licenses bans sources && \
	cargo-deny --log-level error --manifest-path admission/capi/Cargo.toml --config mariadb/deny.toml check licenses; \
	else echo "deny: skipped, cargo-deny is not installed (cargo install cargo-deny --locked)"; fi

bench: ## the figures of docs/benchmarks.md that are not a sweep (RECORD=--record: keeps them in figures/)
	$(CARGO) run --release -- bench admission $(RECORD)
	$(CARGO) bench -p flifo-admission --bench uncontended --bench handoff -- $(RECORD)
	$(CARGO) bench -p flifo-admission-c --bench through_c -- $(RECORD)
	$(CARGO) bench -p flifo-engine --bench tree --bench commit -- $(RECORD)

figures: ## the tables and pictures of README.md and docs/, from figures/*.json, which benches write with --record
	$(CARGO) run --quiet -p flifo -- figures

bench-target: ## flifo sweep --target and sysbench, interleaved on a private MariaDB
	$(CARGO) build --release -p flifo
	tools/bench-target

bench-iobench: ## flifo iobench and fio, interleaved on one file (DIR, SIZE, PAIRS, TIME, CELLS, AUTOGROUPS)
	$(CARGO) build --release -p flifo
	tools/bench-iobench

# A workspace of its own (peers/Cargo.toml): its build takes long, most of it RocksDB, which needs libclang. Without
# either: make peers PEERS=--no-default-features
PEERS_CARGO = --manifest-path peers/Cargo.toml --target-dir "$(TARGET_DIR)" --release $(PEERS)

peers: ## flifo-peers, for flifo bench peers: other embedded stores (PEERS=--no-default-features: without RocksDB)
	$(CARGO) build $(PEERS_CARGO)

test-peers: ## formatting, clippy and tests of flifo-peers: no store loses an update
	$(CARGO) fmt --manifest-path peers/Cargo.toml --check
	$(CARGO) clippy $(PEERS_CARGO) --all-targets -- -D warnings
	$(CARGO) test $(PEERS_CARGO)

bench-peers: peers ## flifo's engine beside other embedded stores (ARGS="--quick", ARGS=--help)
	$(CARGO) run --release -p flifo -- bench peers $(ARGS)

docs: ## the crates' documentation
	$(CARGO) doc --workspace --no-deps --open

capi: ## the C library, static and shared
	$(CARGO) build -p flifo-admission-c --profile $(CAPI_PROFILE)

header: ## the C header anew, from the sources
	FLIFO_WRITE_HEADER=1 $(CARGO) test --quiet -p flifo-admission-c --test header the_header_matches_the_sources

install: capi ## the C library: header, libraries, flifo.pc, docs (PREFIX=/usr/local, DESTDIR=)
	install -d "$(DESTDIR)$(INCLUDEDIR)" "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(DOCDIR)"
	install -m 644 $(CAPI)/include/flifo.h "$(DESTDIR)$(INCLUDEDIR)/flifo.h"
	install -m 644 "$(BUILT)/libflifo_c.a" "$(DESTDIR)$(LIBDIR)/libflifo.a"
	install -m 755 "$(BUILT)/libflifo_c.so" "$(DESTDIR)$(LIBDIR)/$(SO).new"
	mv -f "$(DESTDIR)$(LIBDIR)/$(SO).new" "$(DESTDIR)$(LIBDIR)/$(SO)"
	ln -sf $(SO) "$(DESTDIR)$(LIBDIR)/libflifo.so.$(ABI)"
	ln -sf libflifo.so.$(ABI) "$(DESTDIR)$(LIBDIR)/libflifo.so"
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
	    $(CAPI)/flifo.pc.in > "$(DESTDIR)$(LIBDIR)/pkgconfig/flifo.pc"
	install -m 644 $(DOCS) "$(DESTDIR)$(DOCDIR)"

uninstall: ## removes the files of make install
	rm -f "$(DESTDIR)$(INCLUDEDIR)/flifo.h" "$(DESTDIR)$(LIBDIR)/pkgconfig/flifo.pc"
	set -e; for file in libflifo.a libflifo.so libflifo.so.$(ABI) $(SO); do rm -f "$(DESTDIR)$(LIBDIR)/$$file"; done
	set -e; for file in $(notdir $(DOCS)); do rm -f "$(DESTDIR)$(DOCDIR)/$$file"; done
	! test -d "$(DESTDIR)$(DOCDIR)" || rmdir "$(DESTDIR)$(DOCDIR)"

tsan: ## data races: the scheduler, and the C library with its examples, under ThreadSanitizer
	tools/tsan

plugin-core: ## the core of the server plugins on a fake server (CASES=WORD: cases whose names contain it)
	mkdir -p "$(TARGET_DIR)/plugin-core"
	plugin-core/tests/run "$(TARGET_DIR)/plugin-core" $(CASES)

mariadb: ## the plugin for MariaDB: target/mariadb/flifo.so
	mariadb/admission/build

mariadb-try: mariadb ## a private MariaDB server with the plugin, and a shell on it
	$(CARGO) run -p flifo-mariadb --bin flifo-mariadb-try

mariadb-test: mariadb ## the plugin on real servers; then shorter, with AddressSanitizer
	$(CARGO) test -p flifo-mariadb
	$(MAKE) --no-print-directory mariadb-asan FLIFO_SHORT=1

mariadb-asan: ## the plugin on real servers with AddressSanitizer (FLIFO_SHORT=1: a fifth of what is repeated)
	mariadb/admission/build --asan
	FLIFO_SHORT=$(FLIFO_SHORT) FLIFO_SANITIZER=$$($${CXX:-g++} -print-file-name=libasan.so) \
	FLIFO_PLUGIN=$(abspath $(TARGET_DIR))/mariadb-asan/flifo.so $(CARGO) test -p flifo-mariadb --test robustness

mariadb-debian13: ## the plugin on MariaDB 11.8, the server of Debian 13, in a system of its own (needs root; a fifth of what is repeated, or with FLIFO_SHORT=0 all)
	FLIFO_SHORT=$(or $(FLIFO_SHORT),1) tools/mariadb-debian13

mariadb-mtr: ## MariaDB's own test suite with the plugin: what fails only with it, in an hour or two (ARGS="--suites=handler", ARGS=--help)
	tools/mariadb-mtr $(ARGS)

mysql: ## the plugin for MySQL 9.7: target/mysql/flifo.so
	mysql/plugin/build

# A server of Debian unstable. Where it cannot be fetched the tests say so and are skipped.
MYSQL_ROOT = tools/mysql-root "$(TARGET_DIR)/mysql-root"
MYSQL_ROOT_FOR_TESTS = $(MYSQL_ROOT) || { test $$? -eq 77 && test -z "$$FLIFO_REQUIRE_MYSQL"; }

mysql-try: mysql ## a private MySQL server with the plugin, and a shell on it
	$(MYSQL_ROOT)
	$(CARGO) run -p flifo-mysql --bin flifo-mysql-try

mysql-test: mysql ## the plugin on a real MySQL server, of Debian unstable in target/mysql-root (skipped where it cannot be fetched)
	$(MYSQL_ROOT_FOR_TESTS)
	$(CARGO) test -p flifo-mysql -p flifo-mysql-bench
	$(CARGO) test -p flifo --test target_mysql

mysql-asan: ## the same with AddressSanitizer (FLIFO_SHORT=1: a fifth of what is repeated)
	mysql/plugin/build --asan
	$(MYSQL_ROOT_FOR_TESTS)
	FLIFO_SHORT=$(FLIFO_SHORT) FLIFO_SANITIZER=$$($${CXX:-g++} -print-file-name=libasan.so) \
	FLIFO_MYSQL_PLUGIN=$(abspath $(TARGET_DIR))/mysql-asan/flifo.so $(CARGO) test -p flifo-mysql --test plugin

bench-mariadb: mariadb ## a stock MariaDB beside one with the plugin and a pool of threads (ARGS="--quick", ARGS=matrix, ARGS=--help)
	$(CARGO) run -p flifo-mariadb-bench -- $(ARGS)

bench-mysql: mysql ## a stock MySQL beside innodb_thread_concurrency, thread_pool.so and the plugin (ARGS="--quick", ARGS=--help)
	$(MYSQL_ROOT)
	$(CARGO) run -p flifo-mysql-bench -- $(ARGS)

deb: deb-mariadb deb-mysql ## Debian packages of both plugins: target/deb/

deb-mariadb: mariadb ## the package for MariaDB alone
	plugin-core/debian/build mariadb

deb-mysql: mysql ## the package for MySQL alone
	plugin-core/debian/build mysql

setup:
	@tools/setup
