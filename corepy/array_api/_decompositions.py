"""Decompositions of matrices, a part of the linear algebra extension.

https://data-apis.org/array-api/2025.12/extensions/linear_algebra_functions.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from corepy import _dtypes
from corepy.array_api._arguments import choice_of, flag_of, matrices_of, square_of
from corepy.dispatch import operation, run, to_real

if TYPE_CHECKING:
    from corepy.array_api._array import Array


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Array
    S: Array
    Vh: Array


@operation(_dtypes.FLOATING, extension="linalg")
def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """Cholesky factor of Hermitian positive definite matrices.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.
    upper : bool
        Whether to return the upper factor.

    Returns
    -------
    Array
        Triangular, of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one is not positive definite.
    """
    x = square_of("cholesky", x)
    return cast("Array", run("linalg.cholesky", x, upper=flag_of("cholesky", "upper", upper)))


@operation(_dtypes.FLOATING, extension="linalg")
def eig(x: Array, /) -> EigResult:
    """Eigenvalues and eigenvectors.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.

    Returns
    -------
    EigResult
        ``eigenvalues`` of shape ``(..., M)`` and ``eigenvectors`` of shape ``(..., M, M)``, one
        a column; both complex.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one has no eigenvalues because of NaN or
        an infinity.
    """
    return EigResult(*run("linalg.eig", square_of("eig", x)))


@operation(_dtypes.FLOATING, extension="linalg", into=EighResult)
def eigh(x: Array, /) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype; one triangle is read.

    Returns
    -------
    EighResult
        ``eigenvalues``, real and ascending, of shape ``(..., M)``; ``eigenvectors`` of the shape
        and dtype of `x`, one a column.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one has no eigenvalues because of NaN or
        an infinity.
    """
    return EighResult(*run("linalg.eigh", square_of("eigh", x)))


@operation(_dtypes.FLOATING, extension="linalg")
def eigvals(x: Array, /) -> Array:
    """Eigenvalues.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype.

    Returns
    -------
    Array
        Of shape ``(..., M)``, complex.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one has no eigenvalues because of NaN or
        an infinity.
    """
    return cast("Array", run("linalg.eigvals", square_of("eigvals", x)))


@operation(_dtypes.FLOATING, to_real, extension="linalg")
def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of Hermitian matrices.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, M)``, with a floating-point dtype; one triangle is read.

    Returns
    -------
    Array
        Of shape ``(..., M)``, real and ascending.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If a matrix is not square.
    LinAlgError
        NumPy's, which is a ValueError: if one has no eigenvalues because of NaN or
        an infinity.
    """
    return cast("Array", run("linalg.eigvalsh", square_of("eigvalsh", x)))


@operation(_dtypes.FLOATING, extension="linalg", into=QRResult)
def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    """QR decomposition.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a floating-point dtype.
    mode : {"reduced", "complete"}
        Whether `Q` has ``min(M, N)`` columns or ``M``.

    Returns
    -------
    QRResult
        ``Q`` with orthonormal columns and ``R`` upper triangular.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has fewer than two dimensions, or `mode` is another word.
    """
    x = matrices_of("qr", x)
    chosen = choice_of("qr", "mode", mode, ("reduced", "complete"))
    return QRResult(*run("linalg.qr", x, mode=chosen))


@operation(_dtypes.FLOATING, extension="linalg", into=SVDResult)
def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular value decomposition.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a floating-point dtype.
    full_matrices : bool
        Whether `U` and `Vh` are square.

    Returns
    -------
    SVDResult
        ``U``, ``S`` (real, descending, of shape ``(..., min(M, N))``) and ``Vh``.

    Raises
    ------
    TypeError
        If an argument is of another type or dtype.
    ValueError
        If `x` has fewer than two dimensions.
    LinAlgError
        NumPy's, which is a ValueError: if a matrix holds NaN or an infinity, where
        the library can tell.
    """
    x = matrices_of("svd", x)
    full = flag_of("svd", "full_matrices", full_matrices)
    return SVDResult(*run("linalg.svd", x, full_matrices=full))


@operation(_dtypes.FLOATING, to_real, extension="linalg")
def svdvals(x: Array, /) -> Array:
    """Singular values.

    Parameters
    ----------
    x : Array
        Of shape ``(..., M, N)``, with a floating-point dtype.

    Returns
    -------
    Array
        Of shape ``(..., min(M, N))``, real and descending.

    Raises
    ------
    TypeError
        If `x` is no array or has another dtype.
    ValueError
        If `x` has fewer than two dimensions.
    LinAlgError
        NumPy's, which is a ValueError: if a matrix holds NaN or an infinity, where
        the library can tell.
    """
    return cast("Array", run("linalg.svdvals", matrices_of("svdvals", x)))
