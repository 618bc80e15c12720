"""The JAX backend: what it corrects in JAX, and code that JAX traces."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from tests.conftest import required

jax = required("jax")
jnp = jax.numpy

from corepy.backends.jax import _backend, _indexing, _values  # noqa: E402 (they import jax)
from corepy.devices._device import CPU  # noqa: E402

NAN: Final = math.nan
PREFERRED = "jax"


# ---------------------------------------------------------------------------- 64 bits


def test_64_bits_whatever_the_setting_of_the_process() -> None:
    for setting in (False, True):
        with jax.enable_x64(setting):
            big = xp.asarray(2**40)
            assert big.dtype is xp.int64
            assert int(big + 1) == 2**40 + 1
            assert xp.ones(2).unwrap().dtype == np.float64
            assert xp.sum(xp.asarray([1, 2], dtype=xp.uint8)).dtype is xp.uint64
            assert float(xp.asarray(1.0) + 1e-12) == 1.0 + 1e-12
            assert jax.config.jax_enable_x64 is setting


def test_the_process_keeps_its_setting() -> None:
    code = (
        "import jax, corepy, corepy.array_api as xp\n"
        "with corepy.backend_priority(['jax']):\n"
        "    assert xp.ones(2).unwrap().dtype == 'float64'\n"
        "assert jax.config.jax_enable_x64 is False\n"
        "assert jax.numpy.ones(2).dtype == 'float32'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(("value", "expected"), [(None, "false"), ("true", "true")])
def test_gpu_memory_is_not_taken_in_advance_unless_the_user_says_so(
    value: str | None, expected: str
) -> None:
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    code = (
        f"import os, sys\nos.environ.pop({name!r}, None)\n"
        + (f"os.environ[{name!r}] = {value!r}\n" if value else "")
        + f"import corepy.backends.jax\nassert 'jax' not in sys.modules\n"
        f"assert os.environ[{name!r}] == {expected!r}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_gpu_memory_is_the_users_choice_once_jax_is_imported() -> None:
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    code = (
        f"import os\nos.environ.pop({name!r}, None)\nimport jax, corepy.backends.jax\n"
        f"assert {name!r} not in os.environ\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_gpu_that_jax_does_not_find_is_told_with_the_order_of_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def devices(platform: str) -> Any:
        raise RuntimeError(f"Unknown backend: '{platform}' requested")

    tell = _backend._no_gpu.__wrapped__
    monkeypatch.setattr(_backend, "_native_devices", lambda: {CPU: None})
    monkeypatch.setattr(_backend, "entry_points", lambda group: [])
    assert tell() == ()  # without a plug-in nobody expects one
    monkeypatch.setattr(_backend, "entry_points", lambda group: ["xla_cuda13"])
    monkeypatch.setattr(_backend.jax, "devices", devices)
    monkeypatch.setattr(_backend, "TORCH_FIRST", True)
    (told,) = tell()
    assert told == (
        "Unknown backend: 'gpu' requested; torch was imported before JAX, so import jax first"
    )


# ---------------------------------------------------------------------------- errors


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_integer_division_by_zero_raises(name: str) -> None:
    divide = getattr(xp, name)
    x = xp.asarray([6, 7])
    for divisor in (xp.asarray([1, 0]), 0):
        with pytest.raises(ZeroDivisionError, match=f"^{name}: x2 holds 0; expected no zero"):
            divide(x, divisor)
    assert divide(x, 4).tolist() == ([1, 1] if name == "floor_divide" else [2, 3])
    assert divide(x[:0], x[:0]).shape == (0,)


def test_negative_powers_of_integers_raise() -> None:
    x = xp.asarray([2, 3])
    for power in (xp.asarray([1, -1]), -1):
        with pytest.raises(ValueError, match="^pow: x2 holds a negative integer; expected powers"):
            xp.pow(x, power)
    assert (x ** xp.asarray([3, 0])).tolist() == [8, 1]
    assert (x**2).tolist() == [4, 9]
    assert (xp.asarray([2.0]) ** -1).tolist() == [0.5]


KEYS: Final[list[Callable[[ModuleType], Any]]] = [
    lambda xp: 3,
    lambda xp: -4,
    lambda xp: (0, 5),
    lambda xp: (Ellipsis, 5),
    lambda xp: (slice(None), None, 5),
    lambda xp: xp.asarray([0, 3]),
    lambda xp: (xp.asarray([0]), xp.asarray([-6])),
    lambda xp: (0, xp.asarray(5, dtype=xp.uint8)),
    lambda xp: xp.asarray([True, False]),
    lambda xp: xp.ones((3, 4), dtype=xp.bool),
]


@pytest.mark.parametrize("key", KEYS)
def test_keys_out_of_bounds_raise(key: Callable[[ModuleType], Any]) -> None:
    x = xp.zeros((3, 5))
    with pytest.raises(IndexError, match="^__getitem__: key: "):
        x[key(xp)]
    with pytest.raises(IndexError, match="^__setitem__: key: "):
        x[key(xp)] = 1.0
    assert not np.any(x.unwrap())


def test_indices_out_of_bounds_raise() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"^take: indices: index {index} is .*; expected -3"):
            xp.take(x, xp.asarray([0, index]))
        with pytest.raises(IndexError, match=f"^take_along_axis: indices: index {index} is"):
            xp.take_along_axis(x, xp.asarray([0, index]))
    assert xp.take(x, xp.asarray([-1, 0])).tolist() == [3.0, 1.0]
    with pytest.raises(IndexError):
        xp.asarray(1.0)[0]


def test_indices_of_narrow_dtypes_count_from_the_end_of_long_axes() -> None:
    x = xp.arange(1000)
    table = xp.reshape(xp.arange(20_000), (10_000, 2))
    index = xp.asarray([-1, 5], dtype=xp.int8)
    assert x[index].tolist() == [999, 5]
    assert xp.take(x, index).tolist() == [999, 5]
    assert xp.take_along_axis(x, index).tolist() == [999, 5]
    assert int(table[1000, xp.asarray(0, dtype=xp.int8)]) == 2000
    x[index] = 0
    assert [int(x[-1]), int(x[5]), int(x[4])] == [0, 0, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_singular_matrices_raise(dtype: str) -> None:
    regular = xp.asarray([[2.0, 1.0], [1.0, 3.0]], dtype=getattr(xp, dtype))
    singular = xp.asarray([[1.0, 2.0], [2.0, 4.0]], dtype=getattr(xp, dtype))
    for x in (singular, xp.stack([regular, singular])):
        with pytest.raises(ValueError, match="^inv: x has a singular matrix"):
            xp.linalg.inv(x)
        with pytest.raises(ValueError, match="^solve: x1 has a singular matrix"):
            xp.linalg.solve(x, regular)
        with pytest.raises(ValueError, match="^matrix_power: x has a singular matrix"):
            xp.linalg.matrix_power(x, -1)
        with pytest.raises(ValueError, match="^cholesky: x has a matrix that is not positive"):
            xp.linalg.cholesky(x - 3 * xp.eye(2, dtype=x.dtype))
    np.testing.assert_allclose(
        xp.linalg.inv(regular).unwrap(), [[0.6, -0.2], [-0.2, 0.4]], rtol=1e-6
    )
    assert np.isnan(xp.linalg.inv(xp.asarray([[NAN, 1.0], [1.0, 1.0]])).unwrap()).any()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_singular_vectors_of_infinite_elements_are_nan_in_traced_code(dtype: str) -> None:
    # LAPACK never ends to look for them.
    values = np.stack([np.eye(3), np.full((3, 3), 2.0)]).astype(dtype)
    values[1, :2, 0] = np.inf
    for name in ("svd", "pinv"):
        function = getattr(xp.linalg, name)
        with pytest.raises(ValueError, match=f"^{name}: x holds NaN or infinities"):
            function(xp.asarray(values))
        traced = jax.jit(lambda x, function=function: native(function(corepy.to(x))))
        for found in map(np.asarray, traced(xp.asarray(values).unwrap())):
            assert np.isfinite(found[0]).all()
            assert np.isnan(found[1]).all()


def native(found: Any) -> Any:
    return [x.unwrap() for x in (found if isinstance(found, tuple) else [found])]


def test_dtypes_outside_the_standard_are_refused() -> None:
    with pytest.raises(TypeError, match="^asarray: obj: its dtype is jax's bfloat16; expected"):
        xp.asarray(jnp.ones(2, dtype=jnp.bfloat16))
    with pytest.raises(TypeError, match="^asarray: obj: its dtype is jax's key<"):
        xp.asarray(jax.random.key(0))


# ---------------------------------------------------------------------------- indexing


@pytest.mark.parametrize(
    "key",
    [
        (0,),
        (-1, 2),
        (Ellipsis, 1),
        (slice(None), 1),
        (None, 0, Ellipsis, None),
        (slice(1, None),),
        (slice(None), slice(-3, -1)),
        (slice(2, 9), None, slice(1, 2), Ellipsis),
        (1, slice(1, 4)),
        (Ellipsis, slice(1, 3)),
        (slice(2, 1),),
        (slice(3, None), slice(5, 7)),
        (slice(2, 0, -1),),
        (slice(-9, None, -1),),
        (slice(None, None, -1), slice(1, 4, 2)),
        (slice(1, None), slice(None, None, 2), slice(1, 3)),
        (slice(1, None), np.asarray([2, 0])),
        (np.asarray([2, 0]), slice(1, 3), np.asarray([1, 3])),
        (np.asarray([2, 0]),),
        (np.asarray([[2, 0], [1, -1]]), 1),
        (np.asarray([2, 0]), slice(None), np.asarray([1, 3])),
        (slice(None), np.asarray([4, 4])),
        (0, slice(None), np.asarray([1, 0])),
        (np.asarray([1, 0]), None, 2),
        (np.asarray([True, False, True]),),
        (slice(None), np.asarray([True, False, True, False, True])),
    ],
)
def test_keys_read_and_write_as_numpy_does(key: tuple[Any, ...]) -> None:
    values = np.arange(60.0).reshape(3, 5, 4)
    x = xp.asarray(values)
    native = tuple(xp.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
    np.testing.assert_array_equal(x[native].unwrap(), values[key])
    value = np.arange(4.0)[: values[key].shape[-1]] if values[key].shape else np.asarray(7.0)
    for written in (np.asarray(-1.0), value):
        if written.shape and written.shape != values[key].shape[-1:]:
            continue
        expected = values.copy()
        expected[key] = written
        x = xp.asarray(values)
        x[native] = xp.asarray(written)
        np.testing.assert_array_equal(x.unwrap(), expected)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize(
    "key",
    [
        lambda mask: (0, None, mask),
        lambda mask: (slice(0, 2), mask, None, 1),
        lambda mask: (mask, slice(None), mask, np.asarray([3])),
        lambda mask: (np.asarray([False, True, False]), ..., mask),
    ],
)
def test_a_mask_without_dimensions_where_numpy_cannot_look(
    key: Callable[[Any], Any], flag: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_values, "is_known", lambda x: not isinstance(x, jax.Array))  # as on GPUs
    values = np.arange(12.0).reshape(3, 4)
    x, wanted = xp.asarray(values.tolist()), key(np.asarray(flag))
    ours = tuple(xp.asarray(p.tolist()) if isinstance(p, np.ndarray) else p for p in wanted)
    chosen = values[wanted]
    assert x[ours].shape == chosen.shape
    assert np.array_equal(x[ours], chosen)
    values[wanted] = x[ours] = 50.0
    assert np.array_equal(x, values)


def test_derivatives_pass_through_slices() -> None:
    def read(native: Any) -> Any:
        return xp.sum(xp.asarray(native)[::-1][1:] * 2.0).unwrap()

    def written(native: Any) -> Any:
        x = xp.asarray(native)
        y = x[::-1] * 3.0
        y[1:3] = x[:2] * 2.0
        y[0] = x[3:][-1]
        return xp.sum(y[:-1]).unwrap()

    x = xp.asarray(np.arange(5.0)).unwrap()
    for grad in (jax.grad, lambda f: jax.grad(jax.jit(f)), lambda f: jax.jit(jax.grad(f))):
        assert grad(read)(x).tolist() == [2.0, 2.0, 2.0, 2.0, 0.0]
        with _values.wide(True):  # JAX's own rules for integers and writes want it
            assert grad(written)(x).tolist() == [2.0, 5.0, 0.0, 0.0, 1.0]


def test_what_depends_on_values_is_not_compiled() -> None:
    programs: list[str] = []

    def note(event: str, duration: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            programs.append(event)

    values = np.asarray([3.0, -0.0, math.nan, 0.0, 3.0, -2.0, math.nan])
    x = xp.asarray(values)
    mask, table = x > 0.0, xp.reshape(x[:6], (2, 3))
    few = xp.asarray([7.0, 8.0])
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        selected, places = x[mask], xp.nonzero(mask)[0]
        rows = table[xp.asarray([False, True]), :]
        y = xp.asarray(values)
        y[mask] = few
        unique = xp.unique_all(x)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert programs == []
    assert all(isinstance(each.unwrap(), jax.Array) for each in (selected, places, rows, *unique))
    assert (selected.tolist(), places.tolist()) == ([3.0, 3.0], [0, 4])
    np.testing.assert_array_equal(rows.unwrap(), [[0.0, 3.0, -2.0]])
    np.testing.assert_array_equal(y.unwrap(), [7.0, -0.0, math.nan, 0.0, 8.0, -2.0, math.nan])
    assert x[0].tolist() == 3.0
    np.testing.assert_array_equal(unique.values.unwrap(), [-2.0, 0.0, 3.0, math.nan, math.nan])
    assert unique.counts.tolist() == [1, 2, 2, 1, 1]
    assert {places.dtype, unique.indices.dtype} == {xp.int64}


def test_memory_of_the_host_goes_by_dlpack_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = np.ones(3)
    assert _values.is_taken(small)
    assert not _values.is_taken(np.ones(1 << 16))
    assert not _values.is_taken(small.astype(">f8"))
    cpu, gpu = jax.local_devices()[0], type("Place", (), {"platform": "gpu"})()
    for places in ([gpu], [cpu, cpu], [cpu, gpu]):
        monkeypatch.setattr(jax, "local_devices", lambda found=places, **_: found)
        assert not _values.is_taken(small)


def test_what_depends_on_values_has_none_while_jax_traces() -> None:
    for function in (xp.unique_values, lambda x: xp.nonzero(x)[0], lambda x: x[x > 0.0]):
        with pytest.raises((TypeError, IndexError), match="racer|concrete"):
            jax.jit(function)(jnp.arange(3.0))


def test_slices_of_one_length_share_a_program() -> None:
    x = xp.arange(64)
    assert x[1:5].tolist() == [1, 2, 3, 4]
    compiled = _indexing._select._cache_size()
    others = [x[start : start + 4] for start in range(2, 60)]
    assert _indexing._select._cache_size() == compiled
    assert [other.tolist()[0] for other in others] == [*range(2, 60)]


def test_writing_makes_a_new_array_and_leaves_the_old() -> None:
    x = xp.zeros(3)
    before = x.unwrap()
    y = x[...]
    x[1] = 5.0
    x += 1.0
    assert x.tolist() == [1.0, 6.0, 1.0]
    assert before.tolist() == [0.0, 0.0, 0.0]
    assert y.tolist() == [0.0, 0.0, 0.0]
    with corepy.strict():
        x[0] = 2.0  # immutable memory is no read-only memory: nothing is copied for the write
    assert x.tolist() == [2.0, 6.0, 1.0]


def test_a_mask_fills_and_assigns() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    x[x > 3] = 0
    assert x.tolist() == [[0, 1, 2], [3, 0, 0]]
    x[xp.asarray([False, True])] = 9
    assert x.tolist() == [[0, 1, 2], [9, 9, 9]]
    x[x == 9] = xp.asarray([4, 5, 6])
    assert x.tolist() == [[0, 1, 2], [4, 5, 6]]


def test_an_empty_mask_selects_nothing() -> None:
    x = xp.ones((2, 3))
    assert x[xp.ones((0,), dtype=xp.bool)].shape == (0, 3)
    assert x[xp.ones((0, 3), dtype=xp.bool)].shape == (0,)
    assert x[:, xp.ones((0,), dtype=xp.bool)].shape == (2, 0)
    x[xp.ones((0,), dtype=xp.bool)] = 5.0
    assert x.tolist() == [[1.0] * 3] * 2


def test_many_elements_are_looked_for_among_many() -> None:
    """JAX compares all pairs, and takes memory for that: here 40 GB."""
    elements, among = np.arange(300_000) % 1013, np.arange(0, 280_000, 2)
    x, y = xp.asarray(elements), xp.asarray(among)
    np.testing.assert_array_equal(np.asarray(xp.isin(x, y)), elements % 2 == 0)
    np.testing.assert_array_equal(np.asarray(xp.isin(x, y, invert=True)), elements % 2 == 1)
    nothing = xp.asarray([float("nan"), 2.0, -0.0])
    for count in (4, 400):
        others = xp.concat([xp.asarray([float("nan")]), xp.arange(count, dtype=xp.float64)])
        assert xp.isin(nothing, others).tolist() == [False, True, True]


def test_positions_are_64_bits() -> None:
    x = xp.asarray([1.0, 2.0])
    found = xp.searchsorted(x, x)
    assert found.unwrap().dtype == np.int64
    assert found.tolist() == [0, 1]


# ---------------------------------------------------------------------------- traced code


@pytest.mark.parametrize("wide", [False, True])
def test_jit(wide: bool) -> None:
    def normalized(a: Any) -> Any:
        x = xp.asarray(a)
        x = (x - xp.mean(x, axis=0)) / (xp.std(x, axis=0) + 1e-3)
        x[x > 1.0] = 1.0
        x[0, 0] = 5.0
        return xp.where(x < 0, xp.exp(x), x).unwrap()

    values = np.random.default_rng(0).random((6, 3))
    with jax.enable_x64(wide):
        native = jnp.asarray(values)
        compiled = jax.jit(normalized)(native)
        plain = normalized(native)
        assert compiled.dtype == native.dtype
    np.testing.assert_allclose(compiled, plain, rtol=1e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (None, True), (1, False), (0, True)])
def test_positions_in_traced_code_of_32_bits(name: str, axis: int | None, keepdims: bool) -> None:
    def position(a: Any) -> Any:
        return getattr(xp, name)(a, axis=axis, keepdims=keepdims).unwrap()

    values = np.asarray([[3.0, 1.0, 9.0], [7.0, 0.0, 2.0]])
    with jax.enable_x64(False):
        found = jax.jit(position)(jnp.asarray(values))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, getattr(np, name)(values, axis, keepdims=keepdims))


def test_float64_in_traced_code_of_32_bits() -> None:
    def tiny(a: Any) -> Any:
        return (xp.astype(xp.asarray(a), xp.float64) + 1e-12).unwrap()

    with jax.enable_x64(False):
        found = jax.jit(tiny)(jnp.ones(2))
    assert found.dtype == np.float64
    assert found.tolist() == [1 + 1e-12] * 2


def test_grad_and_vmap() -> None:
    def energy(a: Any) -> Any:
        x = xp.asarray(a)
        return xp.sum(xp.sqrt(x * x + 1.0)).unwrap()

    values = jnp.asarray([0.0, 1.0, -2.0], dtype="float32")
    expected = np.asarray(values) / np.sqrt(np.asarray(values) ** 2 + 1)
    np.testing.assert_allclose(jax.grad(energy)(values), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(energy))(values), expected, rtol=1e-6)
    rows = jnp.stack([values, 2 * values])
    np.testing.assert_allclose(jax.vmap(energy)(rows), [energy(row) for row in rows], rtol=1e-6)


def test_traces_pass_beside_arrays_and_scalars_of_numpys() -> None:
    def weighted(a: Any) -> Any:
        x = xp.asarray(a)
        return xp.sum(np.float32(3) * x + np.asarray([1, 2], np.float32) * x).unwrap()

    for gradient in (jax.grad(weighted), jax.jit(jax.grad(weighted))):
        assert gradient(jnp.ones(2, "float32")).tolist() == [4.0, 5.0]


def test_what_needs_values_says_so_in_traced_code() -> None:
    def mask(a: Any) -> Any:
        return xp.asarray(a)[xp.asarray(a) > 0].unwrap()

    def branch(a: Any) -> Any:
        return 1 if bool(xp.any(xp.asarray(a) > 0)) else 0

    def values(a: Any) -> Any:
        return np.asarray(xp.asarray(a))

    x = jnp.ones(3)
    with pytest.raises(IndexError, match="must be concrete"):
        jax.jit(mask)(x)
    with pytest.raises(TypeError, match="traced array"):
        jax.jit(branch)(x)
    with pytest.raises(TypeError, match="traced array"):
        jax.jit(values)(x)
    with pytest.raises(BufferError, match="^__dlpack.*: jax on cpu exports no DLPack"):
        jax.jit(lambda a: np.from_dlpack(xp.asarray(a)))(x)
    with pytest.raises(TypeError, match="^unique_values: .*traced array"):
        jax.jit(lambda a: xp.unique_values(a).unwrap())(x)


def test_what_cannot_be_told_in_traced_code() -> None:
    x, i = jnp.arange(3), jnp.asarray(7)
    taken = jax.jit(lambda x, i: xp.take(x, xp.asarray(i)[None]).unwrap())(x, i)
    assert taken.shape == (1,)
    divided = jax.jit(lambda x: (xp.asarray(x) // xp.asarray(x)).unwrap())(x)
    assert divided.tolist()[1:] == [1, 1]
    with pytest.raises(IndexError, match="index 3 is out of bounds"):  # a plain integer is known
        jax.jit(lambda x: xp.asarray(x)[3].unwrap())(x)
