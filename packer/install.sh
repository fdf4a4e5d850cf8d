#!/bin/bash
# Install s4weights as a service of this machine, from the wheels of wheelhouse.sh. Once more: an upgrade.
# usage: packer/install.sh [--gpu] WHEELHOUSE
# As root; needs systemd, and Python 3.11 or newer with venv. Then name the bucket in /etc/s4weights/s4weights.env and
# start it: systemctl enable --now s4weights
set -euo pipefail
gpu=
if [ "${1:-}" = --gpu ]; then gpu=yes; shift; fi
[ $# = 1 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
wheels=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

python=
for one in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
  if "$one" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$one; break; fi
done
[ -n "$python" ] || { echo "install.sh: found no Python of 3.11 or newer with venv; name one: PYTHON=..." >&2; exit 1; }

# Each release has a folder of its own, and /opt/s4weights leads to the one that runs: what fails leaves the old one.
wheel=$(basename "$wheels"/s4weights-*.whl)
release=/opt/s4weights.releases/$(echo "$wheel" | cut -d- -f2)-$(date +%Y%m%dT%H%M%S)
trap 'rm -rf "$release"' ERR
"$python" -m venv "$release"
"$release/bin/python" -m pip install --quiet --no-index --find-links "$wheels" "s4weights[proxy,marketplace${gpu:+,torch,gpu}]"
"$release/bin/python" -m compileall -q "$release/lib" || true # files for other Pythons, in torch
"$release/bin/s4weights" --version >/dev/null
trap - ERR

install -D -m 0644 "$here/systemd/sysusers.conf" /usr/local/lib/sysusers.d/s4weights.conf
systemd-sysusers /usr/local/lib/sysusers.d/s4weights.conf

units=/usr/local/lib/systemd/system
install -d "$units"
install -m 0644 "$here"/systemd/*.service "$units"
for unit in s4weights s4weights-selftest s4weights-watch; do
  rm -rf "$units/$unit.service.d"
  install -D -m 0644 "$here/systemd/sandbox.conf" "$units/$unit.service.d/10-sandbox.conf"
  [ -n "$gpu" ] || install -m 0644 "$here/systemd/memory.conf" "$units/$unit.service.d/20-memory.conf"
done
install -d -m 0755 /etc/s4weights
[ -e /etc/s4weights/s4weights.env ] || install -m 0600 "$here/systemd/s4weights.env" /etc/s4weights/s4weights.env
# AWS's certificates for the identity of instances, where the image is sold (docs/operations.md, Entitlement).
[ ! -e "$here/image/aws-certificates.pem" ] ||
  install -D -m 0644 "$here/image/aws-certificates.pem" /usr/local/share/s4weights/aws-certificates.pem
[ -z "$gpu" ] || echo 'SELFTEST_FLAGS=--require-gpu' >/etc/s4weights/selftest.env

previous=$(readlink /opt/s4weights || true)
ln -sfn "$release" /opt/s4weights.next
mv -T /opt/s4weights.next /opt/s4weights
ln -sfn /opt/s4weights/bin/s4weights /usr/local/bin/s4weights
# The last one stays, to go back to: ln -sfn.
find /opt/s4weights.releases -mindepth 1 -maxdepth 1 ! -path "$release" ! -path "${previous:-$release}" -exec rm -rf {} +

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart s4weights s4weights-watch
fi
echo "s4weights $("$release/bin/s4weights" --version | cut -d' ' -f2) is at /opt/s4weights; settings: /etc/s4weights/s4weights.env"
