#!/usr/bin/env bash
# Whether the split that `pipesim partition` finds is as much faster as it says: trains
# a model whose head is as heavy as several blocks, split evenly; has the layers of
# that run balanced; trains both splits in turns, and compares medians.
#
#   bash examples/partition/measured.sh            5 rounds, on an idle machine of 2 cores or more
#   ROUNDS=1 bash examples/partition/measured.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build --preset release --target pipesim pipeexec
}
step "install packages" install "${build_packages[@]}"
step "build: release" build

rounds=${ROUNDS:-5}
bin=build/release
folder=build/partition
mkdir -p "$folder"
# One rank a core, as far as there are cores; each computes on one thread.
ranks=$(($(nproc) < 4 ? 2 : 4))

train() {
  mpi -n "$ranks" "$bin/pipeexec" --schedule 1f1b --microbatches 8 --micro-batch-size 4 \
    --model examples/partition/large_head.json --warmup 3 --iterations 20 "$@"
}

# The measured iterations of results, in nanoseconds, a line each.
iterations() { sed -n '/"iteration_times_ns"/,/]/p' "$@" | grep -o '[0-9]\+'; }

# Of those, the median, the lower of two in the middle.
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

# predict FLAG...: the iteration that the calibrated costs predict.
predict() {
  "$bin/pipesim" --schedule 1f1b --stages "$ranks" --microbatches 8 --costs "$folder/costs.json" \
    --json "$@" | sed -n 's/^  "makespan_ns": \([0-9]*\),*$/\1/p'
}

step "train: the even split, recorded" train --quiet --trace "$folder/even.json.gz"
echo
"$bin/pipesim" partition --measured "$folder/even.json.gz" -o "$folder/layout.txt" \
  --write-costs "$folder/costs.json"
echo
# round NUMBER: of both splits the median iteration, and who else was busy meanwhile.
disturbed=0
round() {
  local started seconds others_before stolen_before to_others kept_back
  started=$(date +%s)
  by_others
  others_before=$others
  stolen_before=$stolen
  train --json >"$folder/even.$1.json"
  train --json --layout "$folder/layout.txt" >"$folder/balanced.$1.json"
  by_others
  seconds=$(($(date +%s) - started))
  to_others=$(share "$((others - others_before))" "$seconds")
  kept_back=$(share "$((stolen - stolen_before))" "$seconds")
  echo "$1 $(iterations "$folder/even.$1.json" | median)" \
    "$(iterations "$folder/balanced.$1.json" | median) $to_others $kept_back" |
    awk '{ printf "%5s %10.1f %14.1f %11s %% %13s %%\n", $1, $2 / 1e6, $3 / 1e6, $4, $5 }'
  if echo "$to_others $kept_back" | awk '{ exit !($1 + $2 > 2) }'; then
    disturbed=$((disturbed + 1))
  fi
}

# Of the processors' time, what other processes took and what the host kept back.
printf '%5s %10s %14s %13s %15s\n' round 'even, ms' 'balanced, ms' 'to others' 'kept back'
for number in $(seq "$rounds"); do round "$number"; done
echo

mapfile -t even < <(seq -f "$folder/even.%.0f.json" "$rounds")
mapfile -t balanced < <(seq -f "$folder/balanced.%.0f.json" "$rounds")
echo "$(predict) $(predict --layout "$folder/layout.txt")" \
  "$(iterations "${even[@]}" | median) $(iterations "${balanced[@]}" | median)" |
  awk '
    function gain(even, balanced) { return (1 - balanced / even) * 100 }
    function row(name, even, balanced) {
      printf "%-10s %10.1f %14.1f %10.1f %%\n", name, even / 1e6, balanced / 1e6, gain(even, balanced)
    }
    {
      printf "%-10s %10s %14s %12s\n", "", "even, ms", "balanced, ms", "gain"
      row("predicted", $1, $2)
      row("measured", $3, $4)
      if ($1 == $2) {
        print "\nThere is nothing to gain."
        exit
      }
      ratio = gain($3, $4) / gain($1, $2)
      printf "\nThe measured gain is %.2f of the predicted one: %s half of it.\n", ratio,
        (ratio >= 0.5) ? "at least" : "less than"
    }'
if [ "$disturbed" -gt 0 ]; then
  echo "Others took more than 2 % of the processors' time in $disturbed of $rounds rounds: this says"
  echo "little; measure again on an idle machine."
fi
echo
echo "$(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//')," \
  "$(nproc) cores, $ranks ranks, $(date -u +%F)"
