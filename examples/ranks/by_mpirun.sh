#!/usr/bin/env bash
# Starts a rank for each slot of a host file, by mpirun:
#   bash examples/ranks/by_mpirun.sh --schedule 1f1b --microbatches 8
# Hosts need pipeexec at the same place, and ssh without a password. HOSTS names another file.
set -euo pipefail
hosts=${HOSTS:-$(dirname "$0")/hosts}
exec mpirun --hostfile "$hosts" "$(command -v pipeexec)" "$@"
