#!/usr/bin/env bash
# How right predictions of checkpoints are: what a SAVE takes, in memory and on the disk, and what
# it adds to a run. saves.py says what runs; arguments are its own.
#
#   bash bench/fidelity/saves.sh             5 turns, on an idle machine
#   bash bench/fidelity/saves.sh --turns 1 --case disk-2
#   BIN=build/work bash bench/fidelity/saves.sh    programs from there; builds nothing
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build --preset release --target pipesim pipeexec
}
if [ -z "${BIN:-}" ]; then
  step "install packages" install "${build_packages[@]}" python3
  step "build: release" build
fi

by_others
others_before=$others
stolen_before=$stolen
started=$(date +%s)
within=0
python3 -B bench/fidelity/saves.py --programs "${BIN:-build/release}" "$@" || within=$?
by_others
seconds=$(($(date +%s) - started))

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo "others:  $(share "$((others - others_before))" "$seconds") % of the processors' time went to other"
echo "         processes meanwhile, and the host kept back $(share "$((stolen - stolen_before))" "$seconds") %"
exit "$within"
