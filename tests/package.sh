#!/usr/bin/env bash
# Makes Debian packages of a build, installs them in a bare Debian, tries them there, removes
# them, and looks that nothing is left. Needs root and Debian's mirror, and says where it has
# neither: then its exit status is 77.
#   bash tests/package.sh [BUILD]        default build/release, with `programs` built
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
skip() {
  echo "skipped: packages in a bare Debian ($1)"
  exit 77
}

[ "$(id -u)" = 0 ] || skip "needs root"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
work=$(mktemp -d)
root=$work/root
clean_up() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'echo "package.sh: line $LINENO failed"' ERR
mmdebstrap --quiet --variant=apt "$suite" "$root" 2>"$work/log" ||
  skip "no bare Debian '$suite': $(grep -m1 -i error "$work/log")"
mount -t proc proc "$root/proc" || skip "/proc can't be mounted"
cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"

inside() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }
installed() { inside dpkg-query -W -f '${Package}\n' | sort; }
add() {
  inside env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
}
file_of() { (cd "$root/packages" && printf '/packages/%s' "$1"_*.deb); }
# expect WHAT COMMAND...
expect() {
  local what=$1
  shift
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "package.sh: not so: $what"
    exit 1
  fi
  echo "$what"
}

inside apt-get update -q >"$work/log" 2>&1 || skip "Debian's mirror can't be reached"
rm -rf "$build/packages"
cpack --config "$build/CPackConfig.cmake" -G DEB >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir "$root/packages"
cp "$build"/packages/*.deb "$root/packages/"
packages=$(cd "$root/packages" && for file in *.deb; do dpkg-deb -f "$file" Package; done)
echo "made: " $packages

# pipesim needs no other package.
add man-db bash-completion desktop-file-utils
before=$(installed)
add "$(file_of pipesim)"
[ "$(installed)" = "$(printf '%s\npipesim\n' "$before" | sort)" ] ||
  { echo "package.sh: pipesim alone brings other packages"; exit 1; }
expect "pipesim predicts" inside pipesim --schedule 1f1b --stages 4 --microbatches 8
expect "man finds pipesim" inside man -w pipesim
completed='. /usr/share/bash-completion/bash_completion; _completion_loader pipesim
  COMP_WORDS=(pipesim pla) COMP_CWORD=1; _pipesim; [ "${COMPREPLY[*]}" = plan ]'
expect "bash completes pipesim" inside bash -c "$completed"
expect "zsh has its completion" test -f "$root/usr/share/zsh/vendor-completions/_pipesim"

# The others, with what they need; not all are of every build.
others=$(grep -vx pipesim <<<"$packages" || true)
files=()
for package in $others; do files+=("$(file_of "$package")"); done
[ ${#files[@]} = 0 ] || add "${files[@]}"
if grep -qx pipesim-exec <<<"$packages"; then
  expect "pipeexec trains" inside pipeexec --transport local --schedule 1f1b --stages 2 \
    --microbatches 4 --iterations 1 --warmup 0 --verify
  expect "man finds pipeexec" inside man -w pipeexec
fi
for kind in cuda hip; do
  if grep -qx pipesim-$kind <<<"$packages"; then
    expect "pipeexec finds the module for $kind" inside sh -c \
      "pipeexec --list-devices | grep '^  $kind ' | grep -v 'neither next to'"
  fi
done
if grep -qx pipesim-viewer <<<"$packages"; then
  inside pipesim --schedule 1f1b --stages 4 --microbatches 8 --quiet --trace /packages/run.json
  expect "pipeview draws" inside pipeview /packages/run.json --screenshot /packages/run.png
  expect "man finds pipeview" inside man -w pipeview
  expect "the desktop file is valid" \
    inside desktop-file-validate /usr/share/applications/pipeview.desktop
fi

# What packages bring they take away.
inside dpkg -L $packages | sort -u >"$work/files"
grep -q '^/usr/share/doc/pipesim/copyright$' "$work/files"
inside apt-get purge -q -y $packages >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
left=$(while read -r path; do
  if [ -f "$root$path" ] || { [ -d "$root$path" ] && [[ $path == *pipesim* ]]; }; then echo "$path"; fi
done <"$work/files")
left+=$(cd "$root" && find etc usr var/lib/dpkg/info -name '*pipe[sev][ixi][mew]*')
[ -z "$left" ] || { echo "package.sh: left behind: $left"; exit 1; }
echo "nothing is left behind"
