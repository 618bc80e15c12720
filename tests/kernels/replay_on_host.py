"""Calls that are repeated without a look, on the stand-in of `tests.kernels.cuda_on_host`.

Each is held to the usual way, bit by bit: on arrays of CuPy's stand-in, and on torch's tensors of
the host that are taken for a GPU's. A program of its own, for it changes torch.
"""

from __future__ import annotations

import gc
import shutil
import sys
import warnings
import weakref
from functools import partial
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.kernels import cuda_on_host

cupy: Any = sys.modules["cupy"]

import corepy  # noqa: E402
import corepy.array_api as xp  # noqa: E402
from corepy import dispatch, kernels  # noqa: E402
from corepy.backends.torch import _devices  # noqa: E402
from corepy.devices._device import as_device  # noqa: E402
from corepy.kernels import _replay  # noqa: E402
from corepy.kernels._device import _cupy  # noqa: E402
from tests.kernels.test_replay import (  # noqa: E402
    FAMILIES,
    ROW,
    SHAPE,
    VIEWS,
    Make,
    agree,
    bits,
    check_arrays_of_no_elements,
    check_given_memory,
    check_numbers,
    check_numbers_in_arrays,
    check_positions,
    drawn,
    launches,
)

#: torch's current stream, and in which CuPy launched.
STREAMS = SimpleNamespace(torch=0, entered=[])


def tensor(values: Any) -> Any:
    return torch.from_numpy(np.array(values))


def check_families(make: Make) -> None:
    for function, shapes in FAMILIES:
        with launches(1):
            function(*drawn(make, 0, *shapes))
        for seed in (1, 2):
            arrays = drawn(make, seed, *shapes)
            with launches(1):  # the one that it is held to
                result = agree(function, *arrays)
            results = result if isinstance(result, tuple) else (result,)
            assert all(type(one) is type(arrays[0]) for one in results)
            assert not any(one is array for one in results for array in arrays)


def check_layouts(make: Make) -> None:
    """Where rows begin and how far they are apart is part of what was seen."""
    for view in [*VIEWS.values()] * 2:
        for seed in (0, 1):
            (x,) = drawn(make, seed, SHAPE)
            (w,) = drawn(make, seed, (32,))
            agree(lambda x, w: kernels.rms_norm(x, w, 1e-5), view(x), w)
            agree(kernels.silu, view(x))
    (x,) = drawn(make, 3, SHAPE)
    (w,) = drawn(make, 3, (32,))
    for view, usual in zip(VIEWS.values(), (0, 0, 0, 0, 2), strict=True):
        with launches(usual):  # a copy, and the norm of the copy
            kernels.rms_norm(view(x), w, 1e-5)
    (wide,) = drawn(make, 3, SHAPE, dtype="f8")
    for again in (1, 0):
        with launches(again):
            assert kernels.silu(wide).dtype == wide.dtype


def check_attention(make: Make) -> None:
    """Lengths and masks are arrays like others, whose values are another call's."""
    shape = (2, 4, 5, 64)
    for seed in (0, 1, 2):
        q, k, v, bias = drawn(make, seed, shape, shape, shape, (5, 5))
        lengths = make(np.array([5 - seed, 3]))
        agree(lambda *a: kernels.attention(*a, window=2), q, k, v)
        agree(partial(kernels.attention, window=(seed, None)), q, k, v)
        agree(lambda *a: kernels.attention(*a, window=(1, 0), return_lse=True), q, k, v)
        agree(lambda q, k, v, b: kernels.attention(q, k, v, bias=b), q, k, v, bias)
        agree(lambda q, k, v, n: kernels.attention(q, k, v, lengths=n), q, k, v, lengths)
        agree(lambda q: kernels.attention(q, q, q, scale=-1.0), q)
        with launches(int(seed == 0)):
            kernels.attention(q, k, v, mask=None, window=3)


def check_convolutions(make: Make) -> None:
    for seed in (0, 1, 2):
        x, w, b = drawn(make, seed, (2, 4, 9, 8), (6, 2, 3, 3), (6,))
        agree(lambda x, w: kernels.conv2d(x, w, groups=2), x, w)
        agree(lambda x, w: kernels.conv2d(x, w, groups=2, dilation=(2, 1)), x, w)
        agree(lambda x, w, b: kernels.conv2d(x, w, b, groups=2, padding=1), x, w, b)
    with launches(0):
        kernels.conv2d(x, w, b, groups=2, padding=1)


def check_libraries(make: Make) -> None:
    x, _ = drawn(make, 5, SHAPE, ROW)
    with pytest.raises(TypeError, match="^rms_norm: weight"):
        kernels.rms_norm(x, np.ones(64, "f4"), 1e-5)


def check_aliases(make: Make) -> None:
    """Arrays that are one are not taken for two."""
    shape = (5, 48)
    x, y = drawn(make, 7, shape, shape)
    agree(kernels.swiglu, x, x)
    for usual in (1, 0):
        with launches(usual):
            kernels.swiglu(x, y)
    agree(kernels.swiglu, x, y)
    agree(kernels.swiglu, x, x)
    agree(kernels.swiglu, y, x)


def check_listeners(make: Make) -> None:
    (x,) = drawn(make, 11, SHAPE)
    with launches(0):
        kernels.silu(x)
    (row,) = corepy.explain(kernels.silu, x).records
    assert (row.backend, row.device) == ("cupy", "cuda:0")
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(kernels.silu(x)))
    thread.start()
    thread.join()
    assert bits(found[0]) == bits(kernels.silu(x))


def check_failures(make: Make) -> None:
    """What cannot be repeated takes the usual way, with its errors."""
    (x,) = drawn(make, 12, (3, 32))
    kernels.silu(x)

    def failing(*_: Any) -> Any:
        raise MemoryError

    kind: Any = _cupy._OfTensors if make is tensor else _cupy._OfArrays
    run, kind._run = kind._run, failing
    with launches(2):
        agree(kernels.silu, x)
    kind._run = run
    with launches(1):
        agree(kernels.silu, x)


def check_memory(make: Make) -> None:
    """Nothing that is kept keeps an array alive."""
    (x,) = drawn(make, 18, (7, 32))
    found = [kernels.silu(x) for _ in range(2)]
    alive = [weakref.ref(one) for one in (x, *found)]
    del x, found
    gc.collect()
    assert [one() for one in alive] == [None] * 3


def check_bounds() -> None:
    """Kept calls are so many at most."""
    most, _replay._MOST = _replay._MOST, 2  # type: ignore[misc]
    for size in (2, 4, 6, 8, 2):
        (x,) = drawn(cuda_on_host.array, 13, (size, 64))
        agree(kernels.silu, x)
    _replay._MOST = most  # type: ignore[misc]


# ---------------------------------------------------------------------------- torch alone


def install() -> None:
    """Let torch's tensors of the host be on a GPU."""
    place = as_device("cuda:0")
    _devices.device_of = lambda device: place
    torch.Tensor.is_cuda = True  # type: ignore[assignment,misc,method-assign]
    torch.Tensor.get_device = lambda self: 0  # type: ignore[assignment,method-assign]
    torch.cuda.synchronize = lambda place: None
    _cupy.torch_stream = lambda number: STREAMS.torch
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=0)
    call = cuda_on_host.RawKernel.__call__

    def entered(self: Any, *args: Any, **options: Any) -> None:
        if len(args) == 5:
            STREAMS.entered.append(args[4].ptr)
        call(self, *args, **options)

    cuda_on_host.RawKernel.__call__ = entered  # type: ignore[method-assign]


def check_streams() -> None:
    (x,) = drawn(tensor, 14, SHAPE)
    kernels.silu(x)
    STREAMS.entered.clear()
    for address in (0, 768, 512, 768, 0):
        STREAMS.torch = address
        with launches(0):
            kernels.silu(x)
    assert STREAMS.entered == [0, 768, 512, 768, 0]


def check_gradients() -> None:
    (values,) = drawn(tensor, 15, SHAPE)
    (w,) = drawn(tensor, 16, ROW)
    weight = torch.nn.Parameter(w)
    for usual in (1, 0):
        with torch.no_grad(), launches(usual):
            found = kernels.rms_norm(values, weight, 1e-5)
            assert type(found) is torch.Tensor
            assert not found.requires_grad
    with launches(0):  # torch's own functions
        kernels.rms_norm(values, weight, 1e-5).sum().backward()
        kernels.rms_norm(values, weight, 1e-5).sum().backward()
    assert weight.grad is not None
    with torch.no_grad(), launches(0):
        kernels.rms_norm(values, weight, 1e-5)
    with torch.inference_mode(), launches(0):
        assert kernels.rms_norm(values, weight, 1e-5).is_inference()


def check_transforms() -> None:
    (x,) = drawn(tensor, 17, SHAPE)
    plain = kernels.silu(x)
    with launches(0):
        plain = kernels.silu(x)
        torch.testing.assert_close(torch.func.vmap(kernels.silu)(x), plain)
        grown = torch.func.grad(lambda t: kernels.silu(t).sum())(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's own use of torch.jit
            _, pushed = torch.func.jvp(kernels.silu, (x,), (torch.ones_like(x),))
        torch.testing.assert_close(pushed, grown)
        flipped = torch._neg_view(x)
        assert flipped.is_neg()
        torch.testing.assert_close(kernels.silu(flipped), torch.nn.functional.silu(-x))
        torch.testing.assert_close(kernels.silu(x), plain)

        class Own(torch.Tensor):
            pass

        own = x.as_subclass(Own)
        torch.testing.assert_close(kernels.silu(own).as_subclass(torch.Tensor), plain)


def check_results_in_shared_memory() -> None:
    """An `Array` whose elements share memory, which others may have too, goes on to its own."""
    table = dispatch.table_of(dispatch.load("torch"), as_device("cuda:0"), xp.float32)
    (values,) = drawn(tensor, 19, SHAPE)
    shared = torch.zeros(SHAPE[-1])
    x, out = (dispatch.make(native, table) for native in (values, shared.expand(SHAPE)))
    with launches(1):
        assert kernels.silu(x, out=out) is out
    torch.testing.assert_close(out.unwrap(), torch.nn.functional.silu(values))
    assert not shared.any()


def main() -> None:
    for make in (cuda_on_host.array, tensor):
        if make is tensor:
            install()
        kernels.silu(*drawn(make, 0, (2, 2)))  # from here on calls are kept
        check_families(make)
        check_layouts(make)
        check_numbers(make)
        check_attention(make)
        check_convolutions(make)
        check_libraries(make)
        check_positions(make)
        check_aliases(make)
        check_given_memory(make)
        check_listeners(make)
        check_failures(make)
        check_memory(make)
        check_arrays_of_no_elements(make)
    check_numbers_in_arrays(tensor)
    check_bounds()
    check_streams()
    check_gradients()
    check_transforms()
    check_results_in_shared_memory()
    shutil.rmtree(cuda_on_host.FOLDER)
    print("ok")


if __name__ == "__main__":
    main()
