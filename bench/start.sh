#!/usr/bin/env bash
# Measures what a short run of pipesim takes as a whole process: a prediction from a model
# and a cluster, --version, which does nothing else, and /bin/true, a process that does
# nothing at all. They take turns; a machine that does other work shows in the medians first.
#   bash bench/start.sh [RUNS]   default 300
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

step "install packages" install "${build_packages[@]}" "${test_packages[@]}"
step "configure: release" cmake --preset release
step "build: pipesim" cmake --build --preset release --target pipesim process_cost

bin=build/release
prediction=("$bin/pipesim" --schedule interleaved --stages 8 --virtual-stages 3 --microbatches 64
  --model gpt3-175b --cluster dgx-a100 --tensor-parallel 8 --data-parallel 16 --json)
echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo
"$bin/bench/process_cost" -n "${1:-300}" \
  "${prediction[@]}" , "$bin/pipesim" --version , /bin/true |
  paste -d ' ' <(printf '%-24s\n' "gpt3-175b on dgx-a100:" "pipesim --version:" "/bin/true:") -
