#!/usr/bin/env bash
# Starts RANKS ranks (2) a host by PyTorch's torchrun, which TCP connects:
#   bash examples/ranks/by_torchrun.sh --schedule 1f1b --microbatches 8
# On several hosts, run it on each with HOSTS, how many there are, HOST, the number of this
# one from 0, and MASTER_ADDR, the name of the first.
set -euo pipefail
exec torchrun --nnodes "${HOSTS:-1}" --node-rank "${HOST:-0}" --nproc-per-node "${RANKS:-2}" \
  --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" \
  --no-python "$(command -v pipeexec)" "$@"
