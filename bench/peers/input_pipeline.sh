#!/usr/bin/env bash
# A DLRM on two ranks of the CPU, one thread each, its tables dealt out whole: by pipeexec over MPI,
# base and sparse-dist, and by PyTorch on gloo, by hand and, where torchrec is there, by its
# TrainPipelineBase and TrainPipelineSparseDist, in turns in one run. The same model, weights,
# batches and optimizer; losses must agree to 1e-5. PYTHON names a Python that has PyTorch;
# without one it says so. torchrec wants fbgemm-gpu-cpu, of the version that goes with PyTorch's.
#   bash bench/peers/input_pipeline.sh [BATCHES [TURNS]]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh
batches=${1:-40}
turns=${2:-5}

python=${PYTHON:-python3}
if ! versions=$("$python" -B bench/peers/input_pipeline.py --versions 2>/dev/null); then
  echo "skipped: $python has no PyTorch (PYTHON=... names another); there is nothing to compare with"
  exit 0
fi

build() {
  cmake --preset release
  cmake --build --preset release --target pipeexec
}
if [ -z "${BIN:-}" ]; then
  step "install packages" install "${build_packages[@]}"
  step "build: release" build
fi

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo "PyTorch $versions on gloo; pipeexec over MPI; two ranks, a thread each, float32, SGD"
echo
exec "$python" -B bench/peers/compare_input_pipelines.py "${BIN:-build/release}/pipeexec" "$batches" "$turns"
