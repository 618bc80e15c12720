"""Arrays of corepy beside those of its libraries, subclasses, and arrays that share memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.conftest import required
from tests.kernels import libraries
from tests.kernels.libraries import Kind, host, kinds, select

mixed = pytest.mark.parametrize("kind", kinds("numpy", "torch", "jax"))
#: The same values in an array of the library itself, and in one of corepy.
Makers = tuple[Callable[[Any], Any], Callable[[Any], Any]]


@pytest.fixture
def makers(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Makers:
    select(monkeypatch, kind)

    def wrapped(values: Any) -> Any:
        return corepy.to(np.asarray(values, "f4"), backend=kind.library, copy=True)

    return lambda values: kind.array(np.array(values, "f4")), wrapped


def is_fixed(x: Any) -> bool:
    return type(x).__module__.startswith("jax")


@mixed
def test_results_go_into_arrays_of_either_kind(kind: Kind, makers: Makers) -> None:
    values = np.linspace(-2, 2, 6).reshape(2, 3)
    for make, make_out in itertools.product(makers, makers):
        out = make_out(np.zeros((2, 3)))
        if is_fixed(out):
            with pytest.raises(TypeError, match="out is of type .*; expected None, for arrays of"):
                kernels.silu(make(values), out=out)
            continue
        assert kernels.silu(make(values), out=out) is out
        np.testing.assert_allclose(host(out), libraries.silu(values), rtol=1e-6)
        pair = make_out(np.zeros((2, 3))), makers[1](np.zeros((2, 3)))
        assert kernels.rms_norm(make(values), None, 0.5, residual=make(values), out=pair) == pair
        np.testing.assert_array_equal(host(pair[1]), host(makers[0](2 * values)))


@mixed
def test_a_step_changes_arrays_of_either_kind(kind: Kind, makers: Makers) -> None:
    expected = kernels.adam_step(*(np.full(4, n, "f8") for n in (1.0, 2.0, 0.5, 0.25)), step=2)
    for p, g, m, v in itertools.product(makers, repeat=4):
        arrays = p(np.full(4, 1.0)), g(np.full(4, 2.0)), m(np.full(4, 0.5)), v(np.full(4, 0.25))
        found = kernels.adam_step(*arrays, step=2)
        old = arrays[0], *arrays[2:]
        for n, (x, before, exact) in enumerate(zip(found, old, expected, strict=True)):
            assert type(x) is type(before)
            assert (x is before) is not is_fixed(before)
            np.testing.assert_allclose(host(x), exact, rtol=1e-6)
            if is_fixed(before):
                np.testing.assert_array_equal(host(before), (1.0, 0.5, 0.25)[n])


@mixed
def test_caches_keep_arrays_of_either_kind(kind: Kind, makers: Makers) -> None:
    values = np.arange(6.0).reshape(1, 1, 3, 2)
    for make, like in itertools.product(makers, makers):
        model = like(np.zeros(1))
        cache = kernels.KVCache(1, 1, 4, 2, like=model)
        cache.append(make(values), make(values))
        assert type(cache.keys) is type(model)
        np.testing.assert_array_equal(host(cache.keys), values)
        paged = kernels.PagedKVCache(1, 1, 2, 2, 2, like=model)
        paged.append(make(values), make(values))
        found = paged.attend(make(values))
        assert type(found) is type(make(values))
        np.testing.assert_allclose(host(found), host(cache.attend(make(values))), rtol=1e-6)


@pytest.mark.backend("torch")
def test_caches_keep_no_gradients() -> None:
    import torch

    x = torch.ones((1, 1, 2, 2), requires_grad=True)
    for like in (torch.ones(1), corepy.to(np.ones(1, "f4"), backend="torch")):
        for k in (x, corepy.array_api.asarray(x)):
            cache = kernels.KVCache(1, 1, 2, 2, like=like)
            cache.append(k, k)
            keys = cache.keys
            assert not (keys if isinstance(keys, torch.Tensor) else keys.unwrap()).requires_grad
            np.testing.assert_array_equal(host(keys), 1.0)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", kinds("numpy"))
def test_a_matrix_is_an_array(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    values = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    x = np.matrix(values)
    for call in (
        kernels.silu,
        lambda a: kernels.swiglu(a, a),
        lambda a: kernels.softmax(a, -1),
        lambda a: kernels.rms_norm(a, None, 0.5),
    ):
        found = call(x)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, call(values))
    assert kernels.silu(values, out=x) is x
    np.testing.assert_array_equal(x, kernels.silu(values))


# ---------------------------------------------------------------------------- memory in common


def rows_of(kind: Kind, *spans: tuple[int, int]) -> list[Any]:
    """Return parts of one array."""
    whole = kind.array(np.zeros(100), "float32")
    return [whole[start:stop] for start, stop in spans]


@pytest.mark.parametrize("kind", [*kinds("numpy", "torch", "array"), *libraries.device_kinds()])
@pytest.mark.parametrize("spans", [((0, 40), (0, 40)), ((0, 40), (20, 60))])
def test_two_results_have_memory_each(
    kind: Kind, spans: tuple[tuple[int, int], tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    select(monkeypatch, kind)
    x = kind.array(np.ones(40), "float32")
    one, other = rows_of(kind, *spans)
    with pytest.raises(ValueError, match=r"rms_norm: out\[1\] has memory of out\[0\]; expected an"):
        kernels.rms_norm(x, None, 0.0, residual=x, out=(one, other))
    with pytest.raises(ValueError, match="adam_step: second_moment has memory of first_moment"):
        kernels.adam_step(kind.array(np.ones(40), "float32"), x, one, other, step=1)
    with pytest.raises(ValueError, match="adam_step: gradient has memory of parameter"):
        kernels.adam_step(one, other, *rows_of(kind, (0, 40), (40, 80)), step=1)
    assert not host(one).any()
    one, other = rows_of(kind, (0, 40), (40, 80))  # side by side
    kernels.rms_norm(x, None, 0.0, residual=x, out=(one, other))
    assert host(one).tolist() == [1.0] * 40
    assert host(other).tolist() == [2.0] * 40


@pytest.mark.parametrize("kind", [*kinds("numpy", "torch"), *libraries.device_kinds()])
def test_a_sum_goes_where_the_weight_is(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    # More than devices keep of a row between two looks at it.
    values = np.random.default_rng(0).standard_normal((3, 20_000)).astype("f4")
    x, r = (kind.array(row) for row in values[:2])
    expected = kernels.rms_norm(x, kind.array(values[2]), 0.5, residual=r)
    weight = kind.array(values[2])
    normed, summed = kernels.rms_norm(x, weight, 0.5, residual=r, out=(None, weight))
    assert summed is weight
    np.testing.assert_allclose(host(normed), host(expected[0]), rtol=1e-6)
    np.testing.assert_array_equal(host(summed), host(expected[1]))


@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
def test_rows_go_where_their_positions_are(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    places = np.random.default_rng(0).integers(0, 9, 32)
    cos, sin = kernels.rope_tables(9, 8, like=kind.array(np.zeros(1, "f8")))
    x = kind.array(np.random.default_rng(1).standard_normal((32, 8)))
    expected = kernels.rope(x, cos, sin, positions=kind.array(places))
    memory = kind.array(np.zeros(32 * 8, "i8"))
    positions = memory[:32]
    positions[:] = kind.array(places)
    out = memory.view(x.dtype).reshape(32, 8)
    assert kernels.rope(x, cos, sin, positions=positions, out=out) is out
    np.testing.assert_array_equal(host(out), host(expected))


@pytest.mark.parametrize("kind", kinds("numpy", "torch"))
def test_columns_of_an_array_are_apart(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    columns = kind.array(np.zeros((40, 4)), "float32")
    p, g, m, v = (columns[:, n] for n in range(4))
    g[...] = 1.0
    kernels.adam_step(p, g, m, v, step=1)
    np.testing.assert_allclose(host(columns)[0], [-1e-3, 1.0, 0.1, 1e-3], rtol=1e-5)


@pytest.mark.parametrize("kind", [*kinds("numpy", "torch"), *libraries.device_kinds()])
def test_arrays_with_gaps(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    whole = kind.array(np.zeros(100), "float32")
    g, v = (kind.array(np.full(40, value), "float32") for value in (1.0, 0.0))
    even, odd, later = whole[0:80:2], whole[1:81:2], whole[2:82:2]
    with pytest.raises(ValueError, match="adam_step: first_moment has memory of parameter"):
        kernels.adam_step(even, g, later, v, step=1)
    assert not host(whole).any()
    kernels.adam_step(even, g, odd, v, step=1)
    np.testing.assert_allclose(host(whole)[:80], [-1e-3, 0.1] * 40, rtol=1e-5)


def swapped(values: Any) -> Any:
    return np.asarray(values, ">f4")


def of_a_subclass(values: Any) -> Any:
    torch = required("torch")

    class Mine(torch.Tensor):  # type: ignore[misc]
        """Which kernels do not take."""

    return torch.asarray(values, dtype=torch.float32).as_subclass(Mine)


@pytest.mark.parametrize("made", [swapped, of_a_subclass])
@pytest.mark.parametrize("which", [{1}, {0, 2, 3}, {0, 1, 2, 3}])
def test_what_kernels_do_not_take_is_looked_at_too(made: Any, which: set[int]) -> None:
    plain = np.float32 if made is swapped else required("torch").asarray
    whole = made(np.zeros(60, "f4")) if 0 in which else plain(np.zeros(60, "f4"))
    g, v = (
        made(values) if n in which else plain(values)
        for n, values in ((1, np.ones(40, "f4")), (3, np.zeros(40, "f4")))
    )
    with pytest.raises(ValueError, match="adam_step: first_moment has memory of parameter"):
        kernels.adam_step(whole[:40], g, whole[10:50], v, step=1)
    assert not host(whole).any()


def test_arrays_of_jax_may_be_one() -> None:
    jnp = required("jax.numpy")
    zeros = jnp.zeros(3)
    _, m, v = kernels.adam_step(zeros, jnp.ones(3), zeros, zeros, step=1)
    np.testing.assert_allclose([m[0], v[0]], [0.1, 1e-3], rtol=1e-6)
    moment = corepy.array_api.asarray(zeros)
    with pytest.raises(ValueError, match="second_moment has memory of first_moment"):
        kernels.adam_step(zeros, jnp.ones(3), moment, moment, step=1)
