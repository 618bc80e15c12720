"""A call of every kernel, for what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from corepy import kernels
from tests.kernels.libraries import Kind

Call = Callable[..., Any]


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


#: Every kernel on an array of (4, 6), with arguments that fit.
CALLS: dict[str, Call] = {
    "rms_norm": lambda x, k, **o: kernels.rms_norm(x, k.array(ones(6)), 1e-5, **o),
    "layer_norm": lambda x, k, **o: kernels.layer_norm(x, None, k.array(ones(6)), 1e-5, **o),
    "batch_norm": lambda x, k, **o: kernels.batch_norm(x, *[k.array(ones(6))] * 2, **o),
    "softmax": lambda x, k, **o: kernels.softmax(x, -1, **o),
    "softmax_columns": lambda x, k, **o: kernels.softmax(x, 0, scale=2.0, **o),
    "silu": lambda x, k, **o: kernels.silu(x, **o),
    "gelu": lambda x, k, **o: kernels.gelu(x, **o),
    "gelu_tanh": lambda x, k, **o: kernels.gelu(x, approximate="tanh", **o),
    "swiglu": lambda x, k, **o: kernels.swiglu(x, x, **o),
    "rope": lambda x, k, **o: kernels.rope(x, *kernels.rope_tables(4, 6, like=x), **o),
}
every = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
NUMPY = Kind("numpy", compiled=True)
