"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

Array = Any
Function = Callable[..., Any]


# fftfreq and rfftfreq take no dtype in CuPy; float32 is rounded once from float64.
def fftfreq(n: int, *, d: float, dtype: Any) -> Array:
    return cupy.fft.fftfreq(n, d).astype(dtype, copy=False)


def rfftfreq(n: int, *, d: float, dtype: Any) -> Array:
    return cupy.fft.rfftfreq(n, d).astype(dtype, copy=False)


# CuPy puts axes in their order, and leaves sizes as they were given (_prep_fftn_axes in _fft.py).
def fftn(function: Function) -> Function:
    def transform(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
        if not x.size:  # for which cuFFT has no plan
            shape = list(x.shape)
            for n, axis in zip(s, axes, strict=True):
                shape[axis] = n
            return cupy.zeros(shape, cupy.result_type(x, cupy.complex64))
        return function(x, norm=norm, **_in_order(s, axes))

    return transform


def rfftn(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    if sorted(axes) == list(axes):
        return cupy.fft.rfftn(x, s, axes, norm)
    half = cupy.fft.rfft(x, s[-1], axes[-1], norm)
    return cupy.fft.fftn(half, norm=norm, **_in_order(s[:-1], axes[:-1]))


def irfftn(x: Array, *, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Array:
    if sorted(axes) == list(axes):
        return cupy.fft.irfftn(x, s, axes, norm)
    half = cupy.fft.ifftn(x, norm=norm, **_in_order(s[:-1], axes[:-1]))
    return cupy.fft.irfft(half, s[-1], axes[-1], norm)


def _in_order(s: tuple[int, ...], axes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    pairs = sorted(zip(axes, s, strict=True))
    return {"s": tuple(n for _, n in pairs), "axes": tuple(axis for axis, _ in pairs)}
