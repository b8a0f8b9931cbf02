# SPDX-License-Identifier: Apache-2.0
# Short names for what Meson does. `make run` and `make test` install what is missing and need nothing else.
BUILD ?= build
MESON_FLAGS ?=
TEST_FLAGS ?=
FUZZ_FLAGS ?=
BENCH_FLAGS ?=
MUTANTS_FLAGS ?=
PREFIX ?= /usr/local
# Where there is a ccache it finds what another checkout has compiled.
export CCACHE_BASEDIR = $(CURDIR)
export CCACHE_NOHASHDIR = 1

.PHONY: all run test test-all test-since asan tsan clang tidy fuzz bench bench-place bench-schedule bench-verdicts mutants install deb real manifests lint deps deps-test deps-test-all clean
.DEFAULT_GOAL := all

all: deps $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) $(MESON_FLAGS)

deps:
	@tools/deps.sh build
deps-test:
	@tools/deps.sh build test
deps-test-all:
	@tools/deps.sh build test deb peer

run: all
	@tools/run.sh $(BUILD)

test: deps-test all
	@/usr/bin/python3 test/run.py $(BUILD) $(TEST_FLAGS)
# The slow ones too: other people's programs, fast clocks, the packages.
test-all: deps-test-all all
	@/usr/bin/python3 test/run.py $(BUILD) --all $(TEST_FLAGS)
# What the changes since the commit SINCE can have broken.
SINCE ?= HEAD
test-since: deps-test $(BUILD)/build.ninja
	@/usr/bin/python3 test/run.py $(BUILD) --since $(SINCE)

# Under sanitizers, the C tests and what feeds bytes, and what has threads, in build folders of their own; only what is run is built.
# Their reports need lines, not variables: -g1 takes a third off the time to compile. A NULL pointer that is used ends a program without
# UBSan's checks for it, which take a seventh.
asan: deps-test
	@[ -f build-asan/build.ninja ] || meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dc_args='-g1 -fno-sanitize=null' --werror
	@/usr/bin/python3 test/run.py build-asan --name "ASan and UBSan" --bytes
tsan: deps-test
	@[ -f build-tsan/build.ninja ] || meson setup build-tsan -Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Dc_args=-g1 --werror
	@/usr/bin/python3 test/run.py build-tsan --name TSan --threads
# The other compiler, and clang-tidy over what has changed since the commit SINCE.
clang:
	@tools/deps.sh clang
	@[ -f build-clang/build.ninja ] || CC=clang meson setup build-clang --werror -Dtests=false --buildtype=debug -Ddebug=false
	ninja -C build-clang
tidy: all
	@tools/deps.sh lint
	@tools/lint.sh --since $(SINCE) $(BUILD) tidy

fuzz: deps
	@tools/deps.sh clang
	@tools/deps.sh fuzz
	@tools/fuzz.sh $(FUZZ_FLAGS)
bench: all
	@/usr/bin/python3 test/bench/run.py $(BUILD)
bench-place: all
	@/usr/bin/python3 test/bench/place.py $(BUILD) $(DATA) $(BENCH_FLAGS)
bench-schedule: all
	@/usr/bin/python3 test/bench/schedule.py $(BUILD) $(DATA) $(BENCH_FLAGS)
bench-verdicts: all
	@/usr/bin/python3 test/bench/verdicts.py $(BUILD) $(BENCH_FLAGS)
# How many small changes of the code the tests notice, sampled.
mutants: deps-test
	@/usr/bin/python3 tools/mutants.py $(MUTANTS_FLAGS)
lint: all
	@tools/deps.sh lint
	@tools/lint.sh $(BUILD)
install: all
	meson configure $(BUILD) --prefix=$(PREFIX)
	meson install -C $(BUILD)
# One folder for a machine with NVIDIA's driver: docs/appendix/measurements.md says what it does there.
real: all
	@test/real/bundle.sh $(BUILD) build-real
deb:
	@tools/deps.sh build deb
	@deploy/deb.sh $(BUILD)/deb
# The Helm chart and the kustomize folder, with dashboards and alerting rules in them.
manifests: all
	@ls -d $(BUILD)/deploy/stoker-*.tgz $(BUILD)/deploy/kubernetes
clean:
	rm -rf build build-*
