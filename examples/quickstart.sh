#!/usr/bin/env bash
# Installs what pipesim needs (Debian packages), builds it, predicts 1F1B on 4
# stages and 8 microbatches; then trains a small model, takes its costs from one
# schedule, predicts another with them, runs that, compares, and shows both.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build --preset programs
}

step "install packages" install "${build_packages[@]}"
step "build" build
bin=build/release
echo
echo "---- Predicted: pipesim --schedule 1f1b --stages 4 --microbatches 8"
echo
"$bin/pipesim" --schedule 1f1b --stages 4 --microbatches 8 --trace build/1f1b_predicted.json
echo

# One rank a core, as far as there are cores.
ranks=$(($(nproc) < 4 ? 2 : 4))
echo "---- Measured: mpirun -n $ranks pipeexec --schedule 1f1b --microbatches 8"
echo
train() { mpi -n "$ranks" "$bin/pipeexec" --microbatches 8 --micro-batch-size 4 "$@"; }
train --schedule 1f1b --trace build/1f1b_measured.json.gz
echo
echo "---- Calibrated on another schedule: pipesim calibrate gpipe_measured.json.gz"
echo
train --schedule gpipe --quiet --trace build/gpipe_measured.json.gz
"$bin/pipesim" calibrate build/gpipe_measured.json.gz -o build/costs.json
"$bin/pipesim" --schedule 1f1b --stages "$ranks" --microbatches 8 --costs build/costs.json \
  --trace build/1f1b_calibrated.json.gz --quiet
echo
echo "---- Compared: pipesim compare 1f1b_calibrated.json.gz 1f1b_measured.json.gz"
echo
"$bin/pipesim" compare build/1f1b_calibrated.json.gz build/1f1b_measured.json.gz
echo
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
  echo "---- Seen: pipeview 1f1b_calibrated.json.gz 1f1b_measured.json.gz opens a window"
  nohup "$bin/pipeview" build/1f1b_calibrated.json.gz build/1f1b_measured.json.gz \
    >build/log/pipeview.log 2>&1 &
else
  echo "---- Seen: pipeview, without a display, draws build/1f1b.png"
  "$bin/pipeview" build/1f1b_calibrated.json.gz build/1f1b_measured.json.gz \
    --screenshot build/1f1b.png --size 1600x900
fi
echo
echo "The commands are $bin/pipesim, $bin/pipeexec and $bin/pipeview; --help says more."
