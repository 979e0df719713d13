#!/usr/bin/env bash
# What takes too long for every change, in parts, each for itself. tests/nightly.tsv is the ledger:
# when each part ran last, on which commit, for how many seconds, and how it ended.
#   bash tests/nightly.sh                all of it, after tests/run.sh
#   bash tests/nightly.sh --after-run    where tests/run.sh has passed in this folder
#   bash tests/nightly.sh --list         the parts and their last runs, the oldest first
#   bash tests/nightly.sh --part NAME    one of them; "oldest" is the one that waited longest
set -euo pipefail
cd "$(dirname "$0")/.."
ledger=$PWD/tests/nightly.tsv

# The parts: a function each, whose name has _ for -.
parts=(sources shapes sanitized sanitized-programs sanitized-fuzz threads plans layouts
  struck-trainings stopped-trainings damaged-checkpoints examples gpu-emulated packages launchers
  python-package cuda hip)

# name, date, commit, seconds, result; parts that never ran come first.
by_age() {
  local part
  for part in "${parts[@]}"; do
    grep "^$part"$'\t' "$ledger" || printf '%s\t-\t-\t-\tnever ran\n' "$part"
  done | sort -s -t $'\t' -k2,2
}

chosen=("${parts[@]}")
case "${1:-}" in
  "") bash tests/run.sh ;;
  --after-run) ;;
  --list) by_age | column -t -s $'\t'; exit ;;
  --part)
    chosen=("${2:-}")
    if [ "${chosen[0]}" = oldest ]; then chosen=("$(by_age | head -n1 | cut -f1)"); fi
    if [ -z "${chosen[0]}" ] || [[ " ${parts[*]} " != *" ${chosen[0]} "* ]]; then
      echo "nightly.sh: no part '${chosen[0]}'; there are: ${parts[*]}, and oldest" >&2
      exit 2
    fi ;;
  *) echo "nightly.sh: unknown flag '$1'; there are --after-run, --list and --part" >&2; exit 2 ;;
esac
. examples/steps.sh
export PIPESIM_THOROUGH=1 CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true

# note PART SECONDS RESULT: replaces its line of the ledger.
note() {
  local rest
  rest=$(grep -v "^$1"$'\t' "$ledger" || true)
  printf '%s\n%s\t%s\t%s\t%s\t%s\n' "$rest" "$1" "$(date -u +%Y-%m-%dT%H:%M)" \
    "$(git rev-parse --short HEAD)" "$2" "$3" | sed '/^$/d' | sort >"$ledger.new"
  mv "$ledger.new" "$ledger"
}

# ---- Trees

released() {
  step "configure: release" cmake --preset release -DPIPESIM_CUDA=OFF
  step "build: release" cmake --build --preset tests
}

sanitized_tree=build/asan-ubsan-nightly
build_sanitized() {
  cmake --preset asan-ubsan -B $sanitized_tree -DPIPESIM_QT=ON \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1"
  cmake --build $sanitized_tree --target tests
}

# ---- Parts

# A unity build hides an include that is missing, and a name that shadows another.
build_by_itself() {
  cmake --preset release -B build/plain -DCMAKE_UNITY_BUILD=OFF -DPIPESIM_WERROR=ON
  cmake --build build/plain
}
sources() { step "build: every source by itself" build_by_itself; }

random_programs() {
  env PIPESIM_RANDOM_PROGRAMS=100000 "$1/tests/sim_tests" '--gtest_filter=Transfers.*'
  env PIPESIM_RANDOM_PROGRAMS=5000 "$1/tests/sim_tests" '--gtest_filter=Receives.*'
}
random_families() {
  env PIPESIM_RANDOM_FAMILIES=10000 build/release/tests/sim_tests '--gtest_filter=RandomFamilies.*'
}
shapes() {
  released
  step "test: all shapes" ctest --preset release -L '^thorough$' -j2
  step "100,000 random programs" random_programs build/release
  step "10,000 random shapes of families" random_families
}

# Tests of what is run by default: all shapes would take hours.
sanitized() {
  step "build: asan-ubsan" build_sanitized
  local leaks="suppressions=$PWD/tests/leaks_of_libraries.txt:print_suppressions=0"
  step "test: asan-ubsan" env -u PIPESIM_THOROUGH LSAN_OPTIONS="$leaks" \
    ctest --test-dir $sanitized_tree -j2 --output-on-failure
}

sanitized_programs() {
  step "build: asan-ubsan" build_sanitized
  step "100,000 random programs: asan-ubsan" random_programs $sanitized_tree
}

sanitized_fuzz() {
  step "build: asan-ubsan" build_sanitized
  step "fuzz for five minutes each" bash tests/fuzz.sh $sanitized_tree 300
}

build_tsan() {
  cmake --preset tsan
  cmake --build --preset tsan
}
threads() {
  step "build: tsan" build_tsan
  step "test: tsan" ctest --preset tsan -j2
}

hostile_plans() {
  env PIPESIM_HOSTILE_PLANS=3000 build/release/tests/program_tests --gtest_filter='HostilePlans.*'
}
plans() {
  released
  step "3,000 plans of absurd flags end in time" hostile_plans
}

# Processes that MPI and TCP connect.
random_layouts() {
  local launched='*RandomLayouts*'
  env PIPESIM_RANDOM_LAYOUTS=150 build/release/tests/tcp_tests --gtest_filter="$launched"
  env PIPESIM_RANDOM_LAYOUTS=150 build/release/tests/mpi_tests --gtest_filter="$launched"
}
layouts() {
  released
  step "random layouts over MPI and TCP" random_layouts
}

# struck TRIALS [FAULT]: each is struck one to three times while it saves, prunes or resumes.
struck() {
  env PIPESIM_CHECKPOINT_TRIALS="$1" ${2:+PIPESIM_CHECKPOINT_FAULT="$2"} \
    build/release/tests/tcp_tests --gtest_filter='CheckpointFaults.StruckTrainings*'
}
struck_trainings() {
  released
  step "500 trainings struck while they save" struck 500
  step "200 trainings whose disk is full" struck 200 full
}

told_to_stop() {
  env PIPESIM_SIGNAL_TRIALS=200 build/release/tests/mpi_tests --gtest_filter='StopSignal.*'
}
stopped_trainings() {
  released
  step "200 trainings told to stop" told_to_stop
}

damaged() {
  env PIPESIM_DAMAGE_TRIALS=200 build/release/tests/tcp_tests --gtest_filter='*DamagedCheckpoints*'
}
damaged_checkpoints() {
  released
  step "200 damaged checkpoints" damaged
}

examples() {
  released
  step "build: benchmarks and examples" cmake --build --preset release
  step "a llama learns" bash tests/learns.sh build/release
}

gpu_emulated() {
  released
  step "what a machine with a GPU tries, emulated" bash bench/gpu/run.sh --small \
    --binaries build/release --module build/release/tests/emulated_gpu \
    --only verify,losses,recorder,fidelity cuda build/gpu/emulated
}

# or_skipped COMMAND...: where it lacks something, of which its log says more, its status is 77.
or_skipped() {
  local status=0
  "$@" || status=$?
  [ $status = 0 ] || [ $status = 77 ]
}
# try_or_skip NAME COMMAND...: a step that says why it was skipped.
try_or_skip() {
  step "$1" or_skipped "${@:2}"
  grep '^skipped: ' "$log_folder/$step_number-${1//[^a-zA-Z0-9]/-}.log" || true
}
packages() {
  step "install mmdebstrap" install_offered mmdebstrap dpkg-dev
  released
  try_or_skip "packages in a bare Debian" bash tests/package.sh build/release
}

python_package() { try_or_skip "a wheel, installed and tried with PyTorch" bash tests/python/wheel.sh; }

launchers() {
  released
  try_or_skip "Slurm starts, kills and requeues" bash tests/launchers/slurm.sh build/release
  try_or_skip "torchrun starts and restarts" bash tests/launchers/torchrun.sh build/release
}

# For all architectures, and what runs on such a GPU.
build_cuda() {
  cmake --preset release -B build/cuda -DPIPESIM_WERROR=ON -DPIPESIM_HIP=OFF
  cmake --build build/cuda --target pipesim_cuda gpu_device_tests gpu_speed nccl_self
}
cuda() {
  released
  step "test: kernels on an emulated GPU" \
    ctest --preset release --output-on-failure -R '^gpu_device_emulated_test$'
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    step "build: the CUDA module, for all architectures" build_cuda
  else
    echo "skipped: the CUDA module (no nvcc here)"
    return 1
  fi
}

build_hip() {
  cmake --preset release -B build/hip -DPIPESIM_CUDA=OFF -DPIPESIM_HIP_ARCHITECTURES=gfx90a
  cmake --build build/hip --target pipesim_hip
}
hip() {
  step "install hipcc" install_offered hipcc
  if command -v hipcc >/dev/null; then
    step "build: the HIP module, gfx90a" build_hip
    echo "compiled: the HIP module by $(hipcc --version 2>/dev/null | grep -m1 -i 'hip version'), for gfx90a"
  else
    echo "skipped: the HIP module (hipcc is not offered here)"
  fi
}

for part in "${chosen[@]}"; do
  echo "part: $part"
  began=$SECONDS
  if (set -e; "${part//-/_}"); then
    note "$part" $((SECONDS - began)) passed
  else
    note "$part" $((SECONDS - began)) failed
    exit 1
  fi
done
