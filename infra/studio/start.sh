#!/bin/bash
# Runs when a space of Studio (JupyterLab) starts: puts drivetrain into it, once a version. A start has five minutes, so
# what takes longer goes on in the background; a failure is told in the log and does not keep the space from starting.
set -u
cd /  # Python would take what lies in the folder in which it is started for installed

version="${DRIVETRAIN_VERSION:-}"
home="${HOME:-/home/sagemaker-user}"
log="${home}/.drivetrain-setup.log"
wanted="drivetrain[torch,s3]${version:+==${version}}"

install() {
  echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) installing ${wanted}"
  if python3 -m pip install --quiet --disable-pip-version-check "${wanted}"; then
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) ready: $(drivetrain version)"
  else
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) failed; in a terminal: python3 -m pip install '${wanted}'"
  fi
}

if python3 -c 'import sys, importlib.metadata as m; sys.exit(m.version("drivetrain") != (sys.argv[1] or m.version("drivetrain")))' \
  "${version}" 2>/dev/null; then
  echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) already there" >>"${log}"
else
  install >>"${log}" 2>&1 &
fi
exit 0
