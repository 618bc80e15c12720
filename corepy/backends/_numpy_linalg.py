"""NumPy's linear algebra in the steps of its functions, past their Python layer.

On small matrices that layer takes most of the time. The loops are those of `numpy.linalg`; where
they are not what they were, its functions compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from corepy.backends import _numpy_spectra as spectra
from corepy.backends._extents import common_shape
from corepy.backends._numpy_loops import private_ufunc

Array = npt.NDArray[Any]

__all__ = ["OPERATIONS", "inv", "slogdet"]

_add: Final[Callable[..., Any]] = np.add.reduce
_greatest: Final[Callable[..., Any]] = np.maximum.reduce
_least: Final[Callable[..., Any]] = np.minimum.reduce


# ---------------------------------------------------------------------------- LAPACK's loops


def _singular(error: str, flag: int) -> None:
    raise np.linalg.LinAlgError("Singular matrix")


def _no_eigenvalues(error: str, flag: int) -> None:
    raise np.linalg.LinAlgError("Eigenvalues did not converge")


def _no_singular_values(error: str, flag: int) -> None:
    raise np.linalg.LinAlgError("SVD did not converge")


_INV: Final = private_ufunc("linalg.inv", "inv (m,m)->(m,m)")
_SLOGDET: Final = private_ufunc("linalg.slogdet", "slogdet (m,m)->(),()")
_EIGH: Final = private_ufunc("linalg.eigh", "eigh_lo (m,m)->(m),(m,m)")
_EIGVALSH: Final = private_ufunc("linalg.eigvalsh", "eigvalsh_lo (m,m)->(m)")
_EIG: Final = private_ufunc("linalg.eig", "eig (m,m)->(m),(m,m)")
_EIGVALS: Final = private_ufunc("linalg.eigvals", "eigvals (m,m)->(m)")
_SVDVALS: Final = private_ufunc("linalg.svdvals", "svd (m,n)->(p)")
_SVD: Final = private_ufunc("linalg.svd", "svd_s (m,n)->(m,p),(p),(p,n)")


def _solved(ufunc: Any, x: Array, kinds: str, refuse: Callable[[str, int], None]) -> Any:
    """Call a loop in double precision, which NumPy computes float32 in, too.

    Parameters
    ----------
    ufunc : numpy.ufunc
    x : ndarray
    kinds : str
        For each result ``"x"`` where it is complex if `x` is, else ``"d"``.
    refuse : callable
        Raises what says that LAPACK found no answer.
    """
    wide = "D" if x.dtype.kind == "c" else "d"
    signature = f"{wide}->{kinds.replace('x', wide)}"
    with np.errstate(call=refuse, invalid="call", over="ignore", divide="ignore", under="ignore"):
        found = ufunc(x, signature=signature)
    if x.dtype.char == wide:
        return found
    if len(kinds) == 1:
        return _single(found)
    return tuple([_single(each) for each in found])


def _single(x: Any) -> Any:
    return x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)


def inv(x: Array, /) -> Array:
    if _INV is None:
        return np.linalg.inv(x)
    found: Array = _solved(_INV, x, "x", _singular)
    return found


def slogdet(x: Array, /) -> tuple[Array, Array]:
    if _SLOGDET is None or x.dtype.char not in "dD":
        sign, logarithm = np.linalg.slogdet(x)
        return sign, logarithm
    found: tuple[Array, Array] = _SLOGDET(x)
    return found


def _eigh(x: Array, /) -> tuple[Array, Array]:
    if spectra.has_eigenvalues(x):
        return spectra.eigh(x, np.float64)
    if _EIGH is None:
        values, vectors = np.linalg.eigh(x)
        return values, vectors
    found: tuple[Array, Array] = _solved(_EIGH, x, "dx", _no_eigenvalues)
    return found


def _eigvalsh(x: Array, /) -> Array:
    if _EIGVALSH is None:
        return np.linalg.eigvalsh(x)
    found: Array = _solved(_EIGVALSH, x, "d", _no_eigenvalues)
    return found


# NumPy drops the imaginary part where every eigenvalue is real; the standard wants complex.
def _eig(x: Array, /) -> tuple[Array, Array]:
    if _EIG is None:
        values, vectors = np.linalg.eig(x)
        return _complex(values), _complex(vectors)
    _refuse_infinite(x)
    found: tuple[Array, Array] = _solved(_EIG, x, "DD", _no_eigenvalues)
    return found


def _eigvals(x: Array, /) -> Array:
    if _EIGVALS is None:
        return _complex(np.linalg.eigvals(x))
    _refuse_infinite(x)
    found: Array = _solved(_EIGVALS, x, "D", _no_eigenvalues)
    return found


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


def _refuse_infinite(x: Array) -> None:
    """Raise what NumPy raises of elements that are infinite or NaN, which may never end."""
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")


def _refuse_endless(x: Array) -> None:
    """Raise where an element is infinite what NumPy raises where one is NaN."""
    # OpenBLAS never ends to look for the singular vectors of infinite elements.
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("SVD did not converge")


def _svd(x: Array, /, *, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    if spectra.has_singular_values(x, np.float64):
        return spectra.svd(x, np.float64, full_matrices=full_matrices)
    _refuse_endless(x)
    u, values, right = np.linalg.svd(x, full_matrices=full_matrices)
    return u, values, right


def _svdvals(x: Array, /) -> Array:
    if spectra.has_singular_values(x, np.float64):
        return spectra.svdvals(x, np.float64)
    if _SVDVALS is None:
        return np.linalg.svd(x, compute_uv=False)
    found: Array = _solved(_SVDVALS, x, "d", _no_singular_values)
    return found


def _matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    values = _svdvals(x)
    least = _greatest(values, axis=-1, keepdims=True)
    if rtol is None:
        least = least * (max(x.shape[-2:]) * _EPS[values.dtype.char])  # else beyond all floats
    else:
        least = least * np.asarray(rtol)[..., None]
    return np.asarray(_add(values > least, -1, np.intp))


def _pinv(x: Array, /, *, rtol: Any = None) -> Array:
    if _SVD is None or not x.size:
        _refuse_endless(x)
        return np.asarray(np.linalg.pinv(x, rtol=rtol))
    if rtol is None:
        rtol = max(x.shape[-2:]) * _EPS[x.dtype.char]
    if spectra.has_singular_values(x, np.float64):
        u, values, right = spectra.svd(x, np.float64, full_matrices=False)
    else:
        _refuse_endless(x)
        u, values, right = _solved(_SVD, x.conj(), "xdx", _no_singular_values)
    large = values > np.asarray(rtol)[..., None] * _greatest(values, axis=-1, keepdims=True)
    inverse = np.divide(1, values, out=values, where=large)
    inverse[~large] = 0
    scaled = inverse[..., None] * u.swapaxes(-1, -2)
    return cast("Array", np.matmul(right.swapaxes(-1, -2), scaled))


_EPS: Final = {char: np.finfo(char).eps for char in "fdFD"}


# ---------------------------------------------------------------------------- norms


def _squares(x: Array) -> Array:
    return np.multiply(x, x) if x.dtype.kind == "f" else (x.conj() * x).real


def _vector_norm(
    x: Array, /, *, axis: tuple[int, ...] | None = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    if axis is None and not keepdims:
        x, axis = x.ravel(), (0,)
    if axis is not None and len(axis) == 1:
        if ord == 2:
            return np.asarray(np.sqrt(_add(_squares(x), axis, None, None, keepdims)))
        if ord == 1:
            return np.asarray(_add(np.abs(x), axis, None, None, keepdims))
        if ord == math.inf:
            return np.asarray(_greatest(np.abs(x), axis, None, None, keepdims))
        if ord == -math.inf:
            return np.asarray(_least(np.abs(x), axis, None, None, keepdims))
        if ord == 0:
            return np.asarray(_add((x != 0).astype(x.real.dtype), axis, None, None, keepdims))
        powers = np.abs(x)
        powers **= ord
        found = _add(powers, axis, None, None, keepdims)
        return np.asarray(found ** np.reciprocal(ord, dtype=found.dtype))
    axes: Any = axis  # NumPy's annotations know nothing of None
    return np.asarray(np.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=ord))


def _matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    if ord == "fro":
        found = np.sqrt(_add(_squares(x), (-2, -1)))
    elif not x.size:
        return np.asarray(np.linalg.matrix_norm(x, keepdims=keepdims, ord=ord))
    elif ord == "nuc":
        found = _add(_svdvals(x), -1)
    else:
        over = _greatest if ord > 0 else _least
        if abs(ord) == 2:
            found = over(_svdvals(x), -1)
        else:  # of the columns, or of the rows
            found = over(_add(np.abs(x), -2 if abs(ord) == 1 else -1), -1)
    return found.reshape(*x.shape[:-2], 1, 1) if keepdims else np.asarray(found)


# ---------------------------------------------------------------------------- products and parts


def _cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    a, b = (x1, x2) if axis == -1 else (np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1))
    if x1.dtype.kind == "c":  # whose products differ in the last bit where memory runs backwards
        a, b = a.copy("K"), b.copy("K")
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    shape = a.shape if a.shape == b.shape else (*common_shape(a0.shape, b0.shape), 3)
    found = np.empty(shape, x1.dtype)
    other = np.empty(shape[:-1], x1.dtype)
    for place, (left, right, low, high) in enumerate(
        ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    ):
        into = found[..., place]
        np.multiply(left, right, into)
        np.multiply(low, high, other)
        np.subtract(into, other, into)
    return found if axis == -1 else np.moveaxis(found, -1, axis)


def _matrix_power(x: Array, n: int, /) -> Array:
    if n < 1:
        return np.linalg.matrix_power(x, n)
    if n == 1:  # of NumPy that is the operand itself, to which who writes to the result would write
        return x.copy()
    if n == 3:  # in this order, which is NumPy's
        return cast("Array", np.matmul(np.matmul(x, x), x))
    found: Any = None
    while n:
        if n % 2:
            found = x if found is None else np.matmul(found, x)
        n //= 2
        if n:
            x = np.matmul(x, x)
    return cast("Array", found)


def _outer(x1: Array, x2: Array, /) -> Array:
    return np.multiply(x1.ravel()[:, None], x2.ravel()[None, :])


def _diagonal(x: Array, /, *, offset: int = 0) -> Array:
    return x.diagonal(offset, -2, -1)


def _trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    return np.asarray(x.trace(offset, -2, -1, dtype))


def _below(x: Array, k: int) -> Array:
    """Say which elements of a matrix do not lie above a diagonal."""
    rows, columns = x.shape[-2:]
    kind = np.int16 if max(rows, columns) + abs(k) < 2**15 else np.int64
    places = np.arange(rows, dtype=kind)
    return np.greater_equal.outer(places, np.arange(-k, columns - k, dtype=kind))


def _tril(x: Array, /, *, k: int = 0) -> Array:
    return np.where(_below(x, k), x, np.zeros(1, x.dtype))


def _triu(x: Array, /, *, k: int = 0) -> Array:
    return np.where(_below(x, k - 1), np.zeros(1, x.dtype), x)


#: By name, what the NumPy backend runs.
OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "tril": _tril,
    "triu": _triu,
    "linalg.cross": _cross,
    "linalg.diagonal": _diagonal,
    "linalg.eig": _eig,
    "linalg.eigh": _eigh,
    "linalg.eigvals": _eigvals,
    "linalg.eigvalsh": _eigvalsh,
    "linalg.matrix_norm": _matrix_norm,
    "linalg.matrix_power": _matrix_power,
    "linalg.matrix_rank": _matrix_rank,
    "linalg.outer": _outer,
    "linalg.pinv": _pinv,
    "linalg.svd": _svd,
    "linalg.svdvals": _svdvals,
    "linalg.trace": _trace,
    "linalg.vector_norm": _vector_norm,
}
