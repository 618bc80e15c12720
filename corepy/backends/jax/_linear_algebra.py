"""Linear algebra.

JAX answers NaN and infinities where a matrix is singular or not positive definite
(https://github.com/jax-ml/jax/issues/26180), as here too while it traces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from corepy._errors import unsolvable
from corepy.backends._scaling import powers
from corepy.backends.jax._searching import greatest, least
from corepy.backends.jax._values import known

Array: TypeAlias = Any


def inv(x: Array) -> Array:
    return _regular("inv", x, jnp.linalg.inv(x))


def det(x: Array) -> Array:
    # JAX writes determinants of two and three rows out: products on the way may overflow, or lose
    # their digits near zero, where the determinant does not.
    if x.shape[-1] not in (2, 3) or isinstance(x, jax.core.Tracer):
        return jnp.linalg.det(x)
    return _det_of_few(x)


def _det_in_range(x: Array) -> Array:
    found, rows = jnp.linalg.det(x), x.shape[-1]
    reach = -jnp.log2(jnp.finfo(x.dtype).tiny)
    most = rows * jnp.log2(jnp.maximum(1, rows * jnp.abs(x).max(axis=(-2, -1), initial=0)))
    sure = (most < reach) & (jnp.log2(jnp.abs(found)) - most > -reach)
    sign, logarithm = jnp.linalg.slogdet(x)
    return jnp.where(sure, found, sign * jnp.exp(logarithm).astype(sign.dtype))


_det_of_few: Final[Callable[[Array], Array]] = jax.jit(_det_in_range)


def solve(x1: Array, x2: Array) -> Array:
    return _regular("solve", x1, jnp.linalg.solve(x1, x2))


def matrix_rank(x: Array, /, *, rtol: Any) -> Array:
    # JAX takes rtol for a bound that is not relative to the greatest singular value.
    values = jnp.linalg.svd(x, compute_uv=False)
    if rtol is None:
        rtol = max(x.shape[-2:]) * jnp.finfo(values.dtype).eps
    greatest = jnp.max(values, axis=-1, keepdims=True, initial=0)
    return jnp.sum(values > jnp.expand_dims(jnp.asarray(rtol), -1) * greatest, axis=-1)


def pinv(x: Array, /, *, rtol: Any) -> Array:
    if rtol is None:  # JAX's own is ten times the standard's
        rtol = max(x.shape[-2:]) * float(jnp.finfo(x.dtype).eps)
    return jnp.linalg.pinv(x, rtol=rtol)


def _mirrored(x: Array) -> Array:
    below = jnp.tril(x, -1)
    return jnp.tril(x) + jnp.conj(below.mT)


def _mirrored_jvp(operands: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (tangent,) = tangents
    return _of_lower_triangle(*operands), (tangent + jnp.conj(tangent.mT)) / 2


#: Hermitian matrices of the lower triangles of others, with the derivative of the mean of both
#: triangles, which is JAX's.
_of_lower_triangle: Final[Any] = jax.custom_jvp(_mirrored)
_of_lower_triangle.defjvp(_mirrored_jvp)


def reading_one_triangle(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Let a decomposition read the lower triangle; JAX takes the mean of both."""
    compiled: Callable[[Array], Any] = jax.jit(lambda x: function(_of_lower_triangle(x)))
    return compiled


# Python's NaN would make a result of 64 bits of JAX's weak types, such as `jnp.full` has.
_finite_matrices: Final[Callable[[Array], Array]] = jax.jit(
    lambda x: jnp.where(
        jnp.isfinite(x).all((-2, -1), keepdims=True), x, jnp.asarray(jnp.nan, x.dtype)
    )
)


def of_finite(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse matrices that hold anything else; where JAX traces, what comes of them is NaN.

    Of infinite elements LAPACK never ends, and of NaN it makes numbers that are none.
    """

    def decompose(x: Array, /, **params: Any) -> Any:
        if isinstance(x, jax.core.Tracer):
            return function(_finite_matrices(x), **params)
        if not _are_finite(x):
            raise unsolvable(f"{name}: x holds NaN or infinities; expected finite elements")
        return function(x, **params)

    return decompose


def matrix_power(x: Array, n: int) -> Array:
    found = jnp.linalg.matrix_power(x, n)
    return _regular("matrix_power", x, found) if n < 0 else found


def _regular(function: str, x: Array, found: Array) -> Array:
    """Refuse what came of a singular matrix: one with a pivot of zero, as LAPACK tells."""
    if isinstance(found, jax.core.Tracer) or _are_finite(found):
        return found
    if (jnp.linalg.slogdet(x).sign == 0).any():
        name = "x1" if function == "solve" else "x"
        raise unsolvable(f"{function}: {name} has a singular matrix; expected regular ones")
    return found


def _are_finite(x: Array) -> bool:
    values = known(x)
    if isinstance(values, np.ndarray):
        return bool(np.isfinite(values).all())
    return bool(_finite(values))


#: One program on a device, whose answer is waited for.
_finite: Final[Callable[[Array], Array]] = jax.jit(lambda x: jnp.isfinite(x).all())


def cholesky(x: Array, *, upper: bool) -> Array:
    found = jnp.linalg.cholesky(x, upper=upper)
    if isinstance(found, jax.core.Tracer) or _are_finite(found):
        return found
    if jnp.isnan(found).any() and _are_finite(x):
        raise unsolvable(
            "cholesky: x has a matrix that is not positive definite; expected ones that are"
        )
    return found


def scaled_qr(x: Array, *, mode: str) -> tuple[Array, Array]:
    if x.size == 0:
        return tuple(jnp.linalg.qr(x, mode))
    down, up = powers(jnp, jax.lax.stop_gradient(x))
    q, r = jnp.linalg.qr(x * down, mode)
    return q, r * up


@partial(jax.jit, static_argnames=("axis", "keepdims", "ord"))
def vector_norm(x: Array, *, axis: Any, keepdims: bool, ord: float) -> Array:
    if not math.isinf(ord):
        return jnp.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    return (greatest if ord > 0 else least)(jnp.abs(x), axis=axis, keepdims=keepdims)


@partial(jax.jit, static_argnames=("keepdims", "ord"))
def matrix_norm(x: Array, *, keepdims: bool, ord: Any) -> Array:
    if ord not in (1, -1, math.inf, -math.inf):
        return jnp.linalg.matrix_norm(x, keepdims=keepdims, ord=ord)
    sums = jnp.abs(x).sum(-2 if abs(ord) == 1 else -1, keepdims=True)
    return (greatest if ord > 0 else least)(sums, axis=(-2, -1), keepdims=keepdims)
