"""How far the results of the fused kernels lie from those in float64, on each library's arrays.

    python conformance/kernels.py --records records.jsonl
    python conformance/kernels.py --records records.jsonl --rehearse    # on the host

Every function of `corepy.kernels` is computed on a GPU in each dtype, and on the host by NumPy's
form in float64, from the same operands. Two figures are told for each: the greatest error of an
element in parts of that element (of those that are not small: sums may cancel), and in parts of
the greatest element. One line of JSON for each function, library and dtype is written as soon as
it is known. `scripts/gpu_check.sh` runs it and makes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

# So that the script runs in a checkout in which nothing is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import numpy.typing as npt

from benchmarks._on_device import HALVES, Library, libraries, reason, rounded
from corepy import kernels

DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
#: Elements below this part of the greatest one have no error of their own.
SMALL: Final = 1e-3
#: Errors in parts of the greatest element that a kernel may have: what the kernels' tests allow.
BOUNDS: Final = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
#: Functions whose floats are never of half precision, whatever they are given.
WIDE: Final = ("quantize", "dequantize")
#: The share of integers that may be off by 1.
FEW: Final = 0.01

Host = npt.NDArray[Any]
#: A kernel's operands: floats take the dtype that is tried, except where a name says otherwise.
Operands = dict[str, Host]
Function = Callable[..., Any]


def _draw(*shape: int, seed: int = 0) -> Host:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


_X: Final = {"x": _draw(33, 1000)}
_QKV: Final[Operands] = {
    "q": _draw(2, 4, 70, 64),
    "k": _draw(2, 2, 130, 64, seed=1),
    "v": _draw(2, 2, 130, 64, seed=2),
}
_MATRIX: Final[Operands] = {"a": _draw(60, 300), "b": _draw(300, 50, seed=1)}
_COS, _SIN = (x.astype(np.float64) for x in kernels.rope_tables(70, 64))


def _weights(bits: Literal[4, 8]) -> Operands:
    values, scales = kernels.quantize(_draw(50, 256, seed=3), bits=bits, group_size=64)
    return {"values": values, "wide scales": scales}


def _cached(cache: Function) -> Function:
    def attend(q: Any, k: Any, v: Any) -> Any:
        memory = cache(like=k)
        memory.append(k, v)
        return memory.attend(q)

    return attend


def _adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    return kernels.adam_step(p, g, m, v, step=3, learning_rate=0.01, weight_decay=0.1)


#: What is called for each function of `corepy.kernels`, and its operands.
CASES: Final[dict[str, tuple[Function, Operands]]] = {
    "rms_norm": (lambda x, w: kernels.rms_norm(x, w, 1e-6), {**_X, "w": _draw(1000, seed=1)}),
    "layer_norm": (
        lambda x, w, b: kernels.layer_norm(x, w, b, 1e-6),
        {**_X, "w": _draw(1000, seed=1), "b": _draw(1000, seed=2)},
    ),
    "batch_norm": (
        kernels.batch_norm,
        {
            "x": _draw(4, 6, 50),
            "mean": _draw(6, seed=1),
            "variance": 0.1 + _draw(6, seed=2) ** 2,
            "weight": _draw(6, seed=3),
            "bias": _draw(6, seed=4),
        },
    ),
    "softmax": (lambda x: kernels.softmax(x, -1), _X),
    "silu": (kernels.silu, _X),
    "gelu": (kernels.gelu, _X),
    "gelu, tanh": (lambda x: kernels.gelu(x, approximate="tanh"), _X),
    "swiglu": (kernels.swiglu, {**_X, "gate": _draw(33, 1000, seed=1)}),
    "rope": (kernels.rope, {"q": _QKV["q"], "cos": _COS, "sin": _SIN}),
    "attention": (kernels.attention, _QKV),
    "attention, causal": (lambda q, k, v: kernels.attention(q, k, v, causal=True), _QKV),
    "attention, one query": (
        kernels.attention,
        {"q": _draw(2, 4, 1, 64), "k": _QKV["k"], "v": _QKV["v"]},
    ),
    "KVCache": (_cached(lambda like: kernels.KVCache(2, 2, 160, 64, like=like)), _QKV),
    "PagedKVCache": (
        _cached(lambda like: kernels.PagedKVCache(2, 2, 32, 16, 64, like=like)),
        _QKV,
    ),
    "conv2d": (
        lambda x, w, b: kernels.conv2d(x, w, b, stride=2, padding=1, groups=2),
        {"x": _draw(2, 6, 12, 13), "w": _draw(4, 3, 3, 3, seed=1), "b": _draw(4, seed=2)},
    ),
    "gemm": (kernels.gemm, _MATRIX),
    "gemv": (kernels.gemv, {"a": _MATRIX["a"], "x": _draw(300, seed=1)}),
    "matmul_vec": (kernels.matmul_vec, {"a": _MATRIX["a"], "x": _draw(3, 300, seed=1)}),
    "weighted_sum_rows": (
        kernels.weighted_sum_rows,
        {"weights": _draw(5, 40), "rows": _draw(5, 40, 64, seed=1)},
    ),
    "attention_scores": (kernels.attention_scores, {"q": _QKV["q"], "k": _QKV["k"]}),
    "adam_step": (
        _adam,
        {"p": _draw(999), "g": _draw(999, seed=1), "m": _draw(999, seed=2), "v": _draw(999) ** 2},
    ),
    "quantize": (lambda x: kernels.quantize(x, group_size=100), _X),
    "dequantize": (kernels.dequantize, _weights(8)),
    "matmul_int8": (kernels.matmul_int8, {"x": _draw(3, 256), **_weights(8)}),
    "matmul_int4": (kernels.matmul_int4, {"x": _draw(3, 256), **_weights(4)}),
}


def operands(name: str, dtype: str) -> list[Host]:
    """Return what a case computes on, rounded to a dtype."""
    wide = "float32" if dtype in HALVES else dtype
    return [
        rounded(x, wide if key.startswith("wide") else dtype) if x.dtype.kind == "f" else x
        for key, x in CASES[name][1].items()
    ]


def errors(name: str, dtype: str, library: Library) -> tuple[float, float]:
    """Return the greatest errors in parts of an element, and of the greatest one.

    Infinite, where the result has another shape or dtype, is not finite where it should be, or its
    integers are others: the last bit of a scale decides which way a few of them are rounded.
    """
    given = operands(name, dtype)
    function = CASES[name][0]
    exact = _parts(function(*(x.astype("f8") if x.dtype.kind not in "biu" else x for x in given)))
    made = _parts(function(*map(library.array, given)))
    floats = "float32" if dtype in HALVES and name in WIDE else dtype
    worst, of_greatest = 0.0, 0.0
    for part, expected in zip(made, exact, strict=True):
        got, integers = library.host(part), expected.dtype.kind in "iu"
        of = str(part.dtype).rpartition(".")[2]  # torch's are named "torch.int8"
        if of != (expected.dtype.name if integers else floats):
            return float("inf"), float("inf")
        if got.shape != expected.shape or not np.isfinite(got).all():
            return float("inf"), float("inf")
        if integers:
            off = np.abs(got.astype("i8") - expected)
            if off.max() > 1 or np.mean(off) > FEW:
                return float("inf"), float("inf")
            continue
        off, size = np.abs(got - expected), np.abs(expected)
        kept = size > SMALL * size.max()
        worst = max(worst, float((off[kept] / size[kept]).max()))
        of_greatest = max(of_greatest, float(off.max() / size.max()))
    return worst, of_greatest


def _parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def rows(found: Mapping[str, Library], dtypes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Compute every case on the arrays of each library in each dtype."""
    for name in CASES:
        for home in found.values():
            for dtype in dtypes:
                row: dict[str, Any] = {"kernel": name, "library": home.name, "dtype": dtype}
                try:
                    worst, of_greatest = errors(name, dtype, home)
                except Exception as error:  # of one library: told in the table
                    yield {**row, "failed": reason(error)}
                else:
                    within = of_greatest <= BOUNDS[dtype]
                    yield {**row, "error": worst, "of_greatest": of_greatest, "within": within}


def _bare() -> None:
    """Have all computed by corepy's own kernels, on arrays in memory of their own.

    For tools that watch memory: within a pool's blocks they see nothing.
    """
    sys.modules["torch"] = None  # type: ignore[assignment]  # the import system's word for absent
    import cupy

    cupy.cuda.set_allocator(None)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write a line for each row; 1 if an error is beyond its bound."""
    parser = argparse.ArgumentParser(description="Measure the errors of the kernels on a GPU.")
    parser.add_argument("--records", type=Path, required=True, help="file to append lines to")
    parser.add_argument("--library", choices=("cupy", "torch", "jax"), help="one alone")
    parser.add_argument("--rehearse", action="store_true", help="on the host, in float32 alone")
    parser.add_argument("--bare", action="store_true", help="without torch, and CuPy's pool")
    options = parser.parse_args(argv)
    if options.bare:
        _bare()
    found, missing = libraries(options.rehearse, *filter(None, [options.library]))
    beyond = 0
    with options.records.open("a", encoding="utf-8") as out, np.errstate(all="ignore"):
        out.write(json.dumps({"libraries": sorted(found), "missing": missing}) + "\n")
        if not found:
            print(f"no library sees a GPU: {missing}", file=sys.stderr)
            return 2
        for row in rows(found, DTYPES[2:3] if options.rehearse else DTYPES):
            beyond += not row.get("within", False)
            out.write(json.dumps(row) + "\n")
            out.flush()
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
