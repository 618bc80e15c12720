"""Functions of the namespace inside transformed ones: of `torch.func`, and `jax.vmap`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import required

pytestmark = pytest.mark.filterwarnings("ignore:.*performance drop:UserWarning")

Shapes = tuple[tuple[int, ...], ...]

V: Final = (3,)
M: Final = (3, 3)
CUBE: Final = (2, 3, 2)


def named(names: str, *shapes: tuple[int, ...], **params: Any) -> dict[str, tuple[Any, Shapes]]:
    """Return functions of the namespace with their keywords, and the shapes of their operands."""
    found = {}
    for name in names.split():
        place, _, function = name.rpartition(".")
        found[f"{name}-{len(shapes)}-{len(shapes[0])}"] = (
            partial(getattr(getattr(xp, place, xp), function), **params),
            shapes,
        )
    return found


#: Functions, and the shapes of what they take.
CASES: Final[dict[str, tuple[Callable[..., Any], Shapes]]] = {
    **named("abs acos asin atan asinh atanh ceil conj cos cosh exp expm1 floor isfinite isnan", V),
    **named("log log1p log2 log10 negative reciprocal round sign signbit sin sinh sqrt square", V),
    **named("tan tanh trunc sum prod max min mean std var all any argmax argmin", V),
    **named("count_nonzero cumulative_sum cumulative_prod flip sort argsort diff unstack", V),
    **named("sum prod max mean var argmin count_nonzero cumulative_sum unstack", CUBE, axis=1),
    **named("add subtract multiply divide atan2 copysign equal floor_divide greater hypot", V, V),
    **named("less logaddexp maximum minimum nextafter not_equal pow remainder vecdot", V, V),
    **named("vecdot linalg.cross", (2, 3), (2, 3)),
    **named("matmul tensordot", M, M),
    **named("matrix_transpose tril triu linalg.det linalg.inv linalg.cholesky linalg.qr", M),
    **named("linalg.svd linalg.svdvals linalg.eigvalsh linalg.slogdet linalg.pinv", M),
    **named("linalg.matrix_norm linalg.matrix_rank linalg.trace linalg.diagonal", M),
    **named("linalg.solve", M, M),
    **named("linalg.outer linalg.vecdot", V, V),
    **named("linalg.vector_norm zeros_like ones_like fft.fftshift", V),
    **named("roll", V, shift=1),
    **named("permute_dims", CUBE, axes=(2, 0, 1)),
    **named("reshape", CUBE, shape=(6, 2)),
    "eigh": (lambda x: xp.linalg.eigh(x).eigenvalues, (M,)),
    "repeat": (lambda x: xp.repeat(x, 2), (V,)),
    "acosh": (lambda x: xp.acosh(x + 1), (V,)),
    "concat": (lambda x, y: xp.concat([x, y]), (V, V)),
    "stack": (lambda x, y: xp.stack([x, y]), (V, V)),
    "where": (lambda x, y: xp.where(x > y, x, y), (V, V)),
    "clip": (lambda x: xp.clip(x, 0.3, 0.6), (V,)),
    "searchsorted": (lambda x, y: xp.searchsorted(xp.sort(x), y), (V, V)),
    "take": (lambda x: xp.take(x, xp.asarray(np.array([0, -1])), axis=0), (V,)),
    "take_along_axis": (lambda x: xp.take_along_axis(x, xp.argsort(x), axis=0), (V,)),
    "keys": (lambda x: xp.stack([x[::-1][1:], x[:2], x[np.array([2, 0])]]), (V,)),
    "rfft": (lambda x: xp.fft.irfft(xp.fft.rfft(x), n=3), (V,)),
    "astype": (lambda x: xp.astype(x, xp.float32), (V,)),
    "operators": (lambda x, y: (2 * x - y / 3) ** 2 % 0.7 // y, (V, V)),
}
case_each = pytest.mark.parametrize("name", CASES)


def operands(shapes: Shapes, many: Sequence[int] = ()) -> list[np.ndarray[Any, Any]]:
    """Draw numbers with which all functions are defined, and that no two of are equal."""
    rng = np.random.default_rng(0)
    found = [rng.uniform(0.2, 0.9, (*many, *shape)) for shape in shapes]
    if shapes[0] == M:
        found[0] = found[0] + np.swapaxes(found[0], -1, -2) + 3 * np.eye(3)
    return found


def of(name: str, *natives: Any) -> tuple[Any, ...]:
    """Apply a function to native arrays, and return all its results as such ones."""
    found = CASES[name][0](*map(xp.asarray, natives))
    return tuple(one.unwrap() for one in (found if isinstance(found, tuple) else (found,)))


def one_by_one(name: str, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Apply a function to each of NumPy's arrays in a stack, and stack the results."""
    return [np.stack(results) for results in zip(*(of(name, *each) for each in zip(*arrays)))]


def check(found: tuple[Any, ...], expected: list[np.ndarray[Any, Any]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype or str(one.dtype).endswith(str(other.dtype))
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6, atol=1e-9)


@pytest.mark.backend("torch")
@case_each
def test_vmap_of_torch(name: str) -> None:
    torch = required("torch")
    arrays = operands(CASES[name][1], [4])
    found = torch.func.vmap(partial(of, name))(*map(torch.from_numpy, arrays))
    check(found, one_by_one(name, arrays))


@pytest.mark.backend("jax")
@case_each
def test_vmap_of_jax(name: str) -> None:
    jax = required("jax")
    arrays = operands(CASES[name][1], [4])
    with jax.enable_x64(True):
        found = jax.vmap(partial(of, name))(*map(jax.numpy.asarray, arrays))
    check(found, one_by_one(name, arrays))


@pytest.mark.backend("torch")
@case_each
def test_gradients_of_torch(name: str) -> None:
    """The gradients of both modes come to the same."""
    torch = required("torch")
    if name.startswith("nextafter") and torch.__version__ < "2.13":
        pytest.skip("torch gives nextafter a derivative since 2.13")
    arrays = [torch.from_numpy(x) for x in operands(CASES[name][1])]

    def total(*natives: Any) -> Any:
        return sum(one.double().sum() for one in of(name, *natives))

    gradients = torch.func.grad(total, argnums=tuple(range(len(arrays))))(*arrays)
    along = sum(float(one.sum()) for one in gradients)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own use of torch.jit
        ones = tuple(torch.ones_like(x) for x in arrays)
        _, pushed = torch.func.jvp(total, tuple(arrays), ones)
    assert float(pushed) == pytest.approx(along, rel=1e-6, abs=1e-9)


@pytest.mark.backend("torch")
def test_masks_of_torchs_vmap_are_not_looked_at() -> None:
    torch = required("torch")

    def written(row: Any, mask: Any, index: Any) -> Any:
        x = xp.asarray(row.clone())
        x[xp.asarray(mask), xp.asarray(index)] = 5.0
        return x.unwrap()

    rows, index = torch.zeros((3, 2, 2)), torch.asarray([1])
    found = torch.func.vmap(written, (0, None, None))(rows, torch.asarray([False, True]), index)
    assert found.tolist() == [[[0.0, 0.0], [0.0, 5.0]]] * 3
    masks = torch.asarray([[True, False]] * 3)
    with pytest.raises(corepy.BackendError, match="^__setitem__: .*data-dependent"):
        torch.func.vmap(written, (0, 0, None))(rows, masks, index)
    empty, indices = torch.zeros((3, 0, 2)), torch.asarray([[0], [1], [0]])
    with pytest.raises((corepy.BackendError, IndexError), match="^__getitem__: "):
        torch.func.vmap(lambda x, i: xp.asarray(x)[xp.asarray(i)].unwrap())(empty, indices)


@pytest.mark.backend("jax")
def test_masks_that_jax_traces_are_not_looked_at() -> None:
    jax = required("jax")

    def chosen(native: Any, mask: Any, index: Any) -> Any:
        return xp.asarray(native)[xp.asarray(mask), xp.asarray(index)].unwrap()

    x, index = jax.numpy.ones((2, 2)), jax.numpy.asarray([0])
    with pytest.raises(IndexError, match="^__getitem__: key: Array boolean indices must be concr"):
        jax.jit(chosen)(x, jax.numpy.asarray([True, False]), index)


@pytest.mark.backend("jax")
@pytest.mark.parametrize("name", ["eigvals", "svdvals", "pinv", "matrix_rank"])
def test_decompositions_of_weak_types_that_jax_traces_keep_the_dtype(name: str) -> None:
    jax = required("jax")
    x = jax.numpy.full((2, 2), 1.0)  # of a weak type
    found = jax.jit(lambda x: getattr(xp.linalg, name)(xp.asarray(x)).unwrap())(x)
    assert found.dtype == getattr(xp.linalg, name)(xp.asarray(x)).unwrap().dtype
