#!/bin/bash
# Everything that install.sh needs, as wheels in one folder, so that the machine it is installed on needs no index.
# usage: packer/wheelhouse.sh [--gpu] FOLDER
# Run it with the Python, and on a system no newer than the one, that the service will have: PYTHON=python3.12.
set -euo pipefail
extras=proxy,marketplace
if [ "${1:-}" = --gpu ]; then extras=proxy,marketplace,torch,gpu; shift; fi
[ $# = 1 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
rm -f "$folder"/s4weights-*.whl
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" .
"$python" -m pip download --quiet --only-binary :all: --dest "$folder" "$(echo "$folder"/s4weights-*.whl)[$extras]"
