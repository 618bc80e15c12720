"""Libraries with arrays on a GPU, and a clock that is fair to all of them.

Their calls return before the GPU is done, each library in a queue of its own. So a turn of a call
is as many runs as fill some milliseconds and then a wait until the last result is there and the
device idle; turns are interleaved as in `benchmarks/_measure.py`.

For a rehearsal without a GPU everything lies on the host, and NumPy plays CuPy's part.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import corepy
from benchmarks import _measure
from benchmarks._measure import Statement, Timing

#: Seconds that a turn takes: long beside a wait, and beside the host's part of the first call, for
#: which the device has to wait.
TURN: Final = 2e-2
#: More runs in a turn would outrun the queue of launches, which holds about a thousand.
MOST_RUNS: Final = 500
HALVES: Final = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Library:
    """A library on one device.

    Attributes
    ----------
    name : str
        The library whose part it plays: ``"cupy"``, ``"torch"`` or ``"jax"``.
    backend, device : str
        Corepy's backend of these arrays, and their device; torch calls AMD's ``"cuda:0"`` too.
    module : module
        The library's namespace.
    """

    name: str
    backend: str
    device: str
    module: Any

    def array(self, values: np.ndarray[Any, Any], dtype: str | None = None) -> Any:
        """Make an array on the device; floats get a dtype by its name, ``"bfloat16"`` too."""
        if dtype is not None and values.dtype.kind == "f":
            values = rounded(values, dtype)
        if self.name == "torch":
            if values.dtype.name == "bfloat16":
                return self.module.from_numpy(values.astype("f4")).to(self.device).bfloat16()
            return self.module.from_numpy(np.array(values)).to(self.device)
        if self.name == "jax":
            if values.itemsize == 8:  # JAX itself would cut it
                return corepy.to(values, backend="jax", device=self.device).unwrap()
            return self.module.device_put(values, self.module.devices()[0])
        return self.module.asarray(values)

    def host(self, x: Any) -> np.ndarray[Any, Any]:
        """Return values in host memory, floats in float64."""
        if self.name == "torch":
            x = x.detach().cpu()
            values = (x.double() if x.is_floating_point() else x).numpy()
        else:
            values = np.asarray(x.get() if hasattr(x, "get") else x)
        found: np.ndarray[Any, Any] = values if values.dtype.kind in "biu" else values.astype("f8")
        return found

    def wait(self, result: Any) -> None:
        """Wait until a result is there and the device has nothing to do."""
        if self.name == "jax":
            self.module.block_until_ready(result)
        elif self.device != "cpu":
            stream = self.module.cuda
            (stream.synchronize if self.name == "torch" else stream.Device(0).synchronize)()


def rounded(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return floats in a dtype by its name, of which NumPy has not ``"bfloat16"`` itself."""
    if dtype == "bfloat16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(dtype)


def libraries(rehearse: bool, *names: str) -> tuple[dict[str, Library], dict[str, str]]:
    """Return the libraries that see a GPU by name, and why the others do not; or only of some."""
    found, missing = {}, {}
    loads = {"cupy": _cupy, "torch": _torch, "jax": _jax}
    for name in names or loads:
        try:
            found[name] = loads[name](rehearse)
        except Exception as error:  # of a foreign library, which the report tells
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing


def _cupy(rehearse: bool) -> Library:
    if rehearse:
        return Library("cupy", "numpy", "cpu", np)
    import cupy

    cupy.arange(3).sum().item()  # a driver that is too old fails here
    return Library("cupy", "cupy", "rocm:0" if cupy.cuda.runtime.is_hip else "cuda:0", cupy)


def _torch(rehearse: bool) -> Library:
    import torch

    if not rehearse:
        torch.ones(3, device="cuda").sum().item()
    return Library("torch", "torch", "cpu" if rehearse else "cuda:0", torch)


def _jax(rehearse: bool) -> Library:
    import jax

    place = jax.devices()[0]
    if place.platform != ("cpu" if rehearse else "gpu"):
        raise RuntimeError(f"JAX's first device is {place}; expected a GPU")
    kind = "rocm" if "rocm" in place.client.platform_version.lower() else "cuda"
    return Library("jax", "jax", "cpu" if rehearse else f"{kind}:0", jax)


# ---------------------------------------------------------------------------- the clock


@dataclass(frozen=True, slots=True)
class Candidate:
    """A call that is measured, and the library whose queue it uses."""

    call: Callable[[], Any]
    library: Library


def measure(
    candidates: Mapping[str, Candidate], bases: Mapping[str, str], rounds: int, turn: float = TURN
) -> tuple[dict[str, Timing], dict[str, str]]:
    """Time calls in turns of some seconds, each beside the one that `bases` names for it.

    Returns
    -------
    timings : dict of str to Timing
        By candidate, of those whose base did not fail.
    failed : dict of str to str
        What candidates that failed raised.
    """
    turns, counts, failed = {}, {}, {}
    for name, candidate in candidates.items():
        try:
            counts[name] = _count(candidate, turn)
        except Exception as error:  # of one library, such as its memory: the others go on
            failed[name] = reason(error)
            release(candidate.library)
        else:
            turns[name] = Statement("turn()", {"turn": _turn(candidate, counts[name])})
    times = _measure.interleave(turns, rounds, counts=dict.fromkeys(turns, 1))
    each = {name: [t / counts[name] for t in times[name]] for name in times}
    timings = {
        name: _measure.compare({bases[name]: each[bases[name]], name: each[name]}, bases[name])
        for name in each
        if bases[name] in each
    }
    return {name: timing[name] for name, timing in timings.items()}, failed


def _turn(candidate: Candidate, count: int) -> Callable[[], None]:
    def turn() -> None:
        result = None
        for _ in range(count):
            result = candidate.call()
        candidate.library.wait(result)

    return turn


def _count(candidate: Candidate, seconds: float) -> int:
    """Warm a call up, and return how many runs fill a turn of so many seconds."""
    for _ in range(3):
        _turn(candidate, 1)()
    start = time.perf_counter()
    _turn(candidate, 5)()
    return min(MOST_RUNS, _measure.runs((time.perf_counter() - start) / 5, seconds))


def release(library: Library) -> None:
    """Give memory that a library keeps for later back to the device: the others need it too."""
    gc.collect()
    if library.device == "cpu" or library.name == "jax":
        return
    with suppress(RuntimeError):  # the device is broken: what comes next will say so
        if library.name == "torch":
            library.module.cuda.empty_cache()
        else:
            library.module.get_default_memory_pool().free_all_blocks()


def reason(error: BaseException) -> str:
    """Word an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"
