#!/usr/bin/env bash
# Fuzzes every reader of foreign files and what a plan is asked, each by itself, and readers with
# large inputs of small templates (growth), as many at once as there are processors. New
# inputs go to a folder that is thrown away; one that fails stays, where the log says.
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

fuzz() {
  local scratch log=$failures/$1.log seeds=tests/fuzz/seeds/$1
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' RETURN
  mkdir "$scratch/corpus" "$scratch/seeds"
  if [ "$1" = import ]; then seeds=examples/import; fi
  if [ "$1" = growth ]; then
    seeds=$scratch/seeds
    (growth_seeds "$seeds")
  fi
  "$tree/tests/$1_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -malloc_limit_mb=64 \
    -max_len=4096 -dict=tests/fuzz/"$1".dict -artifact_prefix="$failures/$1-" \
    "$scratch/corpus" "$seeds" >"$log" 2>&1 || {
    tail -n 60 "$log"
    echo "the fuzzer of $1 found an input that fails; its whole log: $log"
    return 1
  }
}
export -f fuzz growth_seeds seeds_for
export tree seconds failures
for dictionary in tests/fuzz/*.dict; do basename "$dictionary" .dict; done |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
