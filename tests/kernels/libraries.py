"""Arrays of every library for the kernels' tests, and float64 references in plain NumPy.

The references follow the formulas of the papers, and share nothing with the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

import corepy
from corepy.dispatch._route_sources import InForce
from corepy.kernels import _memory, _ways
from tests.kernels import opencl

#: The bounds of the results' error, relative to the size of the terms that make them.
BOUNDS: Final = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
#: Half the least subnormal number, by which a tiny result is off in any case.
LEAST: Final = {"float64": 0.0, "float32": 1e-37, "float16": 6e-8, "bfloat16": 1e-37}


#: Libraries on whose arrays device kernels compute.
DEVICES: Final = ("opencl", "cupy", "cuda")


@dataclass(frozen=True, slots=True)
class Kind:
    """Whose arrays, and whether compiled kernels or the reference compute.

    "opencl" are arrays of pyopencl, "cupy" those of CuPy and "cuda" torch's there; device kernels
    compute on all three.
    """

    library: str
    compiled: bool

    @property
    def slow(self) -> bool:
        """Whether to be content with few shapes: pure Python, or a compilation for each of them."""
        return self.library == "reference" or (self.library == "jax" and not self.compiled)

    def some(self, shapes: Sequence[Any], dtype: str, few: slice) -> Sequence[Any]:
        """Return shapes to try: a few where each of them costs a compilation."""
        if self.slow or (self.library in DEVICES and dtype != "float32"):
            return shapes[few]
        return shapes

    @property
    def dtypes(self) -> tuple[str, ...]:
        match self.library:
            case "opencl" | "cuda":
                return ("float32", "float64", "float16", "bfloat16")
            case "cupy":
                import cupy

                late = int(cupy.__version__.partition(".")[0]) >= 14
                return ("float32", "float64", "float16", *(("bfloat16",) if late else ()))
            case "jax" if self.slow:
                return ("float32", "float64", "bfloat16")
            case "torch" | "jax":
                return ("float32", "float64", "float16", "bfloat16")
            case "numpy":
                return ("float32", "float64", "float16")
        return ("float32", "float64")

    def array(self, values: Any, dtype: str | None = None) -> Any:
        """Make an array of the library."""
        host = np.asarray(values)
        if dtype is not None and dtype != "bfloat16":
            host = host.astype(dtype)
        match self.library:
            case "numpy":
                return host
            case "torch":
                import torch

                made = torch.from_numpy(np.array(host))
                return made.to(torch.bfloat16) if dtype == "bfloat16" else made
            case "jax":
                import jax.numpy as jnp

                if dtype == "bfloat16":
                    return jnp.asarray(host.astype("float32"), dtype=jnp.bfloat16)
                if host.itemsize < 8:
                    return jnp.asarray(host)
                return corepy.to(host, backend="jax").unwrap()  # JAX itself would cut it
            case "array":
                return corepy.to(host, backend="numpy")
            case "opencl":
                import pyopencl.array

                return pyopencl.array.to_device(queue(), _with_bfloat16(host, dtype))
            case "cupy":
                import cupy

                return cupy.asarray(_with_bfloat16(host, dtype))
            case "cuda":
                return Kind("torch", False).array(values, dtype).cuda()
        return corepy.to(host, backend=self.library)


@cache
def queue() -> Any:
    """Return a queue on the device of OpenCL that tests run on."""
    import pyopencl

    return pyopencl.CommandQueue(pyopencl.Context([opencl.device()]))


def _with_bfloat16(host: Any, dtype: str | None) -> Any:
    if dtype != "bfloat16":
        return host
    import ml_dtypes

    return host.astype(ml_dtypes.bfloat16)


def sample(*shape: int, seed: int = 0, dtype: Any = "f8") -> Any:
    """Draw numbers around zero, which follow from the seed and the shape."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def host(x: Any) -> Any:
    """Return values as NumPy's, in float64 if they are floats."""
    if isinstance(x, corepy.Array):
        x = x.unwrap() if x.backend == "numpy" else corepy.to(x, backend="numpy").unwrap()
    if type(x).__module__ == "torch":
        import torch

        x = x.detach().cpu()
        x = (x.to(torch.float64) if x.is_floating_point() else x).numpy()
    elif hasattr(x, "get"):  # pyopencl's and CuPy's
        x = x.get() if x.size == 0 or x.flags.forc or not hasattr(x, "queue") else _spread(x)
    x = np.asarray(x)
    return x if x.dtype.kind in "bi" else x.astype(np.float64)


def _spread(x: Any) -> Any:
    """Return the values of an array of pyopencl that is part of another one."""
    import pyopencl.array

    size = x.dtype.itemsize
    whole = pyopencl.array.Array(x.queue, x.base_data.size // size, x.dtype, data=x.base_data)
    return np.lib.stride_tricks.as_strided(whole.get()[x.offset // size :], x.shape, x.strides)


def exchanged(x: Any, order: tuple[int, ...]) -> Any:
    """Return a view with its axes in another order."""
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)


def dtype_of(x: Any) -> str:
    """Return the name of an array's dtype."""
    return str(x.dtype).rpartition(".")[2]


def check(x: Any, out: Any, expected: Any, dtype: str, scale: Any = None) -> None:
    """Hold a result to the type, dtype and shape of the operand, and to values."""
    assert type(out) is type(x)
    assert dtype_of(out) == dtype
    assert tuple(out.shape) == tuple(expected.shape)
    got = host(out)
    special = ~np.isfinite(expected)
    np.testing.assert_array_equal(got[special], expected[special])
    size = np.abs(expected) if scale is None else scale
    with np.errstate(invalid="ignore"):
        error = np.abs(got - expected)
    beyond = ~special & ~(error <= BOUNDS[dtype] * size + LEAST[dtype])
    assert not beyond.any(), (got[beyond][:5], expected[beyond][:5])


def kinds(*libraries: str) -> list[Any]:
    """Return a parameter for each library, computed by the reference and compiled."""
    found = []
    for library in libraries or ("numpy", "torch", "jax", "array", "reference"):
        for fast in (False, True):
            if fast and library == "reference":
                continue  # computes in no memory that a kernel could look at
            needs = {"numpy": [], "array": []}.get(library, [library]) + ["numba"] * fast
            marks = [pytest.mark.backend(name) for name in needs]
            name = f"{library}-{'compiled' if fast else 'reference'}"
            found.append(pytest.param(Kind(library, fast), id=name, marks=marks))
    return found


def device_kinds() -> list[Any]:
    """Return a parameter for each library whose arrays device kernels take."""
    return [
        pytest.param(Kind(name, True), id=f"{name}-device", marks=pytest.mark.device(name))
        for name in DEVICES
    ]


# ---------------------------------------------------------------------------- references


def rms_norm(x: Any, weight: Any, eps: float) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any]:
    """Return the norm, and the size of its terms."""
    mean, spread = x.mean(-1, keepdims=True), np.sqrt(x.var(-1, keepdims=True) + eps)
    terms = (np.abs(x) + np.abs(mean)) / spread * np.abs(weight) + np.abs(bias)
    return (x - mean) / spread * weight + bias, terms


def softmax(x: Any, axis: int, scale: float = 1.0, mask: Any = None) -> Any:
    mask = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    out = np.zeros(x.shape)
    lines = np.moveaxis(x, axis, -1), np.moveaxis(mask, axis, -1), np.moveaxis(out, axis, -1)
    for place in np.ndindex(lines[0].shape[:-1]):
        values, taken, into = (line[place] for line in lines)
        kept = scale * values[taken]
        if kept.size:
            with np.errstate(invalid="ignore"):
                e = np.exp(kept - kept.max())
                into[taken] = e / e.sum()  # a NaN spoils what takes part, and nothing else
    return out


def silu(x: Any) -> Any:
    return np.array([v * _logistic(v) if v > -800 else -0.0 for v in x.ravel()]).reshape(x.shape)


def gelu(x: Any) -> Any:
    def one(v: float) -> float:
        return -0.0 if v < -100 else v * 0.5 * math.erfc(-v / math.sqrt(2.0))

    return np.array([one(v) for v in x.ravel()]).reshape(x.shape)


def gelu_tanh(x: Any) -> Any:
    def one(v: float) -> float:
        inner = math.sqrt(2.0 / math.pi) * (v + 0.044715 * v * v * v)
        return -0.0 if v < -100 else v * _logistic(2.0 * inner)

    return np.array([one(v) for v in x.ravel()]).reshape(x.shape)


def _logistic(v: float) -> float:
    if v < 0:
        return math.exp(v) / (1.0 + math.exp(v))
    return 1.0 / (1.0 + math.exp(-v))


def rope(x: Any, cos: Any, sin: Any, positions: Any, interleaved: bool) -> tuple[Any, Any]:
    """Return the turned pairs as products of complex numbers, and the size of their terms."""
    places = np.broadcast_to(positions, x.shape[:-1])
    half = x.shape[-1] // 2
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if interleaved
        else (slice(0, half), slice(half, None))
    )
    z = x[..., first] + 1j * x[..., second]
    turned = z * (cos + 1j * sin)[places]
    out, terms = np.empty(x.shape), np.empty(x.shape)
    out[..., first], out[..., second] = turned.real, turned.imag
    c, s = np.abs(cos[places]), np.abs(sin[places])
    terms[..., first] = np.abs(z.real) * c + np.abs(z.imag) * s
    terms[..., second] = np.abs(z.imag) * c + np.abs(z.real) * s
    return out, terms


def select(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """Let compiled kernels compute from one element on, or never, whatever tables say."""
    off = InForce(None, "off, for the tests")  # of its own: no call of another test is repeated
    monkeypatch.setattr(_ways, "in_force", lambda: off)
    least = 1 if kind.compiled else 1 << 62
    monkeypatch.setattr(_memory, "PATIENCE", 1 << 62)
    monkeypatch.setattr(_memory, "LEAST", dict.fromkeys(("numpy", "torch", "jax"), least))
