#!/usr/bin/env bash
# The tests on random programs, 100,000 programs each, with assertions and
# sanitizers and once more as released; and what is tried on a machine with a GPU, on
# one that the CPU stands in for. Takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

build() {
  cmake --preset "$1"
  cmake --build --preset "$1"
}
step "install packages" install "${build_packages[@]}" "${test_packages[@]}"
for preset in release asan-ubsan; do
  step "build: $preset" build $preset
  step "100,000 random programs: $preset" \
    env PIPESIM_RANDOM_PROGRAMS=100000 build/$preset/tests/transfers_test
done
step "what a machine with a GPU tries, on an emulated one" bash bench/gpu/run.sh --small \
  --binaries build/release --module build/release/tests/emulated_gpu \
  --only verify,losses,recorder,fidelity cuda build/gpu/emulated
