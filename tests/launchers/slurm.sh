#!/usr/bin/env bash
# A Slurm of this machine alone, with folders, ports and keys of its own, starts pipeexec, whose
# ranks PMIx or TCP connects, and runs the job scripts of exec/README.md: one is told to stop by its
# time limit, one loses a rank, and both are requeued and end well. Needs root and Debian's Slurm,
# which it installs, and says where it has neither: then its exit status is 77.
#   bash tests/launchers/slurm.sh [BUILD]        default build/release
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh
. tests/launchers/steps.sh
find_pipeexec "${1:-build/release}"

skip() {
  echo "skipped: a Slurm of one machine ($1)"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "needs root"
install_offered slurm-wlm munge openmpi-bin >"$work/log" 2>&1 || skip "can't be installed"
for program in munged slurmctld slurmd sbatch mpirun; do
  command -v $program >/dev/null || skip "$program is not installed"
done
host=$(hostname -s)
getent hosts "$host" >/dev/null || skip "this machine's name has no address"

# ---- A Slurm

read -r controller_port daemon_port master_port <<<"$(free_ports 3)"
chmod 711 "$work"
mkdir "$work"/{state,spool}
(umask 077 && head -c 128 /dev/urandom >"$work/munge.key")
cat >"$work/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldPort=$controller_port
SlurmdPort=$daemon_port
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
ReturnToService=2
KillWait=3
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE
CONF
export SLURM_CONF=$work/slurm.conf

daemons=()
daemon() {
  (cd "$work" && exec "$@") >>"$work/daemons.log" 2>&1 </dev/null &
  daemons+=($!)
}
idle() { [ "$(sinfo -h -o %t 2>&1)" = idle ]; }
no_jobs() { [ -z "$(squeue -h 2>&1)" ]; }
tear_down() {
  if [ ${#daemons[@]} = 3 ]; then
    scancel --me 2>/dev/null || true
    try_for 60 no_jobs || true
  fi
  for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do
    kill "${daemons[i]}" 2>/dev/null || true
    wait "${daemons[i]}" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap tear_down EXIT

daemon munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
  --pid-file="$work/munged.pid" --log-file="$work/munged.log" --seed-file="$work/munge.seed"
await "munge answers" munge -n -S "$work/munge.socket"
daemon slurmctld -D -c
daemon slurmd -D -N "$host"
await "Slurm is ready" idle
srun --mpi=list 2>&1 | grep -q 'pmix$' || skip "its Slurm has no PMIx"

# ---- Steps

flags=(--schedule 1f1b --microbatches 8 --iterations 2 --verify)
refused() {
  srun --mpi=none -n 2 pipeexec "${flags[@]}" 2>&1 | tee "$work/refused"
  [ "${PIPESTATUS[0]}" = 2 ] && [ "$(grep -c '^pipeexec: .*--mpi=pmix' "$work/refused")" = 1 ]
}
expect "srun, PMIx: bit for bit" equal srun --mpi=pmix -n 4 pipeexec "${flags[@]}"
expect "srun, TCP: bit for bit" equal srun --mpi=none -n 4 pipeexec --transport tcp \
  --master "127.0.0.1:$master_port" "${flags[@]}"
expect "srun, neither: it says what to add" refused

# ---- Jobs

has() {
  local facts
  facts=$(scontrol -o show job "$job") && echo "$facts"
  [[ $facts == *" $1 "* ]]
}
job=$(sbatch --parsable --nodes=1 -o "$work/out" examples/ranks/job.sbatch "${flags[@]}")
readme=$PWD/exec/README.md
cd "$work"
await "examples/ranks/job.sbatch ends with 0" has 'JobState=COMPLETED'
expect "bit for bit" equal cat out

# submit NAME WORDS: starts the README's script with these words in a folder of that name, and
# awaits a checkpoint. It is to train for as many iterations as the file `iterations` says.
submit() {
  mkdir "$work/$1"
  cd "$work/$1"
  awk -v words="$2" 'BEGIN { RS = "```\n" } index($0, words) { printf "%s", $0; exit }' \
    "$readme" >script
  echo 100000 >iterations
  job=$(sbatch --parsable -n 2 -o out script)
  await "$1: it saves" test -e ck/latest
}
requeued() { has 'JobState=PENDING' && has 'Restarts=1'; }
# By itself Slurm starts it after two minutes; started at once, Slurm 22.05 fails to launch it.
goes_on() {
  local saved
  await "it is requeued" requeued
  saved=$(newest ck)
  echo $((saved + 10)) >iterations
  scontrol update jobid="$job" StartTime=now+5 TimeLimit=UNLIMITED
  await "it starts again, and ends with 0" has 'JobState=COMPLETED'
  expect "from the last checkpoint, $saved" \
    grep "resumed from the checkpoint of iteration $saved$" out
}

submit "a job near its time limit" '#SBATCH --requeue'
scontrol update jobid="$job" TimeLimit=2 # so that less than 120 s are left
await "its ranks end with 143" grep 'Exited with exit code 143' out
goes_on

submit "a job, one of whose ranks is killed" '#SBATCH --requeue'
kill -9 "$(scontrol listpids "$job.0" | awk '$5 == 1 { print $1 }')"
await "the other rank ends, too" grep 'task 0: Killed' out
goes_on

# Its mpirun starts 2 ranks instead of 16.
cat >"$work/bin/mpirun" <<SCRIPT
#!/usr/bin/env bash
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec "$(command -v mpirun)" "\${@/#16/2}"
SCRIPT
chmod +x "$work/bin/mpirun"
submit "a job of supervise near its time limit" 'exec pipeexec supervise'
scontrol update jobid="$job" TimeLimit=2
await "it ends with 138" has 'ExitCode=138:0'
expect "after it has saved" grep 'stopped by signal 15 after iteration [0-9]*, which is saved' out
