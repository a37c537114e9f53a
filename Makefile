# The verbs of the house. `make run` and `make test` work on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: help setup run test test-slow test-toolkit test-image test-infra test-sdk synth check types format golden facts shapes bench faults mutants clean

help:  ## Show the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(STAMP)  ## Create .venv with the package, its torch extra and the development tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV): a few minutes the first time, most of it torch"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) --upgrade pip
	@PYTHONWARNINGS=ignore $(BIN)/python $(PIP_INSTALL) --editable '.[torch,dev]' --constraint constraints.txt
	@touch $@

run: setup  ## Run the flagship pipeline on real data and show what it made
	$(BIN)/drivetrain run retraining

test: setup  ## The quick tests (under ten minutes on two cores)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m 'not slow and not nightly and not toolkit and not image and not infra and not sdk' $(ARGS)

test-slow: setup  ## The slow families: launchers, kill campaigns
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m 'slow and not nightly' $(ARGS)

.venvs/toolkit/.installed: tests/toolkit-requirements.txt
	@$(PYTHON) -m venv .venvs/toolkit
	@.venvs/toolkit/bin/python $(PIP_INSTALL) --upgrade pip
	@.venvs/toolkit/bin/python $(PIP_INSTALL) -r tests/toolkit-requirements.txt
	@touch $@

test-toolkit: setup .venvs/toolkit/.installed  ## Compare with the real SageMaker training toolkit
	$(BIN)/python -m pytest -m toolkit $(ARGS)

.venvs/image/.installed: tests/image-requirements.txt
	@$(PYTHON) -m venv .venvs/image
	@.venvs/image/bin/python $(PIP_INSTALL) --upgrade pip
	@.venvs/image/bin/python $(PIP_INSTALL) -r tests/image-requirements.txt
	@touch $@

test-image: setup .venvs/image/.installed  ## Run each program with only what the stock image holds
	$(BIN)/python -m pytest -m image $(ARGS)

.venvs/infra/.installed: tests/infra-requirements.txt pyproject.toml
	@$(PYTHON) -m venv .venvs/infra
	@.venvs/infra/bin/python $(PIP_INSTALL) --upgrade pip
	@PYTHONWARNINGS=ignore .venvs/infra/bin/python $(PIP_INSTALL) -r tests/infra-requirements.txt --editable .
	@touch $@

test-infra: setup .venvs/infra/.installed  ## Synthesize the stack and hold it to cdk-nag, cfn-lint and its policies
	$(BIN)/python -m pytest -m infra $(ARGS)

.venvs/sdk/.installed: tests/sdk-requirements.txt pyproject.toml
	@$(PYTHON) -m venv .venvs/sdk
	@.venvs/sdk/bin/python $(PIP_INSTALL) --upgrade pip
	@PYTHONWARNINGS=ignore .venvs/sdk/bin/python $(PIP_INSTALL) -r tests/sdk-requirements.txt --editable .
	@touch $@

test-sdk: setup .venvs/sdk/.installed  ## Compare with what the SageMaker SDK builds, and upsert with it
	$(BIN)/python -m pytest -m sdk $(ARGS)

synth: .venvs/infra/.installed  ## Write the CloudFormation template of a pipeline: ARGS="retraining --infra infra.yaml"
	.venvs/infra/bin/python -m drivetrain.infra.app $(or $(ARGS),retraining)

check: setup types  ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## Types alone (pyproject.toml says why the folders are linked first)
	@rm -rf build/typing && mkdir -p build/typing/drivetrain
	@cp -al components infra pipelines training_scripts build/typing/drivetrain/
	$(BIN)/pyright --project pyproject.toml

format: setup  ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: setup  ## Write the golden definitions anew; review the diff
	$(BIN)/python -m pytest tests/golden --write-golden -q

facts: setup  ## Measure the shipped recipes anew; review the diff
	$(BIN)/python -m drivetrain.pipelines.recommend.measuring

shapes: setup  ## Extract the service's input shapes from the installed botocore
	$(BIN)/python -m drivetrain.pipelines.targets.sagemaker.extract_shapes

bench: setup  ## Measure against the peers; writes build/bench.json
	$(BIN)/python -m tests.benchmarks $(ARGS)

faults: setup  ## Break things on purpose and count violations; writes build/faults.json
	$(BIN)/python -m tests.faults $(ARGS)

mutants: setup  ## Make recorded mistakes in the code and see that tests notice each; writes build/mutants.json
	$(BIN)/python -m tests.mutants --jobs $(JOBS) $(ARGS)

clean:  ## Remove what was built here (not the environments)
	rm -rf build dist .drivetrain .pytest_cache .ruff_cache .hypothesis *.egg-info
