#!/usr/bin/env bash
# Predicts every published measurement and writes bench/VALIDATION.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build build/release --target pipesim
}
step "install packages" install "${build_packages[@]}" python3
step "build: release" build
echo
python3 -B bench/validation/validate.py -o bench/VALIDATION.md
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "written: bench/VALIDATION.md"
