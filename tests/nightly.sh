#!/usr/bin/env bash
# The tests on random programs, 100,000 programs each, with assertions and
# sanitizers and once more as released. Takes some minutes.
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
