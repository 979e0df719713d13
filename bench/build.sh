#!/usr/bin/env bash
# Builds from scratch, one after the other, what a newcomer and continuous integration
# build, without a compiler cache, and prints where the time went: pipesim alone,
# the programs of the quickstart, the tests, and the trees of the sanitizers.
#   bash bench/build.sh           all of them
#   bash bench/build.sh --quick   pipesim alone, and the programs
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

quick=false
case "${1:-}" in
  "") ;;
  --quick) quick=true ;;
  *) echo "build.sh: unknown flag '$1'; there is --quick" >&2; exit 2 ;;
esac
export CCACHE_DISABLE=1

step "install packages" install "${build_packages[@]}" "${test_packages[@]}"

# cold NAME PRESET TARGET [FLAG...]: its seconds, configuration included.
cold() {
  local name=$1 preset=$2 target=$3
  rm -rf "build/cold-$name"
  configure() { cmake --preset "$preset" -B "build/cold-$name" "$@"; }
  step "$name: configure" configure "${@:4}"
  step "$name: build" cmake --build "build/cold-$name" --target "$target"
}
trees=(build/cold-pipesim build/cold-programs)
cold pipesim pipesim pipesim
cold programs release programs -DPIPESIM_CUDA=OFF -DPIPESIM_HIP=OFF
if command -v nvcc >/dev/null; then
  cold programs-nvcc release programs
  trees+=(build/cold-programs-nvcc)
fi
if ! $quick; then
  cold tests release tests
  cold asan-ubsan asan-ubsan tests
  cold tsan tsan thread_tests
  trees+=(build/cold-tests build/cold-asan-ubsan build/cold-tsan)
fi
echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo
python3 bench/build_times.py "${trees[@]}"
rm -rf "${trees[@]}"
