"""Products of matrices and vectors, by the matrix product of the arrays' own library.

Its BLAS is hard to beat; what these functions add is one meaning: the shapes they take, no silent
broadcasting, 16-bit floats computed in float32, and one rounding. On the host compiled loops
multiply 16-bit floats, which no library does as fast (`_words`), and a few vectors by a matrix that
they need not pack, if its rows lie side by side.
"""

from __future__ import annotations

from typing import Any, Final

from corepy._errors import bad_argument
from corepy.array_api._arguments import addressable
from corepy.dispatch import one_operation
from corepy.kernels._arguments import Given, beside, destination, floating, misshapen, real
from corepy.kernels._device import on_device
from corepy.kernels._formulas import by_reference
from corepy.kernels._memory import Result, in_rows, supports, view
from corepy.kernels.attention._problem import queries_and_keys, scale_of
from corepy.kernels.matrices import reference

__all__ = ["attention_scores", "gemm", "gemv", "matmul_vec", "weighted_sum_rows"]


@one_operation
def gemm(
    a: Any, b: Any, *, alpha: float = 1.0, beta: float = 0.0, c: Any = None, out: Any = None
) -> Any:
    """Return ``alpha * a @ b + beta * c``.

    Parameters
    ----------
    a : array (rows, depth)
        Of float16, bfloat16, float32 or float64.
    b : array (depth, columns)
    alpha, beta : float
        With a `beta` of zero `c` is not read, as in BLAS.
    c : array (rows, columns) or None
        None: `beta` has to be zero.
    out : array (rows, columns) or None
        Where to put the result, which may be `c` itself. None: new memory.

    Returns
    -------
    array (rows, columns)
        In the library, dtype and device of `a`, which all operands share.

    Raises
    ------
    TypeError
        If an argument is of another type, library or dtype.
    ValueError
        If a shape does not fit, a number is not finite, `c` is missing, or `out` is read-only.
    DeviceMismatchError
        If an array lives on another device than `a`.
    MemoryError
        If no memory holds the result.

    Notes
    -----
    Computed in float32, or float64 where `a` has that, and rounded once. A product with `alpha` of
    zero is computed all the same, so that NaN stays. Numbers beyond that dtype's greatest count as
    it.

    References
    ----------
    Dongarra, Du Croz, Hammarling and Duff, A Set of Level 3 Basic Linear Algebra Subprograms, 1990,
    https://doi.org/10.1145/77626.79170

    Examples
    --------
    >>> import numpy as np
    >>> gemm(np.eye(2), np.ones((2, 2)), alpha=2.0, beta=3.0, c=np.eye(2)).tolist()
    [[5.0, 2.0], [2.0, 5.0]]
    """
    x = _matrix("gemm", "a", a)
    y = beside("b", b, x, (x.dtype,))
    if len(y.shape) != 2 or y.shape[0] != x.shape[1]:
        raise misshapen(y, f"({x.shape[1]}, columns)", beside=x)
    return _product(x, y, (x.shape[0], y.shape[1]), alpha, beta, "c", c, out)


@one_operation
def gemv(
    a: Any, x: Any, *, alpha: float = 1.0, beta: float = 0.0, y: Any = None, out: Any = None
) -> Any:
    """Return ``alpha * a @ x + beta * y``.

    Parameters
    ----------
    a : array (rows, size)
        Of float16, bfloat16, float32 or float64.
    x : array (size,)
    alpha, beta : float
        With a `beta` of zero `y` is not read, as in BLAS.
    y : array (rows,) or None
        None: `beta` has to be zero.
    out : array (rows,) or None
        Where to put the result, which may be `y` itself. None: new memory.

    Returns
    -------
    array (rows,)
        In the library, dtype and device of `a`, which all operands share.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError, MemoryError
        As of `gemm`.

    Notes
    -----
    Computed as in `gemm`.

    References
    ----------
    Dongarra, Du Croz, Hammarling and Hanson, An Extended Set of FORTRAN Basic Linear Algebra
    Subprograms, 1988, https://doi.org/10.1145/42288.42291

    Examples
    --------
    >>> import numpy as np
    >>> gemv(np.ones((2, 3)), np.ones(3), beta=-1.0, y=np.asarray([1.0, 2.0])).tolist()
    [2.0, 1.0]
    """
    g = _matrix("gemv", "a", a)
    vector = beside("x", x, g, (g.dtype,), g.shape[1:])
    return _product(g, vector, g.shape[:1], alpha, beta, "y", y, out)


@one_operation
def matmul_vec(matrix: Any, x: Any, *, out: Any = None) -> Any:
    """Apply a matrix to vectors: ``matrix @ x`` for each one along the last axis of `x`.

    Parameters
    ----------
    matrix : array (rows, size)
        As a linear layer keeps its weights.
    x : array (..., size)
        Of float16, bfloat16, float32 or float64.
    out : array (..., rows) or None
        Where to put the result. None: new memory.

    Returns
    -------
    array (..., rows)
        In the library, dtype and device of `x`, which `matrix` shares.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError, MemoryError
        As of `gemm`.

    Notes
    -----
    Computed as in `gemm`.

    References
    ----------
    Dongarra, Du Croz, Hammarling and Hanson, An Extended Set of FORTRAN Basic Linear Algebra
    Subprograms, 1988, https://doi.org/10.1145/42288.42291

    Examples
    --------
    >>> import numpy as np
    >>> matmul_vec(np.asarray([[1.0, 1.0], [0.0, 2.0]]), np.asarray([3.0, 4.0])).tolist()
    [7.0, 8.0]
    """
    g = floating("matmul_vec", "x", x)
    if not g.shape:
        raise misshapen(g, "(..., size)")
    m = beside("matrix", matrix, g, (g.dtype,))
    if len(m.shape) != 2 or m.shape[1] != g.shape[-1]:
        raise misshapen(m, f"(rows, {g.shape[-1]})", beside=g)
    shape = (*g.shape[:-1], m.shape[0])
    to = _to(out, g, shape)
    if _on_opencl(g, m):
        from corepy.kernels.matrices import device

        return device.matmul_vec(g, m, to)
    if _takes_words(m, g):
        from corepy.kernels.matrices import _words

        return _words.product(g, m, shape, to, turned=True)
    if _are_few(g, m):
        return _of_few(g, m, to, shape)
    return by_reference(reference.matmul_vec, g, (m,), (to,))


@one_operation
def weighted_sum_rows(weights: Any, rows: Any, *, out: Any = None) -> Any:
    """Return ``sum(weights[..., i] * rows[..., i, :])`` over i.

    Parameters
    ----------
    weights : array (..., n)
        Of float16, bfloat16, float32 or float64.
    rows : array (..., n, size)
        With the leading axes of `weights`.
    out : array (..., size) or None
        Where to put the result. None: new memory.

    Returns
    -------
    array (..., size)
        In the library, dtype and device of `weights`, which `rows` shares.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError, MemoryError
        As of `gemm`.

    Notes
    -----
    Computed as in `gemm`.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017, section 3.2.1, where the rows are values,
    https://arxiv.org/abs/1706.03762

    Examples
    --------
    >>> import numpy as np
    >>> weighted_sum_rows(np.asarray([0.5, 2.0]), np.asarray([[2.0, 4.0], [1.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    g = floating("weighted_sum_rows", "weights", weights)
    if not g.shape:
        raise misshapen(g, "(..., n)")
    r = beside("rows", rows, g, (g.dtype,))
    if r.shape[:-1] != g.shape:
        raise misshapen(r, f"({', '.join(map(str, g.shape))}, size)", beside=g)
    to = _to(out, g, (*g.shape[:-1], r.shape[-1]))
    if _on_opencl(g, r):
        from corepy.kernels.matrices import device

        return device.weighted_sum_rows(g, r, to)
    if _takes_words(r, g):
        from corepy.kernels.matrices import _words

        return _words.weighted(g, r, to)
    return by_reference(reference.weighted_sum_rows, g, (r,), (to,))


@one_operation
def attention_scores(q: Any, k: Any, *, scale: float | None = None, out: Any = None) -> Any:
    """Return ``scale * q @ k.mT``, the scores that `attention` takes the softmax of.

    Parameters
    ----------
    q : array (batch, heads, queries, head_dim)
        Of float16, bfloat16, float32 or float64.
    k : array (batch, kv_heads, keys, head_dim)
        Of the dtype of `q`; heads are shared as in `attention`.
    scale : float or None
        Multiplies `q`. None: ``1 / sqrt(head_dim)``.
    out : array (batch, heads, queries, keys) or None
        Where to put the result. None: new memory.

    Returns
    -------
    array (batch, heads, queries, keys)
        In the library, dtype and device of `q`.

    Raises
    ------
    TypeError, ValueError, DeviceMismatchError
        As of `attention`.
    MemoryError
        If no memory holds the result.

    Notes
    -----
    Computed as in `gemm`. `attention` itself never holds all scores.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017, section 3.2.1, https://arxiv.org/abs/1706.03762;
    Ainslie et al., GQA, 2023, https://arxiv.org/abs/2305.13245

    Examples
    --------
    >>> import numpy as np
    >>> attention_scores(np.ones((1, 1, 1, 4)), np.ones((1, 1, 2, 4))).tolist()
    [[[[2.0, 2.0]]]]
    """
    g, keys = queries_and_keys("attention_scores", q, k)
    factor = scale_of(g, scale)
    to = _to(out, g, (*g.shape[:3], keys.shape[2]))
    if _on_opencl(g, keys):
        from corepy.kernels.matrices import device

        return device.attention_scores(g, keys, factor, to)
    if _takes_words(g, keys):
        from corepy.kernels.matrices import _words

        return _words.scores(g, keys, factor, to)
    return by_reference(reference.attention_scores, g, (keys,), (to,), scale=factor)


def _matrix(function: str, argument: str, value: Any) -> Given:
    found = floating(function, argument, value)
    if len(found.shape) != 2:
        raise misshapen(found, "(rows, size)")
    return found


def _to(out: Any, x: Given, shape: tuple[int, ...]) -> Given | None:
    """Look at where a result belongs: a shape that some memory holds, if operands have no depth."""
    addressable(x.function, *shape, holder="its results have")
    return destination("out", out, x, shape)


def _product(
    a: Given,
    b: Given,
    shape: tuple[int, ...],
    alpha: float,
    beta: float,
    argument: str,
    value: Any,
    out: Any,
) -> Any:
    name = a.function
    factor, share = real(a, "alpha", alpha), real(a, "beta", beta)
    if value is None and share != 0.0:
        raise bad_argument(name, "beta", beta, f"0, or {argument}")
    added = None if value is None else beside(argument, value, a, (a.dtype,), shape)
    to = _to(out, a, shape)
    if _on_opencl(a, b, added):
        from corepy.kernels.matrices import device

        return device.gemm(a, b, added, factor, share, to)
    if _takes_words(a, b, added):
        from corepy.kernels.matrices import _words

        return _words.product(a, b, shape, to, alpha=factor, beta=share, added=added)
    return by_reference(reference.gemm, a, (b, added), (to,), alpha=factor, beta=share)


def _takes_words(x: Given, y: Given, added: Given | None = None) -> bool:
    """Say whether compiled loops multiply 16-bit floats."""
    if x.dtype == x.wide or not x.size or not y.size:
        return False
    return supports(x, y, added) if x.size > y.size else supports(y, x, added)


#: By dtype, vectors from two on up to which a matrix of so many elements is not worth to be packed.
_FEW_OF_MANY: Final = {"float32": 32, "float64": 8}
_MANY: Final = 1 << 20


def _are_few(x: Given, matrix: Given) -> bool:
    """Say whether compiled loops multiply a matrix of float32 or float64 by vectors."""
    if x.dtype not in _FEW_OF_MANY or matrix.size < _MANY:
        return False
    vectors = x.size // max(1, x.shape[-1])
    # What `view` has to copy column by column takes longer than BLAS, which reads it as it lies.
    few = 1 < vectors <= _FEW_OF_MANY[x.dtype]
    return few and supports(matrix, x) and in_rows(matrix, apart=False)


def _of_few(x: Given, matrix: Given, out: Given | None, shape: tuple[int, ...]) -> Any:
    from corepy.kernels.matrices import numba

    result = Result(x, out, read_again=(x, matrix), shape=shape)
    rows, size = matrix.shape
    vectors, host = view(x).reshape(-1), result.host.reshape(-1)
    of = vectors.size // size, size, rows
    flat = view(matrix).reshape(-1)
    numba.products(vectors, flat, size, numba.ALONE, of, 1.0, 0.0, host, False, host)
    return result.array()


def _on_opencl(x: Given, *others: Given | None) -> bool:
    """Say whether device kernels compute: arrays of CuPy and torch have cuBLAS and rocBLAS."""
    return x.library == "pyopencl" and on_device(x, *others)
