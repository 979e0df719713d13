#!/usr/bin/env bash
# Whether pipeexec's layers are PyTorch's: gpts and llamas train on one rank of the CPU by both,
# from the same weights, on the same sequences; losses must agree to 1e-5 in every step. PYTHON
# names a Python that has PyTorch; without one it says so.
#   bash bench/peers/losses.sh [STEPS]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

python=${PYTHON:-python3}
if ! version=$("$python" bench/peers/compare_losses.py --version 2>/dev/null); then
  echo "skipped: $python has no PyTorch (PYTHON=... names another); there is nothing to compare with"
  exit 0
fi

build() {
  cmake --preset release
  cmake --build --preset release --target pipeexec
}
step "install packages" install "${build_packages[@]}"
step "build: release" build

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo "PyTorch $version; one thread, float32, no dropout; losses of ${1:-20} steps"
echo
"$python" bench/peers/compare_losses.py build/release/pipeexec "${1:-20}"
