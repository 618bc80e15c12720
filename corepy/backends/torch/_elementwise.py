"""Elementwise functions: special cases of the standard that torch has otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from corepy._errors import divided_by_zero, negative_power
from corepy.backends.torch._derivatives import differentiated_as
from corepy.backends.torch._layout import (
    is_batched,
    is_plain,
    packed,
    shows,
)
from corepy.backends.torch._linalg import HAS_MKL

#: Of which one may stand in the place of a real operand.
_SCALARS: Final = frozenset({bool, int, float})


def by_parts(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a function see the real and imaginary parts of complex operands side by side.

    torch's complex addition multiplies by a complex one, its rounding by ``1j``: infinities become
    NaN, and zeros lose their sign (https://github.com/pytorch/pytorch/issues/82510).
    """

    def compute(x: Tensor, *others: Tensor) -> Tensor:
        if x.__class__ in _SCALARS or not x.is_complex():
            return function(x, *others)
        return torch.view_as_complex(function(*map(torch.view_as_real, (x, *others))))

    return compute


def floor_divide(x1: Tensor, x2: Tensor | float) -> Tensor:
    if not x1.is_floating_point():
        return _by_zero_raises(torch.floor_divide, x1, x2)
    return _floor_of_quotient(x1, _as_tensor(x1, x2))


def _as_tensor(x: Tensor, value: Tensor | float) -> Tensor:
    """Return an operand that may be a Python scalar as a tensor like the one beside it."""
    if value.__class__ in _SCALARS:
        return torch.scalar_tensor(value, dtype=x.dtype, device=x.device)
    return value


def _torchs_floor(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.div(x1, x2, rounding_mode="floor")  # `floor_divide`, with a derivative: zero


@differentiated_as(_torchs_floor)
def _floor_of_quotient(x1: Tensor, x2: Tensor) -> Tensor:
    # torch answers as Python's divmod does, and with NaN for the quotient of infinities, where
    # the standard wants the floor of what `divide` gives.
    result = _torchs_floor(x1, x2)
    special = torch.isinf(x1) ^ torch.isinf(x2)
    quotient = torch.divide(x1, x2)
    whole = torch.floor(quotient)
    result = torch.where(special, whole, result)
    most = _WHOLE.get(result.dtype)
    if most is None or result.device.type != "cpu":  # to look at the values takes a GPU long
        return result
    # As in NumPy, the floor of a quotient that is rounded to halves may be one off.
    if is_plain(result):
        if not result.numel():
            return result
        least, greatest = torch.aminmax(result)  # NaN where there is one
        if -most / 2 < float(least) and float(greatest) < most / 2:
            return result
    exact = whole + torch.round(quotient - whole - torch.remainder(x1, x2) / x2)
    size = result.abs()
    return torch.where((size >= most / 2) & (size <= most), exact, result)


#: From where on a float holds integers only.
_WHOLE: Final = {torch.float32: 2.0**23, torch.float64: 2.0**52}


def remainder(x1: Tensor, x2: Tensor | float) -> Tensor:
    if not x1.is_floating_point():
        return _by_zero_raises(torch.remainder, x1, x2)
    return _remainder_of_floats(x1, _as_tensor(x1, x2))


@differentiated_as(torch.remainder)
def _remainder_of_floats(x1: Tensor, x2: Tensor) -> Tensor:
    result = torch.remainder(x1, x2)
    host = result.device.type == "cpu" and not is_batched(result)
    if host and bool(torch.isnan(result).any()):
        _restore(result, x1, x2)
    # Zero has the sign of x2 too; torch keeps that of x1.
    return torch.copysign(result, x2)


def _restore(result: Tensor, x1: Tensor, x2: Tensor) -> None:
    """Compute the remainders that the vectorised loop loses: those whose quotient overflows."""
    x1, x2 = torch.broadcast_tensors(x1, x2)
    lost = torch.isnan(result) & torch.isfinite(x1) & torch.isfinite(x2) & (x2 != 0)
    pairs = zip(x1[lost].tolist(), x2[lost].tolist(), strict=True)
    found = [a % b for a, b in pairs]
    result[lost] = torch.tensor(found, dtype=result.dtype, device=result.device)


def _by_zero_raises(function: Callable[..., Tensor], x1: Tensor, x2: Tensor | float) -> Tensor:
    # Kernels for GPUs answer with whatever the hardware gives
    # (https://github.com/pytorch/pytorch/issues/165650).
    if not x1.is_cpu and x1.numel() and _holds_zero(x2):
        raise divided_by_zero()
    # On the host torch raises RuntimeError("ZeroDivisionError").
    try:
        return function(x1, x2)
    except RuntimeError as error:
        if "ZeroDivisionError" in str(error):
            raise divided_by_zero() from None
        raise


def _holds_zero(x: Any) -> bool:
    """Say whether an element is seen to be zero: none is while a graph is traced."""
    if x.__class__ in _SCALARS:
        return bool(x == 0)
    return shows(x) and not bool(torch.all(x))


def pow_(x1: Tensor, x2: Tensor) -> Tensor:
    # torch answers 0 where there is no integer to give.
    whole = not (x2.is_floating_point() or x2.is_complex())
    if whole and x1.numel() and shows(x2) and bool((x2 < 0).any()):
        raise negative_power()
    result = torch.pow(x1, x2)
    # Through the logarithm torch finds NaN for the powers of a complex zero, and 0j ** 0.
    return torch.where(x2 == 0, torch.ones_like(x2), result) if x1.is_complex() else result


def sign(x: Tensor) -> Tensor:
    if x.is_complex():
        return _direction(x)
    found = torch.sign(x)  # zero, of NaN
    return torch.where(torch.isnan(x), torch.nan, found) if x.is_floating_point() else found


@differentiated_as(torch.sgn)
def _direction(x: Tensor) -> Tensor:
    # Quotients by a subnormal modulus overflow, and a modulus may overflow itself.
    size = torch.abs(x)
    x = torch.where(size < torch.finfo(x.dtype).tiny, x * 2.0**60, x)
    x = torch.where(torch.isinf(size) & torch.isfinite(x), x / 4, x)
    return torch.where(x == 0, 0, x / torch.abs(x))


def _real(x: Tensor) -> Tensor:
    return packed(x.real)


def _imag(x: Tensor) -> Tensor:
    return packed(x.imag)


def expm1(x: Tensor) -> Tensor:
    return _complex_expm1(x) if x.is_complex() else torch.expm1(x)


@differentiated_as(torch.expm1)
def _complex_expm1(x: Tensor) -> Tensor:
    # torch multiplies infinities by zeros; exp has the special cases right, and differs by one
    # in the real part, which no special value notices.
    result, special = torch.expm1(x), torch.exp(x)
    special = torch.complex(_real(special) - 1, _imag(special))
    return _zero_kept(x, torch.where(torch.isfinite(result), result, special))


def log1p(x: Tensor) -> Tensor:
    return _complex_log1p(x) if x.is_complex() else torch.log1p(x)


@differentiated_as(torch.log1p)
def _complex_log1p(x: Tensor) -> Tensor:
    # torch finds NaN at infinities, where log has the special cases right.
    result, special = torch.log1p(x), torch.log(torch.complex(_real(x) + 1, _imag(x)))
    return _zero_kept(x, torch.where(torch.isfinite(result), result, special))


def _zero_kept(x: Tensor, result: Tensor) -> Tensor:
    """Return zero at zero, with the sign of its imaginary part and a real part of +0."""
    return torch.where(x == 0, torch.complex(torch.zeros_like(_real(x)), _imag(x)), result)


def sqrt(x: Tensor) -> Tensor:
    return _root(x) if HAS_MKL and x.is_cpu and x.is_floating_point() else torch.sqrt(x)


@differentiated_as(torch.sqrt)
def _root(x: Tensor) -> Tensor:
    # The standard wants what IEEE 754 rounds to, as NumPy has it; MKL's may be one unit off.
    if not is_plain(x):
        return torch.sqrt(x)
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.sqrt(x.numpy())))


def tanh(x: Tensor) -> Tensor:
    result = torch.tanh(x)
    if not x.is_complex():
        return result
    real, imag = _real(x), _imag(x)
    # C99 leaves the sign of the zero at infinity to sin(2 y); the standard takes that of y.
    limit = torch.complex(_real(result), torch.copysign(torch.zeros_like(imag), imag))
    result = torch.where(torch.isinf(real) & torch.isfinite(imag), limit, result)
    if x.is_cpu:
        return result
    # On the imaginary axis the real part is zero, also beside a NaN; on GPUs torch has NaN there.
    limit = torch.complex(real, _imag(result))
    return torch.where((real == 0) & ~torch.isfinite(imag), limit, result)


def tan(x: Tensor) -> Tensor:
    result = torch.tan(x)
    if not x.is_complex():
        return result
    # It is tanh, turned.
    real, imag = _real(x), _imag(x)
    limit = torch.complex(torch.copysign(torch.zeros_like(real), real), _imag(result))
    result = torch.where(torch.isinf(imag) & torch.isfinite(real), limit, result)
    if x.is_cpu:
        return result
    limit = torch.complex(_real(result), imag)
    return torch.where((imag == 0) & ~torch.isfinite(real), limit, result)


def acosh(x: Tensor) -> Tensor:
    result = torch.acosh(x)
    if x.is_cpu or not x.is_complex():
        return result
    # On GPUs torch has NaN for the imaginary part too.
    limit = torch.complex(_real(result), torch.full_like(_imag(x), math.pi / 2))
    return torch.where((_real(x) == 0) & torch.isnan(_imag(x)), limit, result)


def log2(x: Tensor) -> Tensor:
    if x.is_cpu or not x.is_complex():
        return torch.log2(x)
    # On GPUs torch divides by a complex number (complex_math.h), where infinities become NaN.
    result = torch.log(x)
    return torch.complex(_real(result) / math.log(2), _imag(result) / math.log(2))


def hyperbolic(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let cosh or sinh overflow where the result does.

    The vectorised loops do where the exponential does, in long tensors alone
    (https://github.com/pytorch/pytorch/issues/48641).
    """

    @differentiated_as(function)
    def compute(x: Tensor) -> Tensor:
        result = function(x)
        lost = torch.isinf(result)
        if not is_batched(lost) and not bool(lost.any()):
            return result
        if not x.is_contiguous():  # what follows is, and more of it would be lost
            return compute(x.contiguous())
        root = torch.exp(torch.abs(x) / 2)
        return torch.where(lost, torch.copysign(root / 2 * root, result), result)

    def on_host(x: Tensor) -> Tensor:
        return function(x) if x.device.type != "cpu" or x.is_complex() else compute(x)

    return on_host


def acos(x: Tensor) -> Tensor:
    return _complex_acos(x) if x.is_complex() else torch.acos(x)


@differentiated_as(torch.acos)
def _complex_acos(x: Tensor) -> Tensor:
    result = torch.acos(x)
    # The imaginary part has the opposite sign of that of x; torch loses it at zero. And near 1 on
    # the host the digits of the real one, which its acosh has.
    real = torch.abs(_imag(torch.acosh(x))) if x.is_cpu else _real(result)
    return torch.complex(real, torch.copysign(_imag(result), -_imag(x)))


def conj(x: Tensor) -> Tensor:
    # torch.conj sets a bit that no other library reads, and returns real tensors themselves.
    return torch.conj_physical(x) if x.is_complex() else x.clone()
