#!/bin/bash
# The builder's system: its patches, and a Python of 3.11 or newer. PYTHON: its name.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# The driver and the kernel that it was built for stay as the base image has them.
apt-mark hold 'linux-*' 'nvidia-*' >/dev/null 2>&1 || true
apt-get upgrade -qy
if ! apt-cache show "$PYTHON" >/dev/null 2>&1; then
  apt-get install -qy --no-install-recommends software-properties-common
  add-apt-repository -y ppa:deadsnakes/ppa
fi
# Triton compiles its launchers with gcc and Python's headers.
apt-get install -qy --no-install-recommends "$PYTHON" "$PYTHON-venv" "$PYTHON-dev" gcc libc6-dev
