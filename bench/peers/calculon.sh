#!/usr/bin/env bash
# Layouts of GPT-3 175B on 4,096 A100 that one core evaluates in full, by pipesim's planner and by
# Calculon, in turns in one run; then what `pipesim plan` makes of the whole space. CALCULON names a
# checkout of github.com/calculon-ai/calculon, PYTHON a Python that has what it imports (numpy,
# pandas, psutil); without them it says so.
#   CALCULON=... bash bench/peers/calculon.sh [SECONDS [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh
seconds=${1:-60}
rounds=${2:-3}

build() {
  cmake --preset release
  cmake --build --preset release --target pipesim plan_bench
}
step "install packages" install "${build_packages[@]}"
step "build: release" build

python=${PYTHON:-python3}
if [ ! -f "${CALCULON:-}/calculon/llm/llm.py" ]; then
  echo "skipped: CALCULON=... names no checkout of Calculon; there is nothing to compare with"
  exit 0
fi
if ! "$python" -c "import numpy, pandas, psutil" 2>/dev/null; then
  echo "skipped: $python lacks numpy, pandas or psutil (PYTHON=... names another)"
  exit 0
fi

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo
exec "$python" -B bench/peers/compare_plans.py "$CALCULON" \
  build/release/bench/plan_bench build/release/pipesim "$seconds" "$rounds"
