"""What of `array_api_compat.cupy` has a fix, and what takes Python scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import array_api_compat.cupy as compat
import cupy

from corepy.backends._descending import in_both_orders
from corepy.backends._inplace import in_place
from corepy.backends.cupy import _creation as creation
from corepy.backends.cupy import _elementwise as elementwise
from corepy.backends.cupy import _fft as fft
from corepy.backends.cupy import _indexing as indexing
from corepy.backends.cupy import _linalg as linalg
from corepy.backends.cupy import _reductions as reductions

#: Operations whose kernels take a Python scalar as a parameter, of the dtype of the operand beside
#: it (`CScalar.apply_dtype` in _scalar.pyx), and compute the same with it as with an element.
SCALARS_OF_KERNELS: Final = frozenset(
    {
        "add",
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "divide",
        "equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "maximum",
        "minimum",
        "multiply",
        "not_equal",
        "subtract",
    }
)
#: Before 14 the dtype depends on the scalar's value.
TAKEN: Final = SCALARS_OF_KERNELS if int(cupy.__version__.partition(".")[0]) >= 14 else frozenset()

Function = Callable[..., Any]


FIXES: Final[dict[str, Function]] = {
    **{
        name: creation.on_device(getattr(cupy, name)) for name in ("empty", "full", "ones", "zeros")
    },
    "arange": creation.on_device(creation.arange),
    "linspace": creation.on_device(creation.linspace),
    "eye": creation.on_device(creation.eye),
    "fft.fftn": fft.fftn(cupy.fft.fftn),
    "fft.ifftn": fft.fftn(cupy.fft.ifftn),
    "fft.rfftn": fft.rfftn,
    "fft.irfftn": fft.irfftn,
    "fft.fftfreq": creation.on_device(fft.fftfreq),
    "fft.rfftfreq": creation.on_device(fft.rfftfreq),
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "take": indexing.take,
    "take_along_axis": indexing.take_along_axis,
    "repeat": indexing.repeat,
    # compat turns round what is sorted, and with it the order of zeros of both signs and of NaN.
    "sort": in_both_orders(compat.sort, cupy.flip),
    **{name: reductions.Method(name, reductions.accumulation) for name in ("prod", "sum")},
    **{
        name: reductions.Method(name, reductions.reduction) for name in ("all", "any", "max", "min")
    },
    "mean": reductions.Method("mean", reductions.average),
    "std": reductions.spread(compat.std),
    "var": reductions.spread(compat.var),
    "astype": reductions.astype,
    "matmul": cupy.matmul,
    "floor_divide": elementwise.floor_divide,
    "remainder": elementwise.remainder,
    "pow": elementwise.pow_,
    "acosh": elementwise.acosh,
    "expm1": elementwise.expm1,
    "log": elementwise.log,
    "log1p": elementwise.log1p,
    "log2": elementwise.log2,
    "log10": elementwise.log10,
    "sign": elementwise.sign,
    "tan": elementwise.tan,
    "tanh": elementwise.tanh,
    "clip": elementwise.clip,
    **{
        f"linalg.{name}": linalg.solvable(getattr(compat.linalg, name), failure)
        for name, failure in linalg.FAILURES.items()
    },
    "linalg.matrix_power": linalg.solvable(linalg.matrix_power, "Singular matrix"),
    "linalg.qr": linalg.qr,
    "linalg.solve": linalg.solvable(linalg.solve, "Singular matrix"),
    "linalg.eig": linalg.solvable(linalg.eig, "Eigenvalues did not converge"),
    "linalg.eigvals": linalg.solvable(linalg.eigvals, "Eigenvalues did not converge"),
    **in_place(
        *(elementwise.floor_divide, elementwise.remainder, elementwise.pow_),
        write=indexing.inplace,
    ),
}
