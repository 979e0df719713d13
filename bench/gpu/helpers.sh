# shellcheck shell=bash disable=SC2154 # run.sh sets what is used here
# Sourced by run.sh: what runs a command of a part, notes how it went, and describes
# the machine.

# note NAME ok|failed|"left out" [WHY] [SECONDS]
note() {
  printf '%s\t%s\t%s\t%s\t%s\n' "${part:-}" "$1" "$2" "${4:-0}" "${3:-}" >>"$work/status"
  if [ "$2" = "left out" ]; then printf '%-52s left out: %s\n' "$1" "$3"; fi
}

log_of() { echo "$work/logs/${1//[^a-zA-Z0-9]/-}.log"; }

# run LIMIT NAME COMMAND...: a line here, its output in a log. LIMIT is in seconds.
run() {
  local limit=$1 name=$2 start=$SECONDS status=0 left=$((seconds - SECONDS))
  shift 2
  local log
  log=$(log_of "$name")
  if [ "$left" -le 0 ]; then
    note "$name" failed "no time was left for it"
    printf '%-52s FAILED: no time left\n' "$name"
    return 1
  fi
  timeout -k 5 "$((limit < left ? limit : left))" "$@" >"$log" 2>"$log.err" </dev/null || status=$?
  if [ "$status" = 0 ]; then
    note "$name" ok "" "$((SECONDS - start))"
    printf '%-52s ok %5s s\n' "$name" "$((SECONDS - start))"
  elif [ "$status" = 77 ]; then
    note "$name" "left out" "$(sed -n 's/^skipped: //p' "$log")"
    status=0
  else
    local why
    why=$(tail -n 1 "$log.err" | cut -c 1-200)
    if [ "$status" = 124 ] || [ "$status" = 137 ]; then why="not done in time; $why"; fi
    note "$name" failed "status $status; $why" "$((SECONDS - start))"
    printf '%-52s FAILED with %s\n' "$name" "$status"
    tail -q -n 12 "$log" "$log.err" | cut -c 1-300
  fi
  return "$status"
}

# beside N: waits until fewer than N commands run in the background.
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n; done
}

# figures NAME: what that run printed, one JSON object a line, becomes results.
figures() {
  if [ -e "$(log_of "$1")" ]; then grep '^{' "$(log_of "$1")" >>"$work/figures.jsonl"; fi
}

# check NAME ARGUMENT...: of checks.py.
check() {
  local name=$1 status=0
  shift
  run 30 "$name" "$python" bench/gpu/checks.py "$@" || status=$?
  if [ -e "$(log_of "$name")" ]; then
    figures "$name"
    grep -v '^{' "$(log_of "$name")" | sed 's/^/   /'
  fi
  return "$status"
}

# Whether the GPU is there that all parts but the build need; else notes why not.
find_gpu() {
  local why
  if [ -n "${found_gpu:-}" ]; then return; fi
  if [ ! -x "$module/pipeexec" ]; then
    why="$module has no pipeexec; the part build makes it"
  elif "$module/pipeexec" --list-devices >"$(log_of "list of devices")" 2>&1 &&
    grep -q "^  $device " "$(log_of "list of devices")"; then
    found_gpu=yes
    return
  else
    why=$(sed -n "s/^  $kind  *not here: //p" "$(log_of "list of devices")")
  fi
  note "the GPU $device" failed "${why:-$module/pipeexec --list-devices does not name it}"
  return 1
}

has_target() { cmake --build "$build" --target help | grep -w "$1" >/dev/null; }

describe_machine() {
  {
    date -u +%F
    uname -mr
    grep -m1 'model name' /proc/cpuinfo
    echo "$(nproc) cores"
    nvidia-smi || rocm-smi
    nvcc --version || hipcc --version
  } >"$work/logs/machine.log" 2>&1
  echo "date:    $(date -u +%F)"
  echo "machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores"
  nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm,power.limit \
    --format=csv,noheader 2>/dev/null | sed 's/^/GPU:     /'
  nvcc --version 2>/dev/null | sed -n 's/.*release/nvcc:    release/p'
}

# Where the toolkit lacks cuBLAS or NCCL and Python's packages have them, as beside
# PyTorch: adds to $settings where, and keeps the folder of NCCL in $nccl_folder.
find_packaged_libraries() {
  local root library header
  root=$("$python" -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || return 1
  library=$(find "$root" -name 'libcublas.so.*' | head -n 1)
  header=$(find "$root" -name cublas_v2.h | head -n 1)
  if grep -q 'left out: cuBLAS' "$(log_of configure)" && [ -n "$library" ] && [ -n "$header" ]; then
    settings+=("-DCUDA_cublas_LIBRARY=$library" "-DCUDA_cublasLt_LIBRARY=${library/libcublas/libcublasLt}")
    export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}${header%/*}
  fi
  library=$(find "$root" -name 'libnccl.so.2' | head -n 1)
  header=$(find "$root" -name nccl.h | head -n 1)
  if [ -n "$library" ] && [ -n "$header" ]; then
    settings+=("-DPIPESIM_NCCL_INCLUDE_FOLDER=${header%/*}")
    nccl_folder=${library%/*}
  fi
}

mpirun=$(command -v mpirun.openmpi || command -v mpirun)

# has_transport NAME: whether pipeexec can use it here.
has_transport() { "$module/pipeexec" --list-devices | grep -v 'not here' | grep -q "^  $1 "; }

# over_mpi RANKS COMMAND...: the command line; ranks may be more than processors.
over_mpi() {
  command=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    "LD_LIBRARY_PATH=${nccl_folder:+$nccl_folder:}${LD_LIBRARY_PATH:-}"
    "$mpirun" --oversubscribe -n "$@")
}
