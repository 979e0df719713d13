#!/usr/bin/env bash
# How right predictions are: calibrates on GPipe with 4 microbatches, predicts
# other schedules with 16, runs them, and compares makespans. Several turns, each
# with a calibration of its own; writes all of them to bench/FIDELITY.md.
#
#   bash bench/fidelity/run.sh            5 turns, on an idle machine of 2 cores or more
#   TURNS=1 OUTPUT=- bash bench/fidelity/run.sh
#   BIN=build/gpu CASES="gpu1 gpu2" FLAGS="--device cuda:0 ..." OUTPUT=- bash bench/fidelity/run.sh
#
# With BIN it takes the programs from there and builds nothing. CASES are of mpi, local,
# emulated, llama, shards and tokens, and gpu1, gpu2 and gpu4, that many ranks on what FLAGS of
# pipeexec say.
# ITERATIONS is how many are measured, PIPEEXEC another one, ROWS a file that gets plain rows as they come.
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/steps.sh

build() {
  cmake --preset release
  cmake --build --preset release --target pipesim pipeexec
}
if [ -z "${BIN:-}" ]; then
  step "install packages" install "${build_packages[@]}"
  step "build: release" build
fi

turns=${TURNS:-5}
output=${OUTPUT:-bench/FIDELITY.md}
iterations=${ITERATIONS:-20}
bin=${BIN:-build/release}
pipeexec=${PIPEEXEC:-$bin/pipeexec}
read -r -a cases <<<"${CASES:-mpi local emulated}"
read -r -a flags <<<"${FLAGS:-}"
folder=$(mktemp -d)
results=${ROWS:-$folder/results}
: >"$results"
trap 'rm -rf "$folder"' EXIT

# key NAME FILE: a number of a JSON result.
key() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$2" | head -n 1; }

# largest NAME FILE: the largest number of that name.
largest() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$2" | sort -n | tail -n 1; }

# execute CASE SCHEDULE MICROBATCHES FLAG...: a run of that case.
execute() {
  local case=$1 schedule=$2 microbatches=$3
  shift 3
  local run=("$pipeexec" --schedule "$schedule" --microbatches "$microbatches"
    --iterations "$iterations" "$@")
  case $case in
    mpi) mpi -n 2 "${run[@]}" --micro-batch-size 8 ;;
    local) "${run[@]}" --micro-batch-size 8 --transport local --stages 2 ;;
    llama) mpi -n 2 "${run[@]}" --micro-batch-size 8 --model llama-mini ;;
    shards) mpi -n 2 "${run[@]}" --micro-batch-size 8 --model llama-mini --tensor-parallel 2 ;;
    tokens) mpi -n 2 "${run[@]}" --micro-batch-size 8 --model llama-mini --tensor-parallel 2 \
      --sequence-parallel ;;
    gpu*) "${run[@]}" "${flags[@]}" --transport local --stages "${case#gpu}" ;;
    emulated) mpi -n 4 "${run[@]}" --device emulated --costs bench/fidelity/emulated.json ;;
  esac
}

# Costs of a case from a schedule with 4 microbatches.
calibrate() {
  local case=$1 schedule=$2
  execute "$case" "$schedule" 4 --quiet --trace "$folder/$case.json.gz"
  "$bin/pipesim" calibrate "$folder/$case.json.gz" -o "$folder/$case.$schedule.costs.json" \
    >"$folder/$case.$schedule.txt"
}

# compare TURN CASE RANKS COSTS SCHEDULE MICROBATCHES: a line of results.
compare() {
  local turn=$1 case=$2 ranks=$3 costs=$4 schedule=$5 microbatches=$6
  "$bin/pipesim" --schedule "$schedule" --stages "$ranks" --microbatches "$microbatches" \
    --costs "$folder/$case.$costs.costs.json" --json >"$folder/predicted.json"
  execute "$case" "$schedule" "$microbatches" --json >"$folder/measured.json"
  echo "$turn $case $costs $schedule $microbatches $(key makespan_ns "$folder/predicted.json")" \
    "$(key iteration_ns "$folder/measured.json")" \
    "$(largest peak_memory_bytes "$folder/predicted.json")" \
    "$(largest peak_memory_bytes "$folder/measured.json")" >>"$results"
}

by_others
others_before=$others
stolen_before=$stolen
started=$(date +%s)
for turn in $(seq "$turns"); do
  for case in "${cases[@]}"; do
    ranks=2
    if [[ "$case" = gpu* ]]; then ranks=${case#gpu}; fi
    if [[ "$case" = shards || "$case" = tokens ]]; then ranks=1; fi # of the pipeline
    looped=gpipe # costs by layer are laid out anew
    if [ "$case" = emulated ]; then
      ranks=4
      looped=bfs # costs by stage need as many stages
      calibrate "$case" bfs
    fi
    calibrate "$case" gpipe
    compare "$turn" "$case" "$ranks" gpipe gpipe 4
    compare "$turn" "$case" "$ranks" gpipe 1f1b 16
    compare "$turn" "$case" "$ranks" "$looped" interleaved 16
    compare "$turn" "$case" "$ranks" gpipe zb-h1 16
    echo "turn $turn of $turns: $case done" >&2
  done
done

by_others
seconds=$(($(date +%s) - started))
others=$(share "$((others - others_before))" "$seconds")
stolen=$(share "$((stolen - stolen_before))" "$seconds")

# What the cases are.
legend() {
  if [[ " ${cases[*]} " = *" mpi "* || " ${cases[*]} " = *" local "* ]]; then
    cat <<TEXT
- \`mpi\`, \`local\`: 2 ranks train gpt-mini (8 sequences of 64 a microbatch) on the cpu
  device, one core each, as processes or threads. Calibrated by layer.
TEXT
  fi
  if [[ " ${cases[*]} " = *" emulated "* ]]; then
    cat <<TEXT
- \`emulated\`: 4 ranks over MPI, actions of 1.4 to 7.3 ms in wall pace (bench/fidelity/emulated.json).
  Calibrated by stage, so that interleaved, with two chunks a rank, needs a looped
  schedule to start from.
TEXT
  fi
  if [[ " ${cases[*]} " = *" llama "* || " ${cases[*]} " = *" shards "* ]]; then
    cat <<TEXT
- \`llama\`: 2 ranks train llama-mini by MPI, a stage each. \`shards\`: its layers are split over both ranks
  (\`--tensor-parallel 2\`), which are one stage; \`tokens\`: and so are tokens between sums
  (\`--sequence-parallel\`). What they exchange is part of what a layer takes.
TEXT
  fi
  if [[ " ${cases[*]} " = *" gpu"* ]]; then
    cat <<TEXT
- \`gpu1\`, \`gpu2\`, \`gpu4\`: that many ranks, threads, with \`${flags[*]}\`; several take
  turns on one GPU. Calibrated by layer.
TEXT
  fi
}

# The rows of the cases, then all errors, by size: their median.
rows() {
  sort -s -k2,5 "$results" | awk '
    function median(list, n,   i, j, t) {
      for (i = 2; i <= n; i++) {
        t = list[i]
        for (j = i - 1; j > 0 && list[j] > t; j--) list[j + 1] = list[j]
        list[j + 1] = t
      }
      return list[int((n + 1) / 2)]
    }
    function size(x) { return x < 0 ? -x : x }
    function flush(   i, all) {
      if (!n) return
      all = ""
      for (i = 1; i <= n; i++) {
        all = all sprintf("%s%+.1f", i > 1 ? ", " : "", error[i])
      }
      split(last, f, " ")
      group = f[1]
      if (f[1] == "mpi" || f[1] == "local" || f[1] == "llama") group = "cpu"
      if (f[1] == "tokens") group = "shards"
      for (i = 1; i <= n; i++) {
        if (row != "gpipe 4") size_of[group, ++sizes[group]] = size(error[i])
      }
      printf "| %s | %s, %d | %s | %.1f | %.1f | %+.1f | %s | %s |\n", f[1], f[3], f[4], f[2],
        median(predicted, n) / 1e6, median(measured, n) / 1e6, median(error, n), all, memory
      n = 0
    }
    {
      now = $2 " " $3 " " $4 " " $5
      if (now != last) flush()
      last = now
      row = $4 " " $5
      n++
      predicted[n] = $6
      measured[n] = $7
      error[n] = ($6 / $7 - 1) * 100
      memory = $2 == "emulated" ? "" : sprintf("%+.1f", ($8 / $9 - 1) * 100)
    }
    END {
      flush()
      printf "\nOf the rows that are not the calibrated one itself:\n\n"
      known = split("cpu:2 ranks that train,shards:2 ranks that share layers," \
                    "emulated:4 emulated ranks,gpu1:1 rank on a GPU," \
                    "gpu2:2 ranks that share a GPU,gpu4:4 ranks that share a GPU", groups, ",")
      for (g = 1; g <= known; g++) {
        split(groups[g], named, ":")
        group = named[1]
        if (!sizes[group]) continue
        within = 0
        for (i = 1; i <= sizes[group]; i++) {
          all_of[i] = size_of[group, i]
          within += all_of[i] <= 3
        }
        m = median(all_of, sizes[group])
        printf "- %s: median of the absolute error %.1f %%, largest %.1f %%; %d of %d within 3 %%\n",
          named[2], m, all_of[sizes[group]], within, sizes[group]
      }
    }'
}

{
  cat <<TEXT
# How right predictions are

\`bash bench/fidelity/run.sh\`: costs are calibrated on one schedule with 4
microbatches, and predict what others take with 16. In each turn everything is
measured anew, calibration first; measured is the median of $iterations iterations.
Nothing is fitted to a row; all turns are listed, misses included.

machine: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | sed 's/^ *//'), $(nproc) cores
date:    $(date -u +%F)
others:  $others % of the processors' time went to other processes meanwhile, and the
         host kept back $stolen %

TEXT
  legend
  cat <<TEXT

Errors are predicted against measured, in percent, positive where the prediction is
too long. Memory is the peak of the fullest rank. GPipe does no I without its W, so that
what zb-h1 keeps between them is unknown to its prediction.

| case | predicted schedule, microbatches | calibrated on | predicted, ms | measured, ms | error, median | error of each turn | error of memory |
| --- | --- | --- | --- | --- | --- | --- | --- |
TEXT
  rows
} >"$folder/report"
if [ "$output" = - ]; then
  cat "$folder/report"
else
  cp "$folder/report" "$output"
  echo "written to $output"
fi
