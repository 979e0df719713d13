#!/usr/bin/env bash
# Everything that is measured and tried on a machine with a GPU; README.md beside this
# says what, how, and what it should come to.
#
#   bash bench/gpu/run.sh [OPTION...] [cuda|hip] [FOLDER FOR RESULTS]
#     --only PART,...      of build, parity, verify, losses, stop, device, speed, recorder,
#                          fidelity, nccl, sanitize; default: all, in this order
#     --seconds N          leaves out, as failed, what is not done after so long
#     --with FOLDER        what bench/gpu/carry.sh fetched, for a machine without packages
#     --binaries FOLDER    of a build that is there, instead of build/gpu; builds nothing
#     --module FOLDER      where the GPU's module and its pipeexec lie, if not there
#     --small              tiny sizes, for a GPU that the CPU stands in for
#
# Needs no network and installs nothing. Goes on after a failure, and ends with 1 if
# there was any, with 2 where it was called wrongly. PYTHON names a Python that has
# PyTorch; default python3.
# Writes results.txt, results.json, logs.tar.gz and traces.tar.gz.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

all_parts=build,parity,verify,losses,stop,device,speed,recorder,fidelity,nccl,sanitize
only=$all_parts
seconds=86400
carried='' binaries='' module='' small=''

# wrong_usage SENTENCE
wrong_usage() {
  echo "bench/gpu/run.sh: $1" >&2
  exit 2
}

words=()
while [ $# -gt 0 ]; do
  case $1 in
    --only | --seconds | --with | --binaries | --module)
      if [ -z "${2:-}" ]; then wrong_usage "$1 has no value; its line at the head of the script says which"; fi
      ;;
  esac
  case $1 in
    --only) only=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    --with) carried=$2 && shift ;;
    --binaries) binaries=$2 && shift ;;
    --module) module=$2 && shift ;;
    --small) small=yes ;;
    --help) sed -n '2,/^set /{ /^set /d; s/^# \{0,1\}//; p; }' bench/gpu/run.sh && exit ;;
    -*) wrong_usage "$1 is no option; there are: $(sed -n 's/^#     \(--[a-z]*\).*/\1/p' bench/gpu/run.sh | xargs)" ;;
    *) words+=("$1") ;;
  esac
  shift
done
kind=${words[0]:-cuda}
folder=${words[1]:-build/gpu/results}
python=${PYTHON:-python3}
build=build/gpu
bin=${binaries:-$build}
module=${module:-$bin}
device=$kind:0
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
for part in ${only//,/ }; do
  case ,$all_parts, in
    *,"$part",*) ;;
    *) wrong_usage "--only $part: there are ${all_parts//,/, }" ;;
  esac
done
if [ ${#words[@]} -gt 2 ]; then wrong_usage "${words[2]} is one word too many; give a kind and a folder"; fi
if [ "$kind" != cuda ] && [ "$kind" != hip ]; then
  wrong_usage "$kind is no kind of GPU; there are: cuda hip"
fi
if [[ ! "$seconds" =~ ^[1-9][0-9]{0,8}$ ]]; then
  wrong_usage "--seconds $seconds is not a whole number of seconds from 1"
fi
if [ -n "$carried" ] && [ ! -f "$carried/packages.tar.gz" ]; then
  wrong_usage "--with $carried: there is no packages.tar.gz in it; bench/gpu/carry.sh makes one"
fi
if [ -n "$binaries" ] && [ ! -x "$binaries/pipesim" ]; then
  wrong_usage "--binaries $binaries: there is no pipesim in it; name the folder of a build"
fi
command -v "$python" >/dev/null || wrong_usage "there is no $python; PYTHON=... names one"

mkdir -p "$folder" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/logs" "$work/traces"
: >"$work/status"
: >"$work/figures.jsonl"
settings=()
unpacked=$build/carried
if [ -n "$carried" ]; then . bench/gpu/carried.sh; fi
. bench/gpu/helpers.sh
. bench/gpu/parts.sh

pack() {
  "$python" bench/gpu/tables.py "$work" "$folder/results.json" >"$work/tables.txt" ||
    note "tables" failed "results.json could not be written"
  tar -czf "$folder/logs.tar.gz" -C "$work" logs figures.jsonl status
  tar -czf "$folder/traces.tar.gz" -C "$work" traces
}

everything() {
  describe_machine
  local part began
  for part in ${all_parts//,/ }; do
    case ,$only, in *,"$part",*) ;; *) continue ;; esac
    if [ "$part" != build ] && ! find_gpu; then
      pack
      break
    fi
    echo
    echo "== $part"
    began=$SECONDS
    "part_$part"
    echo "   $part took $((SECONDS - began)) s"
    pack # what there is by then comes back even if this is ended from outside
    if [ "$part" = build ] && [ ! -x "$bin/pipeexec" ]; then break; fi
  done
  echo
  cat "$work/tables.txt"
  echo
  grep '	left out	' "$work/status" | sort | awk -F'\t' '{ print "left out: " $2 ": " $5 }'
  grep '	failed	' "$work/status" | sort | awk -F'\t' '{ print "FAILED: " $2 ": " $5 }'
  echo "$(grep -c '	ok	' "$work/status") ok, $(grep -c '	failed	' "$work/status") failed," \
    "$(grep -c '	left out	' "$work/status") left out; $SECONDS s; results in $folder"
}
everything 2>&1 | tee "$folder/results.txt"
! grep -q '	failed	' "$work/status"
