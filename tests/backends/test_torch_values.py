"""Values of the torch backend where torch has others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from conformance.accuracy import ulps
from tests.backends.arrays import a, pointer
from tests.conftest import required

torch = required("torch")

from torch.autograd import forward_ad  # noqa: E402 (of an extra)
from torch.overrides import TorchFunctionMode  # noqa: E402

pytestmark = pytest.mark.backend("torch")

inf, nan = math.inf, math.nan
PREFERRED = "torch"


# ---------------------------------------------------------------------------- special cases


def same(result: corepy.Array, expected: Any) -> None:
    """Assert equal values, NaN at the same places, and equal signs of zeros, in both parts."""
    values, wanted = np.asarray(result), np.asarray(expected, np.asarray(result).dtype)
    for part in ("real", "imag"):
        got, want = getattr(values, part), getattr(wanted, part)
        np.testing.assert_array_equal(got, want)
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


#: Long enough for torch's vectorised loops, which differ from those for single elements.
LONG = 64


@pytest.mark.parametrize("length", [1, LONG])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("floor_divide", (inf, 2.0), inf),
        ("floor_divide", (-inf, 2.0), -inf),
        ("floor_divide", (1.0, -inf), -0.0),
        ("floor_divide", (-1.0, inf), -0.0),
        ("remainder", (-3.0, 1.0), 0.0),
        ("remainder", (-0.0, 1.0), 0.0),
        ("remainder", (3.0, -1.0), -0.0),
        ("sign", (nan,), nan),
        ("sign", (-2.0,), -1.0),
    ],
)
def test_special_values(
    name: str, operands: tuple[float, ...], expected: float, dtype: str, length: int
) -> None:
    same(getattr(xp, name)(*(a([x] * length, dtype) for x in operands)), [expected] * length)


@pytest.mark.parametrize("length", [1, LONG])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("add", (complex(1, 2), complex(0, inf)), complex(1, inf)),
        ("add", (complex(1, -0.0), complex(1, -0.0)), complex(2, -0.0)),
        ("subtract", (complex(1, 2), complex(0, inf)), complex(1, -inf)),
        ("negative", (complex(0, 0),), complex(-0.0, -0.0)),
        ("round", (complex(0.5, inf),), complex(0, inf)),
        ("expm1", (complex(inf, 0),), complex(inf, 0)),
        ("expm1", (complex(inf, -0.0),), complex(inf, -0.0)),
        ("expm1", (complex(-0.0, 0),), complex(0, 0)),
        ("log1p", (complex(-0.0, 0),), complex(0, 0)),
        ("log1p", (complex(1, inf),), complex(inf, math.pi / 2)),
        ("log1p", (complex(inf, nan),), complex(inf, nan)),
        ("tanh", (complex(inf, 3),), complex(1, 0)),
        ("tanh", (complex(-inf, -3),), complex(-1, -0.0)),
        ("acos", (complex(1, 0),), complex(0, -0.0)),
        ("pow", (complex(0, 0), complex(0, 0)), complex(1, 0)),
        ("sign", (complex(0, 0),), complex(0, 0)),
    ],
)
def test_complex_special_values(
    name: str, operands: tuple[complex, ...], expected: complex, dtype: str, length: int
) -> None:
    same(getattr(xp, name)(*(a([x] * length, dtype) for x in operands)), [expected] * length)


#: Where torch has NaN in both parts on CUDA.
ON_GPUS = {
    "acosh": lambda x: torch.isnan(x.imag) & ~torch.isinf(x.real),
    "log2": lambda x: torch.isinf(x.real) | torch.isinf(x.imag) | (x == 0),
    "tan": lambda x: torch.isfinite(x.imag) & ~torch.isfinite(x.real),
    "tanh": lambda x: torch.isfinite(x.real) & ~torch.isfinite(x.imag),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ON_GPUS)
def test_complex_values_that_gpus_have_not(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corepy.backends.torch import _elementwise

    class Elsewhere(torch.Tensor):
        is_cpu = False

    right = getattr(torch, name)

    def wrong(x: Any) -> Any:
        return torch.where(ON_GPUS[name](x), torch.full_like(x, complex(nan, nan)), right(x))

    parts = [0.0, -0.0, 0.5, 1.0, -2.0, inf, -inf, nan]
    values = np.array([complex(p, q) for p in parts for q in parts], dtype)
    x = torch.from_numpy(values).as_subclass(Elsewhere)
    with monkeypatch.context() as patch:
        patch.setattr(torch, name, wrong)
        found = getattr(_elementwise, name)(x).as_subclass(torch.Tensor).numpy()
    expected = np.asarray(getattr(xp, name)(corepy.to(values, backend="reference")))
    assert found.dtype == expected.dtype
    # The sign beside a NaN is open; the tangent's zeros are C99's, as they are on the host.
    known = ~np.isnan(expected) & ~(np.isinf(values.imag) & (name == "tan"))
    for part in ("real", "imag"):
        got, want = getattr(found, part), getattr(expected, part)
        np.testing.assert_allclose(np.abs(got), np.abs(want), rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize(
    ("dtype", "bound", "ulp"), [("float32", 89.41598, 2**-22), ("float64", 710.4758, 2**-51)]
)
def test_cosh_and_sinh_overflow_where_their_results_do(
    dtype: str, bound: float, ulp: float
) -> None:
    sizes = [bound - 0.6, bound - 0.3, bound - 1e-3, bound + 1e-3, inf, 0.0, 1.0]
    x = a([*sizes, *(-size for size in sizes), nan] * 3, dtype)  # long enough for wide loops
    with np.errstate(over="ignore"):
        for function, oracle in ((xp.cosh, np.cosh), (xp.sinh, np.sinh)):
            expected = oracle(np.array(x))
            np.testing.assert_allclose(np.array(function(x)), expected, rtol=4 * ulp)
            assert np.isfinite(expected[:3]).all()
    leaf = torch.tensor([1.0] * 17 + [1e3], dtype=x.unwrap().dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(xp.sinh(xp.asarray(leaf)).unwrap().sum(), leaf)
    assert slope.tolist() == pytest.approx([math.cosh(1)] * 17 + [inf], rel=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_signs_of_complex_numbers_near_zero(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    found = np.asarray(xp.sign(a(np.array([0, tiny, -1j * tiny, 3 + 4j], dtype))))
    np.testing.assert_allclose(found, [0, 1, -1j, 0.6 + 0.8j], 1e-6)


def test_complex_values_are_added_in_place_by_parts() -> None:
    x, y = a([1 + 2j]), a([complex(0, inf)])
    tensor = x.unwrap()
    x += y
    same(x, [complex(1, inf)])
    x -= a([complex(0, 1)])
    same(x, [complex(1, inf)])
    assert x.unwrap() is tensor
    same(xp.asarray(tensor), [complex(1, inf)])


@pytest.mark.parametrize("length", [1, LONG])
@pytest.mark.parametrize(("dtype", "x", "y"), [("float32", 1e30, 1e-12), ("float64", 1e300, 1e-12)])
def test_remainders_of_quotients_that_overflow(dtype: str, x: float, y: float, length: int) -> None:
    kind = np.dtype(dtype).type
    same(a([x] * length, dtype) % a(y, dtype), [np.remainder(kind(x), kind(y))] * length)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_integers_divided_by_zero_raise(name: str, dtype: str) -> None:
    with pytest.raises(ZeroDivisionError, match=f"^{name}: x2 holds 0"):
        getattr(xp, name)(a([4, 5], dtype), a([2, 0], dtype))


class Elsewhere:
    """What looks like a tensor of a GPU: only whether there is a zero is asked of it here."""

    is_cpu = False

    def __init__(self, size: int) -> None:
        self.size = size

    def is_floating_point(self) -> bool:
        return False

    def numel(self) -> int:
        return self.size


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_integers_of_a_gpu_divided_by_zero_raise_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There torch's kernels raise nothing, and answer with what the hardware gives."""
    from corepy.backends.torch import _elementwise

    monkeypatch.setattr(torch, name, lambda x1, x2: "made")
    function: Any = getattr(_elementwise, name)
    with pytest.raises(ZeroDivisionError):
        function(Elsewhere(2), torch.tensor([2, 0]))
    assert function(Elsewhere(2), torch.tensor([2, 3])) == "made"
    assert function(Elsewhere(0), torch.tensor([0])) == "made"  # of no integer


@pytest.mark.gpu
@pytest.mark.device("cuda")
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_gpu_integers_divided_by_zero_raise(name: str, dtype: str) -> None:
    with corepy.backend_priority(["torch"]):
        x, y = (xp.asarray(v, dtype=getattr(xp, dtype), device="cuda:0") for v in ([4, 5], [2, 0]))
        for divisor in (y, y[1], 0):
            with pytest.raises(ZeroDivisionError, match=f"^{name}: x2 holds 0"):
                getattr(xp, name)(x, divisor)
        assert getattr(xp, name)(x, y[0]).backend == "torch"


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_the_least_integer_divided_by_minus_one(dtype: str) -> None:
    least = int(np.iinfo(dtype).min)
    x = a([least] * LONG, dtype)
    assert set((x // -1).tolist()) == {least}
    assert set((x % -1).tolist()) == {0}


def test_negative_powers_of_integers_raise() -> None:
    with pytest.raises(ValueError, match="^pow: x2 holds a negative integer"):
        a([2, 3]) ** a([1, -1])
    with pytest.raises(ValueError, match="^pow: x2 holds a negative integer"):
        a([2, 3]) ** -1
    assert (a([2, 3]) ** a([3, 2])).tolist() == [8, 9]


def test_results_never_alias_their_operand() -> None:
    for name in ("positive", "conj"):
        x = a([1.0, 2.0])
        y = getattr(xp, name)(x)
        y += 1.0
        assert x.tolist() == [1.0, 2.0]
    truth = a([True, False])
    for reduce in (xp.all, xp.any):
        assert pointer(reduce(truth, axis=())) != pointer(truth)


# ---------------------------------------------------------------------------- sets and searching


def test_unique_elements_with_indices() -> None:
    x = a([[3.0, nan, 1.0], [nan, 1.0, 3.0]])
    values, indices, inverse, counts = xp.unique_all(x)
    np.testing.assert_array_equal(np.asarray(values), [1.0, 3.0, nan, nan])
    assert indices.tolist() == [2, 0, 1, 3]
    assert inverse.tolist() == [[1, 2, 0], [3, 0, 1]]
    assert counts.tolist() == [2, 2, 1, 1]
    assert xp.unique_counts(x).counts.tolist() == [2, 2, 1, 1]
    assert xp.unique_inverse(x).inverse_indices.tolist() == inverse.tolist()
    assert xp.unique_all(a([], "float32")).counts.tolist() == []
    assert xp.unique_values(a([2j, 1j, 2j])).shape == (2,)


def test_membership_of_dtypes_that_torch_refuses() -> None:
    assert xp.isin(a([True, False]), a([True])).tolist() == [True, False]
    assert xp.isin(a([1j, 2j]), a([2j])).tolist() == [False, True]


@pytest.mark.parametrize("side", ["left", "right"])
def test_search_among_nan_and_by_a_sorter(side: Any) -> None:
    values = np.asarray([1.0, 2.0, 3.0, nan, nan])
    wanted = np.asarray([[0.0, 2.5], [3.0, nan]])
    expected = np.searchsorted(values, wanted, side)
    assert xp.searchsorted(a(values), a(wanted), side=side).tolist() == expected.tolist()
    order = np.asarray([4, 0, 2, 1, 3], "int32")
    shuffled = a(values[np.argsort(order)])
    found = xp.searchsorted(shuffled, a(wanted).T, side=side, sorter=a(order))
    assert found.tolist() == expected.T.tolist()


def test_arange_truncates_its_values_and_not_its_arguments() -> None:
    assert xp.arange(0.5, 3, 0.5, dtype=xp.int64).tolist() == [0, 1, 1, 2, 2]


def test_singular_matrices_raise() -> None:
    for call in (xp.linalg.inv, xp.linalg.cholesky):
        with pytest.raises(ValueError, match=f"^{call.__name__}: "):
            call(xp.zeros((2, 2)))
    for call in (xp.linalg.eig, xp.linalg.svdvals):
        with pytest.raises(ValueError, match=f"^{call.__name__}: "):
            call(xp.full((2, 2), nan))
    assert float(xp.linalg.vector_norm(a([]), ord=inf)) == 0.0
    assert float(xp.linalg.vector_norm(a([1 + 1j, 0j]), ord=0)) == 1.0


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eigenvalues_of_matrices_that_are_not_finite_are_refused(dtype: str) -> None:
    # MKL finds some of NaN, or ends the process.
    for odd in (nan, inf):
        values = np.stack([np.eye(3), np.full((3, 3), odd)]).astype(dtype)
        for x in (a(values), a(values[1])):
            for call in (xp.linalg.eigvals, xp.linalg.eig):
                with pytest.raises(ValueError, match=f"^{call.__name__}: .* infs or NaNs"):
                    call(x)
    assert xp.linalg.eigvals(a(np.eye(2, dtype=dtype))).tolist() == [1, 1]


def test_autocast_leaves_products_in_the_dtype_of_their_operands() -> None:
    x = a(np.random.default_rng(4).random((3, 3)).astype("float32") + np.eye(3, dtype="float32"))
    products: list[Callable[[], corepy.Array]] = [
        *(lambda: x @ x, lambda: xp.tensordot(x, x, axes=1), lambda: xp.vecdot(x, x)),
        *(lambda: xp.linalg.matrix_power(x, 3), lambda: xp.linalg.pinv(x)),
    ]
    for product in products:
        wanted = product()
        with torch.autocast("cpu", torch.bfloat16):
            found = product()
        assert found.unwrap().dtype is torch.float32
        same(found, np.asarray(wanted))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_matrices_are_factored_on_gpus_at_any_size(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corepy.backends.torch._linalg import qr_of_any_size

    limits = np.finfo(dtype)
    values = np.random.default_rng(6).random((3, 4, 2)).astype(dtype)
    if np.iscomplexobj(values):
        values *= np.asarray(1 - 1j, dtype)
    q, r = np.linalg.qr(values)
    great, small = float(limits.max) / 8, float(limits.tiny) * 2.0**30
    given: list[Any] = []

    def spy(x: Any, mode: str, own: Any = torch.linalg.qr) -> Any:
        given.append(x.abs().amax(-2))
        return own(x, mode)

    for size in (1.0, great, small, np.asarray([great, small])):
        scale = np.asarray(size, limits.dtype)
        with monkeypatch.context() as patched:
            patched.setattr(torch.linalg, "qr", spy)
            found = qr_of_any_size(torch.tensor(values * scale), "reduced")
        np.testing.assert_allclose(found[0].numpy(), q, rtol=0, atol=8 * limits.eps)
        np.testing.assert_allclose(found[1].numpy() / scale, r, rtol=0, atol=32 * limits.eps)
    assert all(((top >= 0.5) & (top < 2.0**24)).all() for top in given)  # columns near one
    values[1, 0, 0] = nan
    found = qr_of_any_size(torch.tensor(values), "reduced")
    np.testing.assert_allclose(found[1][::2].numpy(), r[::2], rtol=0, atol=32 * limits.eps)
    assert torch.isnan(found[1][1].abs()).any()

    x = torch.tensor(values[::2], requires_grad=True)
    slopes = [
        torch.autograd.grad(function(x, "reduced")[1].abs().sum(), x)[0]
        for function in (qr_of_any_size, torch.linalg.qr)
    ]
    torch.testing.assert_close(*slopes)
    if torch.__version__ >= "2.13":  # before, vmap has no rule for a float's bits
        rows = torch.func.vmap(lambda row: qr_of_any_size(row, "r")[1])(x.detach())
        torch.testing.assert_close(rows, torch.linalg.qr(x.detach(), mode="r").R)


@pytest.mark.parametrize("points", [204, 11 * 61, 3 * 2297])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms_of_lengths_that_mkl_does_roughly(dtype: str, points: int) -> None:
    # By itself it is off by up to 250 ulp of the greatest element.
    parts = np.random.default_rng(5).standard_normal((2, 2, points))
    x = (parts[0] + 1j * parts[1]).astype(dtype)
    for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft"):
        operand = x.real.copy() if name in ("rfft", "ihfft") else x
        options: dict[str, Any] = {"n": points, "norm": "ortho"}
        exact = getattr(np.fft, name)(operand.astype(np.result_type(operand, "g")), **options)
        found = np.asarray(getattr(xp.fft, name)(a(operand), **options))
        assert ulps(found, exact.astype(found.dtype), together=True) < 8, name
    exact = np.fft.fft2(x.astype("G"))
    assert ulps(np.asarray(xp.fft.fftn(a(x))), exact.astype(dtype), together=True) < 8
    conjugate = np.asarray(xp.fft.fftn(xp.asarray(torch.from_numpy(x).conj())))
    assert ulps(conjugate, np.fft.fft2(x.conj().astype("G")).astype(dtype), together=True) < 8


def test_transforms_of_such_lengths_keep_gradients_and_modes() -> None:
    def transformed(x: Any) -> Any:
        return xp.fft.fft(xp.asarray(x)).unwrap()

    x = torch.ones(2, 34, dtype=torch.complex128, requires_grad=True)
    transformed(x)[0, 0].abs().backward()
    assert x.grad is not None
    assert x.grad[0].tolist() == [1.0] * 34
    rows = torch.func.vmap(transformed)(x.detach())
    torch.testing.assert_close(rows, torch.fft.fft(x.detach()))


def test_few_elements_with_gaps_are_looked_for() -> None:
    among = a([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "int32")[::2, :2]
    assert xp.isin(a(list(range(9)), "int32"), among).tolist() == [
        n in (1, 2, 7, 8) for n in range(9)
    ]


# ---------------------------------------------------------------------------- digits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cosh_and_sinh_of_gaps_beside_an_infinity(dtype: str) -> None:
    values = np.zeros(LONG, dtype)
    values[4], values[10] = 89.0 if dtype == "float32" else 710.0, inf
    x = xp.asarray(torch.from_numpy(values))[::2]
    for function, oracle in ((xp.cosh, np.cosh), (xp.sinh, np.sinh)):
        assert float(function(x)[2]) == pytest.approx(float(oracle(values)[4]), rel=1e-6)


@pytest.mark.parametrize(
    ("z", "expected"),
    [(1 - 1e-10j, 9.999999999916666e-06), (1 + 1e-20j, 1e-10), (0.5 + 0j, math.pi / 3)],
)
def test_acos_has_its_digits_near_one(z: complex, expected: float) -> None:
    found = complex(xp.acos(xp.asarray(torch.tensor(z, dtype=torch.complex128))))
    assert found.real == pytest.approx(expected, rel=1e-15)


# ---------------------------------------------------------------------------- derivatives

DERIVATIVES = [
    ("expm1", torch.expm1, (0, 1 + 1j)),
    ("log1p", torch.log1p, (0, 1 + 1j)),
    ("sign", torch.sgn, (0, 1 + 1j)),
    ("acos", torch.acos, (0.5, 2, 1j, 0)),
    ("cosh", torch.cosh, (-720.0, 1000.0, 1.0, inf)),
    ("sinh", torch.sinh, (-720.0, 1000.0, 1.0, -inf)),
    ("remainder", torch.remainder, (4.0, 7.0, 0.0, 5.5), (2.0, 2.0, 3.0, -2.0)),
    ("floor_divide", torch.div, (1.0, 0.0, inf), (0.0, 1.0, 2.0)),
]


@pytest.mark.parametrize(("name", "library", "values"), [(n, t, v) for n, t, *v in DERIVATIVES])
def test_corrected_functions_keep_their_derivatives(
    name: str, library: Callable[..., Any], values: list[tuple[Any, ...]]
) -> None:
    def slopes(function: Callable[..., Any]) -> list[Any]:
        kind = torch.complex128 if any(isinstance(v, complex) for v in values[0]) else torch.float64
        leaves = [torch.tensor(v, dtype=kind, requires_grad=True) for v in values]
        found = function(*leaves)
        found = found.real if found.is_complex() else found
        return list(torch.autograd.grad(found.sum(), leaves))

    words = {"rounding_mode": "floor"} if library is torch.div else {}
    expected = slopes(lambda *leaves: library(*leaves, **words))
    found = slopes(lambda *leaves: getattr(xp, name)(*map(corepy.to, leaves)).unwrap())
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours.resolve_conj(), theirs.resolve_conj())


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_corrected_functions_are_transformed() -> None:
    x = torch.tensor([0.5 + 0.1j, 2 - 3j], dtype=torch.complex128)

    def acos(t: Any) -> Any:
        return xp.acos(corepy.to(t)).unwrap()

    assert torch.equal(torch.func.vmap(acos)(x), acos(x))
    with forward_ad.dual_level():
        both = forward_ad.make_dual(x, torch.ones_like(x))
        slope, expected = (forward_ad.unpack_dual(f(both)).tangent for f in (acos, torch.acos))
    assert torch.equal(slope, expected)
    slopes = torch.func.vmap(torch.func.grad(lambda t: xp.remainder(corepy.to(t), 2.0).unwrap()))
    assert slopes(torch.tensor([4.0, 5.0])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("power", [3, 0.5, [1.0, 2.0]])
def test_powers_in_place_have_derivatives(power: Any) -> None:
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    x = corepy.to(leaf * 2)
    x **= xp.asarray(torch.tensor(power)) if isinstance(power, list) else power
    (found,) = torch.autograd.grad(x.unwrap().sum(), leaf)
    exponent = torch.tensor(power)
    (expected,) = torch.autograd.grad(((leaf * 2) ** exponent).sum(), leaf)
    assert torch.allclose(found, expected)


def test_powers_of_integers_are_mapped() -> None:
    n = torch.arange(12).reshape(3, 4)
    found = torch.func.vmap(lambda a, b: xp.pow(corepy.to(a), corepy.to(b)).unwrap())(n, n % 3)
    assert torch.equal(found, n ** (n % 3))


def test_the_default_device_is_none_of_ours() -> None:
    values, index = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 1])
    great = torch.full((40,), 1e300, dtype=torch.float64)
    with torch.device("meta"):
        x = xp.asarray(corepy.to(values), copy=True)
        assert x[1, corepy.to(index)].tolist() == [4.0, 5.0]
        x[1, corepy.to(index)] = 7.0
        assert x[1, :3].tolist() == [7.0, 7.0, 6.0]
        found = xp.remainder(corepy.to(great), corepy.to(1 / great))
    assert found.tolist() == [1e300 % 1e-300] * 40


# ---------------------------------------------------------------------------- modes


@pytest.mark.parametrize("mode", ["context", "default"])
def test_a_default_device_changes_nothing(mode: str) -> None:
    """Its mode sees all functions of torch's, but changes those alone that make tensors."""
    x = xp.ones((800, 200), dtype=xp.complex64)
    expected = np.asarray(xp.fft.hfft(x))  # of a length for which MKL loses digits
    numbers = xp.asarray(np.full((3, 3), nan, np.float32))
    try:
        if mode == "default":
            torch.set_default_device("cpu")
        with torch.device("cpu") if mode == "context" else contextlib.nullcontext():
            np.testing.assert_array_equal(np.asarray(xp.fft.hfft(x)), expected)
            with pytest.raises(ValueError, match="^eigvals: "):  # MKL ends the process
                xp.linalg.eigvals(numbers)
    finally:
        torch.set_default_device(None)


class _Listener(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return function(*args, **(kwargs or {}))


class _Kin(torch.Tensor):  # type: ignore[misc]
    """A tensor by another name."""


@pytest.mark.parametrize("way", ["mode", "dual numbers", "subclass", "gradient"])
def test_eigenvalues_of_nan_are_refused_whoever_listens(way: str) -> None:
    """MKL ends the process."""
    x = torch.eye(4, dtype=torch.complex128)
    x[1, 1] = nan
    if way == "subclass":
        x = x.as_subclass(_Kin)
    elif way == "gradient":
        x.requires_grad_()
    modes = {"mode": _Listener, "dual numbers": forward_ad.dual_level}
    with modes.get(way, contextlib.nullcontext)(), pytest.raises(ValueError, match="^eigvals: "):
        xp.linalg.eigvals(corepy.to(x))
