#!/usr/bin/env bash
# Starts RANKS ranks (2) on this machine, which TCP connects; no launcher is needed:
#   bash examples/ranks/by_hand.sh --schedule 1f1b --microbatches 8
# On several hosts, start each rank there by such a line, with rank 0's host for 127.0.0.1.
set -euo pipefail
ranks=${RANKS:-2}
master=127.0.0.1:${MASTER_PORT:-29500}
others=()
for ((rank = 1; rank < ranks; rank++)); do
  pipeexec --transport tcp --rank "$rank" --ranks "$ranks" --master "$master" "$@" &
  others+=($!)
done
status=0
pipeexec --transport tcp --rank 0 --ranks "$ranks" --master "$master" "$@" || status=$?
for process in "${others[@]}"; do wait "$process" || status=$?; done
exit "$status"
