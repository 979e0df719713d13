#!/usr/bin/env bash
# Measures pipesim on this machine and prints one table: whole processes (least
# and median of several runs, peak memory), then the parts one by one.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

build_release

bin=build/release
cost() { "$bin/bench/process_cost" -n "$1" "${@:2}"; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo
echo "whole process: pipesim --schedule 1f1b --p2p-latency 45us --json"
for shape in "64 1024" "256 4096" "512 8192" "1024 16384"; do
  read -r p m <<<"$shape"
  runs=15
  [ "$p" -lt 1024 ] || runs=5
  printf '  %5s stages %6s microbatches, %9s actions: ' "$p" "$m" "$((2 * p * m))"
  cost "$runs" "$bin/pipesim" --schedule 1f1b --stages "$p" --microbatches "$m" --p2p-latency 45us --json
done

echo
echo "whole process, transfers that are queued as events"
for mode in blocking fifo edge-fifo "async --p2p-bytes 3MB --p2p-bandwidth 25GB/s"; do
  for shape in "64 1024" "256 4096"; do
    read -r p m <<<"$shape"
    printf '  %5s stages %6s microbatches, %-10s ' "$p" "$m" "${mode/async*/bytes}:"
    # shellcheck disable=SC2086
    cost 9 "$bin/pipesim" --schedule 1f1b --stages "$p" --microbatches "$m" --p2p-latency 45us --json --p2p $mode
  done
done

echo
echo "whole process: pipesim --input-pipeline sparse-dist --model dlrm-dcnv2 --cluster dgx-a100 --quiet"
for shape in "128 64" "1024 64"; do
  read -r ranks batches <<<"$shape"
  printf '  %5s ranks %6s batches: ' "$ranks" "$batches"
  cost 9 "$bin/pipesim" --input-pipeline sparse-dist --model dlrm-dcnv2 --cluster dgx-a100 \
    --ranks "$ranks" --batches "$batches" --quiet
done

echo
echo "whole process: pipesim schedules --compare --stages 16 --microbatches 128"
compare() { cost 11 "$bin/pipesim" schedules --compare --stages 16 --microbatches 128 "$@"; }
printf '  latencies alone:          '
compare --p2p-latency 9us
printf '  bytes on links:           '
compare --p2p-bytes 3MB --p2p-bandwidth 25GB/s
printf '  gpt3-175b on dgx-a100:    '
compare --model gpt3-175b --cluster dgx-a100 --tensor-parallel 8 --sequence-parallel
printf '  its picture:              '
compare --p2p-latency 9us --picture

"$bin/pipesim" --quiet --schedule 1f1b --stages 64 --microbatches 7813 --export "$folder/compute.csv"
"$bin/pipesim" schedule lower 1f1b --stages 64 --microbatches 2604 -o "$folder/program.csv"
echo
echo "schedule files of 1 M actions, whole process"
printf '  read, checked, evaluated:               '
cost 9 "$bin/pipesim" --schedule "$folder/compute.csv" --json
printf '  program, read and checked, buffered:    '
cost 9 "$bin/pipesim" schedule check "$folder/program.csv" --transport buffered
printf '  program, read and checked, all four:    '
cost 9 "$bin/pipesim" schedule check "$folder/program.csv"

# trace MICROBATCHES FILE FLAG...
trace() {
  "$bin/pipesim" --quiet --schedule 1f1b --stages 16 --microbatches "$1" --p2p-bytes 1MB \
    --p2p-bandwidth 10GB/s --p2p-latency 20us --trace "$2" "${@:3}"
}
trace 4000 "$folder/trace.json"
trace 4000 "$folder/trace.json.gz"
echo
echo "traces, $(grep -c '"ph"' "$folder/trace.json") events, $(stat -c %s "$folder/trace.json") bytes, whole process"
for file in trace.json trace.json.gz; do
  for what in events run; do
    printf '  read_bench %-6s %-14s ' "$what" "$file:"
    cost 9 "$bin/bench/read_bench" "$what" "$folder/$file"
  done
done

trace 3740 "$folder/predicted.json"
trace 3740 "$folder/measured.json" --forward 1.1ms
echo
echo "two traces of $(grep -c '"ph"' "$folder/predicted.json") events each, whole process"
printf '  pipesim compare:                   '
cost 9 "$bin/pipesim" compare "$folder/predicted.json" "$folder/measured.json"

echo
"$bin/bench/predict_bench" --benchmark_min_time=0.5 2>/dev/null
echo
"$bin/bench/event_bench" --benchmark_min_time=0.5 2>/dev/null
echo
"$bin/bench/input_bench" --benchmark_min_time=0.5 2>/dev/null
echo
"$bin/bench/partition_bench" --benchmark_min_time=0.5 2>/dev/null
echo
# At hidden 1024; of the instruction sets the best, which is the first.
best=$("$bin/bench/operators_bench" --benchmark_list_tests | sed -n 's,^fill/\(.*\)/512$,\1,p' | head -n 1)
"$bin/bench/operators_bench" --benchmark_min_time=0.2 \
  --benchmark_filter="($best/1024|^matrix_product.*oneDNN.*/1024|^attention.*/1024|^cross_entropy)\$" 2>/dev/null
echo
"$bin/bench/block_bench"
