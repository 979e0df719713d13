#!/usr/bin/env bash
# Fuzzes every reader of foreign files, each by itself; and, where they are built, all of them with
# large inputs of small templates (growth), what a plan is asked (plan), and commands with their
# flags and a file (command); as many at once as there are processors. New inputs go to a folder
# that is thrown away; one that fails stays, where the log says.
#   bash tests/fuzz.sh TREE SECONDS    the fuzzers of a build folder, so long each
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# != 2 ]; then
  echo "fuzz.sh: say which build folder, and how many seconds each" >&2
  exit 2
fi
tree=$1
seconds=$2
if [ ! -x "$tree/tests/csv_fuzz" ]; then
  echo "fuzz.sh: $tree has no fuzzers; cmake --preset asan-ubsan makes a folder that has" >&2
  exit 2
fi
failures=build/fuzz
mkdir -p "$failures"

# seeds_for READER FILE...: what the growth fuzzer reads, into the folder here.
seeds_for() {
  local file
  for file in "${@:2}"; do
    { echo "$1"; cat "$file"; } >"$1-$(basename "$file")"
  done
}

# The seeds of all others, and templates by hand.
growth_seeds() {
  local reader seeds=$PWD/tests/fuzz/seeds hardware=$PWD/sim/cost/hardware
  local examples=$PWD/examples
  cd "$1"
  cp "$seeds"/growth/* .
  for reader in run events calibration; do
    seeds_for $reader "$seeds"/chrome/*.json "$seeds"/kineto/*.json
  done
  seeds_for schedule "$seeds"/csv/*
  seeds_for costs "$seeds"/costs/*
  seeds_for model "$seeds"/model/*
  seeds_for graph "$seeds"/pipedream/*
  seeds_for import "$examples"/import/*
  seeds_for "input program" "$seeds"/input/*.program
  seeds_for "recommendation model" "$seeds"/input/model.json
  seeds_for "input costs" "$seeds"/input/costs.json
  seeds_for "input trace" "$seeds"/input/run.json
  seeds_for device "$hardware"/devices/laptop-cpu.json
  seeds_for cluster "$hardware"/clusters/laptop.json
}

# By hand, and files of presets.
command_seeds() {
  local seeds=$PWD/tests/fuzz/seeds hardware=$PWD/sim/cost/hardware
  cd "$1"
  cp "$seeds"/command/* .
  seeds_for device "$hardware"/devices/*.json
  seeds_for cluster "$hardware"/clusters/*.json
  seeds_for software "$hardware"/software/*.json
  seeds_for "whatif FILE --scale B=0.8 --microbatches 8 --link 0-1=2x" "$seeds"/chrome/measured.json
  seeds_for "whatif FILE --schedule zb-h1 --schedule interleaved" "$seeds"/chrome/predicted.json
  seeds_for "whatif FILE --scale IDS=0.5 --input-pipeline base" "$seeds"/input/run.json
  seeds_for "schedule receives FILE --p2p-latency 1ms" "$seeds"/csv/*.csv "$seeds"/csv/*.program
}

fuzz() {
  local scratch log=$failures/$1.log seeds=tests/fuzz/seeds/$1
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' RETURN
  mkdir "$scratch/corpus" "$scratch/seeds"
  if [ "$1" = import ]; then seeds=examples/import; fi
  if [ "$1" = growth ] || [ "$1" = command ]; then
    seeds=$scratch/seeds
    ("$1"_seeds "$seeds")
  fi
  "$tree/tests/$1_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -malloc_limit_mb=64 \
    -max_len=4096 -dict=tests/fuzz/"$1".dict -artifact_prefix="$failures/$1-" \
    "$scratch/corpus" "$seeds" >"$log" 2>&1 || {
    tail -n 60 "$log"
    echo "the fuzzer of $1 found an input that fails; its whole log: $log"
    return 1
  }
}
export -f fuzz growth_seeds command_seeds seeds_for
export tree seconds failures
for fuzzer in "$tree"/tests/*_fuzz; do basename "$fuzzer" _fuzz; done |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
