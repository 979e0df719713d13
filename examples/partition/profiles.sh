#!/usr/bin/env bash
# Splits GNMT and ResNet-50, as PipeDream profiled them, over 4 and 8 stages of 1F1B:
# an iteration split evenly, with the least bottleneck, and in the least time.
#
#   bash examples/partition/profiles.sh
#   PIPESIM=pipesim bash examples/partition/profiles.sh     one that is built already
set -euo pipefail
cd "$(dirname "$0")/../.."

pipesim=${PIPESIM:-build/release/pipesim}
if [ -z "${PIPESIM:-}" ]; then
  . examples/steps.sh
  build() {
    cmake --preset release
    cmake --build --preset release --target pipesim
  }
  step "install packages" install "${build_packages[@]}"
  step "build: release" build
  echo
fi

# partition MODEL STAGES FLAG...: the result as JSON.
partition() {
  local model=$1 stages=$2
  shift 2
  "$pipesim" partition --graph "examples/partition/${model}_graph.txt" --schedule 1f1b \
    --stages "$stages" --microbatches 32 --p2p-bandwidth 10GB/s --p2p-latency 10us --json "$@"
}

# The time of a search is not limited, so that its end is the same on any machine.
row() {
  {
    partition "$@" --objective bottleneck
    partition "$@" --objective iteration --budget 3600s
  } | awk -v model="$1" -v stages="$2" '
    { gsub(/[",:]/, "") }
    /^  objective/ { objective = $2 }
    /^  (even|balanced)/ { split_name = $1 }
    /^  layout/ { layout = ""; inside = 1; next }
    /\]/ { inside = 0 }
    inside { layout = layout (layout == "" ? "" : ",") $1 }
    /^    makespan_ns/ { ms[objective, split_name] = $2 / 1e6 }
    END {
      even = ms["iteration", "even"]
      least = ms["iteration", "balanced"]
      printf "%-9s %6d %9.1f %12.1f %9.1f %7.1f %%  %s\n", model, stages, even,
        ms["bottleneck", "balanced"], least, (1 - least / even) * 100, layout
    }'
}

cat <<HEAD
                 iteration, ms
                             least
model     stages    evenly  bottleneck  balanced     less  layout
HEAD
for model in gnmt resnet50; do
  for stages in 4 8; do row "$model" "$stages"; done
done
