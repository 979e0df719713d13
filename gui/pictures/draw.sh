#!/usr/bin/env bash
# Draws the README's pictures anew: four emulated ranks run 1F1B with a stage whose
# backward takes longer than predicted, and the playground. Needs build/release.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=build/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# costs BACKWARD_NS_OF_STAGE_2: a costs.json of four stages.
costs() {
  local stage backward stages=()
  for stage in 0 1 2 3; do
    backward=8000000
    if [ "$stage" = 2 ]; then backward=$1; fi
    stages+=("{\"forward_ns\": 4000000, \"backward_ns\": $backward, \"activation_bytes\": 33554432,
      \"weight_bytes\": 104857600, \"output_bytes\": 4194304}")
  done
  local IFS=,
  echo "{\"format\": \"pipesim-costs\", \"version\": 1, \"stages\": [${stages[*]}],
    \"p2p\": {\"latency_ns\": 200000, \"bandwidth_bytes_per_s\": 20000000000}}"
}
costs 8000000 >"$folder/even.json"
costs 11000000 >"$folder/slow.json"
"$bin/pipesim" --quiet --schedule 1f1b --stages 4 --microbatches 8 --costs "$folder/even.json" \
  --trace "$folder/predicted.json"
"$bin/pipeexec" --quiet --schedule 1f1b --stages 4 --microbatches 8 --device emulated \
  --costs "$folder/slow.json" --iterations 5 --trace "$folder/measured.json"

look() { "$bin/pipeview" "$folder/predicted.json" "$folder/measured.json" --size 1600x900 "$@"; }
look --theme light --screenshot gui/pictures/both.png
look --theme dark --show difference --colour error --select 2B3 \
  --screenshot gui/pictures/difference.png
"$bin/pipeview" --playground --theme light --size 1600x900 --screenshot gui/pictures/playground.png
