#!/usr/bin/env bash
# Installs what pipesim needs (Debian packages), builds it, predicts 1F1B on 4
# stages and 8 microbatches, and then trains a small model so and measures it.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

build() {
  cmake --preset release -DPIPESIM_TESTS=OFF -DPIPESIM_BENCH=OFF -DPIPESIM_EXAMPLES=OFF \
    -B build/quickstart
  cmake --build build/quickstart
}

step "install packages" install "${build_packages[@]}"
step "build" build
bin=build/quickstart
echo
echo "---- Predicted: pipesim --schedule 1f1b --stages 4 --microbatches 8"
echo
"$bin/pipesim" --schedule 1f1b --stages 4 --microbatches 8 --trace build/1f1b_predicted.json
echo
echo "---- Measured: mpirun -n 4 pipeexec --schedule 1f1b --microbatches 8"
echo
mpi -n 4 "$bin/pipeexec" --schedule 1f1b --microbatches 8 --trace build/1f1b_measured.json
echo
echo "The commands are $bin/pipesim and $bin/pipeexec; --help says more."
