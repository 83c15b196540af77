# Short names for what scripts/ and CMake do.
#
#   make demo                  install, build, fetch a model, ask it something
#   make check                 the tests: release, sanitizers, lints; at most 15 minutes; make check-all: of all turns
#   make deep DATA=DIR         the long tests and fuzzing, resumable; DEEP_SHARDS=i/n, ONLY=PATTERN
#   make bench                 speed beside the peers that are built, docs/performance.md; about an hour with two
#                              peers; BENCH="--models smollm2 --pairs 1 --no-neighbour" for less
#   make receipts TEXT=FILE    gain and damage of each method on RECEIPT_MODELS, docs/receipts.md; 10 minutes a model
#   make method-pages          docs/methods/ and docs/receipt.schema.json, from what the methods say of themselves
#   make man                   man pages into build/release/man; `make install` installs them and completions
#   make build lint format fuzz install fresh-root

PREFIX ?= /usr/local
ONLY ?= .
RECEIPT_MODELS ?= smollm2 qwen-0.5b qwen-1.5b
BENCH_MODELS ?= smollm2 gemma3-270m qwen-0.5b qwen-1.5b

.PHONY: build man demo check check-all deep bench receipts method-pages install fresh-root format lint fuzz

build:
	@scripts/deps
	@cmake --preset release
	@cmake --build --preset release

man: build
	@ls build/release/man

demo:
	@scripts/demo

check:
	@scripts/check

check-all:
	@scripts/check --all

deep:
	@scripts/deep "$(DATA)" --only "$(ONLY)"

bench: build
	@scripts/models $(BENCH_MODELS) >/dev/null
	@bench/run.py $(BENCH)

receipts: build
	@for model in $(RECEIPT_MODELS); do bench/receipts.py --model $$model --text "$(TEXT)" || exit; done

method-pages: build
	@scripts/make_method_pages.py

install: build
	@cmake --install build/release --prefix "$(PREFIX)"

fresh-root:
	@scripts/fresh-root

format:
	@scripts/deps --test && . scripts/lib.sh && test_python && \
	    find src include tests fuzz -name '*.[ch]' -exec "$$venv/bin/clang-format" -i {} +

lint: build
	@ctest --test-dir build/release --output-on-failure --no-tests=error -R '^lint_'

fuzz:
	@scripts/deps --fuzz
	@cmake --preset fuzz
	@cmake --build --preset fuzz --target fuzz_targets
