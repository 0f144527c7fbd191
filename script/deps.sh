#!/bin/bash
# Installs the Debian packages that demo, tests and bench run, where missing.
# No service of theirs is started, and no installed package is removed.
set -eu
export DEBIAN_FRONTEND=noninteractive

# package and what it is for
wanted="
ca-certificates   the Go module proxy
containerd        release 1.6, pulled through by faasnet pull
runc              runs containers
docker-registry   the registry of demo, tests and bench
stargz-snapshotter  ctr-remote, the conversion that ours is compared with
erofs-utils       containerd's EROFS snapshotter, which ours is compared with
zlib1g-dev        the soci snapshotter, which ours is compared with
iproute2          links of simulated hosts
etcd-server       the journal of the coordinator, in tests
zstd              a second reader of our layers
gcc               the race detector
libc6-dev         the race detector
"
missing=()
while read -r package _; do
  [ -z "$package" ] || [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done <<<"$wanted"
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "missing packages, and not root: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
if [ ! -e /usr/sbin/policy-rc.d ]; then # services of these packages are not for us
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
fi
apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt-get -q update
install=(apt-get -q -y --no-install-recommends --no-remove install "${missing[@]}")
"${install[@]}" || { apt-get -q update && "${install[@]}"; }
