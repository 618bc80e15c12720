#!/usr/bin/env bash
# Everything that has to be run on a machine with a GPU, in one command, also without a network.
#
#   scripts/gpu_check.sh OUT_DIR                      the tables, OUT_DIR/gpu-check.md and .json
#   WHEELS=folder scripts/gpu_check.sh OUT_DIR        with these wheels, in a folder of their own
#   SUITE=array-api-tests scripts/gpu_check.sh OUT_DIR      with this checkout of the suite
#   scripts/gpu_check.sh OUT_DIR --steps tests,accuracy --limit 580      a part, in so many seconds
#
# PYTHON names the interpreter. What each step is: scripts/gpu_check.py --help.
set -euo pipefail

PYTHON="${PYTHON:-python3}"
export -n PYTHON # tinygrad reads it as a number
root="$(cd "$(dirname "$0")/.." && pwd)"
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || { echo "usage: $0 OUT_DIR [options of gpu_check.py]" >&2; exit 64; }

# Into a folder of their own: the machine's Python stays as it is.
if [ -n "${WHEELS:-}" ]; then
    site="$(mktemp -d)"
    trap 'rm -rf "$site"' EXIT
    "$PYTHON" -m pip install --quiet --no-index --no-deps --no-compile --target "$site" "$WHEELS"/*.whl
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
fi

"$PYTHON" "$root/scripts/gpu_check.py" "$@" ${SUITE:+--suite "$SUITE"}
