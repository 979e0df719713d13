#!/usr/bin/env bash
# Measures what large plans take as whole processes: the best alone, which is named where
# --schedule is missing, and all that `pipesim plan` says. How their layouts end stands below each.
#   bash bench/plan.sh [RUNS]   default 3
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

step "install packages" install "${build_packages[@]}" "${test_packages[@]}"
step "configure: release" cmake --preset release
step "build: pipesim" cmake --build --preset release --target pipesim process_cost

bin=build/release
echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"

# measure MODEL CLUSTER DEVICES BATCH RUNS
measure() {
  local question=(--model "$1" --cluster "$2" --devices "$3" --global-batch "$4")
  echo
  echo "$1 on $3 devices of $2, $4 sequences:"
  "$bin/bench/process_cost" -n "$5" "$bin/pipesim" "${question[@]}" , \
    "$bin/pipesim" plan "${question[@]}" | paste -d ' ' <(printf '  %-10s\n' "the best:" "all:") -
  "$bin/pipesim" plan "${question[@]}" --json |
    grep -E '^  "(space|impossible|too_large|dominated|evaluated)":' | tr -d '\n",'
  echo
}

measure gpt3-175b dgx-a100 4096 2304 "${1:-3}"
measure megatron-1t dgx-a100 3072 3072 "${1:-3}"
measure llama-3-405b dgx-h100 16384 2048 "${1:-3}"
measure llama-3-8b dgx-h100 64 128 "${1:-3}"
