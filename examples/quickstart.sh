#!/usr/bin/env bash
# Installs what pipesim needs (Debian packages), builds it, and predicts 1F1B
# on 4 stages and 8 microbatches.
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
echo
build/quickstart/pipesim --schedule 1f1b --stages 4 --microbatches 8 --trace build/1f1b_trace.json
echo
echo "The command is build/quickstart/pipesim; --help says more."
