# Serves registered models of PyTorch on SageMaker's CPUs: for deployment.targets.sagemaker.serving_image, since AWS
# patches no stock image for that any more. You patch this one: build it again, and give it another tag.
#
#   docker build --pull --no-cache -t ACCOUNT.dkr.ecr.REGION.amazonaws.com/drivetrain-serving:1 \
#     -f infra/serving.Dockerfile --build-arg TORCH_INDEX=INDEX .
#
# TORCH_INDEX is the index of torch's wheels for CPUs. Of those no hash is kept here; everything else is installed by
# its hash. What a recipe of your own imports beside torch and numpy must be added: nothing is installed from a model.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
FROM ${PYTHON_IMAGE}
COPY infra/kubeflow/images/requirements.txt infra/kubeflow/images/cpu-hashed.txt /tmp/requirements/
ARG TORCH_INDEX
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/requirements/cpu-hashed.txt \
 && grep '^torch==' /tmp/requirements/requirements.txt > /tmp/requirements/torch.txt \
 && pip install --no-cache-dir --only-binary :all: --index-url "${TORCH_INDEX:?give the index of torch for CPUs}" \
      -r /tmp/requirements/torch.txt \
 && rm -r /tmp/requirements
COPY drivetrain/inference_server /opt/drivetrain/inference_server
# The service starts an image with the word `serve`, mounts the model at /opt/ml/model, and asks port 8080.
RUN printf '#!/bin/sh\nexec python /opt/drivetrain/inference_server/start.py /opt/ml/model /opt/ml/model/code inference.py 0.0.0.0\n' \
      > /usr/local/bin/serve \
 && chmod 0755 /usr/local/bin/serve
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
CMD ["serve"]
