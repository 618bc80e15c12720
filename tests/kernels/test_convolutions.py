"""Convolutions: values on every library, where windows lie, layouts, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from corepy.kernels._ways import only
from corepy.kernels.convolutions import reference, windows
from corepy.kernels.convolutions._geometry import Geometry
from tests.kernels.libraries import (
    DEVICES,
    Kind,
    check,
    device_kinds,
    dtype_of,
    exchanged,
    host,
    kinds,
    sample,
    select,
)

#: Nothing here is compiled by Numba.
LIBRARIES = ("numpy", "torch", "jax", "mlx", "array", "reference")
KINDS = [*(k for k in kinds(*LIBRARIES) if "compiled" not in k.id), *device_kinds()]
every = pytest.mark.parametrize("kind", KINDS)

#: Shape of x, filters, kernel, and options; the last three for those that take long as well.
CASES: list[tuple[tuple[int, ...], int, tuple[int, int], dict[str, Any]]] = [
    ((2, 6, 9, 11), 4, (3, 2), {}),
    ((1, 3, 8, 5), 2, (1, 1), {"stride": 1}),
    ((1, 4, 5, 6), 2, (1, 1), {"stride": (2, 3)}),
    ((2, 4, 7, 7), 8, (3, 3), {"groups": 4, "padding": 1}),
    ((1, 2, 6, 9), 3, (2, 4), {"padding": "same", "dilation": (1, 2)}),
    ((1, 2, 6, 9), 3, (5, 3), {"padding": "valid", "dilation": 1}),
    ((2, 6, 9, 5), 9, (3, 2), {"padding": ((0, 1), (2, 0)), "stride": (1, 3), "groups": 3}),
    ((1, 1, 1, 1), 1, (1, 1), {}),
    ((1, 2, 5, 4), 2, (3, 2), {"padding": (1, 2), "stride": 2, "dilation": 2}),
]
#: With filters enough for the tiles of device kernels: some that are not full, and more than one.
WIDE: list[tuple[tuple[int, ...], int, tuple[int, int], dict[str, Any]]] = [
    ((2, 8, 9, 7), 40, (3, 3), {"groups": 2, "padding": 1}),
    ((3, 5, 12, 11), 70, (3, 2), {"stride": (2, 1), "padding": ((0, 2), (1, 0)), "dilation": 2}),
]


def operands(case: Any, kind: Kind, dtype: str) -> tuple[Any, Any, Any]:
    shape, filters, kernel, options = case
    depth = shape[1] // options.get("groups", 1)
    values = sample(*shape), sample(filters, depth, *kernel, seed=1), sample(filters, seed=2)
    x, weight, bias = (kind.array(v, dtype) for v in values)
    return x, weight, bias


def expected_of(x: Any, weight: Any, **options: Any) -> Any:
    """Sum over each window by itself, in float64."""

    def pair(value: Any) -> Any:
        return value if isinstance(value, tuple) else (value, value)

    stride, dilation = pair(options.get("stride", 1)), pair(options.get("dilation", 1))
    padding = options.get("padding", 0)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        padding = tuple((t // 2, t - t // 2) for t in totals)
    y = np.pad(x, [(0, 0), (0, 0), *map(pair, pair(padding))])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:])]
    sizes = [(n - span) // s + 1 for n, span, s in zip(y.shape[2:], spans, stride)]
    depth, filters = weight.shape[1], weight.shape[0]
    out = np.empty((x.shape[0], filters, *sizes))
    for f in range(filters):
        first = f // (filters // options.get("groups", 1)) * depth
        for i, j in np.ndindex(*sizes):
            top, left = i * stride[0], j * stride[1]
            window = y[
                :,
                first : first + depth,
                top : top + spans[0] : dilation[0],
                left : left + spans[1] : dilation[1],
            ]
            out[:, f, i, j] = (window * weight[f]).sum((1, 2, 3))
    return out


@every
def test_conv2d(kind: Kind) -> None:
    compiles = kind.library == "jax"
    on_device = kind.library in DEVICES
    cases = CASES[-3:] if kind.slow or compiles else CASES[3:] + WIDE if on_device else CASES
    for case in cases:
        for dtype in kind.dtypes[:2] if compiles else kind.dtypes:
            if on_device and dtype == "float64" and case is not WIDE[0]:
                continue  # the same source, and compiled for each kernel's size
            x, weight, bias = operands(case, kind, dtype)
            a, w, b = map(host, (x, weight, bias))
            expected = expected_of(a, w, **case[3])
            terms = expected_of(np.abs(a), np.abs(w), **case[3])
            check(x, kernels.conv2d(x, weight, **case[3]), expected, dtype, terms)
            shifted = expected + b[:, None, None]
            terms = terms + np.abs(b)[:, None, None]
            check(x, kernels.conv2d(x, weight, bias, **case[3]), shifted, dtype, terms)


@pytest.mark.parametrize("kind", kinds("numpy", "array"))
@pytest.mark.parametrize(
    ("shape", "filters", "options"),
    [
        ((2, 3, 6, 7), 3, {"groups": 3, "padding": 1}),
        ((1, 2, 70, 80), 4, {"groups": 2}),  # of several stretches
        ((1, 8, 9, 6), 4, {"groups": 2, "stride": (2, 1), "dilation": (1, 2)}),
        ((1, 4, 9, 6), 4, {"groups": 4, "stride": (1, 2), "padding": (2, 0), "dilation": (3, 1)}),
        # Strides that pass over more than an image has, and padding wider than they are.
        ((2, 6, 4, 2), 6, {"groups": 3, "stride": (3, 5), "padding": ((1, 4), (7, 2))}),
        ((1, 2, 1, 1), 2, {"groups": 2, "stride": 10**9, "padding": 3, "dilation": 2}),
    ],
)
def test_small_groups(
    kind: Kind,
    shape: tuple[int, ...],
    filters: int,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    select(monkeypatch, kind)
    for dtype in kind.dtypes:
        x, weight, bias = operands((shape, filters, (3, 2), options), kind, dtype)
        a, w, b = map(host, (x, weight, bias))
        expected = expected_of(a, w, **options) + b[:, None, None]
        terms = expected_of(np.abs(a), np.abs(w), **options) + np.abs(b)[:, None, None]
        check(x, kernels.conv2d(x, weight, bias, **options), expected, dtype, terms)
    (record,) = corepy.explain(kernels.conv2d, x, weight, **options).records
    assert (record.backend == "numba") is kind.compiled
    if kind.library == "numpy":
        still = np.broadcast_to(x[:, :, :, :1], x.shape)  # read-only
        check(
            still,
            kernels.conv2d(still, weight[..., ::-1], **options),
            kernels.conv2d(still.copy(), weight[..., ::-1].copy(), **options).astype("f8"),
            dtype,
            1.0,
        )


def test_reference() -> None:
    numpy = Kind("numpy", compiled=False)
    for case in CASES:
        x, weight, bias = operands(case, numpy, "float64")
        shape, _, kernel, options = case
        seen: list[Geometry] = []

        def spy(*_: Any, geometry: Geometry, seen: list[Geometry] = seen, **__: Any) -> Any:
            seen.append(geometry)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "conv2d", lambda x, w, b, g, out: spy(geometry=g))
            kernels.conv2d(x, weight, **options)
        assert (seen[0].image, seen[0].kernel) == (shape[2:], kernel)
        found = reference.conv2d(np, x, weight, bias, wide=np.float64, geometry=seen[0])
        expected = expected_of(x, weight, **options) + bias[:, None, None]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.backend("torch")
def test_agrees_with_torch() -> None:
    import torch

    numpy = Kind("numpy", compiled=False)
    for case in CASES:
        if case[3].get("padding") == ((0, 1), (2, 0)):
            continue  # which torch has no words for
        arrays = operands(case, numpy, "float64")
        found = kernels.conv2d(*arrays, **case[3])
        if case[2] == (2, 4):  # of an even kernel torch says that it copies
            with pytest.warns(UserWarning, match="padding='same'"):
                theirs = torch.nn.functional.conv2d(*map(torch.from_numpy, arrays), **case[3])
        else:
            theirs = torch.nn.functional.conv2d(*map(torch.from_numpy, arrays), **case[3])
        np.testing.assert_allclose(found, theirs.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.backend("torch")
@pytest.mark.parametrize("kind", [k for k in kinds("numpy", "array") if "compiled" not in k.id])
def test_where_torch_was_measured_faster(kind: Kind) -> None:
    for case in CASES[-3:]:
        for dtype in kind.dtypes:
            x, weight, bias = operands(case, kind, dtype)
            expected = expected_of(host(x), host(weight), **case[3]) + host(bias)[:, None, None]
            terms = expected_of(*map(np.abs, map(host, (x, weight))), **case[3]) + 3
            with only("torch"):
                found = kernels.conv2d(x, weight, bias, **case[3])
                (record,) = corepy.explain(kernels.conv2d, x, weight, **case[3]).records
            check(x, found, expected, dtype, terms)
            assert record.backend == "torch"


def test_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = sample(2, 3, 9, 7, dtype="f4"), sample(4, 3, 3, 3, seed=1, dtype="f4")
    whole = kernels.conv2d(x, w, padding=1)
    monkeypatch.setattr(windows, "_BLOCK", 3 * 9 * 7 * 2)  # two rows of windows at once, then one
    np.testing.assert_allclose(kernels.conv2d(x, w, padding=1), whole, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(windows, "_BLOCK", 1)
    np.testing.assert_allclose(kernels.conv2d(x, w, padding=1), whole, rtol=1e-5, atol=1e-5)


@every
def test_bias_of_float32(kind: Kind) -> None:
    if "float16" not in kind.dtypes:
        return
    x = kind.array(np.full((1, 1, 2, 2), 32.0), "float16")
    w = kind.array(np.full((1, 1, 1, 1), 32.0), "float16")
    # Added before the one rounding.
    out = kernels.conv2d(x, w, kind.array([0.75], "float32"))
    assert dtype_of(out) == "float16"
    assert (host(out) == 1025.0).all()


@every
def test_no_elements(kind: Kind) -> None:
    # The last two show nothing but the zeros around them.
    for (*shape, filters), padding in (
        ((0, 2, 3, 3, 1), 0),
        ((1, 2, 3, 3, 0), 0),
        ((2, 0, 3, 3, 2), 0),
        ((1, 2, 0, 3, 2), ((2, 1), (0, 0))),
        ((1, 2, 3, 0, 2), ((0, 0), (1, 2))),
    ):
        if kind.slow and filters != 2:
            continue
        x = kind.array(np.zeros(shape), "float32")
        w = kind.array(np.ones((filters, shape[1], 2, 2)), "float32")
        bias = kind.array(np.full(filters, 3.0), "float32")
        out = kernels.conv2d(x, w, bias, padding=padding)
        assert type(out) is type(x)
        assert tuple(out.shape) == (shape[0], filters, 2, 2)
        assert (host(out) == 3.0).all()


@every
def test_special_values(kind: Kind) -> None:
    values = np.ones((1, 2, 6, 6))
    values[0, 1, 2, 3] = np.nan
    values[0, 0, 5, 0] = np.inf
    w = kind.array(np.ones((1, 2, 2, 2)), "float32")
    out = host(kernels.conv2d(kind.array(values, "float32"), w))[0, 0]
    assert np.isnan(out[1:3, 2:4]).all()
    assert out[4, 0] == np.inf
    assert (out[0] == 8).all()
    assert np.isfinite(out).sum() == 25 - 5


@pytest.mark.parametrize(
    "kind", [*(k for k in kinds("numpy", "torch") if "compiled" not in k.id), *device_kinds()]
)
def test_layouts(kind: Kind) -> None:
    a, w = sample(2, 6, 5, 4, dtype="f4"), sample(3, 4, 2, 3, seed=1, dtype="f4")
    x, weight = kind.array(a), kind.array(w)
    last = exchanged(x, (0, 3, 2, 1))
    for y, z in (
        (last, weight),  # channels come last in memory
        (last[:, :, ::2, 1:], weight[::2]),
        (last, weight[:, :, :, 1:2]),
        (last[:, :, :, 2:3], weight[:, :, :, :1]),
    ):
        expected = expected_of(host(y), host(z))
        check(y, kernels.conv2d(y, z), expected, "float32", np.abs(expected) + 5)
    if kind.library == "numpy":
        back = a[:, ::-1, ::-1, ::-1].swapaxes(1, 3)
        back.flags.writeable = False
        expected = expected_of(back.astype("f8"), w.astype("f8"))
        check(back, kernels.conv2d(back, w), expected, "float32", np.abs(expected) + 5)
        swapped = back.astype(">f4")
        np.testing.assert_array_equal(
            kernels.conv2d(swapped, w.astype(">f4")), kernels.conv2d(back, w)
        )


@pytest.mark.parametrize(
    "kind",
    [*(k for k in kinds("numpy", "torch", "array") if "compiled" not in k.id), *device_kinds()],
)
def test_out(kind: Kind) -> None:
    for dtype in kind.dtypes:
        x, w = kind.array(sample(1, 2, 5, 5), dtype), kind.array(sample(2, 2, 3, 3), dtype)
        expected = host(kernels.conv2d(x, w, padding=1))
        out = kind.array(np.zeros((1, 2, 5, 5)), dtype)
        assert kernels.conv2d(x, w, padding=1, out=out) is out
        np.testing.assert_array_equal(host(out), expected)
        assert kernels.conv2d(x, w, padding=1, out=x) is x
        np.testing.assert_array_equal(host(x), expected)


def test_out_is_filled_where_it_is() -> None:
    x, w = sample(1, 2, 5, 5), sample(2, 2, 3, 3)
    memory = np.zeros((1, 2, 3, 6))
    assert np.array_equal(kernels.conv2d(x, w, out=memory[..., ::2]), kernels.conv2d(x, w))
    assert (memory[..., 1::2] == 0).all()


@pytest.mark.backend("torch")
def test_gradients_of_torch() -> None:
    import torch

    arrays = [
        torch.from_numpy(sample(*s)).requires_grad_() for s in ((1, 2, 5, 5), (4, 1, 3, 3), (4,))
    ]
    options: dict[str, Any] = {"padding": ((1, 0), (2, 1)), "groups": 2}
    assert torch.autograd.gradcheck(lambda *a: kernels.conv2d(*a, **options), arrays)
    x, weight, bias = (a.detach() for a in arrays)
    whole = kernels.conv2d(x, weight, bias, **options)
    both = torch.func.vmap(lambda x: kernels.conv2d(x, weight, bias, **options))
    torch.testing.assert_close(both(torch.stack([x, -x]))[0], whole)


@pytest.mark.backend("jax")
def test_traces_of_jax() -> None:
    import jax

    jax_kind = Kind("jax", compiled=False)
    x, w = (
        jax_kind.array(sample(1, 1, 4, 4), "float32"),
        jax_kind.array(np.ones((1, 1, 2, 2)), "float32"),
    )
    found = jax.jit(jax.grad(lambda x: kernels.conv2d(x, w).sum()))(x)
    expected = np.outer([1, 2, 2, 1], [1, 2, 2, 1])
    np.testing.assert_allclose(np.asarray(found)[0, 0], expected, rtol=1e-6)


@every
def test_explain_says_who(kind: Kind) -> None:
    x, w = (
        kind.array(np.ones((1, 1, 2, 2)), "float32"),
        kind.array(np.ones((1, 1, 1, 1)), "float32"),
    )
    (record,) = corepy.explain(kernels.conv2d, x, w).records
    expected = {
        "numpy": "in BLAS",
        "array": "in BLAS",
        "reference": "by its formula",
        "opencl": "device kernels take it",
        "cupy": "device kernels take it",
    }.get(kind.library, "has a function of its own")
    assert record.operation == "conv2d"
    assert expected in record.reason


X, W = np.ones((2, 4, 5, 6), np.float32), np.ones((6, 4, 3, 3), np.float32)


def conv2d(x: Any = X, weight: Any = W, *args: Any, **options: Any) -> Any:
    return kernels.conv2d(x, weight, *args, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: conv2d([1.0]), TypeError, "conv2d: x is of type list; expected an array"),
        (lambda: conv2d(X[0]), ValueError, "conv2d: x has shape (4, 5, 6); expected (batch, chan"),
        (lambda: conv2d(X.astype(int)), TypeError, "conv2d: x has dtype int64 on cpu; expected a"),
        (lambda: conv2d(X, W[0]), ValueError, "conv2d: weight has shape (4, 3, 3); expected (out_"),
        (
            lambda: conv2d(X, W, groups=2),
            ValueError,
            "conv2d: weight has shape (6, 4, 3, 3); expected (out_channels, 2, kernel_height, kern",
        ),
        (lambda: conv2d(X, W[:, :, :0]), ValueError, "conv2d: weight has shape (6, 4, 0, 3)"),
        (lambda: conv2d(X, W.astype("f8")), TypeError, "conv2d: weight has dtype float64 on cpu;"),
        (lambda: conv2d(X, W, groups=3), ValueError, "groups is 3; expected a divisor of the 4 ch"),
        (
            lambda: conv2d(X, W[:3, :2], groups=2),
            ValueError,
            "groups is 2; expected a divisor of the 3 filters of weight",
        ),
        (lambda: conv2d(X, W, groups=0), ValueError, "groups is 0; expected an integer of at le"),
        (lambda: conv2d(X, W, W[0, 0, 0]), ValueError, "conv2d: bias has shape (3,); expected (6,"),
        (
            lambda: conv2d(X, W, np.ones(6)),
            TypeError,
            "conv2d: bias has dtype float64 on cpu; expected float32 beside x of float32",
        ),
        (lambda: conv2d(stride=0), ValueError, "conv2d: stride is 0; expected an integer of at l"),
        (lambda: conv2d(stride=(1, 2, 3)), ValueError, "stride is (1, 2, 3); expected an integer,"),
        (lambda: conv2d(stride=1.5), TypeError, "conv2d: stride is of type float; expected an in"),
        (lambda: conv2d(dilation=(1, 0)), ValueError, "conv2d: dilation is 0; expected an integer"),
        (lambda: conv2d(padding=-1), ValueError, "conv2d: padding is -1; expected an integer of "),
        (lambda: conv2d(padding="full"), ValueError, "padding is 'full'; expected 'same', 'valid'"),
        (lambda: conv2d(padding=None), TypeError, "padding is of type NoneType; expected 'same',"),
        (
            lambda: conv2d(padding=(1, 2, 3)),
            ValueError,
            "padding is (1, 2, 3); expected an integer",
        ),
        (
            lambda: conv2d(padding="same", stride=2),
            ValueError,
            "conv2d: padding is 'same'; expected numbers, with a stride of (2, 2)",
        ),
        (
            lambda: conv2d(dilation=3, padding=(0, 1)),
            ValueError,
            "of which a window takes (7, 7); expected at most (5, 8), the size of a padded image",
        ),
        (
            lambda: conv2d(padding=2**62, stride=2**62),
            MemoryError,
            "conv2d: images with their padding have ",
        ),
        (lambda: conv2d(out=X.copy()), ValueError, "conv2d: out has shape (2, 4, 5, 6); expected "),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_steps_of_any_length(kind: Kind) -> None:
    x, w = kind.array(X[:1]), kind.array(W[:, :, :1, :1])
    expected = host(kernels.conv2d(x, w)[:, :, :1, :1])
    found = kernels.conv2d(x, w, stride=10**20, dilation=(10**30, 2**62))
    np.testing.assert_allclose(host(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", kinds("array"))
def test_read_only_memory_is_copied_before_a_result_comes_in(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(monkeypatch, kind)
    memory = np.zeros((1, 1, 3, 3), np.float32)
    memory.flags.writeable = False
    out = corepy.array_api.asarray(memory, copy=False)
    x, weight = kind.array(np.ones((1, 1, 3, 3), "f4")), kind.array(np.ones((1, 1, 1, 1), "f4"))
    assert kernels.conv2d(x, weight, out=out) is out
    assert (host(out) == 1).all()
    assert not memory.any()
