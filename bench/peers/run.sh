#!/usr/bin/env bash
# pipesim and SimGrid on the same 1F1B problems, whole processes, in turns in
# one run: least and median wall time of each, and their ratio.
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build --preset release
}
step "install packages" install "${build_packages[@]}" "${test_packages[@]}" "${peer_packages[@]}"
step "build: release" build

bin=build/release
peer=$bin/bench/peers/simgrid_1f1b
if [ ! -x "$peer" ]; then
  echo "skipped: SimGrid was not found (libsimgrid-dev); there is nothing to compare with"
  exit 0
fi

echo
echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
echo "date:    $(date -u +%F)"
echo "F = 1 ms, B = 2 ms, 45 us a hop; SimGrid $(dpkg-query -W -f='${Version}' libsimgrid-dev 2>/dev/null || echo '?')"
echo
printf '%6s %6s  %-24s %12s %12s %8s\n' stages m '' 'makespan, ms' 'median, ms' ratio
median() { "$bin/bench/process_cost" -n "$1" "${@:2}" | sed 's/.*median \([0-9.]*\) ms.*/\1/'; }
for shape in "8 64" "64 256" "64 1024" "256 4096"; do
  read -r p m <<<"$shape"
  theirs=$(median 3 "$peer" "$p" "$m" 1e6 2e6 45e3)
  printf '%6s %6s  %-24s %12s %12s\n' "$p" "$m" SimGrid "$("$peer" "$p" "$m" 1e6 2e6 45e3)" "$theirs"
  for mode in async "async, 1 B" fifo edge-fifo; do
    arguments=(--schedule 1f1b --stages "$p" --microbatches "$m" --p2p-latency 45us --json)
    case $mode in
      "async, 1 B") arguments+=(--p2p async --p2p-bytes 1B) ;; # messages with buffers
      *) arguments+=(--p2p "$mode") ;;
    esac
    ours=$(median 15 "$bin/pipesim" "${arguments[@]}")
    ns=$("$bin/pipesim" "${arguments[@]}" | sed -n 's/.*"makespan_ns": \([0-9]*\).*/\1/p')
    awk -v mode="pipesim, $mode" -v ns="$ns" -v ours="$ours" -v theirs="$theirs" 'BEGIN {
      printf "%6s %6s  %-24s %12.6f %12s %7.1fx\n", "", "", mode, ns / 1e6, ours, theirs / ours }'
  done
done
