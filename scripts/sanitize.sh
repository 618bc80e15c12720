#!/usr/bin/env bash
# The modules in C under GCC's sanitizers: memory out of bounds or used after it was freed, and what
# C leaves undefined. Some ten minutes.
#
#   scripts/sanitize.sh                        the tests that run these modules most
#   scripts/sanitize.sh tests/test_fuzz.py     others; pytest's arguments
#
# PYTHON names the interpreter, which has what the tests need. Everything happens in a copy.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="$(realpath -s "$(command -v "${PYTHON:-.venv/bin/python}")")"
export -n PYTHON # tinygrad reads it as a number
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
cd "$copy"

flags="-fsanitize=address,undefined"
COREPY_COMPILE=always CC=gcc LDFLAGS="$flags" \
    CFLAGS="$flags -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g" \
    "$PYTHON" -m pip wheel --quiet --no-deps --wheel-dir . .
"$PYTHON" -m zipfile -e corepy-*.whl .

# Before all others, as they ask for; and the C++ library, whose exceptions torch and JAX throw.
for library in asan ubsan stdc++; do
    preload="${preload:-}${preload:+:}$(gcc -print-file-name="lib$library.so")"
done
# Python's own allocator, and its leaks at the end, would hide what is looked for.
test() {
    env LD_PRELOAD="$preload" PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1 \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
        COREPY_EXPECT_COMPILED=1 COREPY_ROUTES=off \
        "$PYTHON" -m pytest -q --capture=sys -p no:cacheprovider "$@"
}
if [ $# -gt 0 ]; then
    test "$@"
    exit
fi
others="dask or jax or mlx or numba or reference or tinygrad or torch"
test tests/devices/test_pool.py tests/dispatch/test_hot_home.py tests/test_threads.py \
    tests/dispatch/test_large_elementwise.py -k "numpy or not ($others)"
# Without the pool of host memory, whose blocks the sanitizers do not know.
COREPY_POOL_LEAST=$((1 << 62)) test tests/dispatch/test_hot.py tests/dispatch/test_hot_grids.py \
    tests/dispatch/test_hot_tiles.py tests/dispatch/test_reductions_with_gaps.py \
    tests/dispatch/test_axes.py tests/dispatch/test_variances.py tests/dispatch/test_many_elements.py \
    tests/dispatch/test_hot_spread.py tests/dispatch/test_inplace.py tests/dispatch/test_large_in_place.py \
    tests/dispatch/test_masks.py tests/dispatch/test_copies.py tests/dispatch/test_order.py \
    tests/dispatch/test_hot_alignment.py tests/dispatch/test_hot_lists.py \
    tests/backends/test_numpy*.py \
    -k "numpy or not ($others)"
