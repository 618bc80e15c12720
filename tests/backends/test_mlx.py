"""MLX: laziness, keys, transformations, and what MLX leaves wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product, starmap
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import DTYPES
from corepy.testing import fake_devices
from tests.array_api.examples import EXAMPLES
from tests.backends.arrays import a, ran
from tests.conftest import required
from tests.helpers import assert_same

# Without a package of kernels mlx is found, and fails to import.
mx = required("mlx.core", exc_type=ImportError)

from corepy.backends.mlx import _functions  # noqa: E402  it imports mlx
from corepy.backends.mlx._backend import MLXBackend  # noqa: E402  and so does it

pytestmark = [
    pytest.mark.backend("mlx"),
    pytest.mark.skipif(mx.metal.is_available(), reason="tests the build for the host"),
]

PREFERRED = "mlx"


# ---------------------------------------------------------------------------- laziness


def test_arrays_travel_between_threads() -> None:
    x = a([1.0, 2.0])

    def work(i: int) -> corepy.Array:
        return x * float(i) + xp.ones(2)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(work, range(40)))
    for i, y in enumerate(made):  # the threads are gone, and their results go on working
        assert (y + y).tolist() == [2.0 * (i + 1), 2.0 * (2 * i + 1)]


def test_what_another_thread_left_unevaluated_is_refused_by_name() -> None:
    with ThreadPoolExecutor(1) as pool:
        lazy, done = pool.submit(lambda: (mx.ones(3) + 1.0, mx.ones(3))).result()
        pool.submit(mx.eval, done).result()
    for name, take in (
        ("asarray", lambda: xp.asarray(lazy)),
        ("from_dlpack", lambda: xp.from_dlpack(lazy)),
        ("to", lambda: corepy.to(lazy, backend="numpy")),
        ("add", lambda: xp.add(xp.ones(3), lazy)),
    ):
        with pytest.raises(corepy.BackendError, match=rf"^{name}: \w+: mlx cannot evaluate it"):
            take()
    assert xp.asarray(done).tolist() == [1.0, 1.0, 1.0]


def test_errors_of_lazy_arrays_are_named_and_never_end_the_process() -> None:
    singular = mx.array([[1.0, 2.0], [2.0, 4.0]])
    for name, take in (("asarray", xp.asarray), ("sum", xp.sum), ("from_dlpack", xp.from_dlpack)):
        inverse = mx.linalg.inv(singular, stream=mx.cpu)
        with pytest.raises(corepy.BackendError, match=rf"^{name}: \w+: mlx cannot .*Inverse"):
            take(inverse)
    assert (xp.asarray(singular) + 1.0).tolist() == [[2.0, 3.0], [3.0, 5.0]]


def test_transformations_of_mlx_see_through() -> None:
    def loss(native: Any) -> Any:
        x = xp.asarray(native)
        return xp.max(x * x + 3.0).unwrap()

    gradient = mx.grad(loss)(mx.array([1.0, 4.0]))
    assert gradient.tolist() == [0.0, 8.0]
    assert mx.compile(loss)(mx.array([1.0, 4.0])).item() == 19.0


def test_transformations_of_mlx_refuse_what_numpy_computes() -> None:
    # mx.grad would take the exponential for a constant, and the gradient for 0.
    def loss(native: Any) -> Any:
        x = xp.asarray(native) * 2.0
        return xp.sum(xp.exp(x)).unwrap()

    def at_once(native: Any) -> Any:
        return xp.sum(xp.exp(native)).unwrap()

    def evaluated(native: Any) -> Any:
        x = xp.asarray(native) * 2.0
        return xp.sum(xp.exp(x) if float(xp.max(x)) > 0.0 else x).unwrap()

    for transformed in (mx.grad(loss), mx.compile(loss), mx.grad(at_once), mx.grad(evaluated)):
        with pytest.raises(ValueError, match="^exp: the operand is traced by a transformation"):
            transformed(mx.array([1.0, 4.0]))


def test_a_transformation_that_is_over_hinders_nothing() -> None:
    def loss(native: Any) -> Any:
        x = xp.asarray(native)
        return xp.max(x * x).unwrap(), (x * 2.0).unwrap(), native

    _, made, native = mx.value_and_grad(loss)(mx.array([1.0, 4.0]))[0]
    for x in (made, native):
        assert xp.exp(xp.asarray(x) * 0.0).tolist() == [1.0, 1.0]
        assert xp.exp(x - x).tolist() == [1.0, 1.0]


def test_values_steer_a_transformation() -> None:
    def loss(native: Any) -> Any:
        x = xp.asarray(native)
        assert "[1., 4.]" in repr(x)
        largest = x[int(xp.argmax(x))] if float(x[1]) > 0 else x[0]
        return (largest * largest).unwrap()

    assert mx.grad(loss)(mx.array([1.0, 4.0])).tolist() == [0.0, 8.0]


def test_results_without_room_raise_and_never_end_the_process() -> None:
    column = xp.ones((10**6, 1))
    wide = xp.broadcast_to(column, (10**6, 10**6))  # takes no memory
    assert wide[5, 7] == 1.0
    for make in (
        lambda: wide + 1.0,
        lambda: xp.eye(10**6),
        lambda: xp.zeros((10**6, 10**6)),
        lambda: xp.tile(column, (1, 10**6)),
        lambda: xp.meshgrid(column[:, 0], column[:, 0]),
        lambda: xp.asarray(wide, copy=True),
    ):
        with pytest.raises(MemoryError, match="Unable to allocate 7.28 TiB"):
            make()


def test_sizes_beyond_32_bits_are_refused_by_name() -> None:
    nothing = xp.zeros((0, 1))
    for name, make in (
        ("zeros", lambda: xp.zeros((0, 2**31))),
        ("tile", lambda: xp.tile(nothing, (1, 2**31))),
        ("repeat", lambda: xp.repeat(nothing, 2**31)),
        ("fft", lambda: xp.fft.fft(xp.ones(3, dtype=xp.complex64), n=2**31)),
    ):
        with pytest.raises(OverflowError, match=f"^{name}: "):
            make()


def test_sums_of_many_integers_need_no_wider_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).integers(-9, 9, (4, 300_000)).astype(np.int8)
    x = a(values)
    mx.synchronize()
    monkeypatch.setattr(_functions, "LARGE", 2**20)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for axis in (None, 0, 1):
        found = xp.sum(x, axis=axis, keepdims=True)
        assert found.dtype is xp.int64
        np.testing.assert_array_equal(np.asarray(found), values.sum(axis, keepdims=True))
        np.testing.assert_array_equal(np.asarray(xp.prod(x, axis=axis)), values.prod(axis))
    # The sums of columns have eight bytes each, and there may be two of them.
    assert mx.get_peak_memory() - before < 6_000_000 < 8 * values.size


def test_timing_waits_for_the_values() -> None:
    x = xp.asarray(np.arange(2**20, 0, -1))
    found = corepy.explain(xp.sort, x)
    assert found.records[0].backend == "mlx"
    assert found.records[0].seconds > 1e-3
    assert int(found.result[0]) == 1


# ---------------------------------------------------------------------------- indexing


@pytest.mark.parametrize("key", [3, -4, (0, 2), (..., -3), (None, 3), (slice(0, 1), 5)])
def test_integers_out_of_bounds_raise(key: Any) -> None:
    x = xp.zeros((3, 2))
    with pytest.raises(IndexError, match="out of bounds for axis"):
        x[key]
    with pytest.raises(IndexError, match="out of bounds for axis"):
        x[key] = 1.0
    assert x.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("index", [3, -4])
def test_arrays_of_indices_out_of_bounds_raise(index: int) -> None:
    x, bad = a([1.0, 2.0, 3.0]), a([0, index])
    for read in (
        lambda: xp.take(x, bad),
        lambda: xp.take_along_axis(x, bad),
        lambda: x[bad],
        lambda: x.__setitem__(bad, 1.0),
    ):
        with pytest.raises(IndexError):
            read()
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_a_step_of_zero_raises() -> None:
    x = a([1.0, 2.0])
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        x[::0]
    with pytest.raises(ValueError, match="key has a slice whose step is 0"):
        x[::0] = 1.0


@pytest.mark.parametrize(
    "key",
    [
        slice(2**40, None),
        slice(None, 2**40),
        slice(-(2**62), 2**62),
        slice(None, None, 2**40),
        slice(None, None, -(2**40)),
        slice(2**33, None, -1),
        slice(3, -(2**40), -2),
        slice(2, 0, -1),
        slice(0, 0),
    ],
    ids=str,
)
def test_slices_of_any_size(key: slice) -> None:
    values = np.arange(5)
    x = a(values)
    assert x[key].tolist() == values[key].tolist()
    x[key] = 9
    values[key] = 9
    assert x.tolist() == values.tolist()


@pytest.mark.parametrize(
    "key",
    [
        slice(None, None, 2**30),
        slice(7, None, 2**30 - 3),
        slice(None, None, -(2**30)),
        slice(None, None, 2**29),
        slice(-1, None, -(2**30) - 5),
    ],
    ids=str,
)
def test_steps_that_32_bits_hardly_hold(key: slice) -> None:
    x = xp.broadcast_to(a([[1], [2]], "int8"), (2, 2**30 + 10))  # takes no memory
    count = len(range(*key.indices(2**30 + 10)))
    assert x[:, key].tolist() == [[1] * count, [2] * count]
    assert x[1, key].shape == (count,)


@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_slices_of_any_bounds_and_steps(size: int) -> None:
    values = np.arange(size)
    x = a(values)
    bounds = (None, *range(-size - 3, size + 4))
    steps = (None, 1, -1, 2, -2, 5, -5, 2**31 - 1, -(2**31), 2**40, -(2**40))
    for key in starmap(slice, product(bounds, bounds, steps)):
        chosen = values[key]
        assert np.asarray(x[key]).tolist() == chosen.tolist(), key
        y, written = a(values), values.copy()
        y[key] = xp.asarray(chosen + 10)
        written[key] = chosen + 10
        assert np.asarray(y).tolist() == written.tolist(), key


def test_backward_slices_among_other_parts_of_a_key() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    for key in (
        (slice(None, None, -1), ..., slice(-9, 0, -1)),
        (1, slice(-9, 0, -1), None, slice(2, None, -2)),
        (..., slice(-5, 0, -1)),
        (None, slice(0, -9, -1), -1),
    ):
        x, written = a(values), values.copy()
        assert x[key].tolist() == values[key].tolist()
        x[key] = written[key] = 99
        assert x.tolist() == written.tolist()


@pytest.mark.parametrize(
    "key",
    [
        np.array([[True, False, True], [False, False, True]]),
        np.array([True, False]),
        np.array(True),
        np.array([1, -2, 1]),
        (np.array([0, 1]), np.array([2, 0])),
        (slice(None), np.array([2, 0])),
        (np.array([[1], [0]]), slice(None, None, -1)),
        (1, np.array([False, True, True])),
    ],
    ids=["mask", "rows", "0-D", "ints", "points", "columns", "beside", "part"],
)
def test_arrays_in_keys(key: Any) -> None:
    values = np.arange(6.0).reshape(2, 3)
    x = a(values)
    parts = key if isinstance(key, tuple) else (key,)
    ours = tuple(xp.asarray(part) if isinstance(part, np.ndarray) else part for part in parts)
    place = ours if isinstance(key, tuple) else ours[0]
    assert x[place].tolist() == values[key].tolist()
    x[place] = -1.0
    values[key] = -1.0
    assert x.tolist() == values.tolist()


# ---------------------------------------------------------------------------- where it runs


def test_what_runs_in_mlx_and_what_is_left() -> None:
    x, y = a([1.0, 2.0], "float32"), a([3, 4])
    for function, args in (
        (xp.add, (x, x)),
        (xp.add, (y, y)),
        (xp.tanh, (x,)),
        (xp.max, (x,)),
        (xp.sum, (y,)),
        (xp.sort, (x,)),
        (xp.fft.rfft, (x,)),
    ):
        assert ran(function, *args) == {"mlx"}
    for function, args in (
        (xp.exp, (x,)),
        (xp.sum, (x,)),
        (xp.matmul, (x, x)),
        (xp.floor_divide, (y, y)),
    ):
        assert "mlx" not in ran(function, *args)
        assert function(*args).backend == "mlx"


# ---------------------------------------------------------------------------- Metal


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the host's build pass for Metal's, in a backend of its own. It is no test of Metal."""
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    backend = MLXBackend()
    backend.name = "metal"  # type: ignore[misc]
    corepy.register_backend("metal", backend, modules=())
    with corepy.backend_priority(["metal"]), corepy.set_fallback("allow"):
        yield
    corepy.unregister_backend("metal")


SINGLE = {"float64": "float32", "complex128": "complex64"}


class InSingle:
    def __getattr__(self, name: str) -> Any:
        return getattr(xp, SINGLE.get(name, name))


def test_examples_on_metal_are_what_numpy_gives_in_single_precision(metal: None) -> None:
    for name, (call, _, _) in EXAMPLES.items():
        if name == "hypot":  # its values are beyond float32
            continue
        found = call(InSingle())
        parts = found if isinstance(found, (tuple, list)) else [found]
        with (
            fake_devices(),
            corepy.backend_priority(["fake:no_float64"]),
            np.errstate(all="ignore"),
        ):
            expected = call(InSingle())
            if not isinstance(parts[0], corepy.Array):
                assert found == expected
                continue
            assert_same(found, expected)
        assert {(x.backend, str(x.device)) for x in parts} == {("metal", "mps")}, name
        assert not {str(x.unwrap().dtype) for x in parts} & {"mlx.core.float64", "complex128"}


def test_the_dtypes_of_metal(metal: None) -> None:
    info = xp.__array_namespace_info__()
    assert str(info.default_device()) == "mps"
    lacking = set(DTYPES) - set(info.dtypes(device=info.default_device()))
    assert lacking == {"float64", "complex128"}
    assert [dtype.name for dtype in info.default_dtypes().values()] == [
        "float32",
        "complex64",
        "int64",
        "int64",
    ]
    x = xp.ones(2)
    asking: list[Callable[[], Any]] = [
        lambda: xp.ones(2, dtype=xp.float64),
        lambda: xp.asarray(np.ones(2), device="mps"),
        lambda: xp.astype(x, xp.complex128),
        lambda: xp.sum(x, dtype=xp.float64),
        lambda: xp.ones(2, dtype=xp.float64, device="cpu").to_device("mps"),
    ]
    for ask in asking:
        with pytest.raises(
            corepy.UnsupportedOperationError, match=", which .*mps.*; expected one of bool"
        ):
            ask()
