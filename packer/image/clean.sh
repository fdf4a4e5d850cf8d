#!/bin/bash
# Nothing of the build stays: no key, no host identity, no log, no history.
set -euo pipefail
systemctl stop s4weights-selftest.service 2>/dev/null || true
rm -rf /tmp/s4weights /var/tmp/* /var/lib/s4weights/* /root/.cache /home/*/.cache
apt-get clean
rm -rf /var/lib/apt/lists/*
cloud-init clean --logs --seed
rm -f /etc/ssh/ssh_host_*
rm -f /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys
rm -rf /root/.aws /home/*/.aws /root/.docker /home/*/.docker
rm -f /root/.bash_history /home/*/.bash_history /root/.python_history /home/*/.python_history
truncate --size 0 /etc/machine-id
rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed
journalctl --rotate >/dev/null 2>&1 || true
journalctl --vacuum-time=1s >/dev/null 2>&1 || true
find /var/log -type f -exec truncate --size 0 {} +
sync
