#!/usr/bin/env bash
# The Python package as users get it: a wheel made from a source distribution and installed into a
# fresh environment, tested there without PyTorch, and then with it and other peers. Says where pip
# finds no index: then its exit status is 77.
#   bash tests/python/wheel.sh
#   PYTHON=python3.13 PEERS=no bash tests/python/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}

# offered VENV PACKAGE...
offered() {
  local log=$work/pip.log
  [ -d "$1" ] || "$python" -m venv "$1"
  "$1/bin/pip" install -q "${@:2}" >"$log" 2>&1 && return
  echo "skipped: the wheel (pip can't install ${*:2}: $(tail -n1 "$log"))"
  exit 77
}

offered "$work/tools" build auditwheel
start=$SECONDS
"$work/tools/bin/python" -m build --outdir "$work/dist" .
echo "built from its source distribution in $((SECONDS - start)) s"
wheel=("$work"/dist/*.whl)
ls -l "${wheel[0]}"
"$work/tools/bin/auditwheel" show "${wheel[0]}" | tr '\n' ' ' | grep -o 'manylinux_[0-9_]*x86_64'

# A file of another component, such as a manual page, or a library of another program.
"$python" -m zipfile -l "${wheel[0]}" | awk "{ print \$1 }" | grep -E '^(share|lib|bin|include)/|pipeexec|pipeview' && exit 1

offered "$work/plain" numpy pandas pytest
"$work/plain/bin/pip" install -q "${wheel[0]}"
cd "$work"
"$work/plain/bin/pipesim" --version
"$work/plain/bin/python" -m pytest -q -p no:cacheprovider -m "not peer" "$root/tests/python"

[ "${PEERS:-yes}" = yes ] || exit 0
offered "$work/plain" torch transformers nbclient ipykernel nbformat
"$work/plain/bin/pip" install -q megatron-core deepspeed ||
  echo "not tried: the recorders with the real Megatron-LM and DeepSpeed, which pip can't install"
"$work/plain/bin/python" -m pytest -q -rs -p no:cacheprovider -m peer "$root/tests/python"
