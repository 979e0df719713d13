#!/usr/bin/env bash
# A llama of 10 M parameters learns the built-in text: 2 ranks, 300 steps of 2,048 tokens, by three
# schedules. Its loss must come below 2.2 nats a byte, from 5.7: who knows the last byte alone
# can do no better than 2.36 there. The losses of all schedules must be the same to the last bit.
#
#   bash tests/learns.sh [FOLDER]        with the programs in that folder; default build/release
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/steps.sh

pipeexec=${1:-build/release}/pipeexec
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for schedule in 1f1b gpipe zb-h1; do
  mpi -n 2 "$pipeexec" --schedule "$schedule" --microbatches 4 --micro-batch-size 4 \
    --sequence-length 128 --model tests/data/models/llama_10m.json --iterations 300 --warmup 0 \
    --learning-rate 0.001 --json >"$folder/$schedule.json"
done
python3 - "$folder" <<'PYTHON'
import json, sys

losses = {name: json.load(open(f"{sys.argv[1]}/{name}.json"))["losses"]
          for name in ("1f1b", "gpipe", "zb-h1")}
first, last = losses["1f1b"][0], sum(losses["1f1b"][-10:]) / 10
print(f"loss {first:.3f} at first, {last:.3f} in the last 10 of {len(losses['1f1b'])} steps")
if any(one != losses["1f1b"] for one in losses.values()):
    sys.exit("the schedules' losses differ")
if not 5.4 < first < 5.8 or not last < 2.2:
    sys.exit("it should come from 5.4 to 5.8 to below 2.2")
PYTHON
