#!/bin/bash
# The self-test in the service's own sandbox; its report stays on the image.
set -euo pipefail
share=/usr/local/share/s4weights
unit=s4weights-selftest.service
install -d "$share"
systemctl start "$unit" || { journalctl --unit "$unit" --output cat --no-pager >&2; exit 1; }
journalctl --unit "$unit" --output cat --no-pager | grep '^{' | tail -n 1 >"$share/selftest.json"
grep -q '"ok": true' "$share/selftest.json"
