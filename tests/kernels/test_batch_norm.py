"""Batch normalization: values, axes, statistics of training, gradients, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import corepy
from corepy import kernels
from tests.kernels.libraries import Kind, check, device_kinds, dtype_of, host, kinds, select
from tests.kernels.test_convolutions import sample


def parameters(channels: int) -> tuple[Any, Any, Any, Any]:
    """Return mean, variance, weight and bias."""
    mean, variance, weight, bias = sample(4, channels)
    return mean, variance**2 + 0.1, weight, bias


def along(values: Any, ndim: int, axis: int) -> Any:
    return values.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def expected_of(x: Any, found: tuple[Any, ...], eps: float, axis: int) -> tuple[Any, Any]:
    """Return the values, and the size of the terms that make them."""
    mean, variance, weight, bias = (along(v, x.ndim, axis) for v in found)
    scale = weight / np.sqrt(variance + eps)
    terms = (np.abs(x) + np.abs(mean)) * np.abs(scale) + np.abs(bias)
    return (x - mean) * scale + bias, terms


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2, 3, 4, 5), 1), ((2, 4, 5, 3), -1), ((7, 33), 1), ((3,), 0), ((3, 2, 70), 0), ((1, 1), 1)],
)
def test_batch_norm(kind: Kind, shape: tuple[int, ...], axis: int) -> None:
    if kind.slow and len(shape) != 4:
        return
    values = parameters(shape[axis])
    for dtype in kind.dtypes:
        wide = "float64" if dtype == "float64" else "float32"
        for other in dict.fromkeys((dtype, wide)):
            x, found = kind.array(sample(*shape), dtype), [kind.array(v, other) for v in values]
            expected, terms = expected_of(host(x), tuple(map(host, found)), 1e-5, axis)
            check(x, kernels.batch_norm(x, *found, axis=axis), expected, dtype, terms)
            if other == wide:
                ones, zeros = np.ones(shape[axis]), np.zeros(shape[axis])
                known = (*map(host, found[:2]), ones, zeros)
                expected, terms = expected_of(host(x), known, 0.5, axis)
                plain = kernels.batch_norm(x, *found[:2], eps=0.5, axis=axis)
                check(x, plain, expected, dtype, terms)


@pytest.mark.parametrize("kind", kinds("torch"))
def test_agrees_with_torch(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    select(monkeypatch, kind)
    x, *others = (torch.from_numpy(v) for v in (sample(2, 3, 4, 5), *parameters(3)))
    theirs = torch.nn.functional.batch_norm(x, *others)
    torch.testing.assert_close(kernels.batch_norm(x, *others), theirs)
    # And so does the training form, by the statistics of x itself.
    theirs = torch.nn.functional.batch_norm(x, None, None, *others[2:], training=True)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    torch.testing.assert_close(kernels.batch_norm(x, mean, variance, *others[2:]), theirs)


@pytest.mark.backend("torch")
def test_gradients_of_torch() -> None:
    import torch

    values = (sample(2, 3, 4), *parameters(3))
    every = [torch.from_numpy(v).requires_grad_() for v in values]
    assert torch.autograd.gradcheck(kernels.batch_norm, every)
    few = [x.detach().requires_grad_(i in (0, 3)) for i, x in enumerate(every)]
    assert torch.autograd.gradcheck(kernels.batch_norm, few)
    assert torch.autograd.gradcheck(lambda x, *a: kernels.batch_norm(x.mT, *a, axis=2), few)


@pytest.mark.device("cuda")
def test_explain_says_who() -> None:
    import torch

    x, mean, variance = (a.cuda() for a in (torch.ones(1, 2, 3), torch.zeros(2), torch.ones(2)))
    (record,) = corepy.explain(kernels.batch_norm, x, mean, variance).records
    assert "function of its own" in record.reason
    mean.requires_grad_()  # to which torch's function passes nothing on
    (record,) = corepy.explain(kernels.batch_norm, x, mean, variance).records
    assert "by its formula" in record.reason


def test_digits_far_from_zero_are_kept(kind: Kind) -> None:
    x = kind.array(sample(2, 3, 4) + 1e5, "float32")
    mean, variance = (kind.array(np.full(3, value), "float32") for value in (1e5, 0.25))
    expected = (host(x) - 1e5) / np.sqrt(0.25 + 1e-5)
    check(x, kernels.batch_norm(x, mean, variance), expected, "float32")


@pytest.mark.backend("torch")
def test_digits_far_from_zero_are_kept_with_gradients() -> None:
    import torch

    x = torch.full((1, 2, 3), 1e5).add_(0.5).requires_grad_()
    found = kernels.batch_norm(x, torch.full((2,), 1e5), torch.full((2,), 0.25), eps=1e-30)
    np.testing.assert_allclose(host(found), 1.0, rtol=1e-6)


def test_special_values(kind: Kind) -> None:
    values = np.ones((1, 3, 2))
    values[0, 0, 1], values[0, 1, 0] = np.nan, -np.inf
    x, mean = kind.array(values, "float32"), kind.array(np.zeros(3), "float32")
    variance = kind.array([1.0, 1.0, -2.0], "float32")
    for eps, one in ((0.0, 1.0), (0.5625, 0.8)):
        out = host(kernels.batch_norm(x, mean, variance, eps=eps))[0]
        expected = [[one, np.nan], [-np.inf, one], [np.nan, np.nan]]
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    out = host(kernels.batch_norm(x, mean, kind.array([0.0, 1.0, 1.0], "float32"), eps=0.0))[0]
    np.testing.assert_array_equal(out, [[np.inf, np.nan], [-np.inf, 1.0], [1.0, 1.0]])


def test_no_elements(kind: Kind) -> None:
    for shape in ((0, 3), (2, 0), (2, 3, 0)):
        x = kind.array(np.zeros(shape), "float32")
        one = kind.array(np.ones(shape[1]), "float32")
        assert tuple(kernels.batch_norm(x, one, one).shape) == shape


@pytest.mark.parametrize("kind", [*kinds("numpy", "torch", "array"), *device_kinds()])
def test_out_and_layouts(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    select(monkeypatch, kind)
    for dtype in kind.dtypes:
        found = [kind.array(v, dtype) for v in parameters(3)]
        x = kind.array(sample(2, 3, 42), dtype)  # which fills registers but in part
        part = x[:, :, ::2]
        expected, terms = expected_of(host(part), tuple(map(host, found)), 1e-5, 1)
        check(part, kernels.batch_norm(part, *found), expected, dtype, terms)
        expected = host(kernels.batch_norm(x, *found))
        assert kernels.batch_norm(x, *found, out=x) is x
        np.testing.assert_array_equal(host(x), expected)
        # Where a parameter lies, which every row reads.
        square = kind.array(sample(3, 3), dtype)
        before = host(kernels.batch_norm(square, *found[:2], square[0, :]))
        kernels.batch_norm(square, *found[:2], square[0, :], out=square)
        np.testing.assert_array_equal(host(square), before)
        assert dtype_of(square) == dtype


X, C = np.ones((2, 3, 4), np.float32), np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kernels.batch_norm([1.0], C, C), TypeError, "batch_norm: x is of type list"),
        (lambda: kernels.batch_norm(X, None, C), TypeError, "mean is of type NoneType; expected"),
        (
            lambda: kernels.batch_norm(X, C, C[:2]),
            ValueError,
            "variance has shape (2,); expected (",
        ),
        (
            lambda: kernels.batch_norm(X, C, C, C.astype("f8")),
            TypeError,
            "batch_norm: weight has dtype float64 on cpu; expected float32 beside x of float32",
        ),
        (lambda: kernels.batch_norm(X, C, C, C, X), ValueError, "bias has shape (2, 3, 4); expect"),
        (lambda: kernels.batch_norm(X, C, C, eps=-1), ValueError, "eps is -1; expected a finite"),
        (lambda: kernels.batch_norm(X, C, C, axis=3), IndexError, "axis is 3; expected an axis of"),
        (
            lambda: kernels.batch_norm(X, C, C, axis=2),
            ValueError,
            "mean has shape (3,); expected (",
        ),
        (
            lambda: kernels.batch_norm(X, C, C, out=C),
            ValueError,
            "out has shape (3,); expected (2,",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
