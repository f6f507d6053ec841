#!/bin/sh
# test-tools.sh: install the programs that tests need and that this machine lacks, where that is allowed.
# What is still missing then is named, and the tests that need it fail.
set -eu

say() { printf 'notleader: %s\n' "$*" >&2; }

packages=
while read -r program package; do
  command -v "$program" >/dev/null || packages="$packages $package"
done <<'PROGRAMS'
javac default-jdk-headless
mvn maven
go golang-go
node nodejs
npm npm
chromium chromium
tshark tshark
kcat kcat
ip iproute2
iptables iptables
nft nftables
gpg gnupg
PROGRAMS
[ -n "$packages" ] || exit 0

if ! command -v apt-get >/dev/null; then
  say "missing for the tests:$packages"
  exit 0
fi
if [ "$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo='sudo -n'; else
  say "some tests will fail; first: sudo apt-get install$packages"
  exit 0
fi
say "installing for the tests:$packages"
$sudo apt-get -qq update >/dev/null || true
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $packages >/dev/null \
  || say "apt-get could not install all of:$packages"
