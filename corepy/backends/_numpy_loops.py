"""What NumPy's operations compute on small arrays, for the compiled hot path to do at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy._extensions import extension
from corepy.backends._loop import Loop
from corepy.backends._numpy_elementwise import OWN_ACOSH
from corepy.backends._numpy_order import ORDER_LOOP, ORDERED, PARTS, SORTED
from corepy.backends._numpy_rows import ROW_LOOPS

__all__ = ["LOOPS", "RUNNING", "WIDE", "accumulated", "private_ufunc"]

Array = npt.NDArray[Any]

_module: Final[Any] = extension("corepy.backends._wide_loops")[0]

#: By operation and dtype, loops that fill wider registers than NumPy's do.
WIDE: Final[dict[str, dict[str, int]]] = {} if _module is None else _module.LOOPS

_columns: Final[Any] = extension("corepy.backends._column_loops")[0]

#: By operation and dtype, loops that take several rows of columns at a time.
COLUMNS: Final[dict[str, dict[str, int]]] = {} if _columns is None else _columns.LOOPS

_products: Final[Any] = extension("corepy.backends._product_loops")[0]

#: By operation and dtype, loops of products of integers, which NumPy finds one by one.
INTEGERS: Final[dict[str, dict[str, int]]] = {} if _products is None else _products.INTEGERS

#: Multiplications of integers below which no other library was measured to be quicker: of so many
#: BLAS is, where the backend `numba` finds that floats hold them.
_FEW: Final = 2**28

#: Of products of a vector and a matrix, which are sums of weighted rows, or of rows' products.
_PRODUCT: Final = Loop(
    np.matmul,
    "core",
    columns=COLUMNS.get("sum", {}),
    weighted={} if _products is None else _products.WEIGHTED,
    dotted={} if _products is None else _products.DOTTED,
    wide=INTEGERS.get("matmul", {}),
    first=_FEW,
)

#: Elements of running sums and products from which several threads find them sooner.
RUNNING: Final = 2**18


def accumulated(name: str, x: Array, axis: int) -> Array | None:
    """Return running sums or products along the last axis, of the array's dtype.

    Parameters
    ----------
    name : str
        ``"cumulative_sum"`` or ``"cumulative_prod"``.
    x : ndarray
    axis : int
        Not below 0.

    Returns
    -------
    ndarray or None
        None where NumPy's own loops have to find it: on other dtypes, layouts and axes, and where
        they would warn.
    """
    address = WIDE.get(name, {}).get(x.dtype.name)
    if address is None or axis != x.ndim - 1 or not x.size:
        return None
    if not x.flags.c_contiguous or not x.flags.aligned:
        return None
    out = np.empty(x.shape, x.dtype)
    return out if _module.accumulate(address, x, out, x.shape[axis]) else None


def _reduction(ufunc: np.ufunc, name: str, kind: str = "reduction") -> Loop:
    """Return the loop of a reduction, and those of rows and columns by its name."""
    return Loop(
        ufunc,
        kind,
        rows=ROW_LOOPS.get(name),
        columns=COLUMNS.get(name, {}),
        wide=WIDE.get(name, {}) if kind == "reduction" else {},
    )


def _running(ufunc: np.ufunc, name: str) -> Loop:
    return Loop(ufunc, "accumulation", wide=WIDE.get(name, {}), first=RUNNING)


def _private_loops() -> dict[str, Loop]:
    """Return the loops of modules that NumPy calls private, where they are what is expected.

    Its functions of these names spend up to three quarters of their time around the loops.
    """
    wanted = {
        "fft.fft": ("fft (n),()->(m)",),
        "fft.rfft": ("rfft_n_even (n),()->(m)", "rfft_n_odd (n),()->(m)"),
        "linalg.cholesky": ("cholesky_lo (m,m)->(m,m)",),
        "linalg.det": ("det (m,m)->()",),
        "linalg.eigh": ("eigh_lo (m,m)->(m),(m,m)",),
        "linalg.inv": ("inv (m,m)->(m,m)",),
        "linalg.qr": ("qr_r_raw (m,n)->(p)", "qr_reduced (m,n),(k)->(m,k)"),
        "linalg.slogdet": ("slogdet (m,m)->(),()",),
        "linalg.solve": ("solve (m,m),(m,n)->(m,n)", "solve1 (m,m),(m)->(m)"),
        "linalg.svd": ("svd_s (m,n)->(m,p),(p),(p,n)", "svd_f (m,n)->(m,m),(p),(n,n)"),
    }
    found = {}
    for name, described in wanted.items():
        ufuncs = [private_ufunc(name, each) for each in described]
        if None not in ufuncs:
            real = name.startswith("linalg.")  # eigenvalues of complex matrices are real
            found[name] = Loop(ufuncs[0], "doubles", real=real, second=[*ufuncs, None][1])
    return found


def private_ufunc(name: str, described: str) -> np.ufunc | None:
    """Return a ufunc of one of these modules, if it is there with this signature."""
    ufunc, signature = described.split()
    in_fft = name.startswith("fft.")
    module = getattr(np.fft if in_fft else np.linalg, _PRIVATE[in_fft], None)
    found: np.ufunc | None = getattr(module, ufunc, None)
    if found is None or (found.signature or "").replace(" ", "") != signature:
        return None
    if in_fft:  # given single precision and a number of Python's, it computes in double precision
        single = np.dtype("f" if ufunc.startswith("rfft") else "F")
        if found.resolve_dtypes((single, int, None))[0].itemsize != 2 * single.itemsize:
            return None
    return found


_PRIVATE: Final = ("_umath_linalg", "_pocketfft_umath")


#: Operations that are no ufuncs, and what they compute where their fixes have nothing to do. Loops
#: mark a division of integers by zero as one of floats, which sends it to the function above.
LOOPS: Final[dict[str, Loop]] = {
    "ceil": Loop(np.ceil),
    "floor": Loop(np.floor),
    "floor_divide": Loop(
        np.floor_divide, finite="f", silent="f", wide=WIDE.get("floor_divide", {})
    ),
    "remainder": Loop(np.remainder, wide=WIDE.get("remainder", {})),
    "round": Loop(np.rint),
    "trunc": Loop(np.trunc),
    "acosh": Loop(np.arccosh, finite="c" if OWN_ACOSH else ""),
    "expm1": Loop(np.expm1, finite="c"),
    "log1p": Loop(np.log1p, real=True),
    "pow": Loop(np.power, roots=WIDE.get("sqrt", {})),
    "tan": Loop(np.tan, finite="c"),
    "tanh": Loop(np.tanh, finite="c"),
    "sign": Loop(np.sign, real=True, silent="c", wide=WIDE.get("sign", {})),
    "all": Loop(np.logical_and, "reduction"),
    "any": Loop(np.logical_or, "reduction"),
    "cumulative_prod": _running(np.multiply, "cumulative_prod"),
    "cumulative_sum": _running(np.add, "cumulative_sum"),
    "max": _reduction(np.maximum, "max"),
    "mean": _reduction(np.add, "sum", "mean"),
    "min": _reduction(np.minimum, "min"),
    "prod": _reduction(np.multiply, "prod"),
    "std": _reduction(np.add, "sum", "deviation"),
    "sum": _reduction(np.add, "sum"),
    "var": _reduction(np.add, "sum", "variance"),
    "__getitem__": Loop(None, "view"),
    "argmax": Loop(None, "argmax"),
    "argmin": Loop(None, "argmin"),
    "count_nonzero": Loop(None, "count", rows=ROW_LOOPS.get("count_nonzero")),
    "matmul": _PRODUCT,
    "tensordot": _PRODUCT,
    "vecdot": Loop(np.vecdot, "core", wide=INTEGERS.get("vecdot", {})),
    **{
        name: Loop(None, "view")
        for name in (
            *("broadcast_to", "expand_dims", "flip", "linalg.diagonal", "matrix_transpose"),
            *("permute_dims", "reshape", "squeeze", "unstack"),
        )
    },
    **{
        name: Loop(None, "plain")
        for name in (
            *("__setitem__", "arange", "linalg.outer", "linalg.trace", "linspace", "nonzero"),
            *("take", "where"),
        )
    },
    "clip": Loop(None, "plain", wide=WIDE.get("clip", {})),
    "linalg.matrix_norm": Loop(None, "plain", real=True),
    "linalg.vector_norm": Loop(None, "plain", real=True),
    "searchsorted": Loop(None, "plain", real=True),
    "argsort": Loop(None, "plain", real=True, order=ORDER_LOOP, first=ORDERED),
    **{
        name: Loop(None, "plain", real=True, parts=PARTS, first=SORTED)
        for name in ("sort", "unique_values")
    },
    **{
        name: Loop(None, "move")
        for name in (
            *("concat", "empty", "eye", "full", "ones", "repeat", "roll", "stack", "tile", "tril"),
            *("triu", "zeros"),
        )
    },
    "astype": Loop(None, "move", wide=WIDE.get("to float64", {})),
    **_private_loops(),
}
