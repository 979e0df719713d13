#!/usr/bin/env bash
# What the viewer takes on this machine: opening traces of 1 M and 10 M events, alone
# and two of half as many each, memory, painting, pointing; then its parts, and the
# playground. With LARGE=1 one of 100 M events, too: a file of 14 GB in the folder for
# temporary files.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

build_release

bin=build/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# trace RANKS MICROBATCHES FILE FLAG...
trace() {
  "$bin/pipesim" --quiet --schedule 1f1b --stages "$1" --microbatches "$2" --p2p-bytes 1MB \
    --p2p-bandwidth 10GB/s --p2p-latency 20us --trace "$folder/$3" "${@:4}"
}
# look FILE...: a walk through them, then the whole program.
look() {
  local files=("${@/#/$folder/}") events=0 file
  for file in "${files[@]}"; do events=$((events + $(grep -c '"ph"' "$file"))); done
  echo
  echo "$# trace(s), $events events"
  "$bin/bench/view_bench" "${files[@]}"
  printf '  pipeview --screenshot, whole process: '
  "$bin/bench/process_cost" -n 3 "$bin/pipeview" "${files[@]}" --screenshot "$folder/x.png" \
    --size 1920x1080 2>/dev/null
}

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
# Predictions of 32 ranks have 32 groups of rows; a little slower stands for measured.
for microbatches in 920 9200; do
  trace 32 "$microbatches" predicted.json
  trace 32 "$microbatches" measured.json --forward 1.1ms
  look predicted.json measured.json
done
trace 32 1840 one.json
look one.json
trace 32 18400 one.json
look one.json
trace 4 8 small.json
look small.json
if [ -n "${LARGE:-}" ]; then
  trace 32 184000 one.json
  look one.json
fi

echo
"$bin/bench/paint_bench" 2>/dev/null
echo
"$bin/bench/layout_bench" 2>/dev/null
echo
"$bin/bench/playground_bench" 2>/dev/null
