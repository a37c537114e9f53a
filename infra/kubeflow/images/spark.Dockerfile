# One of our images with Java and PySpark, for steps with engine=spark: local[*], on the cores of their pod.
#
#   docker build -t REGISTRY/drivetrain-spark:1 -f infra/kubeflow/images/spark.Dockerfile \
#     --build-arg BASE=REGISTRY/drivetrain-cpu:1 infra/kubeflow/images
ARG BASE
FROM ${BASE}
USER 0
# No version of Java is named: Debian keeps only the newest of a release. PySpark comes as a source archive, whose hash is
# checked; pip builds it with the setuptools of the day.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY spark-hashed.txt /tmp/requirements/
RUN pip install --no-cache-dir --require-hashes -r /tmp/requirements/spark-hashed.txt \
 && rm -r /tmp/requirements
USER 1000:1000
