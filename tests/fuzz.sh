#!/usr/bin/env bash
# Fuzzes every reader of foreign files, as many at once as there are processors. New
# inputs go to a folder that is thrown away; one that fails stays, where the log says.
#   bash tests/fuzz.sh TREE SECONDS    the fuzzers of a build folder, so long each
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# != 2 ]; then
  echo "fuzz.sh: say which build folder, and how many seconds each" >&2
  exit 2
fi
tree=$1
seconds=$2
if [ ! -x "$tree/tests/csv_fuzz" ]; then
  echo "fuzz.sh: $tree has no fuzzers; cmake --preset asan-ubsan makes a folder that has" >&2
  exit 2
fi
failures=build/fuzz
mkdir -p "$failures"

fuzz() {
  local corpus log=$failures/$1.log
  corpus=$(mktemp -d)
  trap 'rm -rf "$corpus"' RETURN
  "$tree/tests/$1_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -malloc_limit_mb=64 \
    -max_len=4096 -dict=tests/fuzz/"$1".dict -artifact_prefix="$failures/$1-" \
    "$corpus" tests/fuzz/seeds/"$1" >"$log" 2>&1 || {
    tail -n 60 "$log"
    echo "the fuzzer of $1 found an input that fails; its whole log: $log"
    return 1
  }
}
export -f fuzz
export tree seconds failures
for dictionary in tests/fuzz/*.dict; do basename "$dictionary" .dict; done |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
