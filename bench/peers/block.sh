#!/usr/bin/env bash
# A decoder block, forward and backward, by pipesim and by PyTorch's CPU in eager mode and by
# torch.compile, on one thread, in turns in one run: the thread's processor time, medians
# over the turns; and beside that what pipesim's matrix products are of bare oneDNN. PYTHON
# names a Python that has PyTorch; without one it says so.
#   bash bench/peers/block.sh [TURNS]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh
turns=${1:-5}

build() {
  cmake --preset release
  cmake --build --preset release --target block_bench
}
step "install packages" install "${build_packages[@]}" "${test_packages[@]}"
step "build: release" build

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
for shape in "1 256" "4 256"; do
  # shellcheck disable=SC2086
  build/release/bench/block_bench --parts llama 1024 $shape 20
done

python=${PYTHON:-python3}
if ! version=$("$python" bench/peers/pytorch_block.py --version 2>/dev/null); then
  echo "skipped: $python has no PyTorch (PYTHON=... names another); there is nothing to compare with"
  exit 0
fi

by_pytorch() {
  if ! "$python" bench/peers/pytorch_block.py "$@" 2>"$log_folder/pytorch_block.log"; then
    cat "$log_folder/pytorch_block.log" >&2
    return 1
  fi
}

# in_turns SHAPE: a line for each of the three, in every turn.
in_turns() {
  local turn mode time
  for ((turn = 0; turn < turns; turn++)); do
    # shellcheck disable=SC2086
    time=$(build/release/bench/block_bench --times $1 10)
    echo "pipesim $time"
    for mode in eager compiled; do
      # shellcheck disable=SC2086
      time=$(by_pytorch $mode $1 10)
      echo "$mode $time"
    done
  done
}

echo
echo "PyTorch $version, eager and compiled; heads of 64, in a llama four of them with the same"
echo "keys, and an MLP of 4 x hidden, in a llama gated and of 2.75; no dropout, float32, one thread, ms"
echo
printf '%-6s %6s %5s %8s  %-8s %8s %9s %8s %8s\n' block hidden batch sequence '' forward backward both least
for shape in "llama 1024 1 256" "llama 1024 4 256" "gpt 512 4 256" "gpt 1024 4 256" "gpt 512 1 1024"; do
  in_turns "$shape" | awk -v shape="$shape" '
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
      if (NR == 0) exit 1
      split(shape, part)
      split("eager compiled pipesim", order)
      for (i = 1; i <= 3; i++) {
        who = order[i]
        printf "%-6s %6s %5s %8s  %-8s %8.1f %9.1f %8.1f %8.1f", part[1], part[2], part[3], part[4],
               who, median(who, 2), median(who, 3), median(who, 4), least[who]
        if (who != "pipesim") {
          printf "  pipesim is %.2fx as fast, by the least %.2fx",
                 median(who, 4) / median("pipesim", 4), least[who] / least["pipesim"]
        }
        printf "\n"
        part[1] = part[2] = part[3] = part[4] = ""
      }
    }'
done
