#!/bin/bash
# Take the service off this machine. What it stored stays in the bucket, where `s4weights unpack` reads it.
# usage: packer/uninstall.sh [--purge]
# As root. --purge: the settings and the state directory too, with the journal of uploads that are not yet aborted.
set -euo pipefail
if [ -d /run/systemd/system ]; then
  systemctl disable --now s4weights s4weights-watch s4weights-selftest s4weights-nvidia 2>/dev/null || true
fi
rm -rf /usr/local/lib/systemd/system/s4weights{,-watch,-selftest,-nvidia}.service{,.d}
rm -rf /opt/s4weights /opt/s4weights.releases /usr/local/bin/s4weights /usr/local/lib/sysusers.d/s4weights.conf \
  /usr/local/share/s4weights
[ ! -d /run/systemd/system ] || systemctl daemon-reload
rm -rf /var/cache/s4weights
if [ "${1:-}" = --purge ]; then
  rm -rf /etc/s4weights /var/lib/s4weights
  userdel s4weights 2>/dev/null || true
fi
