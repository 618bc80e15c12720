"""Dask: the same answers as NumPy from arrays of many chunks, and laziness."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.devices._device import CPU, as_device
from tests.conftest import required

da = required("dask.array")

from corepy.backends.dask._backend import DaskBackend  # noqa: E402  it imports Dask

pytestmark = [
    pytest.mark.backend("dask"),
    pytest.mark.usefixtures("small_chunks"),
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),
]

BACKEND = DaskBackend()
DASK = as_device("dask")
PREFERRED = "dask"
inf, nan = math.inf, math.nan


def a(values: Any, dtype: str | None = None) -> corepy.Array:
    x = xp.asarray(np.asarray(values, dtype), device=DASK)
    assert x.backend == "dask"
    return x


def numbers(*shape: int, dtype: str = "float64") -> Any:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)


def host(x: Any) -> Any:
    return x.to_device("cpu") if isinstance(x, corepy.Array) else x


def as_on_the_host(f: Callable[..., Any], *arrays: Any, tolerance: float = 1e-12) -> None:
    """Assert that a function gives the same on chunked arrays as on the host, and stays lazy."""
    wanted, found = f(*map(xp_on(CPU), arrays)), f(*map(xp_on(DASK), arrays))
    several = isinstance(wanted, tuple)
    for want, got in zip(*((wanted, found) if several else ((wanted,), (found,))), strict=True):
        assert (got.device, got.dtype) == (DASK, want.dtype)
        assert len(got.shape) == len(want.shape)
        assert all(n in (None, m) for n, m in zip(got.shape, want.shape, strict=True))
        values = np.asarray(got)
        assert values.dtype.name == want.dtype.name
        np.testing.assert_allclose(values, np.asarray(want), rtol=tolerance, atol=tolerance)


def xp_on(device: Any) -> Callable[[Any], corepy.Array]:
    return lambda values: xp.asarray(values, device=device, copy=True)


# ---------------------------------------------------------------------------- crossing


@pytest.mark.parametrize("name", list(DTYPES))
def test_values_cross_both_ways(name: str) -> None:
    for array in (
        np.ones((2, 3), name),
        np.ones((), name),
        np.ones((0, 4), name),
        np.arange(24).reshape(4, 6).astype(name)[::-2, ::-1],
        np.arange(6).astype(np.dtype(name).newbyteorder(">")),
    ):
        x = xp.asarray(array, device=DASK)
        assert (x.dtype.name, x.shape, x.device, x.backend) == (name, array.shape, DASK, "dask")
        back = np.asarray(x)
        assert back.dtype.name == name
        assert back.tolist() == array.tolist()


def test_what_is_computed_later_does_not_see_later_writes() -> None:
    source = np.arange(4.0)
    x = xp.asarray(source, device=DASK) + 1
    source[:] = 9
    assert x.tolist() == [1, 2, 3, 4]


def test_read_only_memory_is_never_written() -> None:
    source = np.arange(4.0)
    source.flags.writeable = False
    x = xp.asarray(source, device=DASK)
    x[0] = 9.0
    assert (source[0], x.tolist()) == (0, [9, 1, 2, 3])


@pytest.mark.parametrize("size", [3, 50])
def test_what_comes_back_is_nobodys_else(size: int) -> None:
    x = a(np.arange(float(size)))
    back = np.asarray(x)
    back[:] = 9
    assert x.tolist() == list(range(size))
    held = x.unwrap().persist()
    np.asarray(xp.asarray(held))[:] = 9
    assert held.compute().tolist() == list(range(size))


def test_memory_is_not_shared_and_says_so() -> None:
    with pytest.raises(ValueError, match="^dask keeps a copy"):
        BACKEND.from_numpy(np.ones(2), DASK, copy=False)
    with pytest.raises(ValueError, match="^dask computes into new"):
        BACKEND.to_numpy(da.ones(2), copy=False)
    with pytest.raises(ValueError, match="^asarray: "):
        xp.asarray(xp.asarray(np.ones(2), device=CPU), device=DASK, copy=False)
    assert not BACKEND.shares_memory(da.ones(2), np.ones(2))


def test_native_arrays_are_wrapped_as_they_are() -> None:
    native = da.arange(6, chunks=2)
    x = xp.asarray(native)
    assert x.unwrap() is native
    assert xp.sum(native).item() == 15
    for both in (native + x, x + native, xp.add(native, x)):
        assert type(both) is corepy.Array
        assert both.tolist() == [0, 2, 4, 6, 8, 10]


def test_arrays_of_other_chunks_belong_to_nobody() -> None:
    masked = da.ma.masked_array(da.ones(3), mask=[True, False, False])
    assert not BACKEND.owns(masked)
    with pytest.raises(TypeError, match="^sum: x"):
        xp.sum(masked)


def test_foreign_byte_order_and_dtypes() -> None:
    swapped = da.from_array(np.arange(3, dtype=">i4"), chunks=2)
    assert (xp.asarray(swapped) + 1).tolist() == [1, 2, 3]
    assert xp.asarray(swapped).unwrap().dtype.isnative
    with pytest.raises(TypeError, match="float16"):
        xp.asarray(da.ones(3, dtype="float16"))


def test_values_are_exported_by_dlpack_and_pickled() -> None:
    x = a([1.0, 2.0, 3.0])
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).tolist() == [1, 2, 3]
    assert not np.from_dlpack(x, copy=False).flags.writeable  # which x would not know of
    assert np.from_dlpack(xp.flip(x), copy=False).tolist() == [3, 2, 1]
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 2, 3]
    assert pickle.loads(pickle.dumps(x)).backend == "dask"


# ---------------------------------------------------------------------------- laziness


def test_nothing_is_computed_before_a_value_is_asked_for(watched: Callable[[Any], Any]) -> None:
    native, computed = watched(da.ones(10, chunks=5))
    x = xp.asarray(native)
    y = xp.sqrt(xp.sum(xp.where(x > 0, x, 0.0) * 4.0 + x[::-1]))
    y[...] = y - 1
    assert (y.shape, computed) == ((), [])
    assert math.isclose(float(y), math.sqrt(50) - 1)
    assert computed == [5, 5]
    assert (bool(y), int(y), y.item() > 0) == (True, 6, True)


def test_writing_changes_the_array_and_no_other() -> None:
    x = a(np.arange(12.0))
    native, other, view = x.unwrap(), xp.asarray(x, copy=True), x[:3]
    x[0] = 5.0
    x[x > 9] = 0.0
    x += 1
    assert x.tolist() == [6, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 1]
    assert native.compute().tolist() == other.tolist() == list(range(12))
    assert view.tolist() == [0, 1, 2]


def test_empty_is_the_same_at_each_look() -> None:
    x = xp.empty(50)
    assert bool(xp.all(x == x))
    first, second = x.tolist(), x.tolist()
    assert first == second


def test_errors_of_values_come_when_they_are_computed() -> None:
    x = a(np.arange(20)) // a(np.zeros(20, np.int64))
    with pytest.raises(ZeroDivisionError, match="^floor_divide: x2 holds 0"):
        np.asarray(x)
    for name, selected in (
        ("__getitem__", a(np.arange(20))[a([3, 20])]),
        ("take", xp.take(a(np.arange(20)), a([-21]))),
    ):
        with pytest.raises(
            IndexError, match=f"^{name}: .*: index -?2. is out of bounds .* size 20"
        ):
            np.asarray(selected)
    y = a(np.zeros((4, 3)))
    y[0:0, a([3])] = 1.0
    with pytest.raises(IndexError, match="^__setitem__: key: index 3 is out of bounds"):
        np.asarray(y)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (xp.linalg.inv, "^inv: Singular matrix"),
        (lambda x: xp.linalg.solve(x, x), "^solve: Singular matrix"),
        (xp.linalg.cholesky, "^cholesky: Matrix is not positive definite"),
        (lambda x: xp.astype(x, xp.int64) ** a([-1, 1, 1, 1]), "^pow: x2 holds a negative integer"),
    ],
)
def test_errors_of_values_name_the_function(f: Callable[..., Any], message: str) -> None:
    x = a([[1.0, 2.0], [2.0, 4.0]] * 2)
    with pytest.raises(ValueError, match=message) as caught:
        np.asarray(f(xp.reshape(x, (2, 2, 2)) if "pow" not in message else x.T))
    assert type(caught.value) is (ValueError if "pow" in message else np.linalg.LinAlgError)


def test_an_operation_that_dask_lacks_crosses_with_one_warning_a_call_site() -> None:
    x = a([[2.0, 0.0], [0.0, 3.0]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            values = xp.linalg.eigh(x).eigenvalues
        determinant = xp.linalg.det(x)
    assert (values.device, values.tolist()) == (DASK, [2, 3])
    assert determinant.item() == pytest.approx(6)
    found = [str(w.message) for w in caught if w.category is corepy.FallbackWarning]
    assert len(found) == 2
    assert found[0].startswith("linalg.eigh: dask on dask does not offer it; ")
    assert "numpy on cpu runs it" in found[0]


def test_explain_shows_each_operation_that_crosses() -> None:
    x = a([[2.0, 0.0], [0.0, 3.0]])
    with corepy.set_fallback("allow"):
        report = corepy.explain(lambda: (xp.linalg.det(x), xp.linalg.eigh(x), x + 1))
    assert report.result[0].item() == pytest.approx(6)
    seen = [(r.operation, r.backend, r.device, r.bytes_moved, r.reason) for r in report.records]
    reason = "dask does not offer it"
    there_and_back = 4 * 8 + 8, 4 * 8 + 2 * 8 + 4 * 8
    assert seen[:2] == [
        ("linalg.det", "numpy", "cpu", there_and_back[0], reason),
        ("linalg.eigh", "numpy", "cpu", there_and_back[1], reason),
    ]
    assert seen[2][:4] == ("add", "dask", "dask", 0)


def test_threads_compute_independently() -> None:
    def work(n: int) -> float:
        with corepy.backend_priority(["dask"]):
            return float(xp.sum(xp.arange(100, dtype=xp.float64) * n))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [4950.0 * n for n in range(8)]


# ---------------------------------------------------------------------------- chunks


def test_special_cases_are_those_of_numpys_backend_in_every_chunk() -> None:
    x = a([inf, -inf, 1.0, -1.0, 0.0, 7.0, nan])
    y = a([2.0, 2.0, -inf, inf, 5.0, inf, 1.0])
    assert repr((x // y).tolist()) == repr([inf, -inf, -0.0, -0.0, 0.0, 0.0, nan])
    assert xp.expm1(a([complex(-inf, inf)] * 9)).tolist() == [-1] * 9


def test_dtypes_are_inferred_without_trying_memory_that_is_not_set() -> None:
    # Dask calls the function on numpy.empty: a zero there made the result an object array.
    for _ in range(50):
        _ = np.zeros(1, np.int8)
        found = a(numbers(4, 5, dtype="int8")) // a(np.ones(5, np.int8))
        assert found.unwrap().dtype == np.int8
    assert np.asarray(found).dtype == np.int8


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda x: xp.clip(x, None, 2), [(4, 5)]),
        (xp.clip, [(4, 5)]),
        (lambda x: xp.roll(x, 3), [(4, 5)]),
        (lambda x: xp.roll(x, 1, axis=(0, 1)), [(4, 5)]),
        (lambda x: xp.reshape(x, (4, 6)), [(2, 3, 4)]),
        (lambda x: xp.reshape(x, (3, 8)), [(2, 3, 4)]),
        (lambda x: xp.reshape(x, (0, 3)), [(0,)]),
        (lambda x: xp.repeat(x, 3, axis=1), [(3, 0)]),
        (lambda x: xp.repeat(x, xp.asarray([1, 0, 2], device=x.device), axis=0), [(3, 4)]),
        (lambda x: xp.tile(x, (0, 2)), [(3, 4)]),
        (lambda x: xp.expand_dims(x, axis=(0, -1)), [(3, 4)]),
        (xp.zeros_like, [(5, 0, 2)]),
        (lambda x: xp.max(x, axis=1, keepdims=True), [(0, 3)]),
        (xp.argmax, [(4, 5)]),
        (lambda x: xp.argmin(x, keepdims=True), [(4, 5)]),
        (lambda x: xp.cumulative_sum(x, axis=0, include_initial=True), [(12, 2)]),
        (lambda x: xp.cumulative_prod(x, axis=0, include_initial=True), [(5, 0, 2)]),
        (lambda x: xp.std(x, correction=1.5), [(12, 3)]),
        (lambda x: xp.sort(x, axis=0, descending=True), [(12, 3)]),
        (lambda x: xp.argsort(x, axis=0), [(12, 3)]),
        (lambda x: xp.count_nonzero(x, axis=0, keepdims=True), [(12, 3)]),
        (lambda x, y: xp.searchsorted(xp.sort(x), y, side="right"), [(12,), (3, 4)]),
        (lambda x, y: xp.searchsorted(x, y, sorter=xp.argsort(x)), [(12,), (7,)]),
        (lambda x, y: xp.isin(x, y, invert=True), [(12, 3), (2, 2)]),
        (xp.unique_all, [(4, 5)]),
        (xp.unique_inverse, [(4, 5)]),
        (lambda x: xp.take(x, xp.asarray([[0, -1]], device=x.device), axis=1), [(4, 5)]),
        (
            lambda x: xp.take(x, xp.zeros((0, 2), dtype=xp.int64, device=x.device), axis=0),
            [(12, 3)],
        ),
        (lambda x: xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0), [(4, 5)]),
        (lambda x: xp.linalg.trace(x, offset=1), [(4, 12)]),
        (lambda x: xp.linalg.diagonal(x, offset=-1), [(0, 3)]),
        (lambda x, y: xp.linalg.cross(x, y, axis=0), [(3, 5), (3, 1)]),
        (lambda x: xp.linalg.vector_norm(x, axis=(0, 2), ord=3), [(2, 3, 4)]),
        (lambda x: xp.linalg.vector_norm(x, ord=inf), [(0,)]),
        (lambda x: xp.linalg.matrix_norm(x, ord="nuc", keepdims=True), [(2, 3, 4)]),
        (xp.linalg.matrix_norm, [(12, 3)]),
        (xp.linalg.svdvals, [(12, 3)]),
        (xp.linalg.svdvals, [(3, 12)]),
        (xp.linalg.svdvals, [(2, 4, 3)]),
        (lambda x: xp.linalg.inv(x + 9 * xp.eye(12, device=x.device)), [(12, 12)]),
        (xp.linalg.inv, [(0, 0)]),
        (lambda x, y: xp.linalg.solve(x + 9 * xp.eye(4, device=x.device), y), [(2, 4, 4), (4,)]),
        (lambda x: xp.linalg.cholesky(x @ x.mT + xp.eye(12, device=x.device)), [(12, 12)]),
        (lambda x: xp.fft.rfft(x, n=17, axis=0, norm="ortho"), [(12, 2)]),
        (lambda x: xp.fft.fftn(xp.astype(x, xp.complex128), axes=(0, 2)), [(3, 4, 5)]),
        (lambda x: xp.fft.irfftn(xp.astype(x, xp.complex128)), [(4, 5)]),
    ],
)
def test_many_chunks_give_what_numpy_gives(f: Callable[..., Any], shapes: Any) -> None:
    as_on_the_host(f, *(numbers(*shape) for shape in shapes), tolerance=1e-9)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "complex64"])
def test_products_keep_the_dtype_that_sums_over_chunks_would_widen(dtype: str) -> None:
    x, y = numbers(3, 12, dtype=dtype), numbers(12, 5, dtype=dtype)
    as_on_the_host(xp.matmul, x, y, tolerance=1e-4)
    as_on_the_host(lambda p, q: xp.tensordot(p, q, axes=1), x, y, tolerance=1e-4)
    as_on_the_host(xp.vecdot, x, x, tolerance=1e-4)


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("shape", [(12, 3), (3, 12), (2, 4, 3)])
def test_decompositions_rebuild_the_matrix(shape: tuple[int, ...], complete: bool) -> None:
    values = numbers(*shape)
    x = a(values)
    m, n, k = *shape[-2:], min(shape[-2:])
    u, s, vh = xp.linalg.svd(x, full_matrices=complete)
    assert (u.shape[-1], vh.shape[-2]) == ((m, n) if complete else (k, k))
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], values, atol=1e-9)
    q, r = xp.linalg.qr(x, mode="complete" if complete else "reduced")
    assert q.shape[-1] == r.shape[-2] == (m if complete else k)
    np.testing.assert_allclose(q @ r, values, atol=1e-9)
    np.testing.assert_allclose(
        q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (q.mT @ q).shape), atol=1e-9
    )


def test_an_inverse_pivots_across_chunks() -> None:
    # Dask's own pivots within the diagonal chunks only, which here are singular.
    swapped = np.eye(12)[::-1]
    assert xp.linalg.inv(a(swapped)).tolist() == swapped.tolist()


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("arange", (0, 10, 0.3), {}),
        ("arange", (10, 0, -3), {"dtype": "uint8"}),
        ("arange", (2**63, 2**63 + 9), {"dtype": "uint64"}),
        ("arange", (-5, 5, 0.25), {"dtype": "float32"}),
        ("linspace", (0, 1, 11), {}),
        ("linspace", (0, 1j, 7), {"endpoint": False}),
        ("linspace", (1, 0, 1), {"dtype": "float32"}),
        ("eye", (12, 5), {"k": -2}),
        ("eye", (0,), {}),
        ("full", ((3, 4), 7), {"dtype": "int8"}),
        ("full", ((5, 0, 2), 7), {}),
        ("fft.fftfreq", (11,), {"d": 0.5}),
        ("fft.rfftfreq", (12,), {"dtype": "float32"}),
    ],
)
def test_creation_in_chunks(name: str, args: Any, options: dict[str, Any]) -> None:
    function: Any = xp
    for part in name.split("."):
        function = getattr(function, part)
    if "dtype" in options:
        options = options | {"dtype": getattr(xp, options["dtype"])}
    wanted, found = (function(*args, device=device, **options) for device in (CPU, DASK))
    assert (found.dtype, found.shape, found.device) == (wanted.dtype, wanted.shape, DASK)
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if "dtype" in options else 1e-15)


def test_the_ends_of_a_linspace_are_exact() -> None:
    for n in range(2, 60):
        assert xp.linspace(0.1, 0.7, n)[-1].item() == 0.7


# ---------------------------------------------------------------------------- indexing

INDICES = np.array([2, -1, 0, 2])
KEYS: dict[str, Callable[[Any], Any]] = {
    "int": lambda i: -1,
    "slice": lambda i: slice(5, 1, -2),
    "beyond": lambda i: (slice(-6, -4, -3), slice(9, 0, -2)),
    "none": lambda i: (None, ..., 0, None),
    "indices": lambda i: i(INDICES),
    "0-D": lambda i: i(np.asarray(2)),
    "2-D": lambda i: i(INDICES.reshape(2, 2)),
    "at the end": lambda i: (..., i(INDICES)),
    "beside a slice": lambda i: (slice(1, None), i(INDICES)),
    "beside an int": lambda i: (1, i(INDICES)),
    "apart from an int": lambda i: (1, slice(None), i(INDICES)),
    "beside none": lambda i: (None, i(INDICES)),
    "pairs": lambda i: (i(INDICES), i(INDICES)),
    "pairs apart": lambda i: (i(INDICES), slice(None), i(INDICES)),
    "outer pairs": lambda i: (i(INDICES[:, None]), i(INDICES)),
    "mask": lambda i: i(numbers(4, 3, 5) > 0),
    "mask of rows": lambda i: i(np.array([True, False, True, True])),
    "mask of the first two": lambda i: i(numbers(4, 3) > 0),
    "mask beside": lambda i: (slice(None), i(np.array([True, False, True]))),
    "0-D mask": lambda i: i(np.asarray(True)),
    "mask beside indices": lambda i: (i(np.array([True, False, True, True])), i(INDICES[:3])),
    "mask apart from indices": lambda i: (i(np.arange(4) == 2), slice(None), i(INDICES)),
    "mask of two beside indices": lambda i: (i(numbers(4, 3) > 2), i(INDICES[:1])),
    "masks": lambda i: (i(np.arange(4) > 1), i(np.arange(3) > 0)),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_every_key_selects_and_sets_as_on_the_host(key: Any) -> None:
    def read(x: corepy.Array) -> corepy.Array:
        return x[key(xp_on(x.device))]

    def write(x: corepy.Array) -> corepy.Array:
        x[key(xp_on(x.device))] = 7.0
        return x

    as_on_the_host(read, numbers(4, 3, 5))
    as_on_the_host(write, numbers(4, 3, 5))


def test_values_are_broadcast_to_the_selection() -> None:
    def write(x: corepy.Array, row: corepy.Array) -> corepy.Array:
        x[1:, ::2] = row[::2]
        x[:, xp.asarray([1], device=x.device)] = row[:1]
        x[x > 3] = row[:1]
        return x

    as_on_the_host(write, numbers(6, 5), numbers(5))
    empty = a(np.ones((5, 0, 2)))
    with pytest.raises(ValueError, match="^__setitem__: value"):
        empty[0, ...] = a(np.ones((3, 2)))


@pytest.mark.parametrize(
    "key",
    [
        (0, slice(None, None, -1)),
        (slice(None, None, -2), 1),
        (..., slice(4, 1, -1)),
        (slice(2, 2, -1),),
        (slice(None, None, -1), ..., slice(None, None, -2)),
    ],
)
def test_slices_that_go_backwards_take_values_in_their_order(key: Any) -> None:
    def write(x: corepy.Array, value: corepy.Array) -> corepy.Array:
        x[key] = value[None, : x[key].shape[-1]]
        return x

    as_on_the_host(write, numbers(4, 5), np.arange(10.0, 15.0))


def test_bad_keys_raise_what_they_raise_on_the_host() -> None:
    x = a(numbers(4, 3))
    two, rows = a([0, 1]), a([True, False, True, True])
    for key in (4, (0, 3), a([True, False]), (0, 0, 0), (two, a([0, 1, 2])), (rows, two)):
        with pytest.raises(IndexError):
            x[key]
        with pytest.raises(IndexError):
            x[key] = 1.0


def test_complex_arrays_are_picked_from_and_cut_without_a_warning() -> None:
    values = numbers(4, 5) + 1j
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_on_the_host(lambda x, i: x[..., i], values, np.array([3, 0]))
        as_on_the_host(lambda x, i: x[1, i], values, np.array([3, 0]))
        as_on_the_host(lambda x: xp.tril(x, k=1), values)
        as_on_the_host(lambda x: xp.linalg.svdvals(x @ x.mT), values)


def test_every_nan_is_distinct() -> None:
    x = a([nan, 1.0, nan, 1.0, nan, 2.0, nan])
    values, counts = xp.unique_counts(x)
    assert repr(values.tolist()) == repr([1.0, 2.0, nan, nan, nan, nan])
    assert counts.tolist() == [2, 1, 1, 1, 1, 1]
    assert repr(xp.unique_values(x).tolist()) == repr(values.tolist())


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.parametrize("correction", [2.0, 3.5])
def test_without_a_degree_of_freedom_there_is_no_variance(correction: float) -> None:
    for spread in (xp.var, xp.std):
        found = spread(a([[1.0, 2.0], [3.0, 7.0], [4.0, 4.0]]), axis=1, correction=correction)
        assert np.isnan(np.asarray(found)).tolist() == [True] * 3


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_degrees_of_freedom_that_only_a_mask_knows() -> None:
    x = a([1.0, -2.0, 3.0, -4.0])
    rows = a([[1.0, 2.0], [5.0, 9.0], [4.0, 0.0]])[a([True, False, True]), :]
    for spread in (xp.var, xp.std):
        for correction in (2.0, 2.5, 3.0):
            assert np.isnan(float(spread(x[x > 0], correction=correction)))
            assert np.isnan(np.asarray(spread(rows, axis=0, correction=correction))).all()
    assert float(xp.var(x[x > 0], correction=1)) == 2.0
    found = xp.var(xp.astype(rows, xp.float32), axis=0, correction=1, keepdims=True)
    assert found.dtype is xp.float32
    assert np.asarray(found).tolist() == [[4.5, 2.0]]


def test_what_depends_on_values_is_no_more_work_each_time() -> None:
    points = np.random.default_rng(0).standard_normal((90, 2))
    x = corepy.to(da.from_array(points, chunks=30), backend="dask")
    centres, tasks = x[:3, :], []
    for _ in range(4):
        nearest = xp.argmin(xp.sum((x[:, None, :] - centres[None, :, :]) ** 2, axis=2), axis=1)
        centres = xp.stack([xp.mean(x[nearest == k, :], axis=0) for k in range(3)])
        tasks.append(len(dict(centres.unwrap().dask)))
    assert max(np.diff(tasks)) <= 1.5 * tasks[0]  # a graph of copies has thousands in the end
    y = xp.asarray(np.arange(6.0), device="dask")
    for _ in range(3):
        y[y > 2] = y[y > 2] * 2.0
    assert np.asarray(y).tolist() == [0.0, 1.0, 2.0, 24.0, 32.0, 40.0]
