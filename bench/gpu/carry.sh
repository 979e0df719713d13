#!/usr/bin/env bash
# Fetches what a machine without network and packages lacks to build pipesim and run
# it over MPI, into one folder to take there, as an archive. For x86-64; run it on
# Debian or Ubuntu, none newer than that machine's, since its glibc must be as new.
#
#   bash bench/gpu/carry.sh [FOLDER]        default: build/carried
#
# There: bash bench/gpu/run.sh --with FOLDER. Needs no root, and installs nothing.
# The machine itself has g++, CMake, ninja, python3 and what builds for its GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ $# -gt 1 ] || [[ ${1:-} == -* ]]; then
  echo "bench/gpu/carry.sh: $* is not one folder; its head says what it does" >&2
  exit 2
fi
folder=${1:-build/carried}
for program in apt-get dpkg; do
  if ! command -v "$program" >/dev/null; then
    echo "bench/gpu/carry.sh: there is no $program here; run it on Debian or Ubuntu" >&2
    exit 1
  fi
done
if [ "$(dpkg --print-architecture)" != amd64 ]; then
  echo "this machine is no x86-64: run this on one that is"
  exit 1
fi

# By the names of Debian 12; of those that another release calls otherwise the
# names follow. No zlib1g and libgomp1: older ones would get in the way of the
# machine's own programs.
packages=(
  libcli11-dev libfmt-dev "libfmt9 libfmt10" nlohmann-json3-dev rapidjson-dev zlib1g-dev
  libtomlplusplus-dev libstb-dev libxxhash-dev libasio-dev
  libgtest-dev googletest
  libdnnl-dev "libdnnl2 libdnnl3" ocl-icd-libopencl1
  openmpi-bin openmpi-common "libopenmpi3 libopenmpi3t64 libopenmpi40" libopenmpi-dev
  "libpmix2 libpmix2t64" libhwloc15 libhwloc-plugins
  "libevent-2.1-7 libevent-2.1-7t64" "libevent-core-2.1-7 libevent-core-2.1-7t64"
  "libevent-pthreads-2.1-7 libevent-pthreads-2.1-7t64"
  libucx0 libfabric1 libibverbs1 ibverbs-providers librdmacm1 libnl-3-200 libnl-route-3-200
  libnuma1 libmunge2 libltdl7 libpsm-infinipath1 libpsm2-2 libxnvctrl0)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debs=$work/debs
root=$work/root
mkdir -p "$debs" "$root" "$folder"
names=()
for alternatives in "${packages[@]}"; do
  for name in $alternatives; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      names+=("$name")
      continue 2
    fi
  done
  echo "no package $alternatives in this system's lists; try apt-get update"
  exit 1
done
if ! (cd "$debs" && apt-get download -qq "${names[@]}") >"$work/log" 2>&1; then
  cat "$work/log"
  exit 1
fi
for deb in "$debs"/*.deb; do dpkg -x "$deb" "$root"; done

# What nothing is built from; and links to files that are not here, as libz.so's,
# so that the static library beside it is found.
rm -rf "$root"/usr/share/{doc,man,lintian,bug,bash-completion,doc-base} \
  "$root"/usr/lib/x86_64-linux-gnu/fortran
find "$root" -lname "/*" -delete
find "$root" -xtype l -delete
tar -czf "$folder/packages.tar.gz" -C "$root" .
size=$(du -sm "$folder" | cut -f1)
echo "$folder: ${#names[@]} packages, $size MB; there: bash bench/gpu/run.sh --with $folder"
