# Works on a bare Debian or Ubuntu: what is missing is installed by tools/bootstrap.sh, with apt-get
# and, in .venv, with pip. Everything else goes to build/ and to ~/.cache/sparseframes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)

C_FILES = $(shell find libsparse tests bench -name '*.[ch]' 2> /dev/null)
PY_FILES = $(wildcard python tests tools bench docs/examples)

.PHONY: help demo test test-c test-python test-patches test-torch test-lerobot test-readers lint format build-asan sanitize fuzz seeds campaign forged soak bench build encoder tools package clean

help: ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22

demo: package ## decode a few frames of a generated video, and compare the costs
	$(BIN)/sparseframes demo

test: test-patches test-c test-python lint ## all checks and tests

lint: tools ## formatting, style and types
	ruff check $(PY_FILES)
	ruff format --check $(PY_FILES)
	mypy python/sparseframes
	mypy tools
	clang-format --dry-run -Werror $(C_FILES)

format: tools ## format the sources
	ruff check --fix $(PY_FILES)
	ruff format $(PY_FILES)
	clang-format -i $(C_FILES)

test-patches: tools ## apply the patch series to the pristine sources
	python tools/check_patches.py

test-c: build ## the C tests
	meson test -C build --print-errorlogs

test-python: package ## the Python tests, against the installed package
	python -m pytest tests

test-torch: tools ## the tests that need torch, in an environment of its own (1.5 GB, in the cache)
	python tools/extra_env.py torch

test-lerobot: tools ## the newest LeRobot with this reader in its place, likewise (6 GB)
	python tools/extra_env.py lerobot

test-readers: package ## DDRA files in PyAV, torchcodec, decord2 and OpenCV (needs `make encoder`)
	python tests/check_readers.py

build-asan: tools
	python tools/build_ffmpeg.py --sanitize
	[ -e build-asan/build.ninja ] || meson setup build-asan -Dbuildtype=debugoptimized \
	    -Db_sanitize=address,undefined -Dwerror=true
	meson compile -C build-asan

sanitize: build-asan ## the C tests with AddressSanitizer and UBSan, FFmpeg's code included
	meson test -C build-asan --print-errorlogs --timeout-multiplier 5

fuzz: tools ## five minutes of libFuzzer, with AddressSanitizer and UBSan
	tests/fuzz/run.sh 300

seeds: package
	cd tests && $(BIN)/python -m synthetic --small ../build-fuzz/seeds

campaign: seeds ## 10,000 damaged variants of the odd streams, and of CAMPAIGN_FILES
	$(BIN)/python tests/fuzz/campaign.py build-fuzz/seeds $(CAMPAIGN_FILES) --journal build-fuzz/campaign.jsonl

forged: seeds build-asan ## forged saved indexes of the odd streams, and of FORGED_FILES, sanitized
	$(BIN)/python tests/fuzz/forged.py build-asan/tests/check_forged build-fuzz/seeds $(FORGED_FILES)

soak: package ## some minutes of requests, threads, forks, killed workers and closed decoders
	cd tests && $(BIN)/python -m soak

bench: ## the benchmark against other loaders; results in build/bench, or docs with OUTPUT=docs
	@tools/bootstrap.sh bench
	python -m bench --output $(or $(OUTPUT),build/bench) $(BENCH_OPTIONS)

build: tools ## the C library and its tests, in build/
	python tools/build_ffmpeg.py
	[ -e build/build.ninja ] || meson setup build -Dwerror=true
	meson compile -C build

encoder: ## the program for DDRA encoding, with x264 and x265: a GPL program of its own
	@tools/bootstrap.sh encoder
	python3 tools/build_encoder.py --version

tools: ## the tools, in .venv
	@tools/bootstrap.sh tools

package: ## the Python package, in .venv
	@tools/bootstrap.sh package

clean: ## remove all that was made in the tree
	rm -rf build build-asan build-fuzz build-wheel .venv dist .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
