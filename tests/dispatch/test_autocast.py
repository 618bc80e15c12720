"""Products with operands rounded to 16 bits, on every backend; and whether TF32 is allowed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import corepy
from corepy._dtypes import ANY, float32, float64
from corepy.backends._rounding import rounded as rounding
from corepy.dispatch import _table, _tf32
from corepy.dispatch._autocast import applied
from corepy.dispatch._settings import AUTOCAST
from corepy.testing import FakeBackend
from tests.conftest import required
from tests.dispatch.fake import registered

LOW = ("bfloat16", "float16")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Leave the process as if nobody had ever asked."""
    yield
    AUTOCAST.prepared = AUTOCAST.touched = False
    _table.forget_entries()


def rounded(values: Any, low: str) -> Any:
    """Round to the nearest 16-bit number by arithmetic in float64, of two to the even one."""
    bits, least, most = {"bfloat16": (8, -133, 2.0**128), "float16": (11, -24, 65520.0)}[low]
    x = np.asarray(values, dtype=np.float64)
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 1.0))
    unit = np.exp2(np.maximum(exponent - bits, least).astype(float))
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.where(np.isfinite(x), np.rint(x / unit) * unit, x)
    return np.where(np.abs(found) >= most, np.copysign(np.inf, x), found).astype(np.float32)


def test_the_oracle_is_numpys_float16() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 4096, dtype=np.uint32)
    values = np.concatenate([bits.view(np.float32), np.linspace(-7e4, 7e4, 999, dtype=np.float32)])
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(
            rounded(values, "float16"), values.astype(np.float16).astype(np.float32)
        )


def operands() -> Any:
    """Return numbers of every size, and those on which rounding is got wrong."""
    rng = np.random.default_rng(1)
    ordinary = rng.standard_normal(64).astype(np.float32)
    ties = (1 + np.arange(1, 64) * 2.0**-9).astype(np.float32)
    ties = np.concatenate([ties, (1 + np.arange(1, 64) * 2.0**-12).astype(np.float32)])
    big = np.asarray([65503, 65504, 65519.996, 65520, 1e30, 3.3e38, 3.4028235e38], np.float32)
    small = np.asarray([6.2e-5, 6.1e-5, 1e-6, 6e-8, 3.1e-8, 2.9e-8, 1e-30], np.float32)
    return np.concatenate([ordinary, ties, big, small, -big, -small, [0.0, np.inf, -np.inf]])


def made_of(xp: Any, values: Any) -> Any:
    """Return an array on the device of the backend under test, where NumPy's would stay here."""
    return xp.asarray(values.tolist(), dtype=xp.float32)


@pytest.mark.parametrize("low", LOW)
def test_operands_are_rounded_to_the_nearest(xp: Any, low: Any) -> None:
    values = operands().astype(np.float32)[:, None]
    x = made_of(xp, values)
    one = xp.ones((1, 1), dtype=xp.float32)
    with corepy.autocast(low):
        products = [xp.vecdot(x, one), (x @ one)[:, 0], xp.tensordot(x, one, axes=1)[:, 0]]
        products += [xp.linalg.matmul(x, one)[:, 0]]
    wanted = rounded(values[:, 0], low)
    for found in products:
        assert found.dtype is xp.float32
        np.testing.assert_array_equal(np.asarray(found), wanted)
    np.testing.assert_array_equal(np.asarray(x), values)  # the operand is as it was


def test_nan_stays_nan(xp: Any) -> None:
    bits = np.asarray([0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x7F80FFFF], np.uint32)
    assert np.isnan(rounding(np, bits.view(np.float32), "bfloat16")).all()
    x = made_of(xp, np.full((3, 1), np.nan))
    for low in LOW:
        with corepy.autocast(low):  # type: ignore[arg-type]
            assert bool(xp.all(xp.isnan(x @ xp.ones((1, 1), dtype=xp.float32))))


@pytest.mark.parametrize("low", LOW)
def test_sums_are_float32(xp: Any, low: Any) -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((2, 5, 300)).astype(np.float32)
    b = rng.standard_normal((300, 7)).astype(np.float32)
    x, y = made_of(xp, a), made_of(xp, b)
    with corepy.autocast(low):
        found = [x @ y, xp.tensordot(x, y, axes=([2], [0])), xp.vecdot(x, y[:, 0])]
    p, q = rounded(a, low).astype(float), rounded(b, low).astype(float)
    wanted = [p @ q, p @ q, p @ q[:, 0]]
    size = np.abs(p) @ np.abs(q)
    for made, right, scale in zip(found, wanted, (size, size, size[..., 0]), strict=True):
        assert made.dtype is xp.float32
        error = np.abs(np.asarray(made) - right) / scale
        assert error.max() < 16 * 2.0**-24  # of 16-bit sums it would be 2**-9 or so
    assert np.abs(np.asarray(x @ y) - a.astype(float) @ b).max() < 1e-4  # and no more outside


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
def test_other_dtypes_and_operations_are_as_ever(xp: Any, dtype: str) -> None:
    x = xp.asarray([[1.001, 2.003], [3.005, 4.007]])
    x = xp.astype(x, getattr(xp, dtype))
    narrow = xp.asarray([[1.001, 2.003], [3.005, 4.007]], dtype=xp.float32)

    def results() -> list[Any]:
        made = (x @ x, narrow + narrow, narrow @ xp.astype(narrow, xp.float64))
        return [np.asarray(y) for y in made]

    before = results()
    with corepy.autocast("bfloat16"):
        after = results()
    for one, other in zip(before, after, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_it_holds_where_it_was_asked_for() -> None:
    import corepy.array_api as xp

    x = xp.asarray([[1.001]], dtype=xp.float32)
    exact, low = float((x @ x)[0, 0]), 1.0
    assert (corepy.get_autocast(), exact != low) == (None, True)
    found: dict[str, float] = {}
    with corepy.autocast("bfloat16"):
        thread = threading.Thread(target=lambda: found.update(other=float((x @ x)[0, 0])))
        with corepy.autocast("float16"):
            assert corepy.get_autocast() == "float16"
            assert float((x @ x)[0, 0]) not in (exact, low)
        with corepy.autocast(None):
            assert float((x @ x)[0, 0]) == exact
        assert float((x @ x)[0, 0]) == low
        thread.start()
        thread.join()
    assert found == {"other": low}  # what the main thread sets is the process's default
    assert float((x @ x)[0, 0]) == exact
    for wrong, kind in (("float32", ValueError), ("bf16", ValueError), (True, TypeError)):
        with pytest.raises(kind, match='^autocast: dtype is .*; expected "bfloat16"'):
            corepy.autocast(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [3, 50_000])
def test_products_beside_rounded_ones_are_as_ever(rows: int) -> None:
    import corepy.array_api as xp

    rng = np.random.default_rng(3)
    a, b = rng.random((rows, 7), np.float32), rng.random((7, 5), np.float32)
    x, y = (xp.asarray(values, device="cpu") for values in (a, b))
    calls = (
        lambda: x @ y,
        lambda: xp.matmul(x, y),
        lambda: xp.linalg.matmul(x, y),
        lambda: xp.tensordot(x, y, axes=1),
        lambda: xp.vecdot(x, x),
        lambda: xp.vecdot(x[:, 0], x[:, 1]),
        lambda: x @ y[:, 0],
        lambda: x.T @ x[:, 0],
    )
    before = [np.asarray(call()) for call in calls]
    p, q = rounded(a, "bfloat16").astype(float), rounded(b, "bfloat16").astype(float)
    wanted = [p @ q] * 4 + [(p * p).sum(-1), p[:, 0] @ p[:, 1], p @ q[:, 0], p.T @ p[:, 0]]
    for _ in range(3):  # in the same tables, again and again
        with corepy.autocast("bfloat16"):
            for call, low in zip(calls, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(call()), low, 2e-5)
        for call, exact in zip(calls, before, strict=True):
            np.testing.assert_array_equal(np.asarray(call()), exact)


def test_explain_tells() -> None:
    import corepy.array_api as xp

    x = xp.ones((2, 2), dtype=xp.float32)
    with corepy.autocast("float16"):
        (record,) = corepy.explain(lambda: x @ x).records
    assert record.reason.endswith("; autocast: operands rounded to float16")


def test_a_device_that_cannot_round_says_so() -> None:
    import corepy.array_api as xp

    class Plain(FakeBackend):
        rounded = corepy.Backend.rounded

    with registered(Plain(devices={"fake:0": ANY})):
        x = xp.ones((2, 2), dtype=xp.float32, device="fake:0")
        with (
            corepy.autocast("float16"),
            pytest.raises(NotImplementedError, match="autocast: fake on fake:0 does not round to"),
        ):
            x @ x


class Counting(FakeBackend):
    """A library that multiplies 16-bit numbers by itself where it is told so."""

    own = False

    def __init__(self) -> None:
        super().__init__(devices={"fake:0": ANY})
        self.counts = {"asked": 0, "rounded": 0, "own": 0}

    def autocast(self, operation: str, dtype: str) -> Any:
        self.counts["asked"] += 1
        return self.product if self.own else None

    def product(self, x1: Any, x2: Any) -> Any:
        self.counts["own"] += 1
        return self.operation("matmul")(x1, x2)  # type: ignore[misc]

    def rounded(self, native: Any, dtype: str) -> Any:
        self.counts["rounded"] += 1
        return super().rounded(native, dtype)


@pytest.mark.parametrize("own", [False, True])
def test_an_operand_is_rounded_once_and_a_library_asked_once(own: bool) -> None:
    import corepy.array_api as xp

    backend = Counting()
    backend.own = own
    with registered(backend), corepy.autocast("bfloat16"):
        x, y = (xp.full((2, 2), value, dtype=xp.float32, device="fake:0") for value in (1.001, 2))
        for made, count in ((lambda: x @ x, 1), (lambda: x @ y, 3), (lambda: y @ y, 4)):
            made()
            expected = {"asked": 1, "rounded": 0, "own": backend.counts["own"]}
            assert backend.counts == ({**expected} if own else {**expected, "rounded": count})
        assert backend.counts["own"] == (3 if own else 0)
        with corepy.autocast("float16"):
            x @ x
    assert backend.counts["asked"] == 2


def test_nothing_stands_before_what_is_no_such_product() -> None:
    def native(*args: Any) -> None:
        """Compute nothing."""

    backend = corepy.dispatch.load("numpy")
    places: Any = [("matmul", float32), ("add", float32), ("matmul", float64)]
    assert all(applied(native, name, backend, dtype) is native for name, dtype in places)
    AUTOCAST.touch()
    found = [applied(native, name, backend, dtype) is native for name, dtype in places]
    assert found == [False, True, True]


@pytest.mark.backend("torch")
def test_gradients_pass_through() -> None:
    torch = required("torch")
    import corepy.array_api as xp

    x = torch.full((2, 2), 1.001, requires_grad=True)
    with corepy.autocast("bfloat16"):
        y = xp.asarray(x) @ xp.asarray(x)
    y.unwrap().sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 2), 4.0))


@pytest.mark.backend("jax")
def test_traced_products_round_too() -> None:
    jax = required("jax")
    import corepy.array_api as xp

    x = jax.numpy.full((2, 2), 1.001, dtype="float32")
    with corepy.autocast("bfloat16"):
        found = jax.jit(lambda a: (xp.asarray(a) @ xp.asarray(a)).unwrap())(x)
    assert (found.dtype.name, found.tolist()) == ("float32", [[2.0, 2.0]] * 2)


# ---------------------------------------------------------------------------- TF32


@pytest.fixture
def _as_before() -> Iterator[None]:
    yield
    corepy.enable_tf32(False)
    _tf32._allowed = None
    _tf32._unmoved.clear()


@pytest.mark.usefixtures("_as_before")
def test_backends_are_told_about_tf32() -> None:
    class Told(FakeBackend):
        said: Any = "nothing"

        def allow_tf32(self, allowed: bool) -> str | None:
            self.said = allowed
            return "it was compiled without" if allowed else None

    first = Told()
    with registered(first):
        corepy.dispatch.load("fake")
        assert (corepy.get_tf32(), first.said) == (False, "nothing")
        assert corepy.enable_tf32() == {"fake": "it was compiled without"}
        assert (corepy.get_tf32(), first.said) == (True, True)
        assert corepy.enable_tf32(False) == {}
        assert (corepy.get_tf32(), first.said) == (False, False)
        corepy.enable_tf32(True)
    later = Told()
    with registered(later):
        corepy.dispatch.load("fake")
        assert later.said is True
    with pytest.raises(TypeError, match="^enable_tf32: on is of type int; expected a bool"):
        corepy.enable_tf32(1)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_as_before")
@pytest.mark.backend("torch")
def test_torch_is_told_about_tf32() -> None:
    torch = required("torch")
    corepy.dispatch.load("torch")
    flags = torch.backends.cuda.matmul
    assert flags.allow_tf32 is False
    corepy.enable_tf32(True)
    assert flags.allow_tf32 is True
    corepy.enable_tf32(False)
    assert flags.allow_tf32 is False


@pytest.mark.usefixtures("_as_before")
@pytest.mark.backend("torch")
def test_convolutions_obey_however_cudnn_is_set() -> None:
    torch = required("torch")
    from corepy.kernels.convolutions.torch import _tf32 as setting

    cudnn = torch.backends.cudnn
    for allowed in (False, True):
        corepy.enable_tf32(allowed)
        with cudnn.flags(allow_tf32=not allowed):
            with setting("cuda"):
                assert cudnn.allow_tf32 is allowed
            assert cudnn.allow_tf32 is not allowed


@pytest.mark.usefixtures("_as_before")
@pytest.mark.backend("jax")
def test_jax_multiplies_float32_in_full_until_told(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = required("jax")
    import corepy.array_api as xp
    from corepy.devices._device import as_device

    backend = corepy.dispatch.load("jax")
    x = jax.numpy.ones((2, 2), dtype="float32")

    def product() -> str:
        made = jax.make_jaxpr(lambda a: (xp.asarray(a) @ xp.asarray(a)).unwrap())(x)
        return str(made)

    assert "HIGHEST" in product()
    corepy.enable_tf32(True)
    assert "HIGHEST" in product()  # no GPU is here
    monkeypatch.setattr(type(backend), "devices", lambda self: (as_device("cuda:0"),))
    corepy.enable_tf32(True)
    assert "HIGHEST" not in product()
    corepy.enable_tf32(False)
    assert "HIGHEST" in product()


@pytest.mark.backend("mlx")
def test_mlx_is_held_to_float32() -> None:
    import os

    required("mlx.core")
    corepy.dispatch.load("mlx")
    assert os.environ["MLX_ENABLE_TF32"] == "0"


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(((4, 5), (5, 3)), ((2, 4, 5), (5, 3)), ((2, 4, 5), (2, 5, 3))),
        *(((2, 6, 4, 5), (2, 6, 5, 3)), ((2, 0, 4, 5), (2, 0, 5, 3)), ((3, 4, 0), (3, 0, 2))),
    ],
)
def test_torchs_sums_of_matrices_and_batches(
    monkeypatch: pytest.MonkeyPatch, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    import torch

    from corepy.backends.torch._backend import _sums

    def widely(function: Any) -> Any:  # only on CUDA torch does so
        return lambda a, b, *, out_dtype: function(a.to(out_dtype), b.to(out_dtype))

    for name in ("mm", "bmm"):
        monkeypatch.setattr(torch, name, widely(getattr(torch, name)))
    draw = np.random.default_rng(0)
    a, b = (torch.from_numpy(draw.random(shape)).to(torch.bfloat16) for shape in (first, second))
    made = _sums(a, b)
    assert made is not None
    assert made.dtype is torch.float32
    torch.testing.assert_close(made, a.float() @ b.float())
    for other in (b[..., 0], b[:, None]):
        if other.ndim != 2 and a.shape[:-2] != other.shape[:-2]:
            assert _sums(a, other) is None


@pytest.mark.gpu
@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("name", ["torch", "jax", "cupy"])
def test_float32_products_on_a_gpu_are_float32(name: str) -> None:
    import corepy.array_api as xp

    backend = corepy.dispatch.load(name)
    places = [place for place in backend.devices() if place.kind in ("cuda", "rocm")]
    if not places:
        pytest.skip(f"{name} serves no GPU here")
    values = np.random.default_rng(0).random((512, 512), np.float32)
    wanted = values.astype(float) @ values
    size = wanted.max()

    def error() -> float:
        x = corepy.to(values, backend=name, device=places[0])
        return float(np.abs(np.asarray(xp.asarray(x @ x, device="cpu")) - wanted).max() / size)

    assert error() < 2e-6
    corepy.enable_tf32(True)
    assert error() < 2e-3
    corepy.enable_tf32(False)
    assert error() < 2e-6
    x = corepy.to(values, backend=name, device=places[0])
    with corepy.autocast("bfloat16"):
        found = np.asarray(xp.asarray(x @ x, device="cpu"))
        batch = xp.reshape(x, (2, 256, 512))
        pair = np.asarray(xp.asarray(batch @ xp.matrix_transpose(batch), device="cpu"))
    low = rounded(values, "bfloat16").astype(float)
    assert np.abs(found - low @ low).max() / size < 2e-6
    half = low.reshape(2, 256, 512)
    assert np.abs(pair - half @ half.transpose(0, 2, 1)).max() / size < 2e-6
