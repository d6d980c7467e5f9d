# What one does here. `make help` lists it.

CARGO ?= cargo
LOOM   = RUSTFLAGS="--cfg loom" $(CARGO) test -p flifo-admission --lib --release --target-dir target/loom

.PHONY: help run test unit models lint deny bench docs setup

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## the main job: the sweep, with its table and its picture
	$(CARGO) run --release -- sweep

test: setup lint unit models ## everything a change must pass

unit: ## unit, property, fault, crash and command-line tests
	$(CARGO) test --workspace

models: ## every interleaving of the scheduler's protocol (loom)
	$(LOOM) models

lint: deny ## formatting, clippy, documentation links
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

deny: ## licences of everything that is linked (needs cargo-deny)
	@if command -v cargo-deny >/dev/null; then cargo-deny --log-level error check licenses bans sources; \
	else echo "deny: skipped, cargo-deny is not installed (cargo install cargo-deny --locked)"; fi

bench: ## the figures of docs/benchmarks.md that are not a sweep
	$(CARGO) run --release -- bench admission
	$(CARGO) bench -p flifo-admission
	$(CARGO) bench -p flifo-engine

docs: ## the crates' documentation
	$(CARGO) doc --workspace --no-deps --open

setup:
	@tools/setup
