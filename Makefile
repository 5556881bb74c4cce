# make demo       trains on an embedded click stream and shows what it found
# make test       runs every test but the long ones
# make test-long  runs the long ones
# make test-spark runs a standalone Spark cluster, and kills a part of it
# make wheel      builds dist/*.tar.gz and, from it, a wheel for $(PYTHON)
# make test-bare  installs that wheel in an empty environment, and tests it there
# make test-pythons does both with every Python from 3.11 on that it finds
# make docs       builds the manual into build/site, strict about links
# All set up .venv by themselves; a second run does not install again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard csrc/*.* csrc/bind/* csrc/platform/*.*)
# An editable install knows the files it found: a new or a missing one means installing again.
FILES := $(firstword $(shell find src -name '*.py' | sort | cksum))
STAMP := $(VENV)/.installed-$(FILES)
# Without the tools of developers, which are most of what is downloaded: enough for the demo.
PLAIN := $(VENV)/.plain-$(FILES)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup check test test-long test-spark sdist wheel test-bare test-pythons demo docs bench bench-kdd bench-serve cost profile accuracy paper fuzz asan \
	tsan attack torture clean

setup: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Build tools go into the environment first, so that rebuilding after a change in csrc/ is quick.
$(VENV)/.tools: pyproject.toml | $(BIN)/python
	@echo "installing the build tools into $(VENV)"
	@$(INSTALL) "scikit-build-core>=1,<2" "nanobind>=3,<4" "cmake>=3.26" "ninja>=1.11"
	@touch $@

EDITABLE := --no-build-isolation --config-settings=cmake.define.PQR_WERROR=ON --editable

$(STAMP): $(NATIVE) | $(VENV)/.tools
	@echo "compiling the core and installing pqrlearn with all that tests need: some minutes"
	@$(INSTALL) $(EDITABLE) ".[dev]"
	@touch $@

$(PLAIN): $(NATIVE) | $(VENV)/.tools
	@echo "installing what pqrlearn needs, NumPy, SciPy and pyarrow among it (110 MB), then compiling: a minute or two"
	$(BIN)/python -m pip --disable-pip-version-check install $(EDITABLE) .
	@touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror csrc/*.hpp csrc/*.cpp csrc/bind/* $$(find csrc/platform -type f)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@if [ -x $(BIN)/hadolint ]; then echo $(BIN)/hadolint Dockerfile; $(BIN)/hadolint Dockerfile; fi

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-long: setup
	$(BIN)/python -m pytest -n 2 -m long

test-spark: setup
	$(BIN)/python -m pytest -m cluster tests/test_spark_cluster.py

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(PLAIN))
	$(BIN)/pqr demo

# What a release consists of. The wheel is built from the source distribution, as pip would elsewhere.
sdist: | $(VENV)/.tools
	rm -f dist/*.tar.gz
	$(BIN)/python -c 'from scikit_build_core.build import build_sdist; print("dist/" + build_sdist("dist"))'

wheel: sdist
	rm -f dist/*.whl
	$(PYTHON) -m pip --disable-pip-version-check wheel --no-deps --wheel-dir dist dist/*.tar.gz

# What tests/bare has needs pytest and nothing else.
test-bare: wheel
	$(PYTHON) tests/pythons.py --wheel dist/*.whl

test-pythons: sdist
	$(PYTHON) tests/pythons.py --sdist dist/*.tar.gz $(PYTHONS)

# Where the tools of developers are installed they include those of the manual.
MANUAL := $(VENV)/.docs-$(FILES)
$(MANUAL): $(NATIVE) | $(VENV)/.tools
	@echo "compiling the core and installing pqrlearn with what the manual needs: a minute or two"
	@$(INSTALL) $(EDITABLE) ".[docs]"
	@touch $@

docs: $(if $(wildcard $(STAMP)),$(STAMP),$(MANUAL))
	$(BIN)/python -m manual.pictures
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# The peers live in an environment of their own. Options go into BENCH: make bench BENCH="--repeats 9"
.venv-bench/.installed: benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	echo '*' > .venv-bench/.gitignore
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check xlearn==0.40a1 || \
		echo "xLearn does not install here: FM is compared with Vowpal Wabbit"
	touch $@

bench: setup .venv-bench/.installed
	$(BIN)/python -m benchmarks --output benchmarks $(BENCH)

# 149 million rows, six times; needs no peers.
bench-kdd: setup
	$(BIN)/python -m benchmarks --part kdd --output benchmarks $(BENCH)

# A service on loopback, beside Vowpal Wabbit's daemon; needs wrk.
bench-serve: setup .venv-bench/.installed
	$(BIN)/python -m benchmarks.serve --output benchmarks $(BENCH)

# Each of these measures again, and writes the page (or JSON) that git keeps; the rest goes to build/.
cost: setup
	$(BIN)/python -m benchmarks.studies.cost

profile: setup
	$(BIN)/python -m benchmarks.studies.profile

accuracy: setup .venv-bench/.installed
	$(BIN)/python -m benchmarks.studies.auto

paper: setup
	$(BIN)/pqr paper all --cache build/paper -o build/report
	cp build/report/tables.md docs/paper/tables.md

# Hostile bytes (fuzz/README.md): make fuzz SECONDS=60; libFuzzer runs it where there is clang.
SECONDS ?= 60
SANITIZED := -std=c++17 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -Icsrc
HAS_LIBFUZZER = echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' | \
	clang++ -fsanitize=fuzzer -x c++ - -o /dev/null 2>/dev/null

build/fuzz/libsvm: $(wildcard fuzz/*.cpp fuzz/*.hpp) $(addprefix csrc/,bind/messages.hpp platform/from_chars.hpp lanes.hpp loss.hpp parse.cpp parse.hpp prefetch.hpp number.hpp ones.hpp row.hpp)
	mkdir -p build/fuzz
	if $(HAS_LIBFUZZER); then \
		clang++ $(SANITIZED) -fsanitize=fuzzer fuzz/libsvm.cpp csrc/parse.cpp -o $@; \
	else \
		$(CXX) $(SANITIZED) -fsanitize-coverage=trace-pc -c csrc/parse.cpp -o build/fuzz/parse.o && \
		$(CXX) $(SANITIZED) fuzz/libsvm.cpp fuzz/driver.cpp build/fuzz/parse.o -o $@; \
	fi

# The reader as it is shipped, for texts by the hundred million.
build/fuzz/grammar: fuzz/grammar.cpp build/fuzz/libsvm
	$(CXX) -std=c++17 -O2 -ffp-contract=off -Wno-psabi -Icsrc fuzz/grammar.cpp fuzz/libsvm.cpp csrc/parse.cpp -o $@

build/fuzz/vw: fuzz/vw.cpp fuzz/driver.cpp $(addprefix csrc/,vw.cpp vw.hpp coding.hpp platform/from_chars.hpp number.hpp prefetch.hpp)
	mkdir -p build/fuzz
	if $(HAS_LIBFUZZER); then \
		clang++ $(SANITIZED) -fsanitize=fuzzer fuzz/vw.cpp csrc/vw.cpp -o $@; \
	else \
		$(CXX) $(SANITIZED) -fsanitize-coverage=trace-pc -c csrc/vw.cpp -o build/fuzz/vw.o && \
		$(CXX) $(SANITIZED) fuzz/vw.cpp fuzz/driver.cpp build/fuzz/vw.o -o $@; \
	fi

build/fuzz/parquet: fuzz/parquet.cpp fuzz/driver.cpp csrc/parquet.hpp
	mkdir -p build/fuzz
	if $(HAS_LIBFUZZER); then \
		clang++ $(SANITIZED) -fsanitize=fuzzer fuzz/parquet.cpp -o $@; \
	else \
		$(CXX) $(SANITIZED) -fsanitize-coverage=trace-pc -c fuzz/parquet.cpp -o build/fuzz/parquet.o && \
		$(CXX) $(SANITIZED) fuzz/driver.cpp build/fuzz/parquet.o -o $@; \
	fi

# The package with a sanitized core; a python and a pqr that run it (fuzz/sanitized.sh).
ASAN := $(CURDIR)/build/asan
TSAN := $(CURDIR)/build/tsan

$(ASAN)/.built: OPTION = -DPQR_SANITIZE=ON
$(TSAN)/.built: OPTION = -DPQR_WATCH_THREADS=ON
$(ASAN)/.built $(TSAN)/.built: %/.built: fuzz/sanitized.sh $(NATIVE) $(shell find src -name '*.py') | $(STAMP)
	$(BIN)/cmake -S . -B $* -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo $(OPTION) \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	$(BIN)/cmake --build $* --target _core
	rm -rf $*/package
	mkdir $*/package
	cp -r src/pqrlearn $*/package
	cp $*/_core*.so $*/package/pqrlearn
	CXX=$(CXX) fuzz/sanitized.sh $* $(notdir $*) $$(readlink -f $(BIN)/python)
	touch $@

fuzz: build/fuzz/libsvm build/fuzz/vw build/fuzz/parquet $(ASAN)/.built
	mkdir -p build/fuzz/found build/fuzz/found-vw build/fuzz/found-parquet
	build/fuzz/libsvm -max_total_time=$(SECONDS) -dict=fuzz/libsvm.dict -max_len=512 \
		-artifact_prefix=build/fuzz/ build/fuzz/found fuzz/corpus/libsvm
	build/fuzz/vw -max_total_time=$$(($(SECONDS) / 2)) -dict=fuzz/vw.dict -max_len=512 \
		-artifact_prefix=build/fuzz/vw- build/fuzz/found-vw fuzz/corpus/vw
	$(ASAN)/python fuzz/tables.py --core $(ASAN) --seconds $$(($(SECONDS) / 2))
	$(ASAN)/python fuzz/models.py --core $(ASAN) --seconds $$(($(SECONDS) / 2))
	build/fuzz/parquet -max_total_time=$$(($(SECONDS) / 2)) -max_len=512 \
		-artifact_prefix=build/fuzz/parquet- build/fuzz/found-parquet fuzz/corpus/parquet

# All tests but: files that compile a core or fuzzers of their own (fuzz, bits, attack), that look
# after benchmarks, or start Java; tests that bound memory, of which a sanitizer keeps what was freed;
# and those that compile a core for TSan.
ASAN_WITHOUT := fuzz bits attack benchmarks studies spark spark_parts spark_cluster
ASAN_NOR := cli_train.py::test_the_peak_of_memory_is_its_own_and_not_that_of_the_shell \
	table.py::test_memory_follows_the_slots_also_while_it_grows \
	threads.py::test_learning_and_predicting_at_once_is_no_race \
	threads.py::test_without_the_lock_the_race_is_reported
asan: $(ASAN)/.built
	$(ASAN)/python -m pytest -p no:cacheprovider -p no:benchmark -n 2 --dist loadfile tests \
		$(patsubst %,--ignore=tests/test_%.py,$(ASAN_WITHOUT)) \
		$(addprefix --deselect=tests/test_,$(ASAN_NOR)) $(PYTEST)
	$(ASAN)/python fuzz/tables.py --core $(ASAN) --runs 500
	$(ASAN)/python fuzz/models.py --core $(ASAN) --runs 2000

# The tests of threads, with a core whose data races are reported: through the bindings, as Python
# calls them. tests/native/threads.cpp does the same without Python.
tsan: $(TSAN)/.built
	$(TSAN)/python -m pytest -p no:cacheprovider -p no:benchmark -p no:xdist tests/test_threads.py tests/test_turns.py \
		tests/test_contract.py -k "(test_threads and not race) or test_turns or other_threads" $(PYTEST)

# Everything that has ever broken the project, at random seeds (fuzz/README.md): make attack MINUTES=10
MINUTES ?= 10
attack: setup build/fuzz/libsvm build/fuzz/grammar build/fuzz/vw
	$(BIN)/python -m attack --minutes $(MINUTES) $(ATTACK)

# A service under kill -9, SIGSTOP, slow and full disks, jumping clocks, torn writes, flipped bits; then
# ten minutes of rows. Half an hour: make torture TORTURE="--kills 20 --soak 60"
torture: setup
	$(BIN)/python tests/torture.py $(TORTURE)

clean:
	rm -rf $(VENV) .venv-bench build dist
