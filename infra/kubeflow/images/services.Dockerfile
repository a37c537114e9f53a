# TensorBoard, and the starter of registry events: the package itself with what it needs, installed by hashes.
#
#   python -m pip wheel --no-deps --wheel-dir dist .
#   docker build -t REGISTRY/drivetrain-services:1 -f infra/kubeflow/images/services.Dockerfile \
#     --build-context wheel=dist infra/kubeflow/images
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
FROM ${PYTHON_IMAGE}
COPY services-hashed.txt /tmp/requirements/
# `wheel` is a build context, not a stage of this file.
# hadolint ignore=DL3022
COPY --from=wheel drivetrain-*.whl /tmp/wheel/
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/requirements/services-hashed.txt \
 && pip install --no-cache-dir --no-deps --no-index /tmp/wheel/drivetrain-*.whl \
 && rm -r /tmp/requirements /tmp/wheel
# OpenShift runs an image as a user of the namespace's, in group 0.
RUN useradd --create-home --uid 1000 drivetrain \
 && chgrp -R 0 /home/drivetrain && chmod -R g=u /home/drivetrain
ENV HOME=/home/drivetrain
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
WORKDIR /home/drivetrain
