#!/usr/bin/env bash
# Two hosts with a slow link between them, emulated on this one by network namespaces, and a
# training over it: RANKS ranks (4), the first half on one host, the others on the other.
#   sudo env "PATH=$PATH" bash examples/ranks/two_hosts.sh --schedule 1f1b --microbatches 8
# RATE (100mbit) and DELAY (2ms) are those of the link. Needs root, ip and tc; ends with
# status 77 where namespaces may not be made.
set -euo pipefail
ranks=${RANKS:-4}
names=("pipesim-a-$$" "pipesim-b-$$")
links=("ps$$a" "ps$$b")
addresses=(10.214.0.1 10.214.0.2)

clean_up() {
  for name in "${names[@]}"; do ip netns del "$name" 2>/dev/null || true; done
}
trap clean_up EXIT

on() { # on HOST COMMAND...: in its network, under its name
  local host=$1
  shift
  ip netns exec "${names[$host]}" unshare --uts sh -c 'hostname "$1" && shift && exec "$@"' sh \
    "host$host" "$@"
}

# Kernels without netem have tbf, which knows no delay.
slow_down() { # slow_down HOST
  local queue=(tc qdisc add dev "${links[$1]}" root)
  on "$1" "${queue[@]}" netem delay "${DELAY:-2ms}" rate "${RATE:-100mbit}" 2>/dev/null ||
    { on "$1" "${queue[@]}" tbf rate "${RATE:-100mbit}" burst 32kbit latency 400ms &&
      echo "the link from host$1 has no delay: this kernel has no netem" >&3; }
}

make_hosts() {
  ip netns add "${names[0]}" && ip netns add "${names[1]}" &&
    ip link add "${links[0]}" netns "${names[0]}" type veth \
      peer name "${links[1]}" netns "${names[1]}" || return
  local host
  for host in 0 1; do
    on $host ip addr add "${addresses[$host]}/24" dev "${links[$host]}" &&
      on $host ip link set lo up && on $host ip link set "${links[$host]}" up &&
      slow_down $host || return
  done
}

exec 3>&2
if ! why=$(make_hosts 2>&1); then
  echo "skipped: examples/ranks/two_hosts.sh, two hosts (${why:-no reason given})"
  exit 77
fi
processes=()
for ((rank = ranks - 1; rank >= 0; rank--)); do # rank 0 comes last, and speaks
  on $((rank * 2 / ranks)) pipeexec --transport tcp --rank "$rank" --ranks "$ranks" \
    --master "${addresses[0]}:29500" "$@" &
  processes+=($!)
done
status=0
for process in "${processes[@]}"; do wait "$process" || status=$?; done
exit "$status"
