#!/bin/bash
# Runs when a space of Studio (JupyterLab) starts: puts the wheel of drivetrain into it that the stack names, once. A
# start has five minutes, so what takes longer goes on in the background; a failure is told in the log and does not keep
# the space from starting. The name `drivetrain` is never looked up in an index, where it may be somebody else's.
set -u
cd /  # Python would take what lies in the folder in which it is started for installed

source="${DRIVETRAIN_SOURCE:-}"  # s3://bucket/key.whl, which the space's role must be able to read, or a URL
sha256="${DRIVETRAIN_SHA256:-}"
home="${HOME:-/home/sagemaker-user}"
log="${home}/.drivetrain-setup.log"

say() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $*"; }

install() {
  local place="${source}" folder
  folder="$(mktemp -d)"
  trap 'rm -rf "${folder}"' RETURN
  say "installing ${source}"
  if [[ "${source}" == s3://* ]]; then
    place="file://${folder}/${source##*/}"
    aws s3 cp --only-show-errors "${source}" "${folder}/${source##*/}" || { say "failed: ${source} cannot be read"; return; }
  fi
  # pip compares what it got with the hash before it installs it. A wheel of the version that is there already it leaves
  # unless it is forced, and then what the wheel needs must not be, too.
  local pip=(python3 -m pip install --quiet --disable-pip-version-check)
  if "${pip[@]}" --no-deps --force-reinstall "drivetrain @ ${place}#sha256=${sha256}" \
    && "${pip[@]}" "drivetrain[torch,s3] @ ${place}#sha256=${sha256}"; then
    say "ready: $(drivetrain version)"
  else
    say "failed; the space works without drivetrain"
  fi
}

if [[ -z "${source}" || -z "${sha256}" ]]; then
  say "nothing to install: DRIVETRAIN_SOURCE and DRIVETRAIN_SHA256 name no wheel" >>"${log}"
elif python3 -c 'import sys, importlib.metadata as m; sys.exit(sys.argv[1] not in (m.distribution("drivetrain").read_text("direct_url.json") or ""))' \
  "${sha256}" 2>/dev/null; then
  say "already there" >>"${log}"
else
  install >>"${log}" 2>&1 &
fi
exit 0
