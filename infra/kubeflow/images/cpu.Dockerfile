# What a step of a pipeline, and a training on CPUs, runs in. The code is not in it: it travels with each run.
#
#   docker build -t REGISTRY/drivetrain-cpu:1 -f infra/kubeflow/images/cpu.Dockerfile \
#     --build-arg TORCH_INDEX=INDEX infra/kubeflow/images
#
# TORCH_INDEX is the index of torch's wheels for CPUs (those of the general index bring CUDA along). Of torch for CPUs
# no hash is kept here; everything else is installed by its hash.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
FROM ${PYTHON_IMAGE}
COPY requirements.txt cpu-hashed.txt /tmp/requirements/
ARG TORCH_INDEX
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/requirements/cpu-hashed.txt \
 && grep '^torch==' /tmp/requirements/requirements.txt > /tmp/requirements/torch.txt \
 && pip install --no-cache-dir --only-binary :all: --index-url "${TORCH_INDEX:?give the index of torch for CPUs}" \
      -r /tmp/requirements/torch.txt \
 && rm -r /tmp/requirements
# Kubeflow brings artifacts to /s3, /minio and /gcs, and mounts volumes below /drivetrain. OpenShift runs an image as a
# user of the namespace's, in group 0.
RUN useradd --create-home --uid 1000 drivetrain \
 && install -d -o 1000 -g 0 -m 0775 /s3 /minio /gcs /opt/ml /drivetrain \
 && chgrp -R 0 /home/drivetrain && chmod -R g=u /home/drivetrain
ENV HOME=/home/drivetrain
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
WORKDIR /home/drivetrain
