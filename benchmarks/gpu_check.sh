#!/bin/bash
# Everything that only a GPU can show, in one call and without a network; each step's outcome, then figures.
# usage: benchmarks/gpu_check.sh [--wheels FOLDER] OUT
# FOLDER: wheels to install first, of those that are not there (packer/wheelhouse.sh --gpu). OUT: gets check.json, figures.json,
# section.md (for benchmarks/RESULTS.md) and a log of each step. PYTHON: which one, by default that of .venv.
# Ends with 0 where every step passed, with 3 where there is no GPU that can be used, with 1 otherwise.
set -euo pipefail
wheels=
if [ "${1:-}" = --wheels ]; then wheels=$(cd "$2" && pwd); shift 2; fi
[ $# = 1 ] || { sed -n '3,6s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
: >"$out/steps"

# step NAME COMMAND...: the log is NAME.log; a step that fails does not keep the others from running.
step() {
  local name=$1 code=0
  shift
  "$@" >"$out/$name.log" 2>&1 || code=$?
  echo "$name $code" >>"$out/steps"
  echo "$name: $([ "$code" = 0 ] && echo passed || echo "ended with $code: $(tail -n 1 "$out/$name.log")")"
}

# sanitize TOOL: the kernels on a small batch, under compute-sanitizer.
sanitize() {
  local tool
  tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [ ! -x "$tool" ]; then
    echo "compute-sanitizer is missing: it comes with the CUDA toolkit"
    return 4
  fi
  "$tool" --tool "$1" --error-exitcode 9 --target-processes all "$python" -m benchmarks.gpu_check small
}

if [ -n "$wheels" ]; then
  step wheels "$python" -m pip install --no-index --find-links "$wheels" pytest nvidia-nvcomp-cu12
fi
step device "$python" -m benchmarks.gpu_check device
step tests "$python" -m pytest -q -n 0 -p no:cacheprovider tests/gpu
step selftest "$python" -m s4weights.cli selftest --engine gpu --require-gpu --json
step memcheck sanitize memcheck
step racecheck sanitize racecheck
step gdeflate "$python" -m benchmarks.gpu_check gdeflate
step figures "$python" -m benchmarks.gpu_check figures "$out/figures.json"
"$python" -m benchmarks.gpu_check report "$out"
