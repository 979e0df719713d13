# Sourced by quickstart.sh, tests/run.sh and bench: named steps with their time, whose
# output stays in a log unless a step fails; and the Debian packages they need.

log_folder=build/log
mkdir -p "$log_folder"
step_number=0

# step NAME COMMAND...: one line when all is well, the end of the log if not.
step() {
  local name=$1 start log
  shift
  step_number=$((step_number + 1))
  log=$log_folder/$step_number-${name//[^a-zA-Z0-9]/-}.log
  printf '%-44s' "[$step_number] $name"
  start=$SECONDS
  if "$@" >"$log" 2>&1; then
    printf 'ok %5s\n' "$((SECONDS - start)) s"
  else
    printf 'FAILED after %s s\n\n' "$((SECONDS - start))"
    tail -n 60 "$log" | cut -c 1-300
    printf '\nStep "%s" failed; its whole output: %s\n' "$name" "$log"
    exit 1
  fi
}

build_packages=(g++ cmake ninja-build libfmt-dev rapidjson-dev libcli11-dev
  libtomlplusplus-dev libstb-dev zlib1g-dev libxxhash-dev libasio-dev libopenmpi-dev openmpi-bin libdnnl-dev qtbase5-dev)
test_packages=(nlohmann-json3-dev libgtest-dev libbenchmark-dev clang clang-format libclang-rt-dev lld iproute2 python3 python3-dev python3-venv
  groff-base zsh)
# An oracle for the tests and a peer for the benchmarks.
peer_packages=(libsimgrid-dev)

# install PACKAGE...: those that are missing, as root or with sudo.
install() {
  local missing=() package
  for package in "$@"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "needs root or sudo to install: ${missing[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# install_offered PACKAGE...: those that the system's package lists have.
install_offered() {
  local offered=() package
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then offered+=("$package"); fi
  done
  install "${offered[@]}"
}

# mpi COMMAND...: ranks may be more than processors, and root may start them.
mpi() {
  local settings=(OMPI_MCA_rmaps_base_oversubscribe=1)
  if [ "$(id -u)" = 0 ]; then
    settings+=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  fi
  env "${settings[@]}" mpirun "$@"
}

# build_release: what benchmarks run, built with what that takes.
build_release() {
  step "install packages" install "${build_packages[@]}" "${test_packages[@]}"
  step "configure: release" cmake --preset release
  step "build: release" cmake --build --preset release
}

# What other processes, and other machines on the same host, took of the processors,
# in hundredths of a second, so far. No function of a subshell: times counts the
# children of this shell.
by_others() {
  times >"$log_folder/times"
  others=$(awk -v hz="$(getconf CLK_TCK)" '
    FNR == NR { gsub(/[ms]/, " "); ours += $1 * 60 + $2 + $3 * 60 + $4; next }
    FNR == 1 { print int((($2 + $3 + $4) / hz - ours) * 100) }' "$log_folder/times" /proc/stat)
  stolen=$(awk -v hz="$(getconf CLK_TCK)" 'NR == 1 { print int($9 / hz * 100) }' /proc/stat)
}

# share HUNDREDTHS SECONDS: of all processors' time, in percent.
share() {
  awk -v taken="$1" -v seconds="$2" -v cores="$(nproc)" \
    'BEGIN { printf "%.1f", taken < 0 ? 0 : taken / seconds / cores }' # ticks are coarse
}
