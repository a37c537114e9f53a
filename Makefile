# The verbs of the house. `make run` and `make test` work on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles what it imports; compiling all of an environment beforehand takes longer than downloading it.
PIP_INSTALL = install --quiet --disable-pip-version-check --no-compile
# Makes the environment of a target .venvs/NAME/.installed; what it holds is installed by the pip of .venv.
ENVIRONMENT = $(BIN)/python -m venv --without-pip $(@D)
INSTALL = PYTHONWARNINGS=ignore $(BIN)/python -m pip --python $(@D)/bin/python $(PIP_INSTALL)
STAMP := $(VENV)/.installed
JOBS ?= 2
# A file is one worker's, in the order of their names, of which those that take longest (contract, distributed) come
# first; xdist would begin with those that have the most tests.
LANES = -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Collecting the tests without compiled files takes 35 s of a core instead of 14, in each worker.
unexport PYTHONDONTWRITEBYTECODE

# The images for Kubeflow, and how what is in them is resolved.
IMAGES = infra/kubeflow/images
UV_COMPILE = .venvs/audit/bin/uv pip compile --python-version 3.12 --python-platform x86_64-manylinux_2_28 \
  --generate-hashes --no-annotate --custom-compile-command "make hashes" --quiet
# The files with tests that want an environment of their own (tests/unit/suite/test_makefile.py holds these lists),
# and what is put on the path for them: Spark where Java is, Horovod where `make horovod` has built it.
TESTS_toolkit = tests/contract/test_own_script_equals_toolkit.py tests/contract/test_serving_in_toolkit.py \
  tests/unit/targets/sagemaker/run/test_toolkit.py
TESTS_image = tests/contract/test_programs_in_image.py
TESTS_infra = tests/infra/test_stack.py
TESTS_sdk = tests/sdk/test_conformance.py tests/sdk/test_sdk_pipeline.py tests/sdk/test_spark_job.py \
  tests/sdk/test_trainer_contract.py tests/sdk/test_model_trainer.py tests/sdk/test_scripts.py
TESTS_tensorflow = tests/tensorflow/test_trainings.py tests/tensorflow/test_config_fields.py \
  tests/tensorflow/test_refusals.py tests/tensorflow/test_export.py \
  tests/tensorflow/test_parameter_server.py tests/tensorflow/test_scripts.py tests/tensorflow/test_twins.py \
  tests/tensorflow/test_library_scripts.py tests/tensorflow/test_health.py tests/tensorflow/test_layers.py
TESTS_spark = tests/contract/test_bad_tables.py tests/contract/test_engines.py tests/contract/test_spark_jobs.py \
  tests/contract/test_random_plans.py tests/contract/test_step_types.py
TESTS_horovod = tests/distributed/test_horovod.py tests/distributed/launcher/test_horovod_scripts.py
TESTS_debugger = tests/debugger/test_smdebug.py
TESTS_spark35 = $(TESTS_spark)
ON_PATH_spark = PYTHONPATH=.venvs/spark
ON_PATH_spark35 = PYTHONPATH=.venvs/spark35
WITH_HOROVOD = PYTHONPATH=$(CURDIR)/.venvs/horovod
ON_PATH_horovod = $(WITH_HOROVOD)
ENVIRONMENTS = toolkit image infra sdk tensorflow spark spark35 horovod debugger

.PHONY: help more setup run test test-changed test-slow test-nightly test-in audit-code audit-pins horovod synth check types format golden facts targets health shapes hashes bench pictures faults mutants clean docs strategies

help:
	@grep -hE '^(run|test|check|golden|bench|docs|more):.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(STAMP)  ## Create .venv with the package, its torch extra and the development tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV): a few minutes the first time, most of it torch"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip $(PIP_INSTALL) --upgrade pip
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip $(PIP_INSTALL) --editable '.[torch,dev]' --constraint constraints.txt
	@touch $@

run: setup  ## Run the flagship pipeline on real data and show what it made
	$(BIN)/drivetrain run retraining

test: setup  ## The quick tests (five minutes on two cores)
	$(BIN)/python -m pytest $(LANES) -m 'not slow and not nightly and not toolkit and not image and not infra and not sdk and not tensorflow and not spark and not horovod and not debugger' $(ARGS)

test-changed: setup  ## The quick tests that your changes can reach: ARGS="--within 3", "--base main", "--list"
	$(BIN)/python -m tests.changed $(ARGS)

test-slow: setup  ## The slow families: launchers, kill campaigns
	$(BIN)/python -m pytest $(LANES) -m 'slow and not nightly' $(ARGS)

# Only test-in asks for ENV; Horovod's tests skip where it is not built.
ifneq ($(filter test-in,$(MAKECMDGOALS)),)
ifeq ($(and $(filter 1,$(words $(ENV))),$(filter $(ENV),$(ENVIRONMENTS))),)
$(error ENV='$(ENV)' is no environment of tests. Give one of: $(ENVIRONMENTS). For example: make test-in ENV=toolkit)
endif
endif
test-in: setup $(patsubst %,.venvs/%/.installed,$(filter-out horovod,$(ENV:sdk=sdk sdk2)))  ## Tests that need an environment of their own: ENV=toolkit, image, infra, sdk, tensorflow, spark, spark35, horovod, debugger
	$(ON_PATH_$(ENV)) $(BIN)/python -m pytest -m '$(ENV:spark35=spark)$(if $(filter spark,$(ENV)), and not nightly)' $(TESTS_$(ENV)) $(ARGS)

# The container of TensorFlow asks for an older toolkit and for TensorFlow; what is compared needs neither.
.venvs/toolkit/.installed: tests/toolkit-requirements.txt | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r tests/toolkit-requirements.txt
	@$(INSTALL) --no-deps sagemaker-tensorflow-training==20.5.0
	@touch $@

.venvs/image/.installed: $(IMAGES)/requirements.txt | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r $(IMAGES)/requirements.txt
	@touch $@

.venvs/infra/.installed: tests/infra-requirements.txt pyproject.toml | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r tests/infra-requirements.txt --editable .
	@touch $@

.venvs/sdk/.installed: tests/sdk-requirements.txt pyproject.toml | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r tests/sdk-requirements.txt --editable .
	@touch $@

.venvs/sdk2/.installed: tests/sdk2-requirements.txt | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r tests/sdk2-requirements.txt
	@touch $@

.venvs/tensorflow/.installed: tests/tensorflow-requirements.txt pyproject.toml | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r tests/tensorflow-requirements.txt --editable .
	@touch $@

# Only what .venv lacks: Spark's workers are processes of the interpreter that runs the tests.
.venvs/spark/.installed: tests/spark-requirements.txt | $(STAMP)
	@$(BIN)/python -m pip $(PIP_INSTALL) --no-deps --upgrade --target $(@D) -r tests/spark-requirements.txt
	@touch $@

.venvs/spark35/.installed: tests/spark35-requirements.txt | $(STAMP)
	@$(BIN)/python -m pip $(PIP_INSTALL) --no-deps --upgrade --target $(@D) -r tests/spark35-requirements.txt
	@touch $@

# A folder for torch and one for TensorFlow. The wheels are kept in ~/.cache/drivetrain/wheels.
BUILD_HOROVOD = $(BIN)/python -m drivetrain.infra.horovod.build $(HOROVOD_ARGS) --into $(@D)
HOROVOD_PARTS := $(wildcard infra/horovod/*.py infra/horovod/patches/*)

.venvs/horovod/.installed: $(HOROVOD_PARTS) constraints.txt | $(STAMP)
	@$(BUILD_HOROVOD) torch && touch $@ || [ $$? = 75 ]

.venvs/horovod-tensorflow/.installed: $(HOROVOD_PARTS) .venvs/tensorflow/.installed
	@$(BUILD_HOROVOD) tensorflow --python .venvs/tensorflow/bin/python && touch $@ || [ $$? = 75 ]

horovod: setup .venvs/horovod/.installed .venvs/horovod-tensorflow/.installed  ## Build Horovod's wheels, or take those kept (5 minutes of CPU; HOROVOD_ARGS="--limit SECONDS" or "--kept")

# Its recipe is a command of ours, which installs nothing that is there already.
.venvs/debugger/.installed: $(wildcard infra/debugger/*) $(wildcard infra/debugger/patches/*) constraints.txt | $(STAMP)
	@$(BIN)/drivetrain setup debugger --into $(@D)
	@touch $@

synth: .venvs/infra/.installed  ## Write the CloudFormation template of a pipeline: ARGS="retraining --infra infra.yaml"
	.venvs/infra/bin/python -m drivetrain.infra.app $(or $(ARGS),retraining)

.venvs/audit/.installed: tests/audit-requirements.txt | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r tests/audit-requirements.txt
	@touch $@

audit-code: .venvs/audit/.installed  ## Look for insecure code and images (bandit, hadolint; pyproject.toml says what is left out)
	.venvs/audit/bin/bandit --quiet --recursive --severity-level medium --configfile pyproject.toml components pipelines training_scripts infra
	.venvs/audit/bin/hadolint $(IMAGES)/*.Dockerfile infra/*.Dockerfile

audit-pins: .venvs/audit/.installed  ## Look for known vulnerabilities of the pinned packages; asks the index
	.venvs/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

hashes: .venvs/audit/.installed  ## Write requirements-hashed.txt and those of the images anew; asks the index
	.venvs/audit/bin/uv pip compile pyproject.toml --extra s3 --extra serve --constraint constraints.txt --universal \
	  --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make hashes" --quiet \
	  --output-file requirements-hashed.txt
	$(UV_COMPILE) $(IMAGES)/requirements.txt $(IMAGES)/additions.txt --output-file $(IMAGES)/gpu-hashed.txt
	grep -v '^torch==' $(IMAGES)/requirements.txt | $(UV_COMPILE) - $(IMAGES)/additions.txt --output-file $(IMAGES)/cpu-hashed.txt
	$(UV_COMPILE) pyproject.toml --extra s3 --constraint constraints.txt $(IMAGES)/services.txt --output-file $(IMAGES)/services-hashed.txt
	$(UV_COMPILE) $(IMAGES)/spark.txt --output-file $(IMAGES)/spark-hashed.txt

# An environment that takes nothing whose hash is not written down, and no more than what is.
.venvs/hashed/.installed: requirements-hashed.txt pyproject.toml | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) --require-hashes --only-binary :all: -r requirements-hashed.txt
	@$(INSTALL) --no-deps .
	@$(@D)/bin/python -c 'import boto3, apscheduler'
	@$(@D)/bin/drivetrain --help > /dev/null
	@touch $@

test-nightly: setup  ## What takes hours: full products, campaigns of faults, mutants, peers, audits; a table at the end
	$(PYTHON) .ci/nightly.py

check: setup types  ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## Types alone
	$(BIN)/pyright --project pyproject.toml

format: setup  ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: setup  ## Write the golden definitions anew; review the diff
	$(BIN)/python -m pytest tests/golden --write-golden -q

facts: setup  ## Measure the shipped recipes anew; review the diff
	$(BIN)/python -m drivetrain.recommend.profile

targets: setup  ## Write the tables of docs/targets.md anew, by the targets' own checks
	$(BIN)/python -m tests.target_features docs/targets.md

# What a test of a strategy shows it says by `shows`; the same tests run in `make test`, `test-slow`, `test-tensorflow`.
strategies: setup .venvs/tensorflow/.installed  ## Write the table of strategies in docs/training.md anew, from tests that it runs (10 minutes)
	$(BIN)/python -m pytest $(LANES) -m 'shows and not nightly and not tensorflow' tests/distributed --junitxml=build/shows/torch.xml
	$(BIN)/python -m pytest -m shows tests/tensorflow --junitxml=build/shows/tensorflow.xml
	$(BIN)/python -m tests.strategy_table build/shows/*.xml

health: setup  ## Write the table of docs/health.md anew: each health rule, on the fault that is planted for it
	$(BIN)/python -m tests.health_table docs/health.md

shapes: setup  ## Extract SageMaker's shapes from botocore and the IR's messages from kfp
	$(BIN)/python -m drivetrain.targets.sagemaker.document.service.extract_shapes
	$(BIN)/python -m tests.fixtures.kfp_messages

bench: setup  ## Measure against the peers; writes build/bench.json
	$(BIN)/python -m tests.benchmarks $(ARGS)

.venvs/docs/.installed: docs/site/requirements.txt pyproject.toml | $(STAMP)
	@$(ENVIRONMENT)
	@$(INSTALL) -r docs/site/requirements.txt --editable .
	@touch $@

docs: setup .venvs/docs/.installed  ## Build the documentation as a site, strictly; writes build/docs
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --strict --quiet

pictures: setup  ## Draw the pictures of the README anew; needs Chromium
	$(BIN)/python -m tests.pictures

faults: setup .venvs/tensorflow/.installed .venvs/spark/.installed  ## Break things on purpose and count violations; writes build/faults.json
	$(WITH_HOROVOD) $(BIN)/python -m tests.faults $(ARGS)

mutants: setup  ## Make recorded mistakes in the code and see that tests notice each; writes build/mutants.json
	$(BIN)/python -m tests.mutants --jobs $(JOBS) $(ARGS)

clean:  ## Remove what was built here (not the environments)
	rm -rf build dist .drivetrain .pytest_cache .ruff_cache .hypothesis *.egg-info

more:  ## Show all other verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | grep -vE '^(run|test|check|golden|bench|docs|more):' | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20
