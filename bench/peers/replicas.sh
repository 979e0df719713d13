#!/usr/bin/env bash
# Two ranks on the CPU, one thread each, by pipeexec and by PyTorch on gloo, in turns in one
# run: replicas against DistributedDataParallel, ZeRO 3 against FSDP2, and a pipeline of two
# stages against torch.distributed.pipelining. The same model, weights, sequences and
# optimizer; losses must agree to 1e-5. PYTHON names a Python that has PyTorch; without one it
# says so.
#   bash bench/peers/replicas.sh [ITERATIONS [TURNS]]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh
iterations=${1:-20}
turns=${2:-3}

build() {
  cmake --preset release
  cmake --build --preset release --target pipeexec
}
step "install packages" install "${build_packages[@]}"
step "build: release" build

python=${PYTHON:-python3}
if ! version=$("$python" bench/peers/replicas.py --version 2>/dev/null); then
  echo "skipped: $python has no PyTorch (PYTHON=... names another); there is nothing to compare with"
  exit 0
fi

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo "PyTorch $version on gloo; pipeexec over MPI; two ranks, a thread each, float32, no dropout"
echo
exec "$python" bench/peers/compare_replicas.py build/release/pipeexec "$iterations" "$turns"
