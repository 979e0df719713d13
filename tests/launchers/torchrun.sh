#!/usr/bin/env bash
# PyTorch's torchrun starts pipeexec, and restarts it after a rank has been killed. Installs PyTorch
# into a scratch folder, unless PIPESIM_TORCH_VENV names an environment of Python that has it; says
# where that can't be done: then its exit status is 77.
#   bash tests/launchers/torchrun.sh [BUILD]     default build/release
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/launchers/steps.sh
find_pipeexec "${1:-build/release}"

skip() {
  echo "skipped: torchrun ($1)"
  exit 77
}
environment=${PIPESIM_TORCH_VENV:-$work/venv}
if [ -z "${PIPESIM_TORCH_VENV:-}" ]; then
  python3 -m venv "$environment" >"$work/log" 2>&1 || skip "no python3-venv"
  "$environment/bin/pip" install -q torch numpy >"$work/log" 2>&1 ||
    skip "pip can't install torch: $(tail -n1 "$work/log")"
fi
[ -x "$environment/bin/torchrun" ] || skip "no torchrun in $environment"
PATH=$environment/bin:$PATH
# torchrun would set it, and warn.
export OMP_NUM_THREADS=1
flags=(--schedule 1f1b --microbatches 4)

MASTER_PORT=$(free_ports 1)
export MASTER_PORT
expect "examples/ranks/by_torchrun.sh: bit for bit" equal \
  bash examples/ranks/by_torchrun.sh "${flags[@]}" --iterations 2 --verify
expect "--standalone: bit for bit" equal torchrun --standalone --nproc-per-node 2 --no-python \
  pipeexec "${flags[@]}" --iterations 2 --verify

# At its first start rank 1 is killed once there is a checkpoint; then few iterations are left.
cd "$work"
cat >rank <<'SCRIPT'
#!/usr/bin/env bash
echo "$RANK" >>starts
iterations=90000
if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then
  saved=(ck/iteration-*)
  iterations=$((10#${saved[-1]##*-} + 10))
elif [ "$RANK" = 1 ]; then
  while kill -0 $$; do
    if [ -e ck/latest ]; then kill -9 $$; fi
    sleep 0.1
  done 2>/dev/null &
fi
exec pipeexec "$@" --iterations $iterations
SCRIPT
chmod +x rank
restarted() {
  torchrun --standalone --nproc-per-node 2 --max-restarts 1 --no-python \
    ./rank "${flags[@]}" --checkpoint ck --checkpoint-every 50 --resume ck 2>&1 | tee out
}
expect "a rank is killed: torchrun ends with 0" restarted
expect "it went on from a checkpoint" grep 'resumed from the checkpoint of iteration [0-9]*0$' out
[ "$(sort starts | tr -d '\n')" = 0011 ] || not_so "both ranks are started twice"
