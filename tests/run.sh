#!/usr/bin/env bash
# Installs what building and testing needs (Debian packages), builds, and runs the tests:
# all as released, and the readers of foreign files with the address and
# undefined-behaviour sanitizers and as fuzzers for three seconds each. The quickstart comes
# first, in the folder that the tests are built in. tests/nightly.sh runs what takes longer.
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh
# What ccache has of another clone is as good.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true

passed=0
skipped=0

# skip WHAT AND WHY: said when it happens, and counted at the end. Only what needs a GPU or its
# compiler may be, two hosts where the system lets nobody make network namespaces, and the Python
# package where pip finds no index.
skip() {
  case "$1" in
    "the module for "* | gpu_device_test,* | *"two hosts ("* | "the Python package ("*) ;;
    *) echo "may not be skipped: $1" && exit 1 ;;
  esac
  echo "skipped: $1"
  skipped=$((skipped + 1))
}

# The CUDA module takes minutes to compile, and its kernels to try on an emulated GPU: that is for
# the night, but where their sources are not those that a night has passed.
cuda() {
  local passed
  passed=$(awk -F'\t' '$1 == "cuda" && $5 == "passed" { print $3 }' tests/nightly.tsv)
  if [ -n "$passed" ] && git diff --quiet "$passed" -- exec/device tests/gpu \
    tests/emulated_gpu tests/emulated_nccl bench/gpu traces/base/error.h 2>/dev/null
  then echo OFF; else echo ON; fi
}

# Warnings are errors in continuous integration, and in the release build only:
# sanitizers raise false alarms in code that they have rewritten. The CUDA module is compiled
# for one architecture; tests/nightly.sh compiles it for all of them.
configure() {
  local werror=OFF
  if [ "$1" = release ] && [ "${CI:-}" = true ]; then werror=ON; fi
  cmake --preset "$1" -DPIPESIM_WERROR=$werror -DPIPESIM_CUDA=$cuda -DCMAKE_CUDA_ARCHITECTURES=90 \
    -DPIPESIM_PYTHON=$python
}

# The release build leaves nothing out but what its compiler for GPUs is missing for, and, where the
# night has installed AMD's, that vendor's libraries, which Debian does not have.
configure_all() {
  if [ "$cuda" = OFF ]; then rm -f build/release/libpipesim_cuda.so; fi
  configure release | tee build/log/configured &&
    ! grep -v ' module (no working\|left out: hipBLAS\|left out: RCCL' build/log/configured |
      grep 'left out:'
}

build() {
  configure "$1"
  cmake --build --preset "$1"
}

# run_tests PRESET [OPTION...]: counts what passed, and what was skipped, of which each test
# that skips itself says why on a line of its own.
run_tests() {
  step "test: $1" ctest --preset "$@" -j4  # some of them wait for processes
  local log=$log_folder/$step_number-test--$1.log
  local count
  count=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed' "$log")
  passed=$((passed + count))
  local reason told=0
  while read -r reason; do
    skip "$reason"
    told=$((told + 1))
  done < <(sed -n 's/^skipped: //p' "build/$1/Testing/Temporary/LastTest.log")
  if [ "$(grep -cE '^ *[0-9]+/[0-9]+ Test .*Skipped' "$log")" != "$told" ]; then
    echo "a test was skipped without a word on why: see $log"
    exit 1
  fi
}

# What the Python package is built and tested with, in an environment of its own.
python_tools() {
  python3 -m venv build/venv && build/venv/bin/pip install -q nanobind numpy pandas pytest
}

check_format() {
  find . -path ./build -prune -o \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print |
    xargs clang-format --dry-run --Werror
}

cuda=$(cuda)
step "install packages" install "${build_packages[@]}" "${test_packages[@]}" "${peer_packages[@]}"
if python_tools >$log_folder/python-tools.log 2>&1; then
  python=ON
  export VIRTUAL_ENV=$PWD/build/venv PATH=$PWD/build/venv/bin:$PATH
else
  python=OFF
  skip "the Python package (no nanobind by pip: $log_folder/python-tools.log)"
fi
step "formatting" check_format
step "configure: release" configure_all
step "quickstart" bash examples/quickstart.sh
step "build: release" cmake --build --preset tests
if [ "$cuda" = ON ]; then
  run_tests release
else
  run_tests release -E '^gpu_device_emulated_test$'
fi
for module in cuda:nvcc hip:hipcc; do
  if [ -e "build/release/libpipesim_${module%:*}.so" ]; then
    echo "built: the module for ${module%:*}"
  else
    why="no working ${module#*:}"
    if [ "$module" = cuda:nvcc ] && [ "$cuda" = OFF ]; then why="as a night has passed it"; fi
    skip "the module for ${module%:*} ($why)"
  fi
done
step "build: asan-ubsan" build asan-ubsan
run_tests asan-ubsan
step "fuzz" bash tests/fuzz.sh build/asan-ubsan 3
passed=$((passed + $(find build/asan-ubsan/tests -name '*_fuzz' | wc -l)))
echo
echo "$passed passed, 0 failed, $skipped skipped"
