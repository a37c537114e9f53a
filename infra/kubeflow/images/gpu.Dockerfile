# What a training on NVIDIA GPUs runs in; all of it is installed by its hash. The code is not in it: it travels with each
# run. CUDA's libraries come with torch, the driver from the node.
#
#   docker build -t REGISTRY/drivetrain-gpu:1 -f infra/kubeflow/images/gpu.Dockerfile infra/kubeflow/images
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
FROM ${PYTHON_IMAGE}
COPY gpu-hashed.txt /tmp/requirements/
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/requirements/gpu-hashed.txt \
 && rm -r /tmp/requirements
# Kubeflow brings artifacts to /s3, /minio and /gcs, and mounts volumes below /drivetrain. OpenShift runs an image as a
# user of the namespace's, in group 0.
RUN useradd --create-home --uid 1000 drivetrain \
 && install -d -o 1000 -g 0 -m 0775 /s3 /minio /gcs /opt/ml /drivetrain \
 && chgrp -R 0 /home/drivetrain && chmod -R g=u /home/drivetrain
ENV HOME=/home/drivetrain
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# What the node's container runtime is to bring in.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000:1000
WORKDIR /home/drivetrain
