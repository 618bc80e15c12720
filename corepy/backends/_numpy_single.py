"""Linear algebra of float32 in float32, which NumPy's functions compute in double precision.

NumPy's ufuncs behind `numpy.linalg` have loops for float32 that call LAPACK's routines for it, but
its functions do not use them. They take half the time, with errors of float32's size. Those of `qr`
have none: of large matrices LAPACK's routines are called past NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy.backends._numpy_factors import SINGLE as FACTORS
from corepy.backends._numpy_loops import private_ufunc
from corepy.backends._numpy_spectra import SINGLE as SPECTRA

Array = npt.NDArray[Any]


class _UnsolvedError(Exception):
    """LAPACK found no answer, as of a singular matrix."""


def _refuse(error: str, flag: int) -> None:
    raise _UnsolvedError


def _called(ufunc: np.ufunc, *operands: Array) -> Any:
    """Call a ufunc in single precision.

    Raises
    ------
    _UnsolvedError
        If LAPACK finds no answer.
    """
    signature = "f" * ufunc.nin + "->" + "f" * ufunc.nout
    with np.errstate(call=_refuse, invalid="call", divide="ignore", over="ignore", under="ignore"):
        return ufunc(*operands, signature=signature)


def _ufunc(described: str) -> np.ufunc | None:
    """Return a ufunc that has a loop for float32, None where NumPy has it no more."""
    found = private_ufunc("linalg.", described)
    if found is None or "f" * found.nin + "->" + "f" * found.nout not in found.types:
        return None
    return found


def _of_matrix(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda x, /: _called(ufunc, x)


def _cholesky(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda x, /, *, upper=False: None if upper else _called(ufunc, x)


def _solve(of_columns: np.ufunc, of_one: np.ufunc) -> Callable[..., Any]:
    def solve(x1: Array, x2: Array, /) -> Array | None:
        if x2.dtype != x1.dtype:
            return None
        found: Array = _called(of_one if x2.ndim == 1 else of_columns, x1, x2)
        return found

    return solve


def _svd(reduced: np.ufunc, full: np.ufunc) -> Callable[..., Any]:
    def svd(x: Array, /, *, full_matrices: bool = True) -> Any:
        if not np.isfinite(x).all():  # which OpenBLAS never ends with
            return None
        return _called(full if full_matrices else reduced, x)

    return svd


_MADE: Final[dict[str, tuple[Callable[..., Callable[..., Any]], tuple[str, ...]]]] = {
    "linalg.cholesky": (_cholesky, ("cholesky_lo (m,m)->(m,m)",)),
    "linalg.det": (_of_matrix, ("det (m,m)->()",)),
    "linalg.eigh": (_of_matrix, ("eigh_lo (m,m)->(m),(m,m)",)),
    "linalg.eigvalsh": (_of_matrix, ("eigvalsh_lo (m,m)->(m)",)),
    "linalg.inv": (_of_matrix, ("inv (m,m)->(m,m)",)),
    "linalg.solve": (_solve, ("solve (m,m),(m,n)->(m,n)", "solve1 (m,m),(m)->(m)")),
    "linalg.svd": (_svd, ("svd_s (m,n)->(m,p),(p),(p,n)", "svd_f (m,n)->(m,m),(p),(n,n)")),
    "linalg.svdvals": (_of_matrix, ("svd (m,n)->(p)",)),
}


def _answering(
    large: Callable[..., Any] | None,
    function: Callable[..., Any] | None,
    is_sound: Callable[..., Any],
) -> Callable[..., Any]:
    """Return what gives None where LAPACK finds no answer: double precision may find one.

    So where elements are not sound: the steps to them may have been beyond float32.
    """

    def call(*operands: Array, **params: Any) -> Any:
        found = None
        try:
            if large is not None:
                with np.errstate(over="ignore"):
                    found = large(*operands, **params)
            if found is None and function is not None:
                found = function(*operands, **params)
        except (_UnsolvedError, np.linalg.LinAlgError):
            return None
        several = found if isinstance(found, tuple) else (found,)
        return found if all(each is None or is_sound(each).all() for each in several) else None

    return call


def _is_number(x: Any) -> Any:
    """Say which elements are not NaN: determinants of many rows are infinite without a fault."""
    return np.logical_not(np.isnan(x))


def _operations() -> dict[str, Callable[..., Any]]:
    functions = {}
    for name, (make, described) in _MADE.items():
        ufuncs = [_ufunc(each) for each in described]
        if None not in ufuncs:
            functions[name] = make(*ufuncs)
    large = {**FACTORS, **SPECTRA}
    return {
        name: _answering(
            *(large.get(name), functions.get(name)),
            _is_number if name == "linalg.det" else np.isfinite,
        )
        for name in {**functions, **large}
    }


#: By name, what takes float32 and gives None where it has no answer.
OPERATIONS: Final = _operations()
