#!/usr/bin/env bash
# A decoder block, forward and backward, by pipesim and by PyTorch's CPU in eager
# mode, on one thread, in turns in one run: the thread's processor time, medians
# over the turns. PYTHON names a Python that has PyTorch; without one it says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build --preset release --target block_bench
}
step "install packages" install "${build_packages[@]}" "${test_packages[@]}"
step "build: release" build

python=${PYTHON:-python3}
if ! version=$("$python" bench/peers/pytorch_block.py --version 2>/dev/null); then
  echo "skipped: $python has no PyTorch (PYTHON=... names another); there is nothing to compare with"
  exit 0
fi

turns=5
echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo "PyTorch $version; heads of 64, MLP of 4 x hidden, no dropout, float32, one thread, ms"
echo
printf '%6s %5s %8s  %-8s %8s %9s %8s %8s\n' hidden batch sequence '' forward backward both least
for shape in "512 4 256" "1024 4 256" "512 1 1024"; do
  read -r hidden batch sequence <<<"$shape"
  for ((turn = 0; turn < turns; turn++)); do
    # shellcheck disable=SC2086
    echo "pipesim $(build/release/bench/block_bench --times $shape 10)"
    # shellcheck disable=SC2086
    echo "PyTorch $("$python" bench/peers/pytorch_block.py $shape 10)"
  done | awk -v hidden="$hidden" -v batch="$batch" -v sequence="$sequence" '
    function median(who, column, sorted, n, i, j, x) {
      n = count[who]
      for (i = 1; i <= n; i++) {
        x = time[who, column, i]
        for (j = i - 1; j > 0 && sorted[j] > x; j--) sorted[j + 1] = sorted[j]
        sorted[j + 1] = x
      }
      return sorted[int((n + 1) / 2)]
    }
    { ++count[$1]
      for (i = 2; i <= 4; i++) time[$1, i, count[$1]] = $i
      if (!($1 in least) || $5 < least[$1]) least[$1] = $5 }
    END {
      for (i = 1; i <= 2; i++) {
        who = i == 1 ? "PyTorch" : "pipesim"
        both[i] = median(who, 4)
        printf "%6s %5s %8s  %-8s %8.1f %9.1f %8.1f %8.1f", hidden, batch, sequence, who,
               median(who, 2), median(who, 3), both[i], least[who]
        printf i == 1 ? "\n" : "  %.2fx as fast, by the least %.2fx\n", both[1] / both[2], least["PyTorch"] / least["pipesim"]
        hidden = batch = sequence = ""
      }
    }'
done
