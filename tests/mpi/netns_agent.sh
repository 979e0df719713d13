#!/bin/sh
# Stands in for ssh: starts a command in the network namespace of that name, in
# which the host has that name, too.
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
