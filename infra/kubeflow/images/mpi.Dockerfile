# One of our images and what MPI jobs on several nodes need beside: mpirun, and ssh between the pods (launcher=mpirun).
#
#   docker build -t REGISTRY/drivetrain-gpu-mpi:1 -f infra/kubeflow/images/mpi.Dockerfile \
#     --build-arg BASE=REGISTRY/drivetrain-gpu:1 infra/kubeflow/images
ARG BASE
FROM ${BASE}
USER 0
# No version is named: Debian keeps only the newest of a release. Its package makes keys of the host, which would be the
# same in every pod; the job's own are mounted instead.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openmpi-bin openssh-client openssh-server \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*
COPY ssh_config sshd_config /etc/ssh/
USER 1000:1000
