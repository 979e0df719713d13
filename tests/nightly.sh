#!/usr/bin/env bash
# What takes too long for every change: the tests as they are in tests/run.sh, then
#   - every source compiled by itself, with warnings as errors: a unity build hides an
#     include that is missing; and the CUDA module for all architectures;
#   - tests that go through many shapes, with all of them;
#   - benchmarks and examples, which no test needs;
#   - all tests under the address and undefined-behaviour sanitizers, those of the emulated
#     GPU and of the window included;
#   - what has threads under the thread sanitizer;
#   - 100,000 random programs, as released and under sanitizers;
#   - 10,000 random shapes of schedule families;
#   - 3,000 plans with random flags, some of them absurd, that end in time;
#   - 500 trainings that are struck while they save, prune or resume, 200 whose disk is full,
#     200 that are told to stop at random moments, 200 damaged checkpoints;
#   - 300 random layouts with replicas and shards, over MPI and over TCP;
#   - a llama of 10 M parameters that learns, the same by three schedules;
#   - the fuzzers for five minutes each;
#   - what is tried on a machine with a GPU, on an emulated one;
#   - Debian packages, installed in a bare Debian, tried and removed;
#   - the HIP module, where Debian offers hipcc.
#   bash tests/nightly.sh                all of it
#   bash tests/nightly.sh --after-run    where tests/run.sh has passed in this folder
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") bash tests/run.sh ;;
  --after-run) ;;
  *) echo "nightly.sh: unknown flag '$1'; there is --after-run" >&2; exit 2 ;;
esac
. examples/steps.sh
export PIPESIM_THOROUGH=1

build_by_itself() {
  cmake --preset release -B build/plain -DCMAKE_UNITY_BUILD=OFF -DPIPESIM_WERROR=ON
  cmake --build build/plain
}

sanitized=build/asan-ubsan-nightly
build_sanitized() {
  cmake --preset asan-ubsan -B $sanitized -DPIPESIM_QT=ON \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1"
  cmake --build $sanitized --target tests
}

build_tsan() {
  cmake --preset tsan
  cmake --build --preset tsan
}

# random_programs TREE
random_programs() {
  env PIPESIM_RANDOM_PROGRAMS=100000 "$1/tests/sim_tests" '--gtest_filter=Transfers.*'
  env PIPESIM_RANDOM_PROGRAMS=5000 "$1/tests/sim_tests" '--gtest_filter=Receives.*'
}

# random_families TREE
random_families() {
  env PIPESIM_RANDOM_FAMILIES=10000 "$1/tests/sim_tests" '--gtest_filter=RandomFamilies.*'
}

hostile_plans() {
  env PIPESIM_HOSTILE_PLANS=3000 build/release/tests/program_tests --gtest_filter='HostilePlans.*'
}

# Processes that MPI and TCP connect.
random_layouts() {
  local launched='*RandomLayouts*'
  env PIPESIM_RANDOM_LAYOUTS=150 build/release/tests/tcp_tests --gtest_filter="$launched"
  env PIPESIM_RANDOM_LAYOUTS=150 build/release/tests/mpi_tests --gtest_filter="$launched"
}

# Each is struck one to three times.
struck_trainings() {
  local struck='CheckpointFaults.StruckTrainings*'
  env PIPESIM_CHECKPOINT_TRIALS=500 build/release/tests/tcp_tests --gtest_filter="$struck"
  env PIPESIM_CHECKPOINT_TRIALS=200 PIPESIM_CHECKPOINT_FAULT=full \
    build/release/tests/tcp_tests --gtest_filter="$struck"
}

stopped_trainings() {
  env PIPESIM_SIGNAL_TRIALS=200 build/release/tests/mpi_tests --gtest_filter='StopSignal.*'
}

damaged_checkpoints() {
  env PIPESIM_DAMAGE_TRIALS=200 build/release/tests/tcp_tests --gtest_filter='*DamagedCheckpoints*'
}

build_hip() {
  cmake --preset release -B build/hip -DPIPESIM_CUDA=OFF -DPIPESIM_HIP_ARCHITECTURES=gfx90a
  cmake --build build/hip --target pipesim_hip
}

step "build: every source by itself" build_by_itself
step "build: benchmarks and examples" cmake --build --preset release
step "test: release, all shapes" ctest --preset release -L '^thorough$' -j2
step "build: asan-ubsan, all tests" build_sanitized
step "test: asan-ubsan, all tests" ctest --test-dir $sanitized -j2 --output-on-failure
step "build: tsan" build_tsan
step "test: tsan" ctest --preset tsan -j2
step "100,000 random programs" random_programs build/release
step "100,000 random programs: asan-ubsan" random_programs $sanitized
step "10,000 random shapes of families" random_families build/release
step "3,000 hostile plans" hostile_plans
step "random layouts over MPI and TCP" random_layouts
step "700 trainings struck while they save" struck_trainings
step "200 trainings told to stop" stopped_trainings
step "200 damaged checkpoints" damaged_checkpoints
step "a llama learns" bash tests/learns.sh build/release
step "fuzz for five minutes each" bash tests/fuzz.sh $sanitized 300
step "what a machine with a GPU tries, on an emulated one" bash bench/gpu/run.sh --small \
  --binaries build/release --module build/release/tests/emulated_gpu \
  --only verify,losses,recorder,fidelity cuda build/gpu/emulated
# Skipped where it has no root and no mirror, of which its log says more.
packages() {
  local status=0
  bash tests/package.sh build/release || status=$?
  [ $status = 0 ] || [ $status = 77 ]
}
step "install mmdebstrap" install_offered mmdebstrap dpkg-dev
step "packages in a bare Debian" packages
grep '^skipped: ' "$log_folder/$step_number-packages-in-a-bare-Debian.log" || true
step "install hipcc" install_offered hipcc
if command -v hipcc >/dev/null; then
  step "build: the HIP module, gfx90a" build_hip
  echo "compiled: the HIP module by $(hipcc --version 2>/dev/null | grep -m1 -i 'hip version'), for gfx90a"
else
  echo "skipped: the HIP module (hipcc is not offered here)"
fi
