#!/bin/sh
# Runs a command as root, or else as root of namespaces of its own, where the system has them:
# there it may join hosts by networks that it makes.
#   sh tests/as_root.sh COMMAND...
own="unshare --user --map-root-user --mount --net"
PATH=$PATH:/usr/sbin:/sbin # of ip and tc, which a user's lacks
if [ "$(id -u)" = 0 ] || ! $own true; then exec "$@"; fi
# shellcheck disable=SC2016
exec $own sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"' sh "$@"
