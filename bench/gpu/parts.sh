# shellcheck shell=bash disable=SC2154 # run.sh sets what is used here
# Sourced by run.sh: the parts, each a function.

# What gets trained: gpt-mini, or less; and for times a model that keeps a GPU busy.
tiny_model=(--model gpt-mini)
busy_model=(--model bench/gpu/model.json --sequence-length 512)
short=(--microbatches 8 --iterations 2 --warmup 1) # of what is compared bit by bit
if [ -n "$small" ]; then
  tiny_model=(--model bench/gpu/small.json --sequence-length 4 --micro-batch-size 1)
  busy_model=("${tiny_model[@]}")
  short=(--microbatches 4 --iterations 1 --warmup 0)
fi

# pipeexec FLAG...: the command line of a run on threads.
pipeexec() { command=("$module/pipeexec" --transport local --device "$device" "$@"); }

# ---- build

part_build() {
  if [ -n "$binaries" ]; then
    note "build" "left out" "--binaries was given"
    return
  fi
  # For this machine's GPU alone, where it says what it is.
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  if [[ "$architecture" =~ ^[0-9]+$ ]]; then
    settings+=("-DCMAKE_CUDA_ARCHITECTURES=$architecture")
  fi
  if [ "$kind" = cuda ]; then settings+=(-DPIPESIM_HIP=OFF); else settings+=(-DPIPESIM_CUDA=OFF); fi
  local generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  run 120 "configure" cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DPIPESIM_EXAMPLES=OFF "${settings[@]}" || return
  if [ "$kind" = cuda ] && grep -q 'left out: \(cuBLAS\|NCCL\)' "$(log_of configure)" &&
    find_packaged_libraries; then
    run 120 "configure with Python's libraries" cmake -S . -B "$build" "${settings[@]}" || return
    cp "$(log_of "configure with Python's libraries")" "$(log_of configure)"
  fi
  grep 'left out' "$(log_of configure)"
  if ! has_target "pipesim_$kind"; then
    note "the module for $kind" failed "it can't be built here"
    echo "the module for $kind can't be built here: see configure.log"
    return
  fi
  run 400 "build" cmake --build "$build" --parallel "$jobs" --target pipeexec pipesim "pipesim_$kind" ||
    return
  local target targets=() keep_going=-k
  if [ ${#generator[@]} -gt 0 ]; then keep_going=-k0; fi
  for target in gpu_device_tests exec_tests thread_tests gpu_speed nccl_self; do
    if has_target "$target"; then targets+=("$target"); fi
  done
  run 400 "build tests and benchmarks" cmake --build "$build" --parallel "$jobs" \
    --target "${targets[@]}" -- "$keep_going"
}

# ---- parity: the tests that compare operators with the CPU's, and layers and runs with oracles

part_parity() {
  run 60 "list of devices" "$module/pipeexec" --list-devices && cat "$(log_of "list of devices")"
  if [ ! -x "$bin/tests/gpu_device_tests" ]; then
    note "parity with the CPU" "left out" "GoogleTest not found; add it to CMAKE_PREFIX_PATH"
    return
  fi
  run 120 "parity with the CPU" "$bin/tests/gpu_device_tests" "$module"
  local suite program
  for suite in Model Pool Stage StageMemory Step Run; do
    program=exec_tests
    if [ "$suite" = Run ]; then program=thread_tests; fi
    run 120 "$suite on the GPU" env PIPESIM_TEST_GPU="$device" PIPESIM_TEST_MODULES="$module" \
      "$bin/tests/$program" "--gtest_filter=$suite.*"
  done
}

# ---- verify: every schedule's losses, gradients and weights have the bits of one rank

# verify NAME SCHEDULE RANKS FLAG...: beside others.
verify() {
  local name=$1 schedule=$2 ranks=$3
  shift 3
  if ! "$bin/pipesim" --schedule "$schedule" --stages "$ranks" "${short[@]:0:2}" --json \
    >"$(log_of "plan $name")" 2>&1; then
    note "verify: $name" "left out" "$(head -n 1 "$(log_of "plan $name")")"
    return
  fi
  pipeexec --schedule "$schedule" --stages "$ranks" "${short[@]}" "${tiny_model[@]}" --verify --json "$@"
  beside 4
  run 120 "verify: $name" "${command[@]}" &
}

part_verify() {
  local precision ranks schedule trace
  local -a names
  mapfile -t names < <("$bin/pipesim" schedules | sed -n '/^$/q; s/^\([a-z0-9][a-z0-9-]*\) .*/\1/p')
  for precision in fp32 bf16; do
    for ranks in 1 2 4; do
      for schedule in "${names[@]}"; do
        trace=()
        if [ "$precision $ranks" = "bf16 4" ]; then
          trace=(--trace "$work/traces/$schedule.json.gz")
        fi
        verify "$precision, ranks $ranks, $schedule" "$schedule" "$ranks" --precision "$precision" \
          "${trace[@]}"
      done
    done
    for schedule in gpipe 1f1b zb-h1 interleaved; do
      verify "$precision, ranks 2, $schedule, recomputation" "$schedule" 2 --precision "$precision" \
        --recompute full
    done
    verify "$precision, ranks 2, 1f1b, sends that wait" 1f1b 2 --precision "$precision" --eager-limit 0
  done
  beside 1
  if [ -z "$mpirun" ] || ! has_transport mpi; then
    note "verify over MPI" "left out" "this build or machine has no MPI"
    return
  fi
  for ranks in 2 4; do
    over_mpi "$ranks" "$module/pipeexec" --device "$device" --schedule 1f1b "${short[@]}" \
      "${tiny_model[@]}" --verify --json
    run 120 "verify: over MPI, ranks $ranks, 1f1b" "${command[@]}"
  done
}

# ---- losses: the same twice, and near those of the CPU

part_losses() {
  local run
  for run in "$device fp32 1" "$device fp32 2" "$device bf16 1" "$device bf16 2" "cpu fp32 1"; do
    set -- $run
    run 120 "losses, $run" "$module/pipeexec" --transport local --device "$1" --schedule 1f1b --stages 2 \
      --microbatches 8 --iterations 8 "${tiny_model[@]}" --precision "$2" --json
  done
  local precision tolerance
  for precision in fp32 bf16; do
    check "the same training twice, $precision" same "$precision" \
      "$(log_of "losses, $device $precision 1")" "$(log_of "losses, $device $precision 2")"
    tolerance=0.001
    if [ "$precision" = bf16 ]; then tolerance=0.02; fi
    check "losses near the CPU's, $precision" losses "$precision" "$tolerance" \
      "$(log_of "losses, $device $precision 1")" "$(log_of "losses, cpu fp32 1")"
  done
}

# ---- stop: a run that a scheduler's signal strikes saves itself and ends as it should

part_stop() {
  local turn folder=$work/stopped
  for ((turn = 1; turn <= 12; turn++)); do
    rm -rf "$folder"
    pipeexec --schedule 1f1b --stages 2 --microbatches 8 --iterations 1000000 --quiet \
      "${tiny_model[@]}" --precision bf16 --checkpoint "$folder"
    run 60 "stopped by SIGTERM, turn $turn" "$python" bench/gpu/checks.py stopped "$turn" "${command[@]}"
  done
}

# ---- device: what PyTorch's kernels reach

part_device() {
  if ! "$python" -c 'import torch' 2>/dev/null; then
    note "device" "left out" "$python has no PyTorch; PYTHON=... names another"
    return
  fi
  local theirs=("$python" sim/python/pipesim/device.py --lines)
  if [ -n "${own_library_path+set}" ]; then theirs=(env LD_LIBRARY_PATH="$own_library_path" "${theirs[@]}"); fi
  run 150 "device" "${theirs[@]}"
  figures "device"
}

# ---- speed: a block beside PyTorch, products beside cuBLAS, operators beside a copy

part_speed() {
  local turn turns=2 precision name
  local ours=("$bin/gpu_speed" --kind "$kind" --module "$module")
  local theirs=("$python" bench/gpu/peer.py)
  if [ -n "$small" ]; then
    turns=2
    ours+=(--small --no-bare)
    theirs+=(--small --device cpu)
  fi
  if [ -n "${own_library_path+set}" ]; then # PyTorch finds its own libraries
    theirs=(env LD_LIBRARY_PATH="$own_library_path" "${theirs[@]}")
  fi
  if ! "$python" -c 'import torch' 2>/dev/null; then
    note "PyTorch" "left out" "$python has none; PYTHON=... names another"
    theirs=()
  fi
  for precision in bf16 fp32; do
    for ((turn = 1; turn <= turns; turn++)); do
      name="speed: blocks, $precision, turn $turn"
      run 60 "$name" "${ours[@]}" --precision "$precision" --parts block,attention
      figures "$name"
      if [ ${#theirs[@]} = 0 ]; then continue; fi
      name="speed: PyTorch, $precision, turn $turn"
      run 90 "$name" "${theirs[@]}" --precision "$precision"
      figures "$name"
    done
    name="speed: products and operators, $precision"
    run 120 "$name" "${ours[@]}" --precision "$precision" --parts products,operators
    figures "$name"
  done
}

# ---- recorder: on against off, and gaps between actions on the stream of operators

part_recorder() {
  local turn turns=5 state
  local flags=(--schedule 1f1b --stages 1 --microbatches 16 --iterations 20 --warmup 3 --json)
  if [ -n "$small" ]; then
    turns=2
    flags=(--schedule 1f1b --stages 1 --microbatches 16 --iterations 2 --warmup 1 --json)
  fi
  for ((turn = 1; turn <= turns; turn++)); do
    for state in off on; do
      pipeexec "${flags[@]}" "${busy_model[@]}" --precision bf16
      if [ "$state" = on ]; then command+=(--trace "$work/traces/one_rank.json"); fi
      run 60 "recorder $state, turn $turn" "${command[@]}"
    done
  done
  check "recorder, on against off" recorder "$work/logs"
  check "gaps on the stream" gaps "$work/traces/one_rank.json"
  if [ -e "$work/traces/one_rank.json" ]; then gzip -f "$work/traces/one_rank.json"; fi
}

# ---- fidelity: predictions from a calibration, against what was measured

part_fidelity() {
  local name="fidelity" turns=2 iterations=15 cases="gpu1 gpu2 gpu4"
  if [ -n "$small" ]; then turns=1 iterations=1 cases="gpu1 gpu2"; fi
  run 240 "$name" env TURNS=$turns ITERATIONS=$iterations OUTPUT=- BIN="$bin" PIPEEXEC="$module/pipeexec" \
    CASES="$cases" FLAGS="--device $device --precision bf16 ${busy_model[*]}" \
    ROWS="$work/fidelity" bash bench/fidelity/run.sh
  sed -n '/^| case/,$p' "$(log_of "$name")"
  if [ -s "$work/fidelity" ]; then check "fidelity: rows" fidelity "$work/fidelity"; fi
}

# ---- nccl: what one GPU can show of it, which is no message between two

part_nccl() {
  local program name=nccl
  if [ "$kind" = hip ]; then name=rccl; fi
  program=$(find "$bin" -name nccl_self -type f -perm -u+x | head -n 1)
  if [ -n "$program" ]; then
    run 60 "NCCL, one rank with itself" env \
      "LD_LIBRARY_PATH=${nccl_folder:+$nccl_folder:}${LD_LIBRARY_PATH:-}" "$program" &&
      cat "$(log_of "NCCL, one rank with itself")"
  else
    note "NCCL, one rank with itself" "left out" "this build has no nccl_self"
  fi
  if [ -z "$mpirun" ] || ! LD_LIBRARY_PATH=${nccl_folder:+$nccl_folder:}${LD_LIBRARY_PATH:-} has_transport $name; then
    note "one rank, --transport $name" "left out" "pipeexec --list-devices says why: see its log"
    return
  fi
  over_mpi 1 "$module/pipeexec" --device "$device" --transport $name --schedule 1f1b "${short[@]}" \
    "${tiny_model[@]}" --verify --json
  run 60 "one rank, --transport $name" "${command[@]}"
}

# ---- sanitize: the parity test under compute-sanitizer's tools, our kernels alone

part_sanitize() {
  local sanitizer tool test=$bin/tests/gpu_device_tests
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
  if [ -z "$sanitizer" ] || [ ! -x "$test" ]; then
    note "compute-sanitizer" "left out" "no compute-sanitizer, or no gpu_device_tests, here"
    return
  fi
  local common=(--error-exitcode 1 --report-api-errors no --target-processes application-only)
  timeout 60 "$sanitizer" "${common[@]}" "$test" "$module" --gtest_filter=Gpu.Gelu \
    >"$(log_of "sanitizer, tried")" 2>&1
  if grep -q 'Device not supported' "$(log_of "sanitizer, tried")"; then
    note "compute-sanitizer" "left out" "it does not support this device or machine"
    return
  fi
  # In slices, each a process: most of their time is the CPU's. What is slowest comes first.
  local slice slices=3 tests
  for tool in racecheck initcheck memcheck synccheck; do
    local of_tool=("${common[@]}" --tool "$tool")
    tests='Gpu.*-*Pipelines*:*SumsOfSquares*'
    # Of the library's kernels the shared memory is its own affair, and a product crashed under the tool.
    if [ "$tool" = racecheck ]; then
      of_tool+=(--kernel-regex kns=pipesim)
      tests+=':*MatrixProducts*'
    fi
    for ((slice = 0; slice < slices; slice++)); do
      run 240 "compute-sanitizer, $tool, slice $((slice + 1))" env GTEST_TOTAL_SHARDS=$slices \
        GTEST_SHARD_INDEX=$slice "$sanitizer" "${of_tool[@]}" "$test" "$module" \
        "--gtest_filter=$tests" &
    done
  done
  wait
  cat "$work"/logs/compute-sanitizer-*.log | grep -c '^\[       OK' | sed 's/$/ times a test passed under a tool/'
  grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$work"/logs/compute-sanitizer-*.log
}
