#!/usr/bin/env bash
# What measuring costs, and how near an emulated run comes to its prediction:
# the runner's cost an action, recording on against off in turns, and 8 ranks
# with actions of 1 and 2 ms on however many processors there are.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

build_release

bin=build/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# key NAME FILE: a number of a JSON result, in ms.
key() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$2" | head -n 1; }
ms() { awk -v ns="$1" 'BEGIN { printf "%.2f", ns / 1e6 }'; }

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo
"$bin/bench/runner_bench" 2>/dev/null

echo
echo "recording: median iteration of gpt-mini on one rank, 8 microbatches, in turns"
least_on=0
least_off=0
for _ in 1 2 3 4 5 6; do
  run=("$bin/pipeexec" --schedule 1f1b --stages 1 --microbatches 8 --iterations 12 --json)
  "${run[@]}" >"$folder/off.json"
  "${run[@]}" --trace "$folder/trace.json" >"$folder/on.json"
  off=$(key iteration_ns "$folder/off.json")
  on=$(key iteration_ns "$folder/on.json")
  printf '  off %8s ms   on %8s ms\n' "$(ms "$off")" "$(ms "$on")"
  if [ "$least_off" = 0 ] || [ "$off" -lt "$least_off" ]; then least_off=$off; fi
  if [ "$least_on" = 0 ] || [ "$on" -lt "$least_on" ]; then least_on=$on; fi
done
awk -v on="$least_on" -v off="$least_off" 'BEGIN { printf "  least: on / off = %.4f\n", on / off }'

echo
echo "emulated: 8 ranks, F 1 ms, B 2 ms, 20 iterations, median against the prediction"
for schedule in 1f1b gpipe zb-h1 interleaved; do
  "$bin/pipesim" --schedule "$schedule" --stages 8 --microbatches 32 --json >"$folder/predicted.json"
  predicted=$(key makespan_ns "$folder/predicted.json")
  for pace in wall anchored; do
    mpi -n 8 "$bin/pipeexec" --schedule "$schedule" --microbatches 32 --device emulated \
      --pace "$pace" --iterations 20 --json >"$folder/measured.json"
    measured=$(key iteration_ns "$folder/measured.json")
    awk -v s="$schedule" -v pace="$pace" -v p="$predicted" -v m="$measured" 'BEGIN {
      printf "  %-12s %-9s predicted %8.2f ms, measured %8.2f ms, %+.2f %%\n",
             s, pace, p / 1e6, m / 1e6, (m / p - 1) * 100 }'
  done
done
