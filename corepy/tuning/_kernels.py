"""The fused kernels as cases: who computes them, on arrays of which library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from corepy import kernels
from corepy.devices._device import CPU
from corepy.dispatch._admitted import KERNELS
from corepy.dispatch._registry import load, load_each
from corepy.dispatch._routers import Call
from corepy.kernels._ways import FORMULA, only
from corepy.tuning._clock import Work

Array = npt.NDArray[Any]

#: Elements of a row that is normed.
_WIDTH: Final = 1024
#: Heads, heads of keys and elements of a head, for attention.
_HEADS: Final = {"prefill": (16, 16, 64), "decode": (32, 8, 128)}
#: Error that is allowed, by dtype, relative to the greatest value of a row.
_BOUNDS: Final = {"float64": 1e-13, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
_EPS: Final = 1e-6
#: What JAX has a function of its own for; the formulas of others it compiles as they are.
_OF_JAX: Final = ("kernels.attention",)

#: What is called, by name.
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "kernels.attention": kernels.attention,
    "kernels.conv2d": lambda x, weight: kernels.conv2d(
        x, weight, padding=1, groups=x.shape[1] // weight.shape[1]
    ),
    "kernels.layer_norm": lambda x, weight, bias: kernels.layer_norm(x, weight, bias, _EPS),
    "kernels.rms_norm": lambda x, weight: kernels.rms_norm(x, weight, _EPS),
    "kernels.softmax": partial(kernels.softmax, axis=-1),
}
#: By form or name: the work that is measured first, then more, then less.
_SIZES: Final = {
    "prefill": (1 << 26, (1 << 30,), (1 << 22, 1 << 20, 1 << 18, 1 << 16)),
    "decode": (1 << 24, (), (1 << 22, 1 << 20, 1 << 18, 1 << 16)),
    "kernels.conv2d": (1 << 27, (1 << 29,), (1 << 24, 1 << 22, 1 << 20, 1 << 18, 1 << 16)),
    "grouped": (1 << 24, (1 << 26,), (1 << 22, 1 << 20, 1 << 18, 1 << 16)),
    "": (1 << 20, (1 << 22,), (1 << 18, 1 << 16, 1 << 14, 1 << 12, 1 << 10)),
}


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A fused kernel on arrays of one library and dtype; compare `Case`."""

    operation: str
    dtype: str
    form: str
    candidates: tuple[str, ...]
    #: Time is proportional to the work.
    squares: bool = False

    @property
    def label(self) -> str:
        """How it is called in lists."""
        return f"{self.operation} {self.dtype} {self.form}"

    @property
    def _library(self) -> str:
        return self.form.partition(" ")[0]

    @property
    def _work(self) -> str:
        return self.form.partition(" ")[2]

    def sizes(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Return the work that is measured first, the greater and the smaller ones."""
        return _SIZES.get(self._work or self.operation, _SIZES[""])

    def operands(
        self, size: int, rng: np.random.Generator
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arrays on which there is so much work to do."""
        return tuple(map(self._given, self._values(size, rng))), {}

    def by(self, way: str) -> Call:
        """Return what computes it in one way, else by its formula."""
        function = _FUNCTIONS[self.operation]

        def call(args: tuple[Any, ...], params: dict[str, Any]) -> Any:
            with only(way):
                made = function(*args, **params)
            wait = getattr(made, "block_until_ready", None)  # JAX goes on meanwhile
            return made if wait is None else wait()

        return call

    def work(self, backend: str | None, args: tuple[Any, ...], params: dict[str, Any]) -> Work:
        """Return a call that a backend runs, None being the home."""
        return partial(self.home if backend is None else self.by(backend), args, params)

    @property
    def home(self) -> Call:
        """What others are compared with: the formula in the library's functions."""
        return self.by(FORMULA)

    def deviation(self, name: str) -> str | None:
        """Return where a candidate is too far from the formula in float64, None if nowhere."""
        rng = np.random.default_rng(5)
        exact, candidate = self.home, self.by(name)
        for size in self.sizes()[2][-2:]:
            values = self._values(size, rng)
            # Of attention, what is added up: scores of infinity differ in what is NaN.
            place = values[-1 if self.operation == "kernels.attention" else 0].reshape(-1)
            for special in (1.0, np.nan, np.inf):
                place[0] = special
                args = tuple(map(self._given, values))
                with np.errstate(all="ignore"):
                    wanted = exact(tuple(_wide(x) for x in args), {})
                    got = _wide(candidate(args, {}))
                found = _difference(got, wanted, _BOUNDS[self.dtype])
                if found:
                    return f"{size} elements, one {special:g}: {found}"
        return None

    def _values(self, size: int, rng: np.random.Generator) -> list[Array]:
        """Make operands in float64."""
        if self.operation == "kernels.attention":
            heads, kv_heads, width = _HEADS[self._work]
            keys = size // (heads * width)
            queries = 1
            if self._work == "prefill":
                queries = keys = math.isqrt(keys)
            shapes = [(1, heads, queries, width)] + 2 * [(1, kv_heads, keys, width)]
            return [rng.standard_normal(shape) for shape in shapes]
        if self.operation == "kernels.conv2d":  # `size` counts products, of a kernel of 3 x 3
            channels = 64 if size >= 1 << 22 else 8
            depth = 1 if self._work == "grouped" else channels
            side = math.isqrt(size // (9 * channels * depth))
            images, filters = (1, channels, side, side), (channels, depth, 3, 3)
            return [rng.standard_normal(shape) for shape in (images, filters)]
        x = rng.standard_normal((max(size // _WIDTH, 1), min(size, _WIDTH)))
        match self.operation:
            case "kernels.rms_norm":
                return [x, rng.standard_normal(x.shape[1:])]
            case "kernels.layer_norm":
                return [x + 10.0, *(rng.standard_normal(x.shape[1:]) for _ in range(2))]
        return [x]

    def _given(self, values: Array) -> Any:
        if self._library == "numpy":
            return values.astype(self.dtype)
        if self._library == "jax":
            import jax.numpy as jnp

            if self.dtype == "float64":
                return load("jax").from_numpy(values, CPU)
            return jnp.asarray(values, dtype=self.dtype)
        import torch

        return torch.from_numpy(values).to(getattr(torch, self.dtype))


def kernel_cases(only: Iterable[str] = ()) -> Iterator[KernelCase]:
    """Yield the kernels that somebody may compute faster than their formula."""
    wanted = frozenset(only)
    for operation, admission in KERNELS.items():
        if wanted and operation not in wanted:
            continue
        for form in admission.forms:
            library = form.partition(" ")[0]
            if not any(load_each([library])):
                continue
            others = ("torch",) if library != "jax" else ("jax",) if operation in _OF_JAX else ()
            admitted = (name for name in ("numba", *others) if name in admission.backends)
            usable = tuple(backend.name for backend in load_each(admitted))
            for dtype in sorted(admission.dtypes - ({"bfloat16"} if library == "numpy" else set())):
                yield KernelCase(operation, dtype, form, usable)


def _wide(x: Any) -> Array:
    """Return an array of any library as NumPy's, in float64."""
    if type(x).__module__ == "torch":
        x = x.double().numpy()  # NumPy lacks bfloat16
    return np.asarray(x).astype(np.float64)


def _difference(got: Array, wanted: Array, bound: float) -> str | None:
    if got.shape != wanted.shape:
        return f"{got.shape}; expected {wanted.shape}"
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return "other infinities or NaN"
    size = np.abs(wanted).max(axis=-1, keepdims=True, initial=0.0, where=finite)
    with np.errstate(invalid="ignore"):
        apart = np.abs(got - wanted) / np.maximum(size, np.finfo(np.float32).tiny)
    error = float(apart.max(initial=0.0, where=finite))
    return None if error <= bound else f"{error:.3g} of the greatest; expected at most {bound:g}"
