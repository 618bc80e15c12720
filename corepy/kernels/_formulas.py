"""Kernels by their formulas, in the functions of the library whose arrays they are given.

`by_reference` runs a formula wherever the arrays live. JAX's arrays take it as one program, which
XLA compiles for each combination of shapes: by itself JAX compiles and starts each operation of it,
some dozen of which take ten times as long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from corepy import array_api
from corepy._errors import bad_type
from corepy._extensions import is_there
from corepy.backends._base import Backend
from corepy.devices._shortage import insist
from corepy.dispatch import Operand, adopt, ran, reproducible_blas
from corepy.kernels._arguments import Given, is_traced, jax_values
from corepy.kernels._libraries import DeviceLibrary
from corepy.kernels._memory import ON_HOST, delivered, lies_plain, place_of

#: Libraries whose functions a formula calls itself, so that it also has the dtypes that the
#: standard lacks; arrays of others are wrapped.
_NATIVE: Final = ("numpy", "torch", "jax", "cupy", "dask")


def by_reference(
    function: Callable[..., Any],
    x: Given,
    operands: tuple[Given | None, ...],
    outs: tuple[Given | None, ...] = (None,),
    *,
    varying: tuple[str, ...] = (),
    reason: str = "",
    **parameters: Any,
) -> Any:
    """Run ``function(xp, x, *operands, wide=..., **parameters)`` with `x`'s own library as `xp`.

    Parameters
    ----------
    function : callable
        One function for all calls: what XLA compiles is kept by it and the parameters.
    outs : tuple of Given or None
        Where the results belong, one for each that there is.
    varying : tuple of str
        The parameters that change from call to call, which XLA does not compile in: the formula
        takes these floats as factors only, for XLA rounds them as it does the arrays.
    reason : str
        What `corepy.explain` shows. Empty: that it is a formula.
    **parameters
        Values that the formula takes.
    """
    if x.library == "pyopencl":
        expected = "an array of another library, for this has no kernel in OpenCL"
        raise bad_type(x.function, x.argument, x.value, expected)
    arrays = [None if g is None else g.native for g in (x, *operands)]
    factors = {name: parameters.pop(name) for name in varying}
    place = place_of(x)
    if jax_takes(x, *operands):
        ran(x.backend.name, x.backend, place, reason or "by its formula, compiled by XLA")
        program = _compiled_by_xla(function, x.wide, parameters)

        def fused() -> Any:
            with setting(x, *operands):
                return program(*arrays, **factors)

        return _delivered(x, insist(x.function, place, fused), outs)
    ran(x.backend.name, x.backend, place, reason or _by_its_formula(x))
    xp: Any
    # An `Array` of a library on the host goes without its wrapping: a formula is many operations.
    wraps = x.library not in (_NATIVE if x.table is None else ON_HOST)
    if wraps:
        xp = _for_mlx() if x.library == "mlx" else array_api
        arrays = [None if g is None else _wrapped(g) for g in (x, *operands)]
    else:
        from array_api_compat import array_namespace

        xp = array_namespace(x.native)
        if x.library == "numpy":
            xp = _for_numpy(xp)
        elif x.library == "dask":
            xp = _for_all_chunks(xp, x.backend)

    def compute() -> Any:
        with setting(x, *operands), reproducible_blas():
            return function(xp, *arrays, wide=getattr(xp, x.wide), **parameters, **factors)

    return _delivered(x, insist(x.function, place, compute), outs)


def _by_its_formula(x: Given) -> str:
    """Say that a formula computes, and what is not installed that would do it in one loop."""
    why = "by its formula, in the functions of the library"
    if lies_plain(x) and not is_there("numba"):
        return f"{why}; Numba is not installed (extra numba)"
    return why


def _delivered(x: Given, found: Any, outs: tuple[Given | None, ...]) -> Any:
    """Return what a formula found, wrapped or not, as arrays like its first operand."""
    results = found if isinstance(found, tuple) else (found,)
    if isinstance(results[0], Operand):
        if any(out is not None for out in outs):  # a write must not change what is yet to compute
            for result in results:
                x.backend.computed(result._native)
        if x.table is None:
            results = tuple(result.unwrap() for result in results)
    else:
        results = tuple(x.backend.normalize(result) for result in results)
        if x.table is not None:
            results = tuple(adopt(x.function, "out", result, x.backend) for result in results)
    results = tuple(delivered(r, out) for r, out in zip(results, outs, strict=True))
    return results if isinstance(found, tuple) else results[0]


def jax_takes(x: Given, *others: Given | None) -> bool:
    """Say whether arrays are JAX's own and have values: inside a trace all is compiled anyway."""
    return x.library == "jax" and not any(is_traced(g) for g in (x, *others) if g is not None)


def _compiled_by_xla(
    function: Callable[..., Any], wide: str, parameters: dict[str, Any]
) -> Callable[..., Any]:
    # Zeros of both signs are equal, but do not read alike.
    return _programs(function, wide, tuple(parameters.items()), repr(parameters))


@lru_cache(maxsize=256)
def _programs(
    function: Callable[..., Any], wide: str, parameters: tuple[tuple[str, Any], ...], spelt: str
) -> Callable[..., Any]:
    """Return what compiles a formula for the shapes and dtypes that it is called with."""
    import jax
    import jax.numpy as jnp

    program: Callable[..., Any] = jax.jit(
        partial(function, jnp, wide=getattr(jnp, wide), **dict(parameters))
    )
    return program


def setting(*operands: Given | None) -> AbstractContextManager[Any]:
    """Return the context in which a library computes.

    JAX has 64 bits only in one of its own, and accelerators cut the float32 operands of its
    products to fewer bits unless told; `corepy.enable_tf32` allows it on NVIDIA's and AMD's. torch
    has other dtypes in its autocast. To NumPy NaN and infinities are values like others here.
    """
    own = [g for g in operands if g is not None and g.library in ("jax", "torch")]
    if not own:
        return np.errstate(all="ignore")
    if own[0].library == "torch":
        return without_autocast(own[0])
    values = jax_values()
    exact: Any = sys.modules["jax"].default_matmul_precision(values.precision)
    return _both(values.wide(True), exact) if any("64" in g.dtype for g in own) else exact


def is_autocast() -> bool:
    """Say whether torch gives operands other dtypes anywhere but on Metal; if not imported, no."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch._C._is_any_autocast_enabled())


def without_autocast(x: Given) -> AbstractContextManager[Any]:
    """Return a context in which torch keeps to the dtypes of its operands.

    Its autocast has a state for each kind of its devices; CuPy's arrays are on one of "cuda".
    """
    if not is_autocast() and (x.device is None or x.device.kind != "mps"):
        return _UNCHANGED
    from corepy.backends.torch._linalg import without_autocast_on

    other = "cuda" if x.library == "cupy" else "cpu"
    return without_autocast_on(x.native.device.type if x.library == "torch" else other)


_UNCHANGED: Final = nullcontext()


@contextmanager
def _both(outer: AbstractContextManager[Any], inner: AbstractContextManager[Any]) -> Iterator[None]:
    with outer, inner:
        yield


#: Elements of float32 up to which a sum may be taken one by one: it is off by 1e-5 at most.
ONE_BY_ONE: Final = 256


def _exact_sums(xp: Any) -> dict[str, Callable[..., Any]]:
    """Return functions of NumPy or Dask whose sums of float32 are as good along any axis.

    NumPy adds up pair by pair only what lies side by side. Else it does so one by one: a sum of a
    million was off by a hundredth.
    """

    def exact(function: Callable[..., Any]) -> Callable[..., Any]:
        def reduced(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
            if axis is None or x.dtype != np.float32 or not _is_one_by_one(x, axis):
                return function(x, axis=axis, keepdims=keepdims)
            return function(x, axis=axis, keepdims=keepdims, dtype=np.float64).astype(x.dtype)

        return reduced

    return {"sum": exact(xp.sum), "mean": exact(xp.mean)}


def _is_one_by_one(x: Any, axis: int) -> bool:
    """Say whether a sum takes many elements that lie apart, as those of Dask's chunks may."""
    if x.shape[axis] <= ONE_BY_ONE:
        return False
    return not isinstance(x, np.ndarray) or x.strides[axis] != x.itemsize


@cache
def _for_mlx() -> Any:
    """Return the standard's functions, but sums by parts.

    MLX adds up one by one what does not lie side by side: a sum of a million was off by 6e-3.
    """

    def mean(x: Any, /, *, axis: int, keepdims: bool = False) -> Any:
        return _by_parts(x, axis, keepdims) / x.shape[axis]

    def total(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
        if axis is None:
            return array_api.sum(x, keepdims=keepdims)
        return _by_parts(x, axis, keepdims)

    return SimpleNamespace(**{**vars(array_api), "sum": total, "mean": mean})


def _by_parts(x: Any, axis: int, keepdims: bool) -> Any:
    """Return a sum along an axis of which no more than `ONE_BY_ONE` terms are added one by one."""
    shape = x.shape
    count = shape[axis] // ONE_BY_ONE
    if not count:
        return array_api.sum(x, axis=axis, keepdims=keepdims)
    axis %= len(shape)
    before, after, whole = shape[:axis], shape[axis + 1 :], count * ONE_BY_ONE
    everywhere = (slice(None),) * axis
    parts = x if whole == shape[axis] else x[(*everywhere, slice(whole))]
    parts = array_api.reshape(parts, (*before, count, ONE_BY_ONE, *after))
    found = _by_parts(array_api.sum(parts, axis=axis + 1), axis, keepdims)
    if whole < shape[axis]:
        rest = x[(*everywhere, slice(whole, None))]
        found = found + array_api.sum(rest, axis=axis, keepdims=keepdims)
    return found


@cache
def _for_numpy(xp: Any) -> Any:
    """Return NumPy's functions, but sums that are exact."""
    return SimpleNamespace(**{**vars(xp), **_exact_sums(np)})


def _for_all_chunks(xp: Any, dask: Backend) -> Any:
    """Return Dask's functions, but exact sums and the backend's `reshape`, as its own fails here.

    It wants chunks that go evenly.
    """
    reshape = dask.operation("reshape")
    assert reshape is not None
    own = {"reshape": partial(reshape, copy=None), **_exact_sums(xp)}
    return SimpleNamespace(**{**vars(xp), **own})


def _wrapped(x: Given) -> Any:
    if isinstance(x.value, Operand):
        return x.value
    return adopt(x.function, x.argument, x.native, x.backend)


def empty(x: Given, out: Given | None = None) -> Any:
    """Return the result for an array without elements."""
    if isinstance(x.backend, DeviceLibrary):
        return (
            x.backend.like(np.empty(x.shape, x.native.dtype), x.native)
            if out is None
            else out.value
        )
    return by_reference(_same, x, (), (out,))


def _same(xp: Any, x: Any, *, wide: Any) -> Any:
    return xp.astype(x, x.dtype, copy=True)
