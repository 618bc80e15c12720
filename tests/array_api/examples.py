"""One worked example for each function of the standard: its result, written down.

`test_examples` asks for an example of every function that the standard has, so that none goes
without. An example is a callable of the namespace, the values and the dtype of what it returns; a
tuple of results has tuples of both. A dtype of None stands for a result that is no array.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi
from typing import Any, Final, TypeAlias

Example: TypeAlias = "tuple[Callable[[Any], Any], Any, Any]"


def _a(xp: Any, values: Any, dtype: str | None = None) -> Any:
    return xp.asarray(values, dtype=None if dtype is None else getattr(xp, dtype))


CREATION: Final[dict[str, Example]] = {
    "arange": (lambda xp: xp.arange(5, 0, -2), [5, 3, 1], "int64"),
    "asarray": (lambda xp: xp.asarray([[1, 2.5], [3, 4]]), [[1.0, 2.5], [3.0, 4.0]], "float64"),
    "empty": (lambda xp: xp.empty((2, 0), dtype=xp.int8), [[], []], "int8"),
    "empty_like": (lambda xp: xp.empty_like(_a(xp, [[], []])), [[], []], "float64"),
    "eye": (lambda xp: xp.eye(2, 3, k=1), [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "float64"),
    "from_dlpack": (lambda xp: xp.from_dlpack(_a(xp, [1, 2])), [1, 2], "int64"),
    "full": (lambda xp: xp.full((2,), 7, dtype=xp.uint8), [7, 7], "uint8"),
    "full_like": (lambda xp: xp.full_like(_a(xp, [1.5]), 2), [2.0], "float64"),
    "linspace": (lambda xp: xp.linspace(0, 1, 5), [0.0, 0.25, 0.5, 0.75, 1.0], "float64"),
    "meshgrid": (
        lambda xp: xp.meshgrid(_a(xp, [1, 2]), _a(xp, [3])),
        ([[1, 2]], [[3, 3]]),
        ("int64", "int64"),
    ),
    "ones": (lambda xp: xp.ones((1, 2), dtype=xp.bool), [[True, True]], "bool"),
    "ones_like": (lambda xp: xp.ones_like(_a(xp, [3, 4], "int16")), [1, 1], "int16"),
    "tril": (lambda xp: xp.tril(_a(xp, [[1, 2], [3, 4]])), [[1, 0], [3, 4]], "int64"),
    "triu": (lambda xp: xp.triu(_a(xp, [[1, 2], [3, 4]]), k=1), [[0, 2], [0, 0]], "int64"),
    "zeros": (lambda xp: xp.zeros(2, dtype=xp.complex64), [0j, 0j], "complex64"),
    "zeros_like": (lambda xp: xp.zeros_like(_a(xp, [1, 2], "float32")), [0.0, 0.0], "float32"),
}

DATA_TYPE: Final[dict[str, Example]] = {
    "astype": (lambda xp: xp.astype(_a(xp, [-1.5, 2.9]), xp.int8), [-1, 2], "int8"),
    "can_cast": (lambda xp: xp.can_cast(xp.int8, xp.int16), True, None),
    "finfo": (lambda xp: xp.finfo(xp.float32).eps, 2.0**-23, None),
    "iinfo": (lambda xp: xp.iinfo(xp.int8).min, -128, None),
    "isdtype": (lambda xp: xp.isdtype(xp.uint8, "integral"), True, None),
    "result_type": (lambda xp: xp.result_type(xp.int8, xp.uint8).name, "int16", None),
}

ELEMENTWISE: Final[dict[str, Example]] = {
    "abs": (lambda xp: xp.abs(_a(xp, [3 + 4j])), [5.0], "float64"),
    "acos": (lambda xp: xp.acos(_a(xp, [1.0, 0.0])), [0.0, pi / 2], "float64"),
    "acosh": (lambda xp: xp.acosh(_a(xp, [1.0, 2.0])), [0.0, 1.3169578969248166], "float64"),
    "add": (lambda xp: xp.add(_a(xp, [1, 2]), _a(xp, [10])), [11, 12], "int64"),
    "asin": (lambda xp: xp.asin(_a(xp, [0.0, 1.0])), [0.0, pi / 2], "float64"),
    "asinh": (lambda xp: xp.asinh(_a(xp, [1.0])), [0.881373587019543], "float64"),
    "atan": (lambda xp: xp.atan(_a(xp, [1.0, -inf])), [pi / 4, -pi / 2], "float64"),
    "atan2": (lambda xp: xp.atan2(_a(xp, [1.0]), _a(xp, [-1.0])), [3 * pi / 4], "float64"),
    "atanh": (lambda xp: xp.atanh(_a(xp, [0.5, 1.0])), [0.5493061443340549, inf], "float64"),
    "bitwise_and": (lambda xp: xp.bitwise_and(_a(xp, [6]), _a(xp, [3])), [2], "int64"),
    "bitwise_invert": (lambda xp: xp.bitwise_invert(_a(xp, [1], "uint8")), [254], "uint8"),
    "bitwise_left_shift": (
        lambda xp: xp.bitwise_left_shift(_a(xp, [3]), _a(xp, [2])),
        [12],
        "int64",
    ),
    "bitwise_or": (lambda xp: xp.bitwise_or(_a(xp, [6]), _a(xp, [3])), [7], "int64"),
    "bitwise_right_shift": (
        lambda xp: xp.bitwise_right_shift(_a(xp, [-5, 5]), _a(xp, [1])),
        [-3, 2],
        "int64",
    ),
    "bitwise_xor": (lambda xp: xp.bitwise_xor(_a(xp, [6]), _a(xp, [3])), [5], "int64"),
    "ceil": (lambda xp: xp.ceil(_a(xp, [1.2, -1.2])), [2.0, -1.0], "float64"),
    "clip": (lambda xp: xp.clip(_a(xp, [-2, 0, 5]), -1, 3), [-1, 0, 3], "int64"),
    "conj": (lambda xp: xp.conj(_a(xp, [1 + 2j])), [1 - 2j], "complex128"),
    "copysign": (lambda xp: xp.copysign(_a(xp, [1.0]), _a(xp, [-0.0])), [-1.0], "float64"),
    "cos": (lambda xp: xp.cos(_a(xp, [0.0, pi])), [1.0, -1.0], "float64"),
    "cosh": (lambda xp: xp.cosh(_a(xp, [0.0, 1.0])), [1.0, 1.5430806348152437], "float64"),
    "divide": (lambda xp: xp.divide(_a(xp, [1.0]), _a(xp, [4.0])), [0.25], "float64"),
    "equal": (lambda xp: xp.equal(_a(xp, [1.0, nan]), _a(xp, [1.0, nan])), [True, False], "bool"),
    "exp": (lambda xp: xp.exp(_a(xp, [0.0, 1.0, -inf])), [1.0, 2.718281828459045, 0.0], "float64"),
    "expm1": (lambda xp: xp.expm1(_a(xp, [1e-12])), [1.0000000000005e-12], "float64"),
    "floor": (lambda xp: xp.floor(_a(xp, [1.8, -1.2])), [1.0, -2.0], "float64"),
    "floor_divide": (lambda xp: xp.floor_divide(_a(xp, [-7, 7]), _a(xp, [2])), [-4, 3], "int64"),
    "greater": (lambda xp: xp.greater(_a(xp, [1, 2]), _a(xp, [1])), [False, True], "bool"),
    "greater_equal": (
        lambda xp: xp.greater_equal(_a(xp, [0, 1]), _a(xp, [1])),
        [False, True],
        "bool",
    ),
    "hypot": (lambda xp: xp.hypot(_a(xp, [3e200]), _a(xp, [4e200])), [5e200], "float64"),
    "imag": (lambda xp: xp.imag(_a(xp, [1 + 2j], "complex64")), [2.0], "float32"),
    "isfinite": (lambda xp: xp.isfinite(_a(xp, [1.0, inf, nan])), [True, False, False], "bool"),
    "isinf": (lambda xp: xp.isinf(_a(xp, [1.0, -inf, nan])), [False, True, False], "bool"),
    "isnan": (lambda xp: xp.isnan(_a(xp, [1.0, inf, nan])), [False, False, True], "bool"),
    "less": (lambda xp: xp.less(_a(xp, [0, 1]), _a(xp, [1])), [True, False], "bool"),
    "less_equal": (lambda xp: xp.less_equal(_a(xp, [1, 2]), _a(xp, [1])), [True, False], "bool"),
    "log": (lambda xp: xp.log(_a(xp, [1.0, 0.0])), [0.0, -inf], "float64"),
    "log10": (lambda xp: xp.log10(_a(xp, [1000.0])), [3.0], "float64"),
    "log1p": (lambda xp: xp.log1p(_a(xp, [1e-12])), [9.999999999995e-13], "float64"),
    "log2": (lambda xp: xp.log2(_a(xp, [8.0])), [3.0], "float64"),
    "logaddexp": (
        lambda xp: xp.logaddexp(_a(xp, [1000.0]), _a(xp, [1000.0])),
        [1000.6931471805599],
        "float64",
    ),
    "logical_and": (
        lambda xp: xp.logical_and(_a(xp, [True, True]), _a(xp, [True, False])),
        [True, False],
        "bool",
    ),
    "logical_not": (lambda xp: xp.logical_not(_a(xp, [True, False])), [False, True], "bool"),
    "logical_or": (lambda xp: xp.logical_or(_a(xp, [False]), _a(xp, [True])), [True], "bool"),
    "logical_xor": (lambda xp: xp.logical_xor(_a(xp, [True]), _a(xp, [True])), [False], "bool"),
    "maximum": (lambda xp: xp.maximum(_a(xp, [1, 5]), _a(xp, [3])), [3, 5], "int64"),
    "minimum": (lambda xp: xp.minimum(_a(xp, [1.0, 5.0]), _a(xp, [nan])), [nan, nan], "float64"),
    "multiply": (lambda xp: xp.multiply(_a(xp, [2j]), _a(xp, [3j])), [-6 + 0j], "complex128"),
    "negative": (lambda xp: xp.negative(_a(xp, [1, -2])), [-1, 2], "int64"),
    "nextafter": (
        lambda xp: xp.nextafter(_a(xp, [1.0]), _a(xp, [2.0])),
        [1.0000000000000002],
        "float64",
    ),
    "not_equal": (lambda xp: xp.not_equal(_a(xp, [1, 2]), _a(xp, [1])), [False, True], "bool"),
    "positive": (lambda xp: xp.positive(_a(xp, [-1])), [-1], "int64"),
    "pow": (lambda xp: xp.pow(_a(xp, [2, 3]), _a(xp, [10, 2])), [1024, 9], "int64"),
    "real": (lambda xp: xp.real(_a(xp, [1 + 2j], "complex64")), [1.0], "float32"),
    "reciprocal": (lambda xp: xp.reciprocal(_a(xp, [4.0])), [0.25], "float64"),
    "remainder": (lambda xp: xp.remainder(_a(xp, [-7, 7]), _a(xp, [3, -3])), [2, -2], "int64"),
    "round": (lambda xp: xp.round(_a(xp, [0.5, 1.5, -2.5])), [0.0, 2.0, -2.0], "float64"),
    "sign": (lambda xp: xp.sign(_a(xp, [-3.0, 0.0, nan])), [-1.0, 0.0, nan], "float64"),
    "signbit": (lambda xp: xp.signbit(_a(xp, [-0.0, 0.0])), [True, False], "bool"),
    "sin": (lambda xp: xp.sin(_a(xp, [0.0, pi / 2])), [0.0, 1.0], "float64"),
    "sinh": (lambda xp: xp.sinh(_a(xp, [1.0])), [1.1752011936438014], "float64"),
    "sqrt": (lambda xp: xp.sqrt(_a(xp, [4.0, -1.0])), [2.0, nan], "float64"),
    "square": (lambda xp: xp.square(_a(xp, [-3])), [9], "int64"),
    "subtract": (
        lambda xp: xp.subtract(_a(xp, [1], "uint8"), _a(xp, [2], "uint8")),
        [255],
        "uint8",
    ),
    "tan": (lambda xp: xp.tan(_a(xp, [1.0])), [1.5574077246549023], "float64"),
    "tanh": (lambda xp: xp.tanh(_a(xp, [1.0, inf])), [0.7615941559557649, 1.0], "float64"),
    "trunc": (lambda xp: xp.trunc(_a(xp, [1.8, -1.8])), [1.0, -1.0], "float64"),
}

INDEXING: Final[dict[str, Example]] = {
    "take": (lambda xp: xp.take(_a(xp, [5, 6, 7]), _a(xp, [2, 0, -1])), [7, 5, 7], "int64"),
    "take_along_axis": (
        lambda xp: xp.take_along_axis(_a(xp, [[1, 2], [3, 4]]), _a(xp, [[1], [0]])),
        [[2], [3]],
        "int64",
    ),
}

LINEAR_ALGEBRA: Final[dict[str, Example]] = {
    "matmul": (lambda xp: xp.matmul(_a(xp, [[1, 2], [3, 4]]), _a(xp, [1, 1])), [3, 7], "int64"),
    "matrix_transpose": (
        lambda xp: xp.matrix_transpose(_a(xp, [[[1, 2]], [[3, 4]]])),
        [[[1], [2]], [[3], [4]]],
        "int64",
    ),
    "tensordot": (
        lambda xp: xp.tensordot(_a(xp, [[1, 2], [3, 4]]), _a(xp, [[1, 0], [0, 1]]), axes=2),
        5,
        "int64",
    ),
    "vecdot": (lambda xp: xp.vecdot(_a(xp, [1j, 2]), _a(xp, [1, 1j])), 1j, "complex128"),
}

MANIPULATION: Final[dict[str, Example]] = {
    "broadcast_arrays": (
        lambda xp: xp.broadcast_arrays(_a(xp, [1, 2]), _a(xp, [[3.0]])),
        ([[1, 2]], [[3.0, 3.0]]),
        ("int64", "float64"),
    ),
    "broadcast_shapes": (lambda xp: xp.broadcast_shapes((2, 1), (3,), ()), (2, 3), None),
    "broadcast_to": (lambda xp: xp.broadcast_to(_a(xp, [1, 2]), (2, 2)), [[1, 2], [1, 2]], "int64"),
    "concat": (lambda xp: xp.concat([_a(xp, [1]), _a(xp, [2, 3])]), [1, 2, 3], "int64"),
    "expand_dims": (lambda xp: xp.expand_dims(_a(xp, [1, 2]), -1), [[1], [2]], "int64"),
    "flip": (lambda xp: xp.flip(_a(xp, [[1, 2], [3, 4]]), axis=1), [[2, 1], [4, 3]], "int64"),
    "moveaxis": (lambda xp: xp.moveaxis(_a(xp, [[1, 2]]), 0, 1), [[1], [2]], "int64"),
    "permute_dims": (lambda xp: xp.permute_dims(_a(xp, [[1, 2]]), (-1, 0)), [[1], [2]], "int64"),
    "repeat": (lambda xp: xp.repeat(_a(xp, [1, 2]), _a(xp, [2, 1])), [1, 1, 2], "int64"),
    "reshape": (lambda xp: xp.reshape(_a(xp, [1, 2, 3, 4]), (2, -1)), [[1, 2], [3, 4]], "int64"),
    "roll": (lambda xp: xp.roll(_a(xp, [1, 2, 3]), 1), [3, 1, 2], "int64"),
    "squeeze": (lambda xp: xp.squeeze(_a(xp, [[[1, 2]]]), (0, 1)), [1, 2], "int64"),
    "stack": (lambda xp: xp.stack([_a(xp, [1, 2]), _a(xp, [3, 4])]), [[1, 2], [3, 4]], "int64"),
    "tile": (lambda xp: xp.tile(_a(xp, [1, 2]), (2, 2)), [[1, 2, 1, 2], [1, 2, 1, 2]], "int64"),
    "unstack": (lambda xp: xp.unstack(_a(xp, [[1, 2], [3, 4]])), ([1, 2], [3, 4]), ("int64",) * 2),
}

SEARCHING: Final[dict[str, Example]] = {
    "argmax": (lambda xp: xp.argmax(_a(xp, [1.0, 3.0, 3.0])), 1, "int64"),
    "argmin": (lambda xp: xp.argmin(_a(xp, [[2, 1], [0, 5]]), axis=1), [1, 0], "int64"),
    "count_nonzero": (lambda xp: xp.count_nonzero(_a(xp, [0.0, nan, 2.0])), 2, "int64"),
    "nonzero": (
        lambda xp: xp.nonzero(_a(xp, [[0, 1], [2, 0]])),
        ([0, 1], [1, 0]),
        ("int64", "int64"),
    ),
    "searchsorted": (
        lambda xp: xp.searchsorted(_a(xp, [1, 2, 2, 3]), _a(xp, [2, 4]), side="right"),
        [3, 4],
        "int64",
    ),
    "where": (
        lambda xp: xp.where(_a(xp, [True, False]), _a(xp, [1, 2]), _a(xp, [3, 4])),
        [1, 4],
        "int64",
    ),
}

SET: Final[dict[str, Example]] = {
    "isin": (lambda xp: xp.isin(_a(xp, [1, 2, 3]), _a(xp, [3, 1])), [True, False, True], "bool"),
    "unique_all": (
        lambda xp: xp.unique_all(_a(xp, [2, 1, 2])),
        ([1, 2], [1, 0], [1, 0, 1], [1, 2]),
        ("int64",) * 4,
    ),
    "unique_counts": (
        lambda xp: xp.unique_counts(_a(xp, [2.0, 1.0, 2.0])),
        ([1.0, 2.0], [1, 2]),
        ("float64", "int64"),
    ),
    "unique_inverse": (
        lambda xp: xp.unique_inverse(_a(xp, [[2], [1]])),
        ([1, 2], [[1], [0]]),
        ("int64", "int64"),
    ),
    "unique_values": (lambda xp: xp.unique_values(_a(xp, [3, 1, 3])), [1, 3], "int64"),
}

SORTING: Final[dict[str, Example]] = {
    "argsort": (lambda xp: xp.argsort(_a(xp, [3, 1, 2])), [1, 2, 0], "int64"),
    "sort": (lambda xp: xp.sort(_a(xp, [3, 1, 2]), descending=True), [3, 2, 1], "int64"),
}

STATISTICAL: Final[dict[str, Example]] = {
    "cumulative_prod": (lambda xp: xp.cumulative_prod(_a(xp, [2, 3, 4])), [2, 6, 24], "int64"),
    "cumulative_sum": (
        lambda xp: xp.cumulative_sum(_a(xp, [1, 2], "int8"), include_initial=True),
        [0, 1, 3],
        "int64",
    ),
    "max": (lambda xp: xp.max(_a(xp, [1.0, nan, 2.0])), nan, "float64"),
    "mean": (lambda xp: xp.mean(_a(xp, [[1.0, 2.0], [3.0, 6.0]]), axis=0), [2.0, 4.0], "float64"),
    "min": (
        lambda xp: xp.min(_a(xp, [[3, 1], [2, 4]]), axis=1, keepdims=True),
        [[1], [2]],
        "int64",
    ),
    "prod": (lambda xp: xp.prod(_a(xp, [100, 100], "uint8")), 10000, "uint64"),
    "std": (lambda xp: xp.std(_a(xp, [1.0, 3.0])), 1.0, "float64"),
    "sum": (lambda xp: xp.sum(_a(xp, [100, 100], "int8")), 200, "int64"),
    "var": (lambda xp: xp.var(_a(xp, [1.0, 3.0]), correction=1), 2.0, "float64"),
}

UTILITY: Final[dict[str, Example]] = {
    "all": (lambda xp: xp.all(_a(xp, [[1, 0], [2, 3]]), axis=1), [False, True], "bool"),
    "any": (lambda xp: xp.any(_a(xp, [0.0, nan])), True, "bool"),
    "diff": (lambda xp: xp.diff(_a(xp, [1, 4, 9]), n=2, prepend=_a(xp, [0])), [2, 2], "int64"),
}

_WAVE: Final = [1.0, 0.0, -1.0, 0.0]
FFT: Final[dict[str, Example]] = {
    "fft.fft": (lambda xp: xp.fft.fft(_a(xp, _WAVE)), [0, 2, 0, 2], "complex128"),
    "fft.fftfreq": (lambda xp: xp.fft.fftfreq(4, d=0.5), [0.0, 0.5, -1.0, -0.5], "float64"),
    "fft.fftn": (
        lambda xp: xp.fft.fftn(_a(xp, [[1.0, 2.0], [3.0, 4.0]])),
        [[10, -2], [-4, 0]],
        "complex128",
    ),
    "fft.fftshift": (lambda xp: xp.fft.fftshift(_a(xp, [0, 1, 2])), [2, 0, 1], "int64"),
    "fft.hfft": (lambda xp: xp.fft.hfft(_a(xp, [0j, 2, 0])), [4, 0, -4, 0], "float64"),
    "fft.ifft": (lambda xp: xp.fft.ifft(_a(xp, [0j, 2, 0, 2])), _WAVE, "complex128"),
    "fft.ifftn": (
        lambda xp: xp.fft.ifftn(_a(xp, [[4j, 0], [0, 0]])),
        [[1j, 1j], [1j, 1j]],
        "complex128",
    ),
    "fft.ifftshift": (lambda xp: xp.fft.ifftshift(_a(xp, [2, 0, 1])), [0, 1, 2], "int64"),
    "fft.ihfft": (lambda xp: xp.fft.ihfft(_a(xp, _WAVE)), [0, 0.5, 0], "complex128"),
    "fft.irfft": (lambda xp: xp.fft.irfft(_a(xp, [0j, 2, 0])), _WAVE, "float64"),
    "fft.irfftn": (lambda xp: xp.fft.irfftn(_a(xp, [[4j, 0j]])), [[0.0, 0.0]], "float64"),
    "fft.rfft": (lambda xp: xp.fft.rfft(_a(xp, _WAVE)), [0, 2, 0], "complex128"),
    "fft.rfftfreq": (lambda xp: xp.fft.rfftfreq(4, d=0.5), [0.0, 0.5, 1.0], "float64"),
    "fft.rfftn": (
        lambda xp: xp.fft.rfftn(_a(xp, [[1.0, 2.0], [3.0, 4.0]])),
        [[10, -2], [-4, 0]],
        "complex128",
    ),
}

_POSITIVE: Final = [[4.0, 2.0], [2.0, 5.0]]
_DIAGONAL: Final = [[2.0, 0.0], [0.0, -3.0]]
LINALG: Final[dict[str, Example]] = {
    "linalg.cholesky": (
        lambda xp: xp.linalg.cholesky(_a(xp, _POSITIVE)),
        [[2.0, 0.0], [1.0, 2.0]],
        "float64",
    ),
    "linalg.cross": (
        lambda xp: xp.linalg.cross(_a(xp, [1, 0, 0]), _a(xp, [0, 1, 0])),
        [0, 0, 1],
        "int64",
    ),
    "linalg.det": (lambda xp: xp.linalg.det(_a(xp, _POSITIVE)), 16.0, "float64"),
    "linalg.diagonal": (
        lambda xp: xp.linalg.diagonal(_a(xp, [[1, 2], [3, 4]]), offset=1),
        [2],
        "int64",
    ),
    "linalg.eig": (
        lambda xp: xp.linalg.eig(_a(xp, [[2.0]])),
        ([2.0], [[1.0]]),
        ("complex128", "complex128"),
    ),
    "linalg.eigh": (
        lambda xp: xp.linalg.eigh(_a(xp, [[-7.0]])).eigenvalues,
        [-7.0],
        "float64",
    ),
    "linalg.eigvals": (lambda xp: xp.linalg.eigvals(_a(xp, [[3.0]])), [3.0], "complex128"),
    "linalg.eigvalsh": (lambda xp: xp.linalg.eigvalsh(_a(xp, _DIAGONAL)), [-3.0, 2.0], "float64"),
    "linalg.inv": (
        lambda xp: xp.linalg.inv(_a(xp, [[2.0, 0.0], [0.0, 4.0]])),
        [[0.5, 0.0], [0.0, 0.25]],
        "float64",
    ),
    "linalg.matmul": (lambda xp: xp.linalg.matmul(_a(xp, [2]), _a(xp, [3])), 6, "int64"),
    "linalg.matrix_norm": (
        lambda xp: xp.linalg.matrix_norm(_a(xp, _DIAGONAL), ord=1),
        3.0,
        "float64",
    ),
    "linalg.matrix_power": (
        lambda xp: xp.linalg.matrix_power(_a(xp, _DIAGONAL), 3),
        [[8.0, 0.0], [0.0, -27.0]],
        "float64",
    ),
    "linalg.matrix_rank": (
        lambda xp: xp.linalg.matrix_rank(_a(xp, [[1.0, 2.0], [2.0, 4.0]])),
        1,
        "int64",
    ),
    "linalg.matrix_transpose": (
        lambda xp: xp.linalg.matrix_transpose(_a(xp, [[1, 2]])),
        [[1], [2]],
        "int64",
    ),
    "linalg.outer": (
        lambda xp: xp.linalg.outer(_a(xp, [1, 2]), _a(xp, [3, 4])),
        [[3, 4], [6, 8]],
        "int64",
    ),
    "linalg.pinv": (lambda xp: xp.linalg.pinv(_a(xp, [[2.0], [0.0]])), [[0.5, 0.0]], "float64"),
    "linalg.qr": (lambda xp: abs(xp.linalg.qr(_a(xp, [[3.0], [4.0]])).R), [[5.0]], "float64"),
    "linalg.slogdet": (
        lambda xp: xp.linalg.slogdet(_a(xp, [[0.0, 1.0], [1.0, 0.0]])),
        (-1.0, 0.0),
        ("float64", "float64"),
    ),
    "linalg.solve": (
        lambda xp: xp.linalg.solve(_a(xp, _POSITIVE), _a(xp, [8.0, 12.0])),
        [1.0, 2.0],
        "float64",
    ),
    "linalg.svd": (lambda xp: xp.linalg.svd(_a(xp, _DIAGONAL)).S, [3.0, 2.0], "float64"),
    "linalg.svdvals": (lambda xp: xp.linalg.svdvals(_a(xp, _DIAGONAL)), [3.0, 2.0], "float64"),
    "linalg.tensordot": (
        lambda xp: xp.linalg.tensordot(_a(xp, [2]), _a(xp, [3]), axes=1),
        6,
        "int64",
    ),
    "linalg.trace": (lambda xp: xp.linalg.trace(_a(xp, [[1, 2], [3, 4]], "int8")), 5, "int64"),
    "linalg.vecdot": (lambda xp: xp.linalg.vecdot(_a(xp, [1, 2]), _a(xp, [3, 4])), 11, "int64"),
    "linalg.vector_norm": (lambda xp: xp.linalg.vector_norm(_a(xp, [3.0, -4.0])), 5.0, "float64"),
}

EXAMPLES: Final[dict[str, Example]] = {
    **CREATION,
    **DATA_TYPE,
    **ELEMENTWISE,
    **INDEXING,
    **LINEAR_ALGEBRA,
    **MANIPULATION,
    **SEARCHING,
    **SET,
    **SORTING,
    **STATISTICAL,
    **UTILITY,
    **FFT,
    **LINALG,
}
