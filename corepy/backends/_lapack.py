"""LAPACK's routines in the library that NumPy brings, called on rows as they lie.

LAPACK keeps matrices by columns, and NumPy copies each one into that order and its results back,
element by element. What is called here takes the rows of a matrix for the columns of its transpose,
whose inverse is the transpose of the inverse, whose singular vectors are those of the matrix with
the sides exchanged, and so on.

What routines work on is memory of NumPy's, which are huge pages where it is large: routines
that read a matrix over and over, as those for singular values, take a sixth less time than on what
NumPy's functions get from `malloc`. Rows lie apart (`spaced`), too, where otherwise a column would
fall on few lines of a cache.

The library is the OpenBLAS that NumPy brings, whose routines tell by their names how wide their
integers are. Where there is another one, or `threadpoolctl`, which finds it, is missing, NumPy's
functions compute as ever.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy import _blas

Array = npt.NDArray[Any]

__all__ = [
    "LARGE",
    "Routines",
    "copied",
    "gains_by_space",
    "has_routines",
    "leading",
    "routines_of",
    "spaced",
    "with_work",
]

#: Rows from which it pays; of fewer, copies are a small part, and threads of BLAS a greater one.
LARGE: Final = 400
#: The same where rows are to lie apart.
_CROWDED: Final = 100

#: What routines take: i an integer, c a character, s a scalar of the matrix's dtype, all by
#: address; p an array.
_TAKEN: Final = {
    "gelqf": "iipippii",  # m, n, a, lda, tau, work, lwork, info
    "gesdd": "ciipippipipipi",  # jobz, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, iwork, info
    "getrf": "iipipi",  # m, n, a, lda, pivots, info
    "orglq": "iiipippii",  # m, n, k, a, lda, tau, work, lwork, info
    "potrf": "cipii",  # uplo, n, a, lda, info
    "syevd": "ccipippipii",  # jobz, uplo, n, a, lda, w, work, lwork, iwork, liwork, info
    "trsm": "cccciispipi",  # side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb
    "trtri": "ccipii",  # uplo, diag, n, a, lda, info
}
#: How OpenBLAS names a routine, and the integers that it takes then.
_NAMES: Final = (
    ("scipy_{}_64_", ctypes.c_int64),
    ("{}_64_", ctypes.c_int64),
    ("scipy_{}_", ctypes.c_int32),
)
#: By dtype, the letter that names of routines begin with, and what they take a scalar as.
_KINDS: Final[dict[str, tuple[str, Any]]] = {
    "f": ("s", ctypes.c_float),
    "d": ("d", ctypes.c_double),
}


class Routines:
    """LAPACK's routines for one dtype."""

    def __init__(self, functions: dict[str, Any], integer: Any, scalar: Any) -> None:
        self._functions = functions
        self._integer = integer
        self._scalar = scalar
        self.integers: Any = np.dtype(integer)

    def __call__(self, name: str, *arguments: Any) -> int:
        """Call a routine; return what it left in its last integer, which is zero if all went well.

        Parameters
        ----------
        name : str
        *arguments : str, int, float or ndarray
            In LAPACK's order, without the last one where that is ``info``.
        """
        kinds = _TAKEN[name]
        info = self._integer()
        given: list[Any] = []
        for kind, value in zip(kinds, arguments, strict=False):
            if kind == "p":
                given.append(ctypes.c_void_p(value.ctypes.data))
            elif kind == "c":
                given.append(ctypes.c_char_p(value.encode()))
            else:
                made = self._integer(value) if kind == "i" else self._scalar(value)
                given.append(ctypes.byref(made))
        if len(given) < len(kinds):
            given.append(ctypes.byref(info))
        # Fortran's compilers add the length of each string.
        self._functions[name](*given, *[ctypes.c_size_t(1)] * kinds.count("c"))
        return int(info.value)


@cache
def _routines(char: str) -> Routines | None:
    """Return the routines for a dtype, None where NumPy has brought no library with them."""
    if not _blas.can_hold():
        return None
    letter, scalar = _KINDS[char]
    for library in _blas.numpys():
        for pattern, integer in _NAMES:
            found = {name: getattr(library, pattern.format(letter + name), None) for name in _TAKEN}
            if None not in found.values():
                return Routines(found, integer, scalar)
    return None


def has_routines(x: Array, least: int = LARGE) -> bool:
    """Say whether there are routines for an array: a matrix with more rows and columns than so."""
    if x.ndim != 2 or min(x.shape) <= least or x.dtype.char not in _KINDS:
        return False
    lapack = _routines(x.dtype.char)
    # Some work on three times as much memory as the matrix has, which they count in integers.
    return lapack is not None and 8 * max(x.shape) ** 2 <= np.iinfo(lapack.integers).max


def routines_of(x: Array) -> Routines:
    """Return the routines for the dtype of a matrix, where `has_routines` said that there are."""
    lapack = _routines(x.dtype.char)
    assert lapack is not None
    return lapack


# ---------------------------------------------------------------------------- memory

#: Bytes of a line of a processor's caches.
_LINE: Final = 64
#: Bytes that lie so far apart, or a multiple of it, share few sets of the first cache.
_NEAR: Final = 512


def _is_crowded(columns: int, dtype: npt.DTypeLike) -> bool:
    """Say whether the columns of a contiguous matrix have each only few sets of a cache."""
    return columns * np.dtype(dtype).itemsize % _NEAR == 0


def gains_by_space(x: Array, dtype: npt.DTypeLike) -> bool:
    """Say whether there are routines for a matrix that read its columns as often as its rows.

    It is one whose rows lie apart (`spaced`) in that dtype, or a large one without more rows than
    columns: what are columns here are rows to LAPACK, and it is slower to go along many long ones.
    """
    if x.ndim == 2 and _is_crowded(x.shape[1], dtype):
        return has_routines(x, _CROWDED)
    return x.ndim == 2 and x.shape[0] <= x.shape[1] and has_routines(x)


def spaced(rows: int, columns: int, dtype: npt.DTypeLike) -> Array:
    """Return a matrix, with nothing in it, of which LAPACK reads columns as fast as rows.

    Of 1,024 float64 a row is 8,192 bytes, and a column would be in a single set of the first cache:
    with a line between the rows `qr` takes 0.6 of the time.

    Returns
    -------
    ndarray
        Contiguous, or with a gap after each row.
    """
    if not _is_crowded(columns, dtype):
        return np.empty((rows, columns), dtype)
    return np.empty((rows, columns + _LINE // np.dtype(dtype).itemsize), dtype)[:, :columns]


def copied(x: Array, dtype: npt.DTypeLike) -> Array:
    """Return a copy of a matrix as `spaced` makes them, for routines to overwrite."""
    rows, columns = x.shape
    made = spaced(rows, columns, dtype)
    made[...] = x
    return made


def leading(x: Array) -> int:
    """Return how many elements of a matrix that `spaced` made lie from one row to the next."""
    return x.strides[0] // x.itemsize


def with_work(call: Callable[[Array, int], int], dtype: npt.DTypeLike) -> int:
    """Call a routine with as much memory to work on as it asks for.

    Parameters
    ----------
    call : callable
        Takes that memory, and of how many elements it is: of -1 the routine says how many it wants.
    dtype : dtype
        Of the memory.
    """
    asked = np.empty(1, dtype)
    call(asked, -1)
    # float32 rounds large counts.
    count = int(np.nextafter(asked[0], np.inf, dtype=asked.dtype))
    return call(np.empty(count, dtype), count)
