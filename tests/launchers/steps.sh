# Sourced by slurm.sh and torchrun.sh: a scratch folder, $work, and pipeexec on the path.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'echo "${0##*/}: line $LINENO failed"' ERR

# find_pipeexec BUILD: the one in $work/bin runs that build's. It trains a small model, for as many
# iterations as the file `iterations` says instead of 100000.
find_pipeexec() {
  mkdir "$work/bin"
  cat >"$work/bin/pipeexec" <<SCRIPT
#!/usr/bin/env bash
[ "\$1" = supervise ] || small=(--sequence-length 8 --micro-batch-size 1)
[[ " \$* " != *" 100000 "* ]] || set -- "\${@/#100000/\$(cat iterations)}"
exec "$(realpath "$1/pipeexec")" "\$@" "\${small[@]}"
SCRIPT
  chmod +x "$work/bin/pipeexec"
  PATH=$work/bin:$PATH
}

# newest FOLDER: the iteration of its newest checkpoint.
newest() {
  local all=("$1"/iteration-*)
  echo $((10#${all[-1]##*-}))
}

free_ports() {
  python3 -c '
import socket, sys
sockets = [socket.create_server(("", 0)) for _ in range(int(sys.argv[1]))]
print(*(one.getsockname()[1] for one in sockets))' "$1"
}

# try_for SECONDS COMMAND...: until it succeeds; asks ten times a second.
try_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >"$work/log" 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

not_so() {
  cat "$work/log"
  [ ! -e out ] || cat out # of a job
  echo "${0##*/}: not so: $1"
  exit 1
}
# await WHAT COMMAND...: for five minutes at most.
await() {
  try_for 300 "${@:2}" || not_so "$1"
  echo "$1"
}
expect() {
  "${@:2}" >"$work/log" 2>&1 || not_so "$1"
  echo "$1"
}
# equal COMMAND...: what it trains equals one rank's.
equal() {
  "$@" 2>&1 | tee "$work/trained" &&
    grep -q "equal one rank's bit for bit" "$work/trained"
}
