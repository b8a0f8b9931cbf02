# SPDX-License-Identifier: Apache-2.0
# Short names for what Meson does. `make run` and `make test` install what is missing and need nothing else.
BUILD ?= build
MESON_FLAGS ?=
TEST_FLAGS ?=
FUZZ_FLAGS ?=
BENCH_FLAGS ?=
PREFIX ?= /usr/local

.PHONY: all run test asan tsan clang fuzz bench bench-verdicts install deb lint deps deps-test clean
.DEFAULT_GOAL := all

all: deps $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) $(MESON_FLAGS)

deps:
	@tools/deps.sh build
deps-test:
	@tools/deps.sh build test

run: all
	@tools/run.sh $(BUILD)

test: deps-test all
	@/usr/bin/python3 test/run.py $(BUILD) $(TEST_FLAGS)

# The same tests under other compilers and sanitizers, each in a build folder of its own.
asan:
	@$(MAKE) --no-print-directory test BUILD=build-asan \
	  MESON_FLAGS='-Db_sanitize=address,undefined -Db_lundef=false --werror' TEST_FLAGS='--name "ASan and UBSan"'
tsan:
	@$(MAKE) --no-print-directory test BUILD=build-tsan \
	  MESON_FLAGS='-Db_sanitize=thread -Db_lundef=false --werror' TEST_FLAGS='--name TSan --suite threads'
clang: export CC = clang
clang:
	@tools/deps.sh clang
	@$(MAKE) --no-print-directory test BUILD=build-clang MESON_FLAGS='--werror' TEST_FLAGS='--name clang'

fuzz: deps
	@tools/deps.sh clang
	@tools/fuzz.sh $(FUZZ_FLAGS)
bench: all
	@/usr/bin/python3 test/bench/run.py $(BUILD)
bench-verdicts: all
	@/usr/bin/python3 test/bench/verdicts.py $(BUILD) $(BENCH_FLAGS)
lint: all
	@tools/deps.sh lint
	@tools/lint.sh $(BUILD)
install: all
	meson configure $(BUILD) --prefix=$(PREFIX)
	meson install -C $(BUILD)
deb:
	@tools/deps.sh build deb
	@deploy/deb.sh $(BUILD)/deb
clean:
	rm -rf build build-*
