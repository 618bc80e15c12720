"""Offload: random programs, with a device that takes all that it may and fails now and then.

Each runs twice, offloaded and not, and is the same by every step: values, dtypes, errors, and who
sees a write. Arrays that may or may not be views of each other are not written to.
"""

from __future__ import annotations

import copy
import operator
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import corepy
import corepy.array_api as xp
from corepy._dtypes import ANY
from corepy.dispatch._offload_values import Resident
from corepy.testing import DeviceLost, FakeBackend
from tests.dispatch.fake import DEVICE, registered
from tests.dispatch.offloading import NOTHING, SLOW, costs, is_resident, use_costs

DTYPES: Final = ("float64", "float64", "float32", "complex128", "int64", "int32", "uint8", "bool")
SHAPES: Final = ((), (3,), (0,), (3, 3), (3, 3), (2, 3), (3, 1), (2, 3, 3))
SPECIAL: Final = (0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e308)
SCALARS: Final = (2, -1, 0, 300, 2.5, -0.0, True, 1j, np.float32(1.5), 2**70)
KINDS: Final = (
    "new start unary binary in_place reduce linear other get get set look copy same view write mode"
)
UNARY: Final = "abs ceil conj exp isnan log negative positive real round sign sqrt square tanh"
BINARY: Final = "add sub mul truediv floordiv mod pow and_ xor lshift matmul eq lt ge"
IN_PLACE: Final = "iadd isub imul itruediv ifloordiv ipow ior imatmul"
REDUCING: Final = "all any argmax count_nonzero max mean min sum prod std"
LINEAR: Final = "cholesky inv svdvals eigvalsh matrix_transpose matrix_norm"
OTHER: Final[dict[str, Callable[[Any], Any]]] = {
    "reshape": lambda x: xp.reshape(x, (-1,)),
    "reshape, copied": lambda x: xp.reshape(x, (-1,), copy=True),
    "reshape, shared": lambda x: xp.reshape(x, (3, -1), copy=False),
    "squeeze": lambda x: xp.squeeze(x, axis=0),
    "expand_dims": lambda x: xp.expand_dims(x, axis=-1),
    "concat": lambda x: xp.concat([x, x]),
    "flip": xp.flip,
    "astype": lambda x: xp.astype(x, xp.float32),
    "astype, kept": lambda x: xp.astype(x, x.dtype, copy=False),
    "argsort": lambda x: xp.argsort(x, axis=0, descending=True),
    "unique": xp.unique_values,
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=0),
    "zeros_like": xp.zeros_like,
    "fft": xp.fft.fft,
    "broadcast_to": lambda x: xp.broadcast_to(x, (2, 3, 3)),
}
COPIES: Final[tuple[Callable[[Any], Any], ...]] = (
    *(copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))),
    lambda x: xp.asarray(x, copy=True),
)
SAME: Final[tuple[Callable[[Any], Any], ...]] = (
    *(xp.asarray, xp.from_dlpack, lambda x: x.to_device("cpu")),
    lambda x: xp.asarray(x, copy=False),
)
LOOKS: Final[tuple[Callable[[Any], Any], ...]] = (
    *(repr, str, float, bool, complex, len, lambda x: x.tolist(), lambda x: x.unwrap().sum()),
    *(lambda x: 1 in x, lambda x: [y.tolist() for y in x], lambda x: np.asarray(x, copy=True)),
)
MODES: Final[tuple[Callable[[], Any], ...]] = (
    *(corepy.strict, corepy.reproducible, corepy.profile, lambda: corepy.offload("off")),
)


class Frail(FakeBackend):
    """A device on which all may fail but the way home."""

    chance = 0.0

    def __init__(self) -> None:
        super().__init__(devices={DEVICE.name: ANY})
        self.luck = random.Random(0)

    def _risk(self, error: Exception) -> None:
        if self.luck.random() < self.chance:
            raise error

    def operation(self, name: str) -> Callable[..., Any] | None:
        native = super().operation(name)

        def run(*args: Any, **params: Any) -> Any:
            self._risk(MemoryError("full"))
            assert native is not None
            made = native(*args, **params)
            self._risk(RuntimeError("it broke"))
            return made

        return None if native is None else run

    def from_numpy(self, array: Any, device: Any, *, copy: bool | None = None) -> Any:
        self._risk(DeviceLost("no way there"))
        return super().from_numpy(array, device, copy=copy)


class Program:
    """A random program: arrays, the group that may share memory with each, and NumPy's views."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arrays: list[tuple[Any, int]] = []
        self.views: list[Any] = []
        self.groups = 0
        #: Groups in which all is one memory for certain.
        self.one: set[int] = set()
        self.resident = 0

    def keep(self, x: Any, group: int | None = None) -> Any:
        if group is None:
            group, self.groups = self.groups, self.groups + 1
        self.arrays.append((x, group))
        if len(self.arrays) > 8:
            del self.arrays[self.random.randrange(8)]
        return x

    def new(self) -> Any:
        draw, dtype = self.random, np.dtype(self.random.choice(DTYPES))
        shape = draw.choice(SHAPES)
        count, kind = int(np.prod(shape)), dtype.kind
        values = [draw.randint(0, 9) for _ in range(count)]
        if kind in "fc":
            rare = [draw.choice(SPECIAL) if draw.random() < 0.1 else x / 4 for x in values]
            with np.errstate(over="ignore", invalid="ignore"):
                return self.keep(xp.asarray(np.array(rare).astype(dtype).reshape(shape)))
        return self.keep(xp.asarray(np.array(values).astype(dtype).reshape(shape)))

    def key(self, shape: tuple[int, ...]) -> Any:
        draw = self.random

        def part(n: int) -> Any:
            edges = (None, 0, 1, -1, 2, -9, 9)
            piece = slice(draw.choice(edges), draw.choice(edges), draw.choice((None, 1, -1, 2)))
            return draw.choice((draw.randint(-n - 1, n), 0, piece, piece, None, ...))

        parts = [part(n) for n in shape[: draw.randint(0, len(shape))]]
        while parts.count(...) > 1:
            parts.remove(...)
        if draw.random() < 0.2:
            return xp.asarray([0, draw.randint(-1, 3)])
        return tuple(parts) if draw.random() < 0.5 or len(parts) != 1 else parts[0]

    def step(self) -> Any:
        draw = self.random
        x, group = draw.choice(self.arrays)
        alone = group in self.one or sum(g == group for _, g in self.arrays) == 1
        y = draw.choice(SCALARS) if draw.random() < 0.3 else draw.choice(self.arrays)[0]
        kind = draw.choice(KINDS.split())
        if kind == "start":
            square = xp.asarray(np.arange(9.0).reshape(3, 3) + draw.randint(0, 3))
            return self.keep(draw.choice((lambda: square @ square, lambda: xp.sort(square)))())
        if kind == "unary":
            return self.keep(getattr(xp, draw.choice(UNARY.split()))(x), group)
        if kind == "binary":
            return self.keep(getattr(operator, draw.choice(BINARY.split()))(x, y))
        if kind == "in_place" and alone:
            made = getattr(operator, draw.choice(IN_PLACE.split()))(x, y)
            assert made is x
            return made
        if kind == "reduce":
            function, axis = getattr(xp, draw.choice(REDUCING.split())), draw.choice((None, 0, -1))
            return self.keep(function(x, axis=axis, keepdims=draw.random() < 0.3))
        if kind == "linear":
            return self.keep(getattr(xp.linalg, draw.choice(LINEAR.split()))(x), group)
        if kind == "other":
            return self.keep(OTHER[draw.choice(list(OTHER))](x), group)
        if kind == "get":
            return self.keep(x[self.key(x.shape)], group)
        if kind == "set" and alone:
            x[self.key(x.shape)] = y
            return x
        if kind == "look":
            return draw.choice(LOOKS)(x)
        if kind == "copy":
            return self.keep(draw.choice(COPIES)(x))
        if kind == "same" and alone:
            self.one.add(group)
            return self.keep(draw.choice(SAME)(x), group)
        if kind == "view" and alone:
            self.one.add(group)
            self.views.append(np.asarray(x))
            return self.views[-1]
        if kind == "write" and self.views:
            view = draw.choice(self.views)
            if view.flags.writeable:
                view[...] = draw.randint(0, 3)
            return view
        if kind == "mode":
            with draw.choice(MODES)():
                return self.step()
        return self.new()

    def run(self, steps: int) -> Iterator[Any]:
        """Yield what each step gives, and all that there is after it."""
        self.new()
        for _ in range(steps):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of infinities and NaN
                try:
                    made = self.step()
                except AssertionError:
                    raise
                except Exception as error:  # its type and words are compared
                    made = type(error).__name__, str(error)
            self.resident += any(is_resident(x) for x, _ in self.arrays)
            yield (
                seen(made),
                [seen(x) for x, _ in self.arrays],
                [view.copy() for view in self.views],
            )


def seen(x: Any) -> Any:
    """Return what there is to see of a result, and leave its values where they are."""
    if not isinstance(x, corepy.dispatch.Operand):
        return x.copy() if isinstance(x, np.ndarray) else x
    native = x._native
    if native.__class__ is Resident:
        native = native.here if native.there is None else native.there._values
    return x.dtype, x.device, x.backend, np.array(native)


def assert_same(got: Any, wanted: Any) -> None:
    assert type(got) is type(wanted)
    if isinstance(wanted, (tuple, list)):
        assert len(got) == len(wanted)
        for x, y in zip(got, wanted, strict=True):
            assert_same(x, y)
    elif isinstance(wanted, (np.ndarray, np.generic)) and wanted.dtype.kind in "fc":
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        coarse = wanted.dtype.name in ("float32", "complex64")
        np.testing.assert_allclose(got, wanted, rtol=1e-4 if coarse else 1e-9, atol=1e-9)
        for part in (np.real, np.imag):
            x, y = part(got), part(wanted)
            zeros = (x == 0) & (y == 0)
            np.testing.assert_array_equal(np.signbit(x)[zeros], np.signbit(y)[zeros])
    elif isinstance(wanted, float):
        assert got == pytest.approx(wanted, nan_ok=True)
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("chance", [0.0, 0.2])
def test_random_programs_mean_the_same(chance: float) -> None:
    backend, resident = Frail(), 0
    with registered(backend):
        use_costs(costs(backend, moving=NOTHING, here=SLOW, there=NOTHING))
        try:
            for seed in range(30):
                runs = []
                for mode in ("off", "auto"):
                    backend.chance = chance
                    program = Program(seed)
                    with corepy.offload(mode):  # type: ignore[arg-type]
                        runs.append(list(program.run(40)))
                resident += program.resident
                for step, (wanted, got) in enumerate(zip(*runs, strict=True)):
                    try:
                        assert_same(got, wanted)
                    except AssertionError as error:
                        raise AssertionError(f"program {seed}, step {step}") from error
        finally:
            use_costs(None)
    assert resident > 100  # else nothing was tried
